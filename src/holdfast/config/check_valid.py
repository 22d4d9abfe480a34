"""What `checks:` says, as values: how grave rules are, where, and what is waived until when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from holdfast.kernel.errors import Place
from holdfast.kernel.values import dataclass, field

if TYPE_CHECKING:
    from holdfast.config.boundary_valid import BoundarySettings, StateNames


class Level(StrEnum):
    """How grave a rule's findings are: `off` is not looked for at all."""

    OFF = "off"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Use(StrEnum):
    """Whether a tool of other people's is asked: `auto` where it is there; with `on`, missing is an error."""

    OFF = "off"
    AUTO = "auto"
    ON = "on"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleLevel:
    """`rule` is an id, or the beginning of ids followed by `*`."""

    rule: str
    level: Level
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class PathLevels:
    path: str
    rules: tuple[RuleLevel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigWaiver:
    """What is waived: the findings of a rule that every given pattern matches."""

    rule: str
    owner: str
    reason: str
    until: date
    """The last day on which it counts."""
    place: Place
    path: str | None = None
    address: str | None = None
    stack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    rules: tuple[RuleLevel, ...] = ()
    environments: Mapping[str, tuple[RuleLevel, ...]] = field(default_factory=lambda: MappingProxyType({}))
    paths: tuple[PathLevels, ...] = ()
    """A later one wins over an earlier one, and all of them over environments."""
    waivers: tuple[ConfigWaiver, ...] = ()
    platforms: tuple[str, ...] = ()
    """Those that lock files must suit, such as `linux_amd64`."""
    tools: Mapping[str, Use] = field(default_factory=lambda: MappingProxyType({}))
    """By the name of the tool; one that is not here is on `auto`."""
    boundary: BoundarySettings | None = None
    state_names: StateNames | None = None
    """None for both: what is built in."""
    accounts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """One's own AWS accounts: names to numbers."""
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Types (with `*`) to the pattern that names follow; placeholders are filled for each stack."""
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Tags to the pattern that their values follow."""
