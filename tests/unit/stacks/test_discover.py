"""From configuration and files to stacks: every one of them, or every mistake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from holdfast.config.read import parse
from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import ConfigError, Failed, Problem
from holdfast.stacks.backend import CodeBackend
from holdfast.stacks.discover import discover
from holdfast.stacks.listing import ListedTree
from holdfast.stacks.stack import Stack
from holdfast.worker.selected_stacks import new_run


def found(
    text: str,
    files: Iterable[str],
    values: Mapping[str, Mapping[str, object]] | None = None,
    code: Mapping[str, CodeBackend] | None = None,
) -> tuple[Stack, ...]:
    """`values` are the files that may be read; reading any other is a failure of the test."""
    config = parse(
        "version: 1\n" + text, file="holdfast.yaml", root=Path("/r"), path=Path("/r/holdfast.yaml")
    )
    return discover(
        config,
        files=ListedTree(files),
        read_values=(values or {}).__getitem__,
        code_backend=lambda stack: (code or {}).get(stack.module),
    )


def mistakes(
    text: str,
    files: Iterable[str],
    values: Mapping[str, Mapping[str, object]] | None = None,
    code: Mapping[str, CodeBackend] | None = None,
) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        found(text, files, values, code)
    return caught.value.problems


def test_by_variables_file() -> None:
    """One stack per file, everything filled in, and no file is read when nothing needs it."""
    text = """
company: acme
environments: { dev: { match: "*-dev" } }
targets: { aws: { owner: ci } }
stacks:
  - variables: A/{account}/{service}/{name}.tfvars
    module: modules/{service}
    name: "{account}/{service}/{name}"
    environment: "{account}"
    region: eu-west-1
    target: aws
    variables_files: ["A/{account}/common.tfvars"]
    backend:
      type: s3
      settings: { bucket: "{company}-{environment}-{region}", key: "{name}", n: [{ a: "{{x}}" }] }
    env: { T: { secret: "aws-sm:{environment}/t" } }
    workspace: "{service}"
"""
    files = ["A/x-dev/db/one.tfvars", "A/x-dev/common.tfvars", "modules/db/main.tf", "A/x-dev/db/readme.md"]
    (stack,) = found(text, files)
    assert stack.name == "x-dev/db/one"
    assert (stack.module, stack.workspace, stack.region) == ("modules/db", "db", "eu-west-1")
    assert stack.variables_files == ("A/x-dev/common.tfvars", "A/x-dev/db/one.tfvars")
    assert stack.own_file == "A/x-dev/db/one.tfvars"
    assert (stack.environment, stack.production, stack.account) == ("dev", False, "x-dev")
    assert stack.target is not None
    assert stack.lane == "aws"
    assert stack.backend is not None
    assert stack.backend.settings == {"bucket": "acme-dev-eu-west-1", "key": "one", "n": ({"a": "{x}"},)}
    assert stack.env == {"T": SecretRef(scheme="aws-sm", locator="dev/t")}


def test_by_folder() -> None:
    """One stack per folder with code; one of them may be what the others wait for."""
    text = """
stacks:
  - folder: live/{environment}/{region}/{component}
    depends_on: ["live/{environment}/{region}/network"]
"""
    files = [
        "live/prod/eu/network/main.tf",
        "live/prod/eu/app/main.tofu",
        "live/prod/eu/json/x.tf.json",
        "live/prod/eu/docs/readme.md",
        "live/prod/eu/app/.terraform/modules/x/main.tf",
    ]
    stacks = {stack.name: stack for stack in found(text, files)}
    assert list(stacks) == ["live/prod/eu/app", "live/prod/eu/json", "live/prod/eu/network"]
    assert stacks["live/prod/eu/app"].depends_on == ("live/prod/eu/network",)
    assert stacks["live/prod/eu/network"].depends_on == ()
    assert stacks["live/prod/eu/app"].module == "live/prod/eu/app"
    assert (stacks["live/prod/eu/app"].environment, stacks["live/prod/eu/app"].region) == ("prod", "eu")


def test_by_hand() -> None:
    """An entry with a name is one stack; its module is the root unless it says otherwise."""
    text = (
        "stacks: [{ name: boot, variables_files: [c.tfvars], variables: { who: '{name}' }, environment: x }]"
    )
    (stack,) = found(text, ["main.tf", "c.tfvars"])
    assert (stack.name, stack.module, stack.variables_files) == ("boot", ".", ("c.tfvars",))
    assert stack.variables == {"who": "boot"}
    assert stack.production


def test_default_names() -> None:
    """Without a name, the path is the name."""
    text = "stacks: [{ variables: 'v/*.tfvars' }, { variables: 'v/*.tfvars.json' }]"
    values: dict[str, Mapping[str, object]] = {"v/a.tfvars": {}, "v/b.tfvars.json": {}}
    assert [one.name for one in found(text, ["main.tf", *values], values)] == ["v/a", "v/b"]


def test_a_value_from_the_variables_file() -> None:
    """{var.X} is what Terraform would see: the last file wins, those beside the module come first."""
    text = """
