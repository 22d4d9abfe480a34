"""`checks`: how severe rules are, what is waived, and the conventions that rules check."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from holdfast.config.declarations import ListOf, Names, Section, key, named
from holdfast.config.shapes import (
    INSIDE,
    INSIDE_EXPECTED,
    MAX_EIGHT_STARS,
    TYPE_GLOB,
    Choice,
    MistakeError,
    Text,
    path_text,
)
from holdfast.kernel.errors import Place


class Level(StrEnum):
    """How severe a rule's findings are; a rule that is `off` does not run."""

    OFF = "off"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Use(StrEnum):
    """Whether an external tool runs. `auto`: if it is installed; `on`: if it is missing, that is an error."""

    OFF = "off"
    AUTO = "auto"
    ON = "on"


class Side(StrEnum):
    """Who manages the resources of a type."""

    GITOPS = "gitops"
    TERRAFORM = "terraform"


class RuleLevel(Struct, frozen=True, kw_only=True):
    """`rule` is an id, or the start of ids followed by `*`."""

    rule: str
    level: Level
    place: Place


_TYPE_EXPECTED: Final = "a type such as `kubernetes_namespace`, with up to eight `*`"
_RULE: Final = r"[A-Za-z][A-Za-z0-9_.-]*"
_PATH: Final = path_text(
    f"{INSIDE_EXPECTED}; `*` matches a part of a name, `**` any folders (at most eight stars)",
    MAX_EIGHT_STARS + INSIDE,
)
_GLOB: Final = Text("a name with up to eight `*`", MAX_EIGHT_STARS + r"[^\x00-\x1f]+")
_LEVELS: Final = Names(
    Choice(tuple(Level)),
    rf"{_RULE}\*?",
    "the id of a rule such as `HF101`, or the start of ids such as `HF7*`",
    entry=lambda rule, level, place: RuleLevel(rule=rule, level=level, place=place),
)
_CONVENTION: Final = Text(
    "text with up to eight `*`, and {company}, {environment}, {account}, {region} or {stack}",
    MAX_EIGHT_STARS + r"(?:[^{}\x00-\x1f]|\{(?:company|environment|account|region|stack)\})+",
)


class EnvironmentLevels(Section, frozen=True, kw_only=True):
    """Read as its levels."""

    rules: tuple[RuleLevel, ...] = key(_LEVELS, "Severities in this environment, as in `checks.rules`.")

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> tuple[RuleLevel, ...]:
        levels: tuple[RuleLevel, ...] = values.get("rules", ())
        return levels


class PathLevels(Section, frozen=True, kw_only=True):
    path: str = key(
        _PATH,
        "A file, or everything below a folder; `*` matches a part of a name, `**` any folders.",
        required=True,
    )
    rules: tuple[RuleLevel, ...] = key(_LEVELS, "Severities in these files, as in `checks.rules`.")


def _existing_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        message = f"is `{text}`, and there is no day `{text}` in the calendar"
        raise MistakeError("HF-CONF-27", message) from None


class ConfigWaiver(Section, frozen=True, kw_only=True):
    """Waives the findings of a rule that match every pattern given here."""

    place: Place
    rule: str = key(
        Text("the id of a rule such as `HF101`", _RULE, max_length=200), "The rule: `HF101`.", required=True
    )
    path: str | None = key(_PATH, "A file, or everything below a folder; `*` and `**` work as in `paths`.")
    address: str | None = key(_GLOB, "Addresses; `*` matches any text.")
    stack: str | None = key(_GLOB, "Stacks; `*` matches any text.")
    owner: str = key(Text(max_length=200), "Who is responsible for the waiver.", required=True)
    reason: str = key(Text(), "Why the finding is acceptable.", required=True)
    until: date = key(
        Text(
            "a date such as `2027-01-31`", r"[0-9]{4}-[0-9]{2}-[0-9]{2}", numbers=False, convert=_existing_day
        ),
        "The last day of the waiver: `2027-01-31`.",
        required=True,
    )


class Exemption(Section, frozen=True, kw_only=True):
    """Stacks that may manage what GitOps owns, and why."""

    stack: str = key(
        Text(
            "a name with up to eight `*`, or a filter such as `target:local`",
            MAX_EIGHT_STARS + r"[^\x00-\x1f]+",
        ),
        "A name, with `*` or not, or a filter: `env:`, `account:`, `region:` or `target:` and a name.",
        required=True,
    )
    types: tuple[str, ...] = key(
        ListOf(Text(_TYPE_EXPECTED, TYPE_GLOB, max_length=200)),
        "The types that these stacks may manage; `*` matches any text.",
        default_doc="all",
    )
    reason: str = key(Text(), "Why these stacks may manage them.", required=True)


