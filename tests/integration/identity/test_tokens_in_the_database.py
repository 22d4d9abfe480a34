"""Tokens in a real PostgreSQL."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from holdfast.database.database import Database
from holdfast.identity.principal import ALL_TENANTS, Principal
from holdfast.identity.roles import Role
from holdfast.identity.token_rows import TokenRows
from holdfast.identity.tokens import GivenToken, new_token, parse_token
from holdfast.system import clock

ADA = Principal(
    id="", name="ada", kind="token", role=Role.OPERATOR, tenant="acme", stacks=("prod/*",), states=("prod/*",)
)


def _given(text: str) -> GivenToken:
    given = parse_token(text)
    assert given is not None
    return given


def test_a_token_works_until_it_is_revoked(database: Database) -> None:
    tokens = TokenRows(database)
    created = tokens.create(ADA, created_by="admin")
    assert created.text not in repr(created)
    principal = tokens.authenticate(_given(created.text))
    assert principal is not None
    assert (principal.name, principal.role, principal.tenant) == ("ada", Role.OPERATOR, "acme")
    assert principal.states == ("prod/*",)
    (listed,) = tokens.list("acme")
    assert listed.last_used is not None
    assert tokens.list("other") == ()

    admin = Principal(id="", name="root", kind="token", role=Role.ADMIN, tenant="acme")
    assert tokens.revoke(created.info.id, replace(admin, tenant="other")) is None
    assert tokens.revoke(created.info.id, replace(admin, states=("dev/*",))) is None
    assert tokens.revoke(created.info.id, admin) is not None
    (listed,) = tokens.list("acme")
    assert listed.revoked is not None
    assert tokens.authenticate(_given(created.text)) is None


def test_unknown_wrong_and_expired_tokens_are_refused(database: Database) -> None:
    tokens = TokenRows(database)
    created = tokens.create(ADA, created_by="admin", expires=clock.now() + timedelta(hours=1))
    expired = tokens.create(ADA, created_by="admin", expires=clock.now() - timedelta(seconds=1))
    other = new_token()
    assert tokens.authenticate(_given(created.text)) is not None
    assert tokens.authenticate(_given(expired.text)) is None
    assert tokens.authenticate(_given(other.text)) is None
    assert tokens.authenticate(GivenToken(id=created.info.id, digest=other.digest)) is None


def test_the_database_contains_no_token(database: Database) -> None:
    tokens = TokenRows(database)
    created = tokens.create(ADA, created_by="admin")
    secret = created.text.split("_", 2)[2]
    with database.transaction() as connection:
        rows = connection.execute("select tokens::text from tokens").fetchall()
    assert secret not in str(rows)
    assert secret.encode().hex() not in str(rows)


def test_a_ci_token_is_exchanged_once(database: Database) -> None:
    tokens = TokenRows(database)
    later = clock.now() + timedelta(minutes=5)
    assert tokens.mark_exchanged("https://issuer", "a", later)
    assert not tokens.mark_exchanged("https://issuer", "a", later)
    assert tokens.mark_exchanged("https://other", "a", later)


def test_the_servers_own_token_can_be_registered_again(database: Database) -> None:
    tokens = TokenRows(database)
    admin = Principal(id="", name="admin", kind="token", role=Role.ADMIN, tenant=ALL_TENANTS)
    token = new_token()
    first = tokens.create(admin, created_by="server", token=token)
    assert tokens.create(admin, created_by="server", token=token).info == first.info
    assert len(tokens.list(None)) == 1


def test_tokens_of_ended_runs_are_removed(database: Database) -> None:
    tokens = TokenRows(database)
    run = Principal(id="", name="run", kind="run", role=Role.RUN, states=("a",), reads=("b",))
    tokens.create(run, created_by="server", expires=clock.now() - timedelta(hours=2))
    tokens.create(ADA, created_by="admin", expires=clock.now() - timedelta(hours=2))
    assert tokens.list(None) != ()
    assert tokens.remove_expired() == 1
