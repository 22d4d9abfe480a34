"""What `checks.boundary` and `checks.backend` say, as values: who owns which types, how states are named."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from holdfast.kernel.values import dataclass, field


class Side(StrEnum):
    """Who writes objects of a type: nobody else should."""

    GITOPS = "gitops"
    TERRAFORM = "terraform"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemption:
    """Stacks that may write what is otherwise GitOps' own, and why."""

    stack: str
    """A name, a glob, or a filter such as `target:local`."""
    reason: str
    types: tuple[str, ...] = ()
    """Patterns of types; none: all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundarySettings:
    types: Mapping[str, Side] = field(default_factory=lambda: MappingProxyType({}))
    """Patterns of types, beside the built-in table and before it."""
    exempt: tuple[Exemption, ...] = ()


ANY = "any"
"""A pattern of names that every name follows."""
BUCKET = "{company}-{environment}-tfstate-{region}"
LOCK_TABLE = "{company}-{environment}-tfstate-lock"
KEY = "{component}/terraform.tfstate"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateNames:
    """How the places of states are named; `{component}` is free text."""

    bucket: str = BUCKET
    lock_table: str = LOCK_TABLE
    key: str = KEY
    storage_account: str = ANY
    container: str = ANY
