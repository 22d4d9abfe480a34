"""The verified identity behind a request, and what it covers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct, field

from holdfast.identity.roles import PERMISSIONS, Permission, Role

ALL_TENANTS: Final = "*"
DEFAULT_TENANT: Final = "default"
_EVERYTHING: Final = ("*",)
RUN: Final = "run"
"""The kind of a token that belongs to one run."""


class Principal(Struct, frozen=True, kw_only=True):
    id: str
    """Of the token: what the audit log names beside the person."""
    name: str
    """A person's login, or the subject of a CI token."""
    kind: str
    """`token`, `oidc`, `webhook` or `run`."""
    role: Role
    tenant: str = DEFAULT_TENANT
    """`*`: all tenants; only the first admin token has it."""
    stacks: tuple[str, ...] = _EVERYTHING
    states: tuple[str, ...] = _EVERYTHING
    reads: tuple[str, ...] = ()
    """States that a run may read beside its own."""
    claims: Mapping[str, str] = field(default_factory=dict)
    """What the issuer of a CI token, or a signed webhook, says."""
    groups: tuple[str, ...] = ()
    """Rules about approvals name them; they permit nothing by themselves."""

    @property
    def subject(self) -> str:
        """The same for all tokens of one person or CI job, and of no other: what identities are compared by.

        The name of a token is that of its person in the tenant: only who may create all tokens with this name
        may create another (`TokenRows.name_is_free`). Without a name of its own it stands for itself.
        A user of a code host is the person whose tokens have the name `github:LOGIN`.
        """
        if self.kind == RUN:
            return self.claims.get("subject", f"run:{self.id}")
        if self.kind == "oidc":
            return f"oidc:{self.claims.get('iss', '')} {self.name}"
        return f"token:{self.id}" if self.name == self.role.value else f"name:{self.name}"

    @property
    def home_tenant(self) -> str:
        """Of what it names without a tenant."""
        return DEFAULT_TENANT if self.tenant == ALL_TENANTS else self.tenant

    def may(self, permission: Permission) -> bool:
        return permission in PERMISSIONS[self.role]

    def in_tenant(self, tenant: str) -> bool:
        return self.tenant in (ALL_TENANTS, tenant)

    def covers_stack(self, stack: str) -> bool:
        return any(fnmatchcase(stack, pattern) for pattern in self.stacks)

    def may_read_state(self, state: str) -> bool:
        return self.may(Permission.READ_STATE) and (
            self.covers_state(state) or any(fnmatchcase(state, pattern) for pattern in self.reads)
        )

    def may_write_state(self, state: str) -> bool:
        return self.may(Permission.WRITE_STATE) and self.covers_state(state)

    def covers_state(self, state: str) -> bool:
        return any(fnmatchcase(state, pattern) for pattern in self.states)

    def covers_patterns(self, stacks: tuple[str, ...]) -> bool:
        """Whether all stacks that these patterns can match are its own."""
        return _within(stacks, self.stacks)

    def is_within(self, grantor: Principal) -> bool:
        """Whether `grantor` may create a token like this one: no token gives more than its creator has."""
        return (
            PERMISSIONS[self.role] <= PERMISSIONS[grantor.role]
            and grantor.in_tenant(self.tenant)
            and _within(self.stacks, grantor.stacks)
            and _within(self.states, grantor.states)
        )


def limits(
    stacks: tuple[str, ...] | None, states: tuple[str, ...] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Patterns of stacks and of states: those of one also limit the other, if it has none of its own."""
    return stacks or states or _EVERYTHING, states or stacks or _EVERYTHING


def _within(patterns: tuple[str, ...], limits: tuple[str, ...]) -> bool:
    """Each pattern is one of the limits, or plain text that a limit covers: patterns are not compared."""
    return all(
        pattern in limits
        or "*" in limits
        or (
            not any(sign in pattern for sign in "*?[")
            and any(fnmatchcase(pattern, limit) for limit in limits)
        )
        for pattern in patterns
    )