class BoundarySettings(Section, frozen=True, kw_only=True):
    types: Mapping[str, Side] = key(
        Names(Choice(tuple(Side)), TYPE_GLOB, _TYPE_EXPECTED),
        "A mapping of types (`kubernetes_namespace`, with `*` or not) to their owner, `gitops` or "
        "`terraform`, before the built-in table; the most specific pattern wins.",
    )
    exempt: tuple[Exemption, ...] = key(
        ListOf(Exemption), "A list of stacks that may manage what GitOps owns."
    )


ANY: Final = "any"
"""A pattern that every name matches."""
_STATE_NAME: Final = Text(
    "a name with placeholders ({company}, {environment}, {region}, {account}, {target}, {name}, "
    "{component}), or `any`",
    r"(?:[^{}\x00-\x1f]|\{(?:company|environment|region|account|target|name|component)\})+",
    numbers=False,
)


def _state_name(doc: str, default: str = ANY) -> Any:
    return key(_STATE_NAME, doc, default=default)


class StateNames(Section, frozen=True, kw_only=True):
    """How the locations of states are named; `{component}` matches any text."""

    bucket: str = _state_name("The name of buckets.", "{company}-{environment}-tfstate-{region}")
    lock_table: str = _state_name("The name of DynamoDB lock tables.", "{company}-{environment}-tfstate-lock")
    key: str = _state_name("The key in a bucket or container.", "{component}/terraform.tfstate")
    storage_account: str = _state_name("The name of Azure storage accounts.")
    container: str = _state_name("The name of their containers.")


class CheckSettings(Section, frozen=True, kw_only=True):
    rules: tuple[RuleLevel, ...] = key(
        _LEVELS,
        "A mapping of rules (`HF101`, or a prefix: `HF7*`) to a severity: `error`, `warning`, `note` or "
        "`off`.",
    )
    environments: Mapping[str, tuple[RuleLevel, ...]] = key(
        named(EnvironmentLevels), "A mapping of environments to severities that apply there instead."
    )
    paths: tuple[PathLevels, ...] = key(
        ListOf(PathLevels),
        "A list of paths with severities that apply there instead. Paths win over environments; the last "
        "path that matches wins.",
    )
    waivers: tuple[ConfigWaiver, ...] = key(
        ListOf(ConfigWaiver),
        "A list of findings that do not count until a date. A finding must match everything that the waiver "
        "names.",
    )
    platforms: tuple[str, ...] = key(
        ListOf(Text("a platform such as `linux_amd64`", r"[a-z0-9]+_[a-z0-9]+")),
        "A list of the platforms on which stacks run, such as `linux_amd64`: lock files must contain hashes "
        "for each ([HF308](checks/HF308.md)).",
    )
    tools: Mapping[str, Use] = key(
        Names(Choice(tuple(Use)), r"[a-z][a-z0-9-]*", "the name of a tool such as `checkov`"),
        "A mapping of tools (`rego`, `checkov`) to `auto` (the default), `on` (a missing tool is an error) "
        "or `off`: [policies](policies.md).",
    )
    boundary: BoundarySettings | None = key(
        BoundarySettings, "What Terraform owns and what GitOps owns: [HF101](checks/HF101.md).", default=None
    )
    state_names: StateNames | None = key(
        StateNames,
        "How the locations of states are named: [HF123](checks/HF123.md). Placeholders are `{company}`, "
        "`{environment}`, `{region}`, `{account}`, `{target}`, `{name}` and, for any text, `{component}`; "
        "`any` accepts every name.",
        default=None,
        path="backend",
    )
    accounts: Mapping[str, str] = key(
        named(Text("the twelve digits of an account", r"[0-9]{12}")),
        "A mapping of the names of your own AWS accounts (a stack's `account`) to their numbers; all others "
        "are third parties ([HF510](checks/HF510.md), [HF513](checks/HF513.md)).",
    )
    names: Mapping[str, str] = key(
        Names(_CONVENTION, TYPE_GLOB, "a type such as `aws_s3_bucket`, with up to eight `*`"),
        "A mapping of types (`aws_s3_bucket`, with `*` or not) to the pattern of their names, with "
        "`{company}`, `{environment}`, `{account}`, `{region}`, `{stack}` and `*`; the longest type that "
        "matches wins ([HF515](checks/HF515.md)).",
    )
    tags: Mapping[str, str] = key(
        Names(_CONVENTION, r"[^\x00-\x1f]{1,128}", "the name of a tag"),
        "A mapping of tags that every resource with tags must have to the pattern of their values; `*` "
        "matches any text ([HF516](checks/HF516.md)).",
    )

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> CheckSettings:
        values["platforms"] = tuple(dict.fromkeys(values.get("platforms", ())))
        return cls(**values)