stacks:
  - variables: v/{name}.tfvars
    variables_files: [common.tfvars]
    environment: "{var.env}"
    account: "{var.id}"
    region: "{var.region}"
"""
    values: dict[str, Mapping[str, object]] = {
        "v/a.tfvars": {"env": "dev", "zones": ("a",)},
        "common.tfvars": {"env": "prod", "id": 12},
        "terraform.tfvars": {"id": 1, "region": "eu"},
    }
    (stack,) = found(text, ["main.tf", "terraform.tfvars", "common.tfvars", "v/a.tfvars"], values)
    assert (stack.environment, stack.account, stack.region) == ("dev", "12", "eu")


def test_the_environment_from_the_file() -> None:
    """Without a statement, `environment` and then `env` of the variables count."""
    text = "environments: { dev: {} }\nstacks: [{ variables: 'v/{name}.tfvars' }]"
    files = ["main.tf", "v/a.tfvars", "v/b.tfvars", "v/c.tfvars"]
    values: dict[str, Mapping[str, object]] = {
        "v/a.tfvars": {"environment": "dev", "env": "prod"},
        "v/b.tfvars": {"env": "dev"},
        "v/c.tfvars": {},
    }
    assert [(one.environment, one.production) for one in found(text, files, values)] == [
        ("dev", False),
        ("dev", False),
        (None, True),
    ]


def test_an_account_that_depends_on_the_environment_does_not_decide_it() -> None:
    """`account: acme-{environment}` with the environment from the file is no circle."""
    text = (
        "environments: { dev: {} }\nstacks: [{ variables: 'v/{name}.tfvars', account: 'acme-{environment}' }]"
    )
    (stack,) = found(text, ["main.tf", "v/a.tfvars"], {"v/a.tfvars": {"environment": "dev"}})
    assert (stack.environment, stack.account) == ("dev", "acme-dev")


@pytest.mark.parametrize(
    ("text", "files", "codes"),
    [
        ("stacks: [{ name: a, environment: x }]", [], ["HF-STACK-4"]),
        ("stacks: [{ name: a, module: m, environment: x }]", ["main.tf"], ["HF-STACK-4"]),
        ("stacks: [{ name: a, module: m, environment: x }]", ["m/readme"], ["HF-STACK-4"]),
        ("stacks: [{ name: a, variables_files: [x.tfvars], environment: x }]", ["main.tf"], ["HF-STACK-5"]),
        ("stacks: [{ name: a b, environment: x }]", ["main.tf"], ["HF-STACK-3"]),
        ("stacks: [{ name: /a, environment: x }]", ["main.tf"], ["HF-STACK-3"]),
        ("stacks: [{ name: a/../b, environment: x }]", ["main.tf"], ["HF-STACK-3"]),
        ("stacks: [{ name: -a, environment: x }]", ["main.tf"], ["HF-STACK-3"]),
        (f"stacks: [{{ name: {'a' * 201}, environment: x }}]", ["main.tf"], ["HF-STACK-3"]),
        ("stacks: [{ variables: '{n}.tfvars', environment: x }]", ["main.tf", "ü.tfvars"], ["HF-STACK-3"]),
        ("stacks: [{ name: a, workspace: '{environment}' }]", ["main.tf"], ["HF-STACK-6"]),
        ("stacks: [{ name: a, region: '{var.x}', environment: x }]", ["main.tf"], ["HF-STACK-6"]),
        ("stacks: [{ folder: '{target}', environment: x }]", ["m/main.tf"], ["HF-STACK-9"]),
        ("stacks: [{ name: a, depends_on: [b], environment: x }]", ["main.tf"], ["HF-STACK-7"]),
        ("stacks: [{ name: a, depends_on: ['b/*'], environment: x }]", ["main.tf"], ["HF-STACK-14"]),
        ("stacks: [{ name: a, depends_on: [a], environment: x }]", ["main.tf"], ["HF-STACK-8"]),
        ("stacks: [{ name: a, environment: x }, { name: a, environment: x }]", ["main.tf"], ["HF-STACK-1"]),
    ],
)
def test_each_mistake_has_its_code(text: str, files: list[str], codes: list[str]) -> None:
    """One mistake, one problem, with a place in the configuration."""
    problems = mistakes(text, files)
    assert [one.code for one in problems] == codes
    assert all(one.place is not None and one.place.line is not None for one in problems)


def test_a_path_that_a_value_leads_astray() -> None:
    """A value in a file cannot make Holdfast look outside the repository."""
    text = "stacks: [{ variables: 'v/{name}.tfvars', environment: x, variables_files: ['{var.x}/y'] }]"
    assert [one.code for one in mistakes(text, ["main.tf"])] == ["HF-CONF-18"]
    text = "stacks: [{ name: a, environment: '../x', variables_files: ['e/{environment}.tfvars'] }]"
    assert [one.code for one in mistakes(text, ["main.tf"])] == ["HF-STACK-10"]


def test_two_stacks_with_one_name_are_both_shown() -> None:
    """A person sees where both come from."""
    text = "stacks: [{ variables: '{d}/{n}.tfvars', name: '{n}', environment: x }]"
    (problem,) = mistakes(text, ["main.tf", "a/s.tfvars", "b/s.tfvars"])
    assert problem.code == "HF-STACK-1"
    assert "a/s.tfvars" in problem.message
    assert "b/s.tfvars" in problem.message


def test_two_stacks_on_one_state_are_both_shown() -> None:
    """Settings without a placeholder that distinguishes the stacks are found before anything runs."""
    text = """
