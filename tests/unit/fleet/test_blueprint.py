"""A blueprint is complete and harmless before a server offers it, and is packed the same way every time."""

from __future__ import annotations

import shutil
from io import BytesIO
from pathlib import Path

import pytest
from blueprints_made import CODE, SETTINGS, make_blueprint

from holdfast.changes.repository import open_repository
from holdfast.config.secret_refs import SecretRef
from holdfast.fleet.blueprint import DEVICE, Blueprint, load_blueprint, load_blueprints
from holdfast.kernel.errors import ConfigError, Place, Problem, UsageError
from holdfast.system.environment import Environment
from holdfast.system.source_archive import unpack


@pytest.fixture
def nowhere(tmp_path: Path) -> Environment:
    return Environment(variables={"HOLDFAST_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)})


def problems(folder: Path, environment: Environment) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        load_blueprint(folder, environment)
    return caught.value.problems


def codes(folder: Path, environment: Environment) -> list[str]:
    return [problem.code for problem in problems(folder, environment)]


def unpacked(blueprint: Blueprint, folder: Path) -> Path:
    unpack(BytesIO(blueprint.content), folder)
    return folder


def test_every_key_has_its_value(tmp_path: Path, nowhere: Environment) -> None:
    settings = """
name: site
version: 1.10
description: A site.
outputs: [site_id]
deletion: deny
vanished: recreate
retries: { attempts: 2, wait: 5s }
concurrency: 1
account: cato/4711
environment: prod
labels: { network: edge }
engine: { parallelism: 1 }
warm_providers: true
not_read: [cato_site.psk]
inputs: { psk: { secret: "env:PSK" } }
"""
    blueprint = load_blueprint(make_blueprint(tmp_path / "site", settings=settings), nowhere)
    assert (blueprint.name, blueprint.version, blueprint.description) == ("site", "1.10", "A site.")
    assert (blueprint.outputs, blueprint.deletion, blueprint.vanished) == (("site_id",), "deny", "recreate")
    assert (blueprint.retries.attempts, blueprint.retries.wait) == (2, 5.0)
    assert (blueprint.concurrency, blueprint.credentials_key) == (1, "cato/4711")
    assert (blueprint.environment, dict(blueprint.labels)) == ("prod", {"network": "edge"})
    assert (blueprint.parallelism, blueprint.warm_providers) == (1, True)
    assert blueprint.not_read == ("cato_site.psk",)


def test_the_defaults_are_careful(tmp_path: Path, nowhere: Environment) -> None:
    blueprint = load_blueprint(make_blueprint(tmp_path / "site"), nowhere)
    assert (blueprint.deletion, blueprint.vanished) == ("approve", "report")
    assert (blueprint.retries.attempts, blueprint.retries.wait) == (0, 30.0)
    assert (blueprint.concurrency, blueprint.credentials_key) == (None, "site")
    assert (blueprint.parallelism, blueprint.warm_providers) == (None, False)


def test_the_content_is_a_repository_with_one_stack(tmp_path: Path, nowhere: Environment) -> None:
    settings = """
name: site
version: 1.0.0
module: code
environment: prod
labels: { network: edge }
inputs: { psk: { secret: "env:PSK" } }
env: { LEVEL: 1.10, QUOTED: 'say: "x", {{y}}' }
engine: { version: ">= 1.5", parallelism: 1, time_limits: { apply: 5m } }
credentials: { aws: { role_arn: "arn:aws:iam::111122223333:role/edge" } }
guard: { max_changes: 3 }
"""
    folder = make_blueprint(tmp_path / "site", settings=settings, files={"code/main.tf": CODE})
    (folder / "main.tf").unlink()
    content = unpacked(load_blueprint(folder, nowhere), tmp_path / "unpacked")
    repository = open_repository(content / "holdfast.yaml", nowhere)
    (stack,) = repository.stacks
    assert (stack.name, stack.module, stack.environment) == (DEVICE, "code", "prod")
    assert dict(stack.env) == {"LEVEL": "1.10", "QUOTED": 'say: "x", {y}'}
    assert stack.variables["psk"] == SecretRef(scheme="env", locator="PSK")
    assert dict(stack.worker) == {"network": "edge"}
    assert repository.config.engine.time_limits.apply == 300.0
    assert (stack.terraform_parallelism, repository.config.engine.parallelism) == (1, 4)
    assert stack.production
    assert stack.credentials["aws"]["role_arn"] == "arn:aws:iam::111122223333:role/edge"


def test_the_keys_of_the_design_are_accepted(tmp_path: Path, nowhere: Environment) -> None:
    settings = """
name: cato-ipsec-site
version: 1.0.0
outputs: [site_id]
payload: payload.schema.json
deletion: allow
vanished: recreate
inputs: { psk: { secret: "aws-sm:sdwan/psk" } }
env: { DISABLE_POLICY_RULE_CLEANUP: "true" }
engine: { version: ">= 1.9", parallelism: 1, time_limits: { apply: 5m } }
concurrency: 1
"""
    schema = '{"type": "object", "properties": {"site_name": {"type": "string"}}, "required": ["site_name"]}'
    folder = make_blueprint(tmp_path / "site", settings=settings, files={"payload.schema.json": schema})
    blueprint = load_blueprint(folder, nowhere)
    assert (blueprint.parallelism, blueprint.concurrency, blueprint.deletion) == (1, 1, "allow")
    assert blueprint.credentials_key == "cato-ipsec-site"


@pytest.mark.parametrize(
    ("lines", "code", "line", "column", "message"),
    [
        ("env: { PATH: x }", "HF-CONF-14", 5, 8, "`PATH` cannot be set in env"),
        ("env: { A: '{nothing}' }", "HF-CONF-9", 5, 11, "{nothing} is not a placeholder of blueprint.yaml"),
        ("engine:\n  parallelism: 0", "HF-CONF-21", 6, 16, "engine.parallelism is 0"),
        ("engine:\n  versions: 1", "HF-CONF-4", 6, 3, "unknown key `versions` in engine"),
        ("credentials: { aws: {} }", "HF-CONF-5", 5, 21, "needs the key `role_arn`"),
        ("credentials: cato", "HF-CONF-6", 5, 14, "credentials must be a mapping"),
        ("guard: { max_changes: x }", "HF-CONF-6", 5, 23, "guard.max_changes must be"),
        ("stack: {}", "HF-CONF-4", 5, 1, "unknown key `stack` at the top level"),
    ],
)
def test_mistakes_have_their_place_in_the_file(
    tmp_path: Path, nowhere: Environment, lines: str, code: str, line: int, column: int, message: str
) -> None:
    """Also those that only the generated holdfast.yaml shows."""
    settings = f"{SETTINGS.lstrip()}{lines}\n"
    (problem,) = problems(make_blueprint(tmp_path / "site", settings=settings), nowhere)
    assert (problem.code, problem.place) == (code, Place("site/blueprint.yaml", line, column))
    assert message in problem.message
    assert "stacks[0]" not in problem.message


def test_a_placeholder_in_an_input_is_named_as_it_is_written(tmp_path: Path, nowhere: Environment) -> None:
    settings = SETTINGS.replace('{ secret: "env:PSK" }', "'{'")
    (problem,) = problems(make_blueprint(tmp_path / "site", settings=settings), nowhere)
    assert problem.message.startswith("inputs.psk contains")


def test_names_that_the_module_lacks_have_their_own_place(tmp_path: Path, nowhere: Environment) -> None:
    settings = SETTINGS.replace("[site_id]", "[site_id, bgp_peer_id]") + "  # end\n"
    (problem,) = problems(make_blueprint(tmp_path / "site", settings=settings), nowhere)
    assert problem.place == Place("site/blueprint.yaml", 4, 20)


def test_the_same_files_give_the_same_bytes(tmp_path: Path, nowhere: Environment) -> None:
    """Also in another place, with other times, and beside what Terraform left."""
    folder = make_blueprint(tmp_path / "a" / "site", files={"modules/m/main.tf": "locals {}"})
    before = load_blueprint(folder, nowhere)
    copy = tmp_path / "b" / "site"
    shutil.copytree(folder, copy)
    left = {
        "terraform.tfstate": "{}",
        "terraform.tfstate.backup": "{}",
        ".terraform.tfstate.lock.info": "{}",
        "dev.tfvars": "psk = 1",
        "out.tfplan": "x",
        ".env": "PSK=1",
        ".terraform/modules/x.tf": "",
        ".git/config": "",
    }
    for name, text in left.items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(text)
    after = load_blueprint(copy, nowhere)
    assert (after.content, after.digest) == (before.content, before.digest)


def test_another_file_gives_another_digest(tmp_path: Path, nowhere: Environment) -> None:
    before = load_blueprint(make_blueprint(tmp_path / "site"), nowhere)
    after = load_blueprint(make_blueprint(tmp_path / "site", code=CODE + "locals {}\n"), nowhere)
    assert before.digest != after.digest


def test_modules_inside_the_folder_are_packed(tmp_path: Path, nowhere: Environment) -> None:
    code = CODE + 'module "a" {\n  source = "./modules/a"\n}\n'
    files = {"modules/a/main.tf": 'module "b" {\n  source = "../b"\n}\n', "modules/b/main.tf": "locals {}\n"}
    blueprint = load_blueprint(make_blueprint(tmp_path / "site", code=code, files=files), nowhere)
    content = unpacked(blueprint, tmp_path / "unpacked")
    assert (content / "modules/b/main.tf").is_file()


@pytest.mark.parametrize("source", ["../shared", "./modules/../../shared", "/etc/modules", "./missing"])
def test_modules_that_workers_would_not_have_are_refused(
    tmp_path: Path, nowhere: Environment, source: str
) -> None:
    make_blueprint(tmp_path / "shared")
    code = CODE + f'module "a" {{\n  source = "{source}"\n}}\n'
    (problem,) = problems(make_blueprint(tmp_path / "site", code=code), nowhere)
    assert problem.code == "HF-BLUE-4"
    assert problem.hint
    assert problem.place is not None
    assert (problem.place.file, problem.place.line) == ("site/main.tf", 15)


def test_links_out_of_the_folder_are_refused(tmp_path: Path, nowhere: Environment) -> None:
    (tmp_path / "secret.txt").write_text("x")
    folder = make_blueprint(tmp_path / "site")
    (folder / "inside.txt").symlink_to("main.tf")
    load_blueprint(folder, nowhere)
    (folder / "out.txt").symlink_to("../secret.txt")
    (folder / "folder").symlink_to(tmp_path)
    assert codes(folder, nowhere) == ["HF-BLUE-5", "HF-BLUE-5"]


def test_the_key_of_holdfast_is_refused(tmp_path: Path, nowhere: Environment) -> None:
    folder = make_blueprint(tmp_path / "site")
    (nowhere.home).mkdir()
    (nowhere.home / "key").write_text("secret")
    (folder / "name").hardlink_to(nowhere.home / "key")
    assert codes(folder, nowhere) == ["HF-BLUE-5"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("terraform.tfvars", ""),
        ("terraform.tfvars.json", "{}"),
        ("x.auto.tfvars", ""),
        ("holdfast.yaml", "version: 1"),
        ("files/id", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA"),
    ],
)
def test_files_that_would_change_or_leak_values_are_refused(
    tmp_path: Path, nowhere: Environment, name: str, text: str
) -> None:
    assert codes(make_blueprint(tmp_path / "site", files={name: text}), nowhere) == ["HF-BLUE-5"]


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        (SETTINGS.replace("[site_id]", "[site_ids]"), "HF-BLUE-7", "no such output"),
        (SETTINGS.replace("psk:", "pks:"), "HF-BLUE-7", "no such variable"),
        (SETTINGS + "module: missing\n", "HF-BLUE-3", "missing"),
        (SETTINGS + "payload: missing.json\n", "HF-BLUE-6", "cannot be read"),
        (SETTINGS + "payload: { type: array }\n", "HF-BLUE-6", "type: object"),
        (
            SETTINGS + "payload: { type: object, properties: { site_name: { type: text } } }\n",
            "HF-BLUE-6",
            "/properties/site_name/type",
        ),
        (
            SETTINGS
            + 'payload: { type: object, properties: { site_name: { $ref: "https://x.example/s" } } }\n',
            "HF-BLUE-6",
            "leads out of the schema",
        ),
        (
            SETTINGS
            + "payload: { type: object, properties: { site_name: {} }, additionalProperties: true }\n",
            "HF-BLUE-6",
            "additionalProperties",
        ),
        (
            SETTINGS + "payload: { type: object, properties: { site_name: {}, psk: {} } }\n",
            "HF-BLUE-7",
            "`inputs` gives its value",
        ),
        (SETTINGS + "payload: { type: object }\n", "HF-BLUE-7", "nothing sets it"),
    ],
)
def test_mistakes_about_the_module_are_found(
    tmp_path: Path, nowhere: Environment, settings: str, code: str, message: str
) -> None:
    found = problems(make_blueprint(tmp_path / "site", settings=settings), nowhere)
    assert [(problem.code, bool(problem.hint)) for problem in found][:1] == [(code, True)]
    assert any(message in problem.message for problem in found)


