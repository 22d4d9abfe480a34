from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.config.read import parse
from holdfast.kernel.errors import ConfigError, Place
from holdfast.onboarding.scan import RepositoryScan, ScannedModule, VariablesFile
from holdfast.onboarding.scan_settings import BackendFile
from holdfast.onboarding.scan_signs import Sign, SignKind
from holdfast.onboarding.starter import Starter, starter_from_scan
from holdfast.onboarding.starter_text import yaml_value
from holdfast.onboarding.translators.translation import TranslatedStack, Translation
from holdfast.stacks.backend import CodeBackend
from holdfast.stacks.discover import discover
from holdfast.stacks.listing import ListedTree
from holdfast.stacks.stack import Stack

S3 = CodeBackend(type="s3")
FIXED = CodeBackend(type="s3", settings={"bucket": "b", "key": "prod/terraform.tfstate"})


def seen(
    *modules: ScannedModule,
    files: tuple[str, ...] = (),
    backend_files: Mapping[str, Mapping[str, object]] | None = None,
    signs: tuple[Sign, ...] = (),
) -> RepositoryScan:
    code = {f"{module.folder}/main.tf".removeprefix("./") for module in modules}
    return RepositoryScan(
        name="repository",
        files=frozenset((*code, *files)),
        modules={module.folder: module for module in modules},
        variables_files={path: VariablesFile(path=path) for path in files},
        backend_files=tuple(
            BackendFile(path=path, settings=settings) for path, settings in (backend_files or {}).items()
        ),
        signs=signs,
    )


def found(made: Starter, scan: RepositoryScan) -> tuple[Stack, ...]:
    """What discovery makes of the starter; it must be what the starter says."""
    config = parse(made.text, file="holdfast.yaml", root=Path("/r"), path=Path("/r/holdfast.yaml"))
    settings = {file.path: file.settings for file in scan.backend_files}
    stacks = discover(
        config,
        files=ListedTree((*scan.files, *settings)),
        read_values=lambda path: settings.get(path, {}),
        code_backend=lambda stack: scan.modules[stack.module].backend,
    )
    assert tuple(stack.name for stack in stacks) == made.stacks
    return stacks


def made_for(scan: RepositoryScan) -> tuple[Starter, dict[str, Stack]]:
    made = starter_from_scan(scan)
    return made, {stack.name: stack for stack in found(made, scan)}


def test_an_open_backend_waits_for_its_settings() -> None:
    """No key is guessed: the entry has placeholders without a value, which no command accepts."""
    scan = seen(
        ScannedModule(folder=".", backend=S3),
        files=("Accounts/a-dev/net/x.tfvars", "Accounts/a-prod/net/x.tfvars", "Accounts/a-prod/db/a.tfvars"),
    )
    made, _ = made_for(scan)
    assert made.held_back == ("a-dev/net/x", "a-prod/db/a", "a-prod/net/x")
    entry = [line[1:] for line in made.text.splitlines() if line.startswith("#  ")]
    assert '    backend: { settings: { bucket: "{BUCKET}", key: "{KEY}" } }' in entry
    text = made.text.replace("stacks: [] #", "stacks: #") + "\n".join(entry).replace("{BUCKET}", "b")
    with pytest.raises(ConfigError) as caught:
        found(replace(made, text=text), scan)
    assert "{KEY}" in caught.value.problem.message
    text = text.replace("{KEY}", "{account}/{service}/{name}.tfstate")
    stacks = found(replace(made, text=text, stacks=made.held_back), scan)
    assert [stack.production for stack in stacks] == [False, True, True]


def test_a_state_that_exists_is_not_moved() -> None:
    """A state that the code names for several variables files is given to none of them."""
    made, _ = made_for(seen(ScannedModule(folder=".", backend=FIXED), files=("prod.tfvars", "dev.tfvars")))
    assert made.stacks == ()
    assert made.held_back == ("dev", "prod")
    assert "one state (prod/terraform.tfstate) for 2 stacks" in made.text
    assert any("held back" in one.title for one in made.steps)