stacks:
  - variables: "{n}.tfvars"
    environment: x
    backend: { type: s3, settings: { bucket: b, key: k } }
"""
    (problem,) = mistakes(text, ["main.tf", "one.tfvars", "two.tfvars"])
    assert problem.code == "HF-STACK-2"
    assert "one.tfvars" in problem.message
    assert "two.tfvars" in problem.message


def test_a_backend_in_code_alone_is_one_state_for_all_its_stacks() -> None:
    """The same module twice, the backend in its code, the same workspace: one state."""
    text = "stacks: [{ variables: '{n}.tfvars', environment: x }]"
    files = ["main.tf", "one.tfvars", "two.tfvars"]
    code = {".": CodeBackend(type="s3", settings={"bucket": "b", "key": "k"})}
    assert [one.code for one in mistakes(text, files, code=code)] == ["HF-STACK-2"]
    assert len(found(text, files)) == 2
    apart = "stacks: [{ variables: '{n}.tfvars', environment: x, workspace: '{n}' }]"
    assert len(found(apart, files, code=code)) == 2


def test_a_type_that_the_code_does_not_say() -> None:
    """The configuration cannot turn one backend into another."""
    text = "stacks: [{ name: a, environment: x, backend: { type: gcs } }]"
    problems = mistakes(text, ["main.tf"], code={".": CodeBackend(type="s3")})
    assert [one.code for one in problems] == ["HF-STACK-11"]


def test_circles_are_shown_with_their_path() -> None:
    """A → b → a, as a person would follow it."""
    text = (
        "stacks: [{ name: a, environment: x, depends_on: [b] }, { name: b, environment: x, depends_on: [a] }]"
    )
    (problem,) = mistakes(text, ["main.tf"])
    assert "a → b → a" in problem.message


def test_all_mistakes_at_once_and_no_false_ones() -> None:
    """A stack with a mistake of its own is still a stack that others may depend on."""
    text = """
stacks:
  - { name: a, module: gone, environment: x }
  - { name: b, depends_on: [a], environment: x }
  - { name: c, variables_files: [gone.tfvars], environment: x }
