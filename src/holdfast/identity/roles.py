"""Roles and what they permit: the only table of permissions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Permission(StrEnum):
    """What a request needs. Every route names exactly one."""

    READ = "read"
    """See runs, plans, locks, versions of states (masked) and findings."""
    RUN = "run"
    """Plan and apply: write run records, claims and journals."""
    APPROVE = "approve"
    """Approve, reject and override plans."""
    READ_STATE = "read_state"
    """Download a state: it contains secrets."""
    WRITE_STATE = "write_state"
    """Lock a state and write it through the state protocol."""
    ADMINISTER = "administer"
    """Tokens, roll back, unlock, purge, settings of states."""
    AUDIT = "audit"
    """Read the audit log."""


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"
    CI = "ci"
    RUN = "run"
    """The token of one run: one state, and those that it reads. Never given to a person."""


PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset({Permission.READ}),
    Role.OPERATOR: frozenset(
        {Permission.READ, Permission.RUN, Permission.READ_STATE, Permission.WRITE_STATE, Permission.AUDIT}
    ),
    Role.APPROVER: frozenset({Permission.READ, Permission.APPROVE, Permission.AUDIT}),
    Role.ADMIN: frozenset(Permission),
    Role.CI: frozenset({Permission.READ, Permission.RUN, Permission.READ_STATE, Permission.WRITE_STATE}),
    Role.RUN: frozenset({Permission.READ_STATE, Permission.WRITE_STATE}),
}

GRANTABLE = (Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.ADMIN, Role.CI)
"""What a token can be created with."""