def test_workspaces_that_the_code_uses() -> None:
    """Workspaces are only assumed to be called like variables files if the code has these names, too."""
    files = ("prod.tfvars", "dev.tfvars")
    module = ScannedModule(folder=".", backend=FIXED, uses_workspace=True)
    made, _ = made_for(seen(module, files=files))
    assert made.held_back == ("dev", "prod")
    assert '#    workspace: "{environment}"' in made.text
    named = replace(module, workspace_names=frozenset(("dev", "prod", "qa")))
    _, stacks = made_for(seen(named, files=files))
    assert {name: stack.workspace for name, stack in stacks.items()} == {"dev": "dev", "prod": "prod"}


def test_local_workspaces_with_states() -> None:
    """States in terraform.tfstate.d belong to the workspaces they are named by."""
    states = tuple(f"terraform.tfstate.d/{name}/terraform.tfstate" for name in ("dev", "prod"))
    module = ScannedModule(folder=".", backend=CodeBackend(type="local"), states=states)
    _, stacks = made_for(seen(module, files=("prod.tfvars", "dev.tfvars")))
    assert {name: stack.workspace for name, stack in stacks.items()} == {"dev": "dev", "prod": "prod"}


def test_a_shared_local_state_belongs_to_none() -> None:
    """One local state for several variables files is given to none of them."""
    module = ScannedModule(folder=".", backend=CodeBackend(type="local"), states=("terraform.tfstate",))
    made, _ = made_for(seen(module, files=("prod.tfvars", "dev.tfvars")))
    assert made.held_back == ("dev", "prod")


def test_backend_config_files_are_used() -> None:
    """Settings that lie ready for -backend-config say where the states are."""
    scan = seen(
        ScannedModule(folder=".", backend=S3),
        files=("env/prod.tfvars", "env/dev.tfvars"),
        backend_files={
            "backends/prod.tfbackend": {"bucket": "acme-prod", "key": "x", "encrypt": True},
            "backends/dev.tfbackend": {"bucket": "acme-dev", "key": "x", "encrypt": True},
        },
    )
    made, stacks = made_for(scan)
    assert 'files: ["backends/{environment}.tfbackend"]' in made.text
    assert {name: dict(stack.backend.settings) for name, stack in stacks.items() if stack.backend} == {
        "dev": {"bucket": "acme-dev", "key": "x", "encrypt": True},
        "prod": {"bucket": "acme-prod", "key": "x", "encrypt": True},
    }
    assert made.text.count("- variables:") == 1


def passes(option: str) -> Sign:
    return Sign(kind=SignKind.OPTION, place=Place(file="run.sh", line=2), what=f"passes {option}")


def test_scripts_hold_stacks_back() -> None:
    """Settings that a script passes to init are not guessed: its stacks are held back."""
    files = ("env/prod.tfvars", "env/dev.tfvars")
    made, _ = made_for(
        seen(ScannedModule(folder=".", backend=S3), files=files, signs=(passes("key=x/${ENV}.tfstate"),))
    )
    assert made.stacks == ()
    assert made.held_back == ("dev", "prod")
    assert "run.sh:2 passes key=x/${ENV}.tfstate" in made.text


def test_settings_that_a_script_computes_hold_complete_code_back() -> None:
    """`-backend-config=$CONFIG` may set the key; if other code leaves one open, it is for that code."""
    module = ScannedModule(folder="live/a", backend=FIXED)
    sign = replace(passes("$CONFIG"), options=("$CONFIG",))
    made, _ = made_for(seen(module, signs=(sign,)))
    assert made.held_back == ("live/a",)
    assert 'settings: { bucket: "{BUCKET}", key: "{KEY}" }' in made.text
    left_open = ScannedModule(folder="live/b", backend=S3)
    both, _ = made_for(seen(module, left_open, signs=(sign,)))
    assert both.held_back == ("b",)


