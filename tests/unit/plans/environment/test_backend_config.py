"""Where a stack's state lives, and how Terraform is told so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from context_made import change_context
from msgspec.structs import replace

from holdfast.config.secret_refs import SecretRef, Value
from holdfast.config.stack_rules import Backend, RuleKind
from holdfast.kernel.errors import Place, UsageError
from holdfast.kernel.secret import Secret
from holdfast.plans.environment.backend_config import SECRET_VARIABLES, StateHome, state_home
from holdfast.plans.workdir import home_of
from holdfast.stacks.backend import CodeBackend
from holdfast.stacks.stack import Stack

ROOT = Path("/repo")
HUSH = Secret("hush")


def stack(
    kind: str | None = None,
    *,
    configured: Mapping[str, Value] | None = None,
    workspace: str = "default",
    credentials: Mapping[str, Mapping[str, Value]] | None = None,
) -> Stack:
    return Stack(
        name="s",
        kind=RuleKind.NAMED,
        place=Place(file="holdfast.yaml", line=3),
        module="live/net",
        backend=Backend(type=kind, settings=configured or {}) if kind or configured else None,
        workspace=workspace,
        credentials=credentials or {},
    )


def home(
    one: Stack, code: CodeBackend | None = None, settings: Mapping[str, object] | None = None
) -> StateHome:
    return state_home(one, code, settings or {}, root=ROOT)


def refused(
    one: Stack, code: CodeBackend | None = None, settings: Mapping[str, object] | None = None
) -> tuple[str, str]:
    with pytest.raises(UsageError) as caught:
        home(one, code, settings)
    assert caught.value.problem.hint
    assert caught.value.problem.place == Place(file="holdfast.yaml", line=3)
    return caught.value.problem.code, caught.value.problem.message


def test_without_a_backend_holdfast_keeps_the_state() -> None:
    """Code that names no backend talks to the state door, whose address stands in no file."""
    made = home(stack())
    assert made.managed
    assert made.type == "http"
    assert made.override == 'terraform {\n  backend "http" {}\n}\n'
    assert made.settings == {}
    assert made.variables == {}
    assert made.file is None
    assert made.place == "managed state of s"
    assert not made.secret_on_disk


def test_a_kept_state_has_no_workspaces() -> None:
    """`workspace:` without a backend in the code is a mistake, with the way out."""
    code, message = refused(stack(workspace="blue"))
    assert code == "HF-BACK-2"
    assert "blue" in message


def test_settings_without_a_type_are_a_mistake() -> None:
    """Settings for nobody would be ignored; that is never right."""
    assert refused(stack(configured={"bucket": "b"}), None, {"bucket": "b"})[0] == "HF-BACK-3"


def test_two_types_are_a_mistake() -> None:
    """Code and configuration that disagree are never resolved by a guess."""
    code, message = refused(stack("s3"), CodeBackend(type="gcs"))
    assert code == "HF-BACK-1"
    assert '"gcs"' in message
    assert "s3" in message


@pytest.mark.parametrize("kind", ["http", "cloud"])
def test_backends_without_workspaces(kind: str) -> None:
    """A workspace that the backend cannot have is said before anything runs."""
    assert refused(stack(workspace="blue"), CodeBackend(type=kind))[0] == "HF-BACK-5"


def test_a_cloud_block_takes_no_settings() -> None:
    """Settings beside a `cloud` block would be ignored; that is never right."""
    assert refused(stack(configured={"x": "y"}), CodeBackend(type="cloud"), {"x": "y"})[0] == "HF-BACK-6"


def test_a_cloud_block_alone_is_left_as_it_is() -> None:
    """The code says all there is to say."""
    made = home(stack(), CodeBackend(type="cloud"))
    assert (made.type, made.override, made.settings, made.file) == ("cloud", None, {}, None)


@pytest.mark.parametrize(
    ("settings", "configured", "workspace", "path", "folder", "file"),
    [
        ({}, {}, "default", "live/net/terraform.tfstate", "live/net/terraform.tfstate.d", None),
        ({"path": "x.tfstate"}, {}, "default", "live/net/x.tfstate", "live/net/terraform.tfstate.d", None),
        (
            {"path": "../../states/x"},
            {},
            "default",
            "states/x",
            "live/net/terraform.tfstate.d",
            None,
        ),
        (
            {"path": "x", "workspace_dir": "spaces"},
            {"path": "../y"},
            "default",
            "live/y",
            "live/net/spaces",
            None,
        ),
        (
            {"workspace_dir": "../spaces"},
            {},
            "blue",
            "live/net/terraform.tfstate",
            "live/spaces",
            "live/spaces/blue/terraform.tfstate",
        ),
    ],
)
def test_a_local_backend_has_absolute_paths(
    settings: dict[str, object],
    configured: dict[str, Value],
    workspace: str,
    path: str,
    folder: str,
    file: str | None,
) -> None:
    """Paths count from the module's place in the source: no state lies in a work directory."""
    made = home(
        stack(configured=configured, workspace=workspace),
        CodeBackend(type="local", settings=settings),
        configured,
    )
    assert made.settings == {"path": str(ROOT / path), "workspace_dir": str(ROOT / folder)}
    assert made.file == ROOT / (file or path)
    assert made.override is None
    assert not made.managed


