"""The keys of `checks`: how grave rules are, and what is waived."""

from __future__ import annotations

from typing import Final

from holdfast.config.boundary_keys import BACKEND_NAMES, BOUNDARY
from holdfast.config.check_valid import Level, Use
from holdfast.config.policy_keys import POLICY_KEYS
from holdfast.config.shape import Choice, Key, ListOf, Names, Record, Text
from holdfast.config.texts import INSIDE, INSIDE_SAYS, NAME_PATTERN, NAME_SAYS

_AT_MOST_EIGHT_STARS: Final = r"(?!(?:[^*]*\*){9})"
_RULE: Final = r"[A-Za-z][A-Za-z0-9_.-]*"
_PATH: Final = Text(
    says=f"{INSIDE_SAYS}; `*` stands for a part of a name, `**` for any folders (at most eight stars)",
    pattern=_AT_MOST_EIGHT_STARS + INSIDE,
    code="HF-CONF-16",
    numbers=False,
    path=True,
)
_GLOB: Final = Text(says="a name with up to eight `*`", pattern=_AT_MOST_EIGHT_STARS + r"[^\x00-\x1f]+")
_LEVELS: Final = Names(
    value=Choice(values=tuple(Level)),
    pattern=rf"{_RULE}\*?",
    says="the id of a rule such as `HF101`, or the beginning of ids such as `HF7*`",
)
_LEVELS_KEY: Final = Key(name="rules", shape=_LEVELS, doc="How grave the findings of a rule are here.")

WAIVER: Final = Record(
    keys=(
        Key(
            name="rule",
            shape=Text(says="the id of a rule such as `HF101`", pattern=_RULE, most=200),
            doc="Whose findings.",
            required=True,
        ),
        Key(name="path", shape=_PATH, doc="In which files, or below which folders."),
        Key(name="address", shape=_GLOB, doc="At which addresses."),
        Key(name="stack", shape=_GLOB, doc="Of which stacks."),
        Key(name="owner", shape=Text(most=200), doc="Who answers for it.", required=True),
        Key(name="reason", shape=Text(), doc="Why it is right here.", required=True),
        Key(
            name="until",
            shape=Text(
                says="a date such as `2027-01-31`", pattern=r"[0-9]{4}-[0-9]{2}-[0-9]{2}", numbers=False
            ),
            doc="The last day on which it counts.",
            required=True,
        ),
    )
)

CHECKS: Final = Record(
    keys=(
        Key(
            name="rules",
            shape=_LEVELS,
            doc="How grave the findings of a rule are: `error`, `warning`, `note`, or `off`.",
        ),
        Key(
            name="environments",
            shape=Names(value=Record(keys=(_LEVELS_KEY,)), pattern=NAME_PATTERN, says=NAME_SAYS),
            doc="What holds in single environments instead.",
        ),
        Key(
            name="paths",
            shape=ListOf(
                item=Record(
                    keys=(
                        Key(
                            name="path",
                            shape=_PATH,
                            doc="In which files, or below which folders.",
                            required=True,
                        ),
                        _LEVELS_KEY,
                    )
                )
            ),
            doc="What holds in single places instead; the last entry that matches wins.",
        ),
        Key(name="waivers", shape=ListOf(item=WAIVER), doc="Findings that do not count for a while."),
        Key(
            name="platforms",
            shape=ListOf(item=Text(says="a platform such as `linux_amd64`", pattern=r"[a-z0-9]+_[a-z0-9]+")),
            doc="Platforms on which stacks are run: lock files must hold hashes for each.",
        ),
        Key(
            name="tools",
            shape=Names(
                value=Choice(values=tuple(Use)),
                pattern=r"[a-z][a-z0-9-]*",
                says="the name of a tool such as `checkov`",
            ),
            doc="Other people's programs: `auto` (where it is installed), `on` (missing is an error), `off`.",
        ),
        Key(name="boundary", shape=BOUNDARY, doc="What Terraform owns and what GitOps owns."),
        Key(name="backend", shape=BACKEND_NAMES, doc="How the places of states are named."),
        *POLICY_KEYS,
    )
)
