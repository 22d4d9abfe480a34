"""What the program believes once holdfast.yaml has been read and found right.

Text that may hold placeholders is kept as written here; `stacks/` fills it in for each stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from holdfast.config.check_valid import CheckSettings
from holdfast.config.guard_valid import GuardSettings
from holdfast.config.locators import SCHEMES
from holdfast.kernel.errors import Place
from holdfast.kernel.values import dataclass, field

SECRET_SCHEMES: tuple[str, ...] = tuple(SCHEMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """`{ secret: "file:/run/secrets/vendor" }`: where a value is to be had, never the value."""

    scheme: str
    locator: str

    def __str__(self) -> str:
        return f"{self.scheme}:{self.locator}"


Scalar = str | int | float | bool
Value = Scalar | SecretRef | None | tuple["Value", ...] | Mapping[str, "Value"]
"""A value from the configuration. Mappings are read-only; text may hold placeholders."""


def frozen(value: Mapping[str, Value] | None = None) -> Mapping[str, Value]:
    return MappingProxyType(dict(value or {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    name: str
    match: tuple[str, ...] = ()
    production: bool = False


class Owner(StrEnum):
    CI = "ci"
    DEVELOPERS = "developers"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractUse:
    """Which outputs stacks of a target must have."""

    place: Place = field(compare=False)
    schema: str = "platform-v1"
    """The name of a built-in contract, or the path of a file relative to the root."""
    stacks: tuple[str, ...] = ()
    """Names and globs of the stacks that it holds for; none: all of the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    name: str
    owner: Owner = Owner.DEVELOPERS
    lane: str | None = None
    contract: ContractUse | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """`type` is what the code must say too; None means: whatever the code says."""

    type: str | None = None
    settings: Mapping[str, Value] = field(default_factory=frozen)


class EngineUse(StrEnum):
    AUTO = "auto"
    EMBEDDED = "embedded"
    BINARY = "binary"
    TERRAFORM = "terraform"
    TOFU = "tofu"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePin:
    """What a stack, or the whole configuration, asks of the engine."""

    use: EngineUse = EngineUse.AUTO
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Seconds for each phase."""

    init: float = 1800.0
    plan: float = 1800.0
    apply: float = 1800.0
    grace: float = 3600.0
    """How long an apply that was asked to stop may go on with what it has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCreate:
    """`text` in an error of `provider` says that a create was refused before anything was made."""

    provider: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often, and after how many seconds at first, what failed for a moment is tried again."""

    attempts: int = 3
    """Further attempts after the first one; 0 turns them off."""
    wait: float = 2.0
    also: tuple[str, ...] = ()
    """Texts of errors that are worth another try, besides Holdfast's own table."""
    refused_creates: tuple[RefusedCreate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    pin: EnginePin = EnginePin()
    parallelism: int = 4
    plugin_tls: str = "auto"
    """`auto`: off over a private socket where each provider was probed to allow it; `always`: on."""
    mirror: str | None = None
    """A filesystem mirror of providers, relative to the root or absolute."""
    time_limits: TimeLimits = TimeLimits()
    retries: Retries = Retries()


class RuleKind(StrEnum):
    VARIABLES = "variables"
    FOLDER = "folder"
    NAMED = "named"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRule:
    """One entry of `stacks:`: how to find stacks and what they are made of."""

    kind: RuleKind
    place: Place
    pattern: str | None = None
    """The path pattern of `variables:` or `folder:`; None for a stack named by hand."""
    name: str | None = None
    module: str | None = None
    variables_files: tuple[str, ...] = ()
    variables: Mapping[str, Value] = field(default_factory=frozen)
    """Values given in the configuration itself, for folder and named stacks."""
    environment: str | None = None
    account: str | None = None
    region: str | None = None
    target: str | None = None
    backend: Backend | None = None
    credentials: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """Provider (`aws`, `azure`) to its settings."""
    env: Mapping[str, Value] = field(default_factory=frozen)
    workspace: str | None = None
    depends_on: tuple[str, ...] = ()
    engine: EnginePin | None = None
    places: Mapping[str, Place] = field(default_factory=dict, compare=False)
    """Where the value of each key stands, for errors that only show once stacks are found."""

    def place_of(self, key: str) -> Place:
        return self.places.get(key, self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How long (seconds) and how large (bytes) work directories may grow before they are cleaned."""

    max_age: float = 86400.0
    max_size: int = 5_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSettings:
    """Of the versions and copies of a state: the newest `keep` stay, and the others for `max_age` seconds."""

    keep: int = 30
    max_age: float = 90 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionSettings:
    """What the redactor is told beside what it knows by itself."""

    off: tuple[str, ...] = ()
    """Ids of layers that are not wanted."""
    words: tuple[str, ...] = ()
    """Names that sound secret here, beside those that do everywhere."""
    entropy: float | None = None
    """From how many bits in each character on a value counts as random; None: the redactor's own measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    file: Path
    root: Path
    company: str | None = None
    environments: tuple[Environment, ...] = ()
    targets: tuple[Target, ...] = ()
    stacks: tuple[StackRule, ...] = ()
    engine: EngineSettings = EngineSettings()
    store: str = ".holdfast"
    store_named: bool = False
    """Whether the file itself says where the store is."""
    work: Work = Work()
    backups: BackupSettings = BackupSettings()
    redaction: RedactionSettings = RedactionSettings()
    audit_s3: str | None = None
    """Where the audit log is shipped besides the run store."""
    guard: GuardSettings = GuardSettings()
    checks: CheckSettings = CheckSettings()
