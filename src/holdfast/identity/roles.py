"""Roles and what they permit: the only table of permissions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Permission(StrEnum):
    """What a request needs. Every route names exactly one."""

    READ = "read"
    """See runs, locks, versions of states (masked) and findings."""
    STORE = "store"
    """Use the run store; its own table says which blobs (`server/store_access.py`)."""
    PLAN = "plan"
    """Plan: write what a job that only plans must write."""
    RUN = "run"
    """Plan and apply: write run records, claims and journals."""
    APPROVE = "approve"
    """Approve, reject and override plans."""
    READ_PLAN = "read_plan"
    """See the stored plan of a run, without sensitive values."""
    OPEN_PLAN = "open_plan"
    """Open a saved plan, to approve or apply it: it may contain secrets."""
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
    PLANNER = "planner"
    """A job that plans code which was not reviewed: it reads states, and writes nothing that counts."""
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"
    CI = "ci"
    RUN = "run"
    """The token of one run: one state, and those that it reads. Never given to a person."""


_READER = frozenset({Permission.READ, Permission.STORE})
_PLANNER = _READER | {Permission.PLAN, Permission.READ_PLAN, Permission.READ_STATE}
_RUNNER = _PLANNER | {Permission.RUN, Permission.OPEN_PLAN, Permission.WRITE_STATE}
PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: _READER,
    Role.PLANNER: _PLANNER,
    Role.OPERATOR: _RUNNER | {Permission.AUDIT},
    Role.APPROVER: _READER
    | {Permission.READ_PLAN, Permission.OPEN_PLAN, Permission.APPROVE, Permission.AUDIT},
    Role.ADMIN: frozenset(Permission),
    Role.CI: _RUNNER,
    Role.RUN: frozenset({Permission.STORE, Permission.READ_STATE, Permission.WRITE_STATE}),
}

GRANTABLE = (Role.VIEWER, Role.PLANNER, Role.OPERATOR, Role.APPROVER, Role.ADMIN, Role.CI)
"""What a token can be created with."""


def roles_with(permission: Permission) -> tuple[Role, ...]:
    return tuple(role for role in GRANTABLE if permission in PERMISSIONS[role])