@pytest.mark.parametrize("block", ['backend "s3" {}', 'cloud {\n    organization = "x"\n  }'])
def test_a_module_with_a_backend_is_refused(tmp_path: Path, nowhere: Environment, block: str) -> None:
    code = f"{CODE}\nterraform {{\n  {block}\n}}\n"
    assert codes(make_blueprint(tmp_path / "site", code=code), nowhere) == ["HF-BLUE-8"]


def test_code_that_cannot_be_read_is_refused(tmp_path: Path, nowhere: Environment) -> None:
    found = codes(make_blueprint(tmp_path / "site", files={"broken.tf": "resource {{{"}), nowhere)
    assert found
    assert all(code.startswith("HF-HCL-") for code in found)


def test_a_schema_of_its_own_is_closed(tmp_path: Path, nowhere: Environment) -> None:
    """Whatever the schema does not name could be a variable that the blueprint sets."""
    schema = '{"type": "object", "properties": {"site_name": {"type": "string"}}, "required": ["site_name"]}'
    folder = make_blueprint(
        tmp_path / "site", settings=SETTINGS + "payload: payload.json\n", files={"payload.json": schema}
    )
    blueprint = load_blueprint(folder, nowhere)
    assert blueprint.schema["required"] == ["site_name"]
    assert blueprint.schema["additionalProperties"] is False