"""
    assert [one.code for one in mistakes(text, ["main.tf"])] == ["HF-STACK-4", "HF-STACK-5"]


def test_a_repeated_mistake_is_reported_a_few_times() -> None:
    """One wrong line does not fill the screen, and the number is shown."""
    text = "stacks: [{ variables: 'v/{n}.tfvars', module: gone, environment: x }]"
    problems = mistakes(text, ["main.tf", *(f"v/{i}.tfvars" for i in range(1000))])
    assert len(problems) == 6
    assert "995 more" in problems[-1].message


def test_an_unreadable_variables_file_is_the_problem_of_its_stacks() -> None:
    """What the reader of the file says reaches those who use the stack; other stacks are not affected."""

    def broken(path: str) -> Mapping[str, object]:
        if path == "v/b.tfvars":
            return {}
        if path == "v/c.tfvars":
            raise RuntimeError("with a secret in its text")
        raise Failed("HF-HCL-1", f"{path} is broken")

    config = parse(
        "version: 1\nstacks:\n- { variables: 'v/{n}.tfvars', region: '{var.r}'}\n- variables: 'w/{n}.tfvars'",
        file="holdfast.yaml",
        root=Path("/r"),
        path=Path("/r/holdfast.yaml"),
    )
    tree = ListedTree(["main.tf", "w/x.tfvars", "v/a.tfvars", "v/c.tfvars"])
    stacks = discover(config, files=tree, read_values=broken, code_backend=lambda _: None)
    problems = {stack.name: [(one.code, str(one.place)) for one in stack.problems] for stack in stacks}
    assert problems == {
        "v/a": [("HF-HCL-1", "v/a.tfvars")],
        "v/c": [("HF-BUG-1", "v/c.tfvars")],
        "w/x": [("HF-HCL-1", "w/x.tfvars")],
    }
    assert all(stack.production for stack in stacks)
    assert "secret" not in stacks[1].problems[0].message
    missing = ListedTree(["main.tf", "v/a.tfvars", "v/b.tfvars"])
    with pytest.raises(ConfigError) as caught:
        discover(config, files=missing, read_values=broken, code_backend=lambda _: None)
    assert [one.code for one in caught.value.problems] == ["HF-STACK-6"]


def test_an_entry_that_matches_nothing_is_no_mistake() -> None:
    """Its stacks may come later; the other entries still define theirs."""
    text = "version: 1\nstacks: [{ folder: 'live/{x}' }, { name: a, environment: x }]"
    config = parse(text, file="holdfast.yaml", root=Path("/r"), path=Path("/r/holdfast.yaml"))
    stacks = discover(
        config, files=ListedTree(["main.tf"]), read_values=lambda _: {}, code_backend=lambda _: None
    )
    assert [stack.name for stack in stacks] == ["a"]


def test_a_stack_that_only_moved_in_the_file_is_the_same() -> None:
    """Comparing two versions of a configuration is not disturbed by a new comment."""
    text = "stacks: [{ name: a, environment: x }]"
    assert found(text, ["main.tf"]) == found("# moved\n" + text, ["main.tf"])


NETWORKS = ["net/main.tf", "app/main.tf"]
INPUTS = """
environments: {{ dev: {{ match: dev }} }}
stacks:
  - {{ name: dev/net.v1, module: net, environment: dev }}
  - name: dev/app
    module: app
    environment: dev
    variables: {{ a: 1, b: 2, c: 3 }}
    inputs: {{ a: x, b: {{ secret: "env:B" }}, c: {{ output: "{}", mock: ["{{environment}}"] }} }}
"""


def test_inputs_win_over_variables_and_add_dependencies() -> None:
    """The last dot separates stack and output: the stack's name may contain dots."""
    app, net = found(INPUTS.format("{environment}/net.v1.vpc_id"), NETWORKS)
    assert app.variables == {"a": "x", "b": SecretRef(scheme="env", locator="B"), "c": 3}
    assert {name: (one.stack, one.output, one.mock) for name, one in app.inputs.items()} == {
        "c": (net.name, "vpc_id", ("dev",))
    }
    assert app.depends_on == (net.name,)
    assert [(one.stack, one.source, one.output) for one in app.derived] == [(net.name, "input c", "vpc_id")]


@pytest.mark.parametrize(
    ("output", "code", "message", "hint"),
    [
        ("dev/nett.v1.x", "HF-STACK-7", "the input c of dev/app reads `dev/nett.v1`", "`dev/net.v1`"),
        ("dev/net.v1.x.y", "HF-STACK-7", "reads `dev/net.v1.x`, which", "reads a whole output of dev/net.v1"),
        ("dev/net.v1.a b", "HF-STACK-15", "reads `dev/net.v1.a b`", "The last dot separates"),
        ("dev/app.x", "HF-STACK-8", "dev/app reads dev/app with input c", "Remove"),
        ("net", "HF-CONF-6", "it must be STACK.OUTPUT", ""),
    ],
)
def test_an_input_that_names_no_output_is_a_mistake(output: str, code: str, message: str, hint: str) -> None:
    (problem,) = mistakes(INPUTS.format(output), NETWORKS)
    assert (problem.code, message in problem.message, hint in (problem.hint or "")) == (code, True, True)


def test_labels_of_workers_are_those_of_the_entry_over_those_of_its_environment() -> None:
    """A run on a server takes them to the queue."""
    text = """\
environments:
  prod: {defaults: {worker: {network: internal, disk: fast}}}
  dev: {}
stacks:
  - {name: a, module: a, environment: prod, worker: {disk: slow}}
  - {name: b, module: a, environment: dev}
"""
    first, second = found(text, ["a/main.tf"])
    assert (first.worker, second.worker) == ({"network": "internal", "disk": "slow"}, {})
    assert sorted(new_run(first).labels) == ["disk=slow", "network=internal"]
    assert new_run(second).labels == ()