def test_a_backend_that_a_script_brings() -> None:
    """Code without a backend is not planned on an empty state where a script gives it one."""
    made, _ = made_for(seen(ScannedModule(folder="."), signs=(passes("key=x"),)))
    assert made.held_back == ("repository",)
    assert "run.sh:2" in made.text


def test_a_local_state_on_another_machine() -> None:
    """Only an apply by hand and an ignored state together show it; a pipeline leaves none there."""
    ignored = Sign(kind=SignKind.IGNORED_STATE, place=Place(file=".gitignore", line=1), what="ignores states")
    by_hand = Sign(kind=SignKind.BY_HAND, place=Place(file="README.md", line=3), what="says to apply it")
    pipeline = Sign(kind=SignKind.RUN, place=Place(file=".gitlab-ci.yml", line=9), what="runs Terraform")
    module = ScannedModule(folder=".")
    for signs in ((), (ignored,), (by_hand,)):
        assert starter_from_scan(seen(module, signs=signs)).held_back == ()
    both, _ = made_for(seen(module, signs=(ignored, by_hand)))
    assert "`holdfast state adopt repository`" in both.text
    local = replace(module, backend=CodeBackend(type="local"))
    assert starter_from_scan(seen(local, signs=(ignored, by_hand))).held_back == ("repository",)
    assert "state adopt" not in starter_from_scan(seen(module, signs=(ignored, pipeline))).text


def test_copied_backends_hold_back() -> None:
    """Two folders whose code names one state would destroy each other's resources: neither is a stack."""
    made, _ = made_for(
        seen(
            ScannedModule(folder="live/a", backend=FIXED),
            ScannedModule(folder="live/b", backend=FIXED),
            ScannedModule(folder="live/c"),
        )
    )
    assert made.stacks == ()
    assert made.held_back == ("a", "b", "c")  # the state of c may be where those of a and b are


def test_a_folder_that_is_no_stack_divides_the_pattern() -> None:
    """A pattern that would also find a building block is not written."""
    scan = seen(
        ScannedModule(folder="infra/prod"),
        ScannedModule(folder="infra/dev"),
        ScannedModule(folder="infra/network", called=True),
    )
    _, stacks = made_for(scan)
    assert {stack.module for stack in stacks.values()} == {"infra/prod", "infra/dev"}
    assert {name: stack.production for name, stack in stacks.items()} == {"dev": False, "prod": True}


def test_shared_variables_are_no_stack() -> None:
    """`common.tfvars` is read by the others and makes no stack itself."""
    scan = seen(ScannedModule(folder="."), files=("env/common.tfvars", "env/dev.tfvars", "env/prod.tfvars"))
    _, stacks = made_for(scan)
    assert {name: stack.variables_files for name, stack in stacks.items()} == {
        "dev": ("env/common.tfvars", "env/dev.tfvars"),
        "prod": ("env/common.tfvars", "env/prod.tfvars"),
    }


def test_names_stay_apart() -> None:
    """Two entries that would give one name fall back to their paths."""
    _, stacks = made_for(
        seen(
            ScannedModule(folder="aws/prod/net"),
            ScannedModule(folder="gcp/prod/net"),
            ScannedModule(folder="gcp/dev/net"),
        )
    )
    assert set(stacks) == {"aws/prod/net", "gcp/prod/net", "gcp/dev/net"}


def test_names_stay_apart_from_those_of_another_tool() -> None:
    """`terraform/{dev,prod}/net` beside the units `terragrunt/{dev,prod}/net`, whose names are short."""
    units = tuple(
        TranslatedStack(
            original=f"terragrunt/{name}/terragrunt.hcl",
            name=name,
            module="modules/net",
            keys={},
            reasons=why,
        )
        for name, why in (("dev/net", ()), ("prod/net", ("It has a hook.",)), ("live", ()))
    )
    scan = seen(
        ScannedModule(folder="terraform/dev/net", backend=FIXED),
        ScannedModule(
            folder="terraform/prod/net", backend=replace(FIXED, settings={"bucket": "b", "key": "p"})
        ),
        ScannedModule(folder="live", backend=replace(FIXED, settings={"bucket": "b", "key": "l"})),
        ScannedModule(folder="modules/net", translated=True),
    )
    made, stacks = made_for(
        replace(scan, translation=Translation(tool="Terragrunt", found="Terragrunt", stacks=units))
    )
    assert set(stacks) == {"terraform/dev/net", "terraform/prod/net", "live-2", "live", "dev/net"}
    assert made.held_back == ("prod/net",)