def test_a_schema_may_have_a_property_named_secret(tmp_path: Path, nowhere: Environment) -> None:
    """Nothing in a schema is a secret reference or a placeholder."""
    settings = SETTINGS.replace("psk", "secret") + (
        "payload: { type: object, properties: { site_name: { type: object, properties: "
        '{ secret: { pattern: "^a{2}$" } } } } }\n'
    )
    folder = make_blueprint(tmp_path / "site", settings=settings, code=CODE.replace("psk", "secret"))
    schema = load_blueprint(folder, nowhere).schema
    assert schema["properties"]["site_name"]["properties"] == {"secret": {"pattern": "^a{2}$"}}


def test_folders_of_blueprints_are_read(tmp_path: Path, nowhere: Environment) -> None:
    make_blueprint(tmp_path / "all" / "a", settings=SETTINGS.replace("site\n", "a\n", 1))
    make_blueprint(tmp_path / "all" / "b", settings=SETTINGS.replace("site\n", "b\n", 1))
    (tmp_path / "all" / "docs").mkdir()
    assert list(load_blueprints([tmp_path / "all", tmp_path / "all" / "a"], nowhere)) == ["a", "b"]


def test_two_blueprints_of_one_name_are_refused(tmp_path: Path, nowhere: Environment) -> None:
    folders = [make_blueprint(tmp_path / name) for name in ("a", "b")]
    with pytest.raises(ConfigError) as caught:
        load_blueprints(folders, nowhere)
    assert [problem.code for problem in caught.value.problems] == ["HF-BLUE-2"]


def test_a_folder_without_blueprints_is_an_error(tmp_path: Path, nowhere: Environment) -> None:
    with pytest.raises(UsageError) as caught:
        load_blueprints([tmp_path / "missing"], nowhere)
    assert caught.value.problem.code == "HF-BLUE-1"