def test_an_absolute_local_path_is_kept() -> None:
    """A path from the root of the machine means what it says."""
    made = home(stack(), CodeBackend(type="local", settings={"path": "/srv/x.tfstate"}))
    assert made.file == Path("/srv/x.tfstate")


@pytest.mark.parametrize("key", ["path", "workspace_dir"])
def test_a_computed_local_path_must_be_named(key: str) -> None:
    """A path that nobody can tell would put the state where nobody looks."""
    computed = CodeBackend(type="local", computed=(key,))
    code, message = refused(stack(), computed)
    assert code == "HF-BACK-4"
    assert key in message
    assert home(stack(configured={key: "there"}), computed, {key: "there"}).settings[key] == str(
        ROOT / "live/net/there"
    )


def test_a_type_that_only_the_configuration_says() -> None:
    """An override gives the code the backend it does not name."""
    made = home(stack("s3", configured={"bucket": "b", "key": "k"}), None, {"bucket": "b", "key": "k"})
    assert made.override == 'terraform {\n  backend "s3" {}\n}\n'
    assert made.settings == {"bucket": "b", "key": "k"}
    assert made.file is None
    assert not made.managed
    local = home(stack("local", configured={"path": "x"}), None, {"path": "x"})
    assert local.override == 'terraform {\n  backend "local" {}\n}\n'
    assert local.file == ROOT / "live/net/x"
    assert not local.managed


@pytest.mark.parametrize(
    ("kind", "key", "variable"),
    [(kind, key, variable) for kind, known in SECRET_VARIABLES.items() for key, variable in known.items()],
)
def test_a_secret_goes_by_environment_where_the_backend_can(kind: str, key: str, variable: str) -> None:
    """A secret that the backend reads from its environment is in no file that init writes."""
    made = home(stack(), CodeBackend(type=kind), {key: HUSH, "other": "plain"})
    assert made.variables == {variable: "hush"}
    assert made.settings == {"other": "plain"}
    assert not made.secret_on_disk


@pytest.mark.parametrize(
    "settings",
    [
        {"endpoint": HUSH},
        {"assume_role": {"external_id": HUSH}},
        {"list": [{"deep": (HUSH,)}]},
    ],
)
def test_a_secret_that_must_go_by_file_is_known_to(settings: Mapping[str, object]) -> None:
    """Whatever holds a secret anywhere inside is told, so that init's memory of it is swept."""
    made = home(stack(), CodeBackend(type="s3"), settings)
    assert made.secret_on_disk
    assert made.variables == {}
    assert "Secret" not in str(dict(made.settings))
    assert "hush" in str(dict(made.settings))


def test_a_plain_setting_goes_by_file_even_where_a_variable_exists() -> None:
    """Only secrets take the way by environment; a plain user name stays where it can be seen."""
    made = home(stack(), CodeBackend(type="http"), {"username": "me", "password": HUSH})
    assert made.settings == {"username": "me"}
    assert made.variables == {"TF_HTTP_PASSWORD": "hush"}


def test_keys_of_an_s3_backend_do_not_replace_the_role_of_the_provider() -> None:
    """With a role of its own, AWS_ACCESS_KEY_ID would win over the profile: the keys go by file."""
    made = home(
        stack(credentials={"aws": {"role_arn": "r"}}),
        CodeBackend(type="s3"),
        {"access_key": Secret("ak"), "secret_key": HUSH},
    )
    assert made.variables == {}
    assert made.settings == {"access_key": "ak", "secret_key": "hush"}
    assert made.secret_on_disk


def test_a_place_names_no_secret_and_tells_places_apart() -> None:
    """The same text is the same state; a secret in a setting does not show in it."""
    code = CodeBackend(type="s3", settings={"bucket": "b"})
    one = home(stack(configured={"key": "k"}), code, {"key": "k"})
    same = home(stack(configured={"key": "k", "region": "x"}), code, {"key": "k", "region": "x"})
    other = home(stack(configured={"key": "l"}), code, {"key": "l"})
    blue = home(stack(configured={"key": "k"}, workspace="blue"), code, {"key": "k"})
    assert one.place == same.place
    assert len({one.place, other.place, blue.place}) == 3
    hidden = SecretRef(scheme="env", locator="DB")
    pg = home(stack(configured={"conn_str": hidden}), CodeBackend(type="pg"), {"conn_str": HUSH})
    assert "hush" not in pg.place
    assert "hush" not in repr(pg)


def test_a_place_that_cannot_be_told_says_what_is_known() -> None:
    """A computed bucket is known to OpenTofu only; the module and the workspace stand for it."""
    made = home(stack(), CodeBackend(type="s3", settings={"key": "k"}, computed=("bucket",)))
    assert made.place == "s3 backend of live/net, workspace default"


def test_a_worker_keeps_no_state_beside_the_code(tmp_path: Path) -> None:
    """It removes the code after a while, and another worker never had it."""
    project = change_context(tmp_path).project
    worker = replace(project, run_store="https://holdfast.example.com")
    beside, elsewhere = stack("local"), stack("local", configured={"path": "/srv/net.tfstate"})
    for place, one in ((project, beside), (project, elsewhere), (worker, elsewhere)):
        assert home_of(place, one).file is not None
    with pytest.raises(UsageError, match="HF-BACK-7"):
        home_of(worker, beside)