def test_a_file_and_a_folder_of_one_name() -> None:
    """`dev.tfvars` beside a folder `dev` with its own root module: two stacks, two names."""
    _, stacks = made_for(seen(ScannedModule(folder="."), ScannedModule(folder="dev"), files=("dev.tfvars",)))
    assert sorted(stack.module for stack in stacks.values()) == [".", "dev"]
    assert not any(stack.production for stack in stacks.values())


@pytest.mark.parametrize("folder", ["my stack", "we{ird}", "a*b", "ünï", "-dash", "123", "true", "a: b"])
def test_odd_folders(folder: str) -> None:
    """Whatever a folder is called, the starter that names it is right."""
    _, stacks = made_for(seen(ScannedModule(folder=folder), ScannedModule(folder=f"{folder}/{folder}")))
    assert {stack.module for stack in stacks.values()} == {folder, f"{folder}/{folder}"}


def test_many_odd_names_become_one() -> None:
    """Folders that come to the same plain name are told apart."""
    _, stacks = made_for(
        seen(ScannedModule(folder="a b"), ScannedModule(folder="a{b"), ScannedModule(folder="a}b"))
    )
    assert len(stacks) == 3


def test_the_starter_takes_linear_time() -> None:
    """Four times as many modules take about four times as long, whatever their layout."""

    def seconds(count: int) -> float:
        modules = [
            ScannedModule(folder=f"live/team{index % 7}/service{index}", backend=S3) for index in range(count)
        ]
        signs = tuple(
            Sign(kind=SignKind.RUN, place=Place(file=f"{module.folder}/run.sh"), what="runs")
            for module in modules
        )
        start = time.process_time()
        starter_from_scan(seen(*modules, signs=signs))
        return time.process_time() - start

    seconds(100)
    assert seconds(1200) < 10 * seconds(300) + 0.2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("prod", "prod"),
        ("{x}", '"{x}"'),
        ("012", "012"),
        ("12", '"12"'),
        ("true", '"true"'),
        ("a b", '"a b"'),
        (True, "true"),
        ({"a": ["b", 1]}, "{ a: [b, 1] }"),
    ],
)
def test_values_as_yaml(value: object, text: str) -> None:
    """Text that could be read as something else is quoted."""
    assert yaml_value(value) == text


def test_a_pattern_without_the_stacks_that_are_held_back() -> None:
    """Components that do not have the same environments are no matrix, but the folder beside them is."""
    environments = {"app": ("dev01", "prod01"), "core": ("dev", "prod"), "db": ("dev", "prod")}
    files = tuple(
        f"src/{component}/{'groups' if component == 'db' else 'env'}/{environment}/terraform.tfvars"
        for component, names in environments.items()
        for environment in names
    )
    backends = {
        path.replace("terraform.tfvars", "backend.tfvars"): {"bucket": "b", "key": path, "region": "r"}
        for path in files
        if "/env/" in path
    }
    modules = (ScannedModule(folder=f"src/{component}", backend=S3) for component in environments)
    made, stacks = made_for(seen(*modules, files=files, backend_files=backends))
    assert set(stacks) == {"app/env/dev01", "app/env/prod01", "core/env/dev", "core/env/prod"}
    assert '  - variables: "src/{component}/env/{environment}/terraform.tfvars"\n' in made.text
    assert made.text.count("- variables:") == 2, "one, and one that is held back"
    assert '#  - variables: "src/db/groups/{environment}/terraform.tfvars"\n' in made.text
    backend = stacks["core/env/dev"].backend
    assert backend is not None
    assert backend.files == ("src/core/env/dev/backend.tfvars",)
