"""The keys of `guard`: what is refused and what needs an approval, everywhere and in single environments."""

from __future__ import annotations

from typing import Final

from holdfast.config.guard_valid import Effect
from holdfast.config.shape import Choice, Key, ListOf, Names, Record, Text, Whole
from holdfast.config.texts import NAME_PATTERN, NAME_SAYS

_BUDGET: Final = Text(
    says="a number, a share such as `10%`, or `any`",
    pattern=r"any|[0-9]{1,6}|(?:100|[1-9]?[0-9])%",
)
_EFFECT: Final = Choice(values=tuple(Effect))
_AT_MOST_EIGHT_STARS: Final = r"(?!(?:[^*]*\*){9})"
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_DAY: Final = r"mon|tue|wed|thu|fri|sat|sun|(?:19|20|21)[0-9]{2}-[0-9]{2}-[0-9]{2}"
_MOMENT: Final = Text(
    says="a moment such as `fri 16:00`, `fri`, `2026-12-19 18:00`, `2026-12-19` or `22:00`",
    pattern=rf"(?:{_DAY})(?: {_CLOCK})?|{_CLOCK}",
    numbers=False,
)

_DELETIONS: Final = Record(
    keys=(
        Key(
            name="per_stack",
            shape=_BUDGET,
            doc="How many objects one stack may lose: as a number or as a share of those it has.",
        ),
        Key(
            name="per_change",
            shape=_BUDGET,
            doc="How many objects all stacks of one change may lose together.",
            default="any",
        ),
    )
)

_PROTECTED: Final = (
    Key(
        name="addresses",
        shape=ListOf(
            item=Text(
                says="an address such as `module.db` or `aws_db_instance.main`, with up to eight `*`",
                pattern=_AT_MOST_EIGHT_STARS + r"[A-Za-z_*][^\x00-\x1f]*",
            )
        ),
        doc="What is never deleted, replaced or forgotten, in any environment.",
    ),
    Key(
        name="types",
        shape=ListOf(
            item=Text(
                says="a type such as `lab_object`, with up to eight `*`",
                pattern=_AT_MOST_EIGHT_STARS + r"[A-Za-z_*][A-Za-z0-9_*-]*",
            )
        ),
        doc="More types that are protected in production, beside the built-in list.",
    ),
    Key(
        name="tags",
        shape=Names(
            value=ListOf(item=Text(says="the value of a tag, or `*`", flags=True), single=True),
            pattern=r"[^\x00-\x1f]{1,256}",
            says="the name of a tag",
        ),
        doc="Tags or labels whose bearers are never deleted, replaced or forgotten, in any environment.",
    ),
)

_EXCEPT: Final = Key(
    name="except_types",
    shape=ListOf(item=Text(says="a type such as `aws_eip`", pattern=r"[A-Za-z_][A-Za-z0-9_-]*", most=200)),
    doc="Types of the built-in list that are not protected here.",
)

_FREEZE: Final = Record(
    keys=(
        Key(name="from", shape=_MOMENT, doc="When it begins.", required=True),
        Key(name="to", shape=_MOMENT, doc="When it ends; a day alone is included.", required=True),
        Key(
            name="zone",
            shape=Text(
                says="a time zone such as `Europe/Berlin` or `UTC`",
                pattern=r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*",
                most=100,
            ),
            doc="By which clock.",
            required=True,
        ),
        Key(name="why", shape=Text(most=200), doc="What people are told."),
        Key(
            name="effect",
            shape=Choice(values=(Effect.APPROVE, Effect.DENY)),
            doc="Whether an approval is enough to apply all the same.",
            default="approve",
        ),
    )
)

_LOSSES: Final = Key(
    name="deletions", shape=_DELETIONS, doc="How many objects may be deleted, replaced or forgotten."
)
_PROTECT_SAYS: Final = "What no budget covers."
_RULES: Final = (
    Key(
        name="removed_outputs",
        shape=_EFFECT,
        doc="When an output is removed that other stacks read.",
    ),
    Key(name="actions", shape=_EFFECT, doc="When actions of providers are invoked."),
    Key(name="provisioners", shape=_EFFECT, doc="When provisioners can run."),
    Key(name="destroy", shape=_EFFECT, doc="When a stack loses everything it has."),
    Key(name="target", shape=_EFFECT, doc="When a plan is only of a part of the stack."),
    Key(
        name="policies",
        shape=_EFFECT,
        doc="When a policy in Rego denies a plan with changes, or cannot be asked about it.",
        default="deny",
    ),
    Key(
        name="findings",
        shape=_EFFECT,
        doc="When the checks find errors in a stack whose plan has changes.",
        default="warn",
    ),
    Key(
        name="max_changes",
        shape=Whole(least=0, most=1_000_000),
        doc="How many objects may change before an approval is needed.",
    ),
    Key(
        name="approvals",
        shape=Whole(least=0, most=10),
        doc="How many approvals every plan with changes needs.",
        default=0,
    ),
    Key(name="freeze", shape=ListOf(item=_FREEZE), doc="Times in which nothing is applied."),
)

_ENVIRONMENT: Final = Record(
    keys=(
        _LOSSES,
        Key(name="protect", shape=Record(keys=(*_PROTECTED, _EXCEPT)), doc=_PROTECT_SAYS),
        *_RULES,
    )
)

GUARD: Final = Record(
    keys=(
        _LOSSES,
        Key(name="protect", shape=Record(keys=_PROTECTED), doc=_PROTECT_SAYS),
        *_RULES,
        Key(
            name="environments",
            shape=Names(value=_ENVIRONMENT, pattern=NAME_PATTERN, says=NAME_SAYS),
            doc="What holds in single environments instead; lists are added.",
        ),
    )
)
