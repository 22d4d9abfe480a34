from __future__ import annotations

import pytest

from holdfast.identity.principal import ALL_TENANTS, Principal
from holdfast.identity.roles import GRANTABLE, PERMISSIONS, Permission, Role
from holdfast.identity.tokens import new_token, parse_token
from holdfast.secrets.redact import Redactor


def _principal(role: Role = Role.OPERATOR, **changed: object) -> Principal:
    return Principal(id="t", name="ada", kind="token", role=role, **changed)  # type: ignore[arg-type]


def test_a_token_is_known_by_its_own_digest_only() -> None:
    ours, other = new_token(), new_token()
    given = parse_token(ours.text)
    assert given is not None
    assert given.id == ours.id
    assert given.matches(ours.digest)
    assert not given.matches(other.digest)
    assert not given.matches(None)
    assert ours.text not in repr(ours)


@pytest.mark.parametrize("text", ["", "hf_", "hf_abc_def", "Bearer x", "hf_" + "a" * 16 + "_" + "b" * 42])
def test_other_texts_are_no_tokens(text: str) -> None:
    assert parse_token(text) is None


def test_every_role_has_permissions_and_the_run_token_cannot_be_created() -> None:
    assert set(PERMISSIONS) == set(Role)
    assert Role.RUN not in GRANTABLE
    assert PERMISSIONS[Role.ADMIN] == frozenset(Permission)
    assert Permission.APPROVE not in PERMISSIONS[Role.CI]
    assert Permission.READ_STATE not in PERMISSIONS[Role.VIEWER]


def test_patterns_limit_states_and_stacks() -> None:
    principal = _principal(states=("prod/*",), stacks=("prod/net",), reads=("shared",))
    assert principal.may_write_state("prod/net")
    assert not principal.may_write_state("dev/net")
    assert principal.may_read_state("shared")
    assert not principal.may_write_state("shared")
    assert principal.covers_stack("prod/net")
    assert not principal.covers_stack("prod/db")


@pytest.mark.parametrize(
    ("changed", "allowed"),
    [
        ({}, True),
        ({"role": Role.ADMIN}, False),
        ({"role": Role.APPROVER}, False),
        ({"role": Role.VIEWER}, True),
        ({"tenant": "other"}, False),
        ({"states": ("*",)}, False),
        ({"states": ("prod/net",)}, True),
        ({"states": ("prod/n*",)}, False),
        ({"states": ("dev/net",)}, False),
    ],
)
def test_a_token_gives_no_more_than_its_creator_has(changed: dict[str, object], *, allowed: bool) -> None:
    grantor = _principal(states=("prod/*",))
    wanted = {"role": Role.OPERATOR, "states": ("prod/*",), **changed}
    assert _principal(**wanted).is_within(grantor) is allowed  # type: ignore[arg-type]


def test_the_first_admin_covers_every_tenant() -> None:
    admin = _principal(Role.ADMIN, tenant=ALL_TENANTS)
    assert admin.in_tenant("acme")
    assert _principal(Role.VIEWER, tenant="acme").is_within(admin)


def test_a_token_in_a_text_is_masked() -> None:
    token = new_token().text
    assert Redactor().clean(f"password = {token}") == "password = ***"
