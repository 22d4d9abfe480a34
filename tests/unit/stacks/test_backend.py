"""Which stacks are on one state."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from holdfast.config.secret_refs import SecretRef, Value
from holdfast.config.stack_rules import Backend, RuleKind
from holdfast.kernel.errors import Place
from holdfast.stacks.backend import CodeBackend, state_key, state_location
from holdfast.stacks.stack import Stack


def stack(
    *,
    module: str = "m",
    settings: Mapping[str, Value] | None = None,
    workspace: str = "default",
    env: Mapping[str, Value] | None = None,
) -> Stack:
    return Stack(
        name="s",
        kind=RuleKind.NAMED,
        place=Place(file="f"),
        module=module,
        backend=Backend(settings=settings) if settings is not None else None,
        workspace=workspace,
        env=env or {},
    )


def same(one: Stack, first: CodeBackend | None, two: Stack, second: CodeBackend | None) -> bool:
    left, right = state_location(one, first), state_location(two, second)
    return left is not None and right is not None and left.identity == right.identity


S3 = CodeBackend(type="s3", settings={"bucket": "b", "key": "k"})
EMPTY_S3 = CodeBackend(type="s3")


@pytest.mark.parametrize(
    ("one", "first", "two", "second", "expected"),
    [
        (stack(), S3, stack(module="n"), S3, True),
        (stack(), S3, stack(workspace="w"), S3, False),
        (stack(settings={"key": "x"}), S3, stack(settings={"key": "y"}), S3, False),
        (stack(settings={"key": "k", "bucket": "b"}), EMPTY_S3, stack(), S3, True),
        (stack(settings={"region": "a"}), S3, stack(settings={"region": "b"}), S3, True),
        (stack(), EMPTY_S3, stack(), EMPTY_S3, True),
        (stack(), EMPTY_S3, stack(module="n"), EMPTY_S3, False),
        (stack(), None, stack(), None, False),
        (
            stack(),
            CodeBackend(type="http"),
            stack(env={"TF_HTTP_ADDRESS": "x"}),
            CodeBackend(type="http"),
            False,
        ),
        (stack(env={"X": "1"}), CodeBackend(type="http"), stack(), CodeBackend(type="http"), True),
        (stack(), CodeBackend(type="local"), stack(), CodeBackend(type="local"), True),
        (stack(), CodeBackend(type="local"), stack(module="n"), CodeBackend(type="local"), False),
        (
            stack(module="a/b"),
            CodeBackend(type="local", settings={"path": "../x"}),
            stack(module="a/c"),
            CodeBackend(type="local", settings={"path": "../x"}),
            True,
        ),
        (
            stack(settings={"key": SecretRef(scheme="env", locator="A")}),
            S3,
            stack(settings={"key": SecretRef(scheme="env", locator="B")}),
            S3,
            False,
        ),
        (stack(), CodeBackend(type="new"), stack(module="n"), CodeBackend(type="new"), False),
    ],
)
def test_one_state_or_two(
    one: Stack, first: CodeBackend | None, two: Stack, second: CodeBackend | None, *, expected: bool
) -> None:
    """What decides the place of a state decides, whether code or configuration says it; the rest does not."""
    assert same(one, first, two, second) is expected


@pytest.mark.parametrize(
    ("type_", "one", "two", "keys"),
    [
        ("gcs", {"bucket": "b", "prefix": "dev"}, {"bucket": "b", "prefix": "prod"}, 2),
        ("gcs", {"bucket": "b", "prefix": "dev"}, {"bucket": "b", "prefix": "dev/"}, 1),
        ("pg", {"conn_str": "c", "schema_name": "dev"}, {"conn_str": "c", "schema_name": "prod"}, 2),
        ("cos", {"bucket": "b", "key": "dev"}, {"bucket": "b", "key": "prod", "region": "r"}, 2),
        ("s3", {"bucket": "b", "key": "k"}, {"bucket": "b", "key": "k", "endpoint": "e"}, 1),
        ("http", {"address": "https://h/a"}, {"address": "HTTPS://x@H/a/#b"}, 1),
        ("http", {"address": "https://h/a?b=1"}, {"address": "https://h/a?b=2"}, 2),
    ],
)
def test_the_key_of_a_state_tells_states_apart_and_not_spellings(
    type_: str, one: dict[str, object], two: dict[str, object], keys: int
) -> None:
    """In one bucket there are many; how one is reached or written makes no other."""
    backends = (CodeBackend(type=type_, settings=settings) for settings in (one, two))
    assert len({state_key(stack(), backend) for backend in backends}) == keys


@pytest.mark.parametrize(
    ("type_", "settings", "alias"),
    [
        ("s3", {"bucket": "b", "key": "k"}, {"key": "env:/dev/k"}),
        ("s3", {"bucket": "b", "key": "k", "workspace_key_prefix": "ws"}, {"key": "ws/dev/k"}),
        ("oci", {"bucket": "b", "namespace": "n", "key": "k"}, {"key": "env:/dev/k"}),
        (
            "azurerm",
            {"storage_account_name": "a", "container_name": "c", "key": "k"},
            {"key": "kenv:dev"},
        ),
        ("gcs", {"bucket": "b", "prefix": "p"}, None),
        ("consul", {"path": "p"}, {"path": "p-env:dev"}),
        ("cos", {"bucket": "b", "prefix": "p"}, {"prefix": "p/dev"}),
        ("oss", {"bucket": "b", "key": "k"}, {"prefix": "env:/dev"}),
        ("pg", {"conn_str": "c"}, None),
        ("kubernetes", {"secret_suffix": "s"}, None),
        ("local", {"workspace_dir": "d"}, {"path": "d/dev/terraform.tfstate"}),
        (
            "remote",
            {"organization": "o", "workspaces": {"prefix": "app-"}},
            {"workspaces": {"name": "app-dev"}},
        ),
        ("cloud", {"organization": "o", "workspaces": {"tags": ("app",)}}, {"workspaces": {"name": "dev"}}),
    ],
)
def test_a_workspace_is_part_of_the_state(
    type_: str, settings: dict[str, object], alias: dict[str, object] | None
) -> None:
    """Workspaces of one backend have states of their own, which are found by their real path too."""
    backend = CodeBackend(type=type_, settings=settings)
    dev, test = stack(workspace="dev"), stack(workspace="test")
    assert same(dev, backend, dev, backend)
    assert not same(dev, backend, test, backend)
    assert not same(dev, backend, stack(), backend)
    assert state_key(dev, backend) != state_key(test, backend)
    if alias is not None:
        direct = CodeBackend(type=type_, settings={**settings, **alias})
        assert same(dev, backend, stack(), direct)
        assert state_key(dev, backend) == state_key(stack(), direct)


@pytest.mark.parametrize(
    ("type_", "settings", "written"),
    [
        ("s3", {"bucket": "b", "key": "k"}, {"workspace_key_prefix": "env:"}),
        ("gcs", {"bucket": "b", "prefix": "p"}, {"prefix": "/p//"}),
        ("cos", {"bucket": "b"}, {"prefix": "", "key": "terraform.tfstate"}),
        ("oss", {"bucket": "b"}, {"prefix": "env:", "key": "terraform.tfstate"}),
        ("pg", {"conn_str": "c"}, {"schema_name": "terraform_remote_state"}),
        ("kubernetes", {"secret_suffix": "s"}, {"namespace": "default"}),
    ],
)
def test_a_default_that_is_written_out_names_the_same_state(
    type_: str, settings: dict[str, object], written: dict[str, object]
) -> None:
    """Also in a workspace; another prefix is another state there, but not in the default workspace."""
    plain = CodeBackend(type=type_, settings=settings)
    full = CodeBackend(type=type_, settings={**settings, **written})
    for workspace in ("default", "dev"):
        assert same(stack(workspace=workspace), plain, stack(workspace=workspace), full)
    if type_ == "s3":
        other = CodeBackend(type=type_, settings={**settings, "workspace_key_prefix": "x"})
        assert same(stack(), plain, stack(), other)
        assert not same(stack(workspace="dev"), plain, stack(workspace="dev"), other)


def test_a_computed_setting_is_not_compared() -> None:
    """OpenTofu may compute the key: an unknown state is not reported as shared."""
    computed = CodeBackend(type="s3", settings={"bucket": "b"}, computed=("key",))
    assert state_location(stack(), computed) is None
    assert state_location(stack(settings={"key": "k"}), computed) is not None


def test_a_connection_string_is_never_shown() -> None:
    """The message about a state may be read by anyone."""
    found = state_location(stack(settings={"conn_str": "postgres://u:pa55@h/d"}), CodeBackend(type="pg"))
    assert found is not None
    assert "pa55" not in found.shown
