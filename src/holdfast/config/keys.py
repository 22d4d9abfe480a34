"""Every key of holdfast.yaml: what it may hold, what it means, what holds without it."""

from __future__ import annotations

from typing import Final

from holdfast.config.check_keys import CHECKS
from holdfast.config.engine_keys import ENGINE
from holdfast.config.guard_keys import GUARD
from holdfast.config.shape import (
    Choice,
    Duration,
    Flag,
    Key,
    ListOf,
    Names,
    Number,
    Record,
    Size,
    Text,
    Version,
    Whole,
)
from holdfast.config.stack_keys import STACK
from holdfast.config.texts import INSIDE, NAME, NAME_PATTERN, NAME_SAYS
from holdfast.config.valid import Owner

PRODUCTION_NAMES: Final = ("production", "prod", "prd", "live")

WORK: Final = Record(
    keys=(
        Key(name="max_age", shape=Duration(), doc="How old a work directory may grow.", default="24h"),
        Key(
            name="max_size",
            shape=Size(),
            doc="How large work directories may grow together.",
            default="5GB",
        ),
    )
)

BACKUPS: Final = Record(
    keys=(
        Key(
            name="keep",
            shape=Whole(least=1, most=100_000),
            doc="How many of a state's newest versions are always kept.",
            default=30,
        ),
        Key(
            name="max_age",
            shape=Duration(least=0, most=3650 * 86400.0),
            doc="How old the others may grow.",
            default="90d",
        ),
    )
)

AUDIT: Final = Record(
    keys=(
        Key(
            name="s3",
            shape=Text(
                says="`s3://bucket/prefix`",
                pattern=r"s3://[a-z0-9][a-z0-9.-]*(?:/[^\\\x00-\x1f]*)?",
                code="HF-CONF-16",
                numbers=False,
            ),
            doc="Where its lines are shipped, as objects by day and run.",
        ),
    )
)

CONTRACT: Final = Record(
    keys=(
        Key(
            name="schema",
            shape=Text(
                says="the name of a built-in contract, or the path of a YAML file inside the repository",
                pattern=INSIDE,
                code="HF-CONF-16",
                numbers=False,
                path=True,
            ),
            doc="Which outputs are wanted.",
            default="platform-v1",
        ),
        Key(
            name="stacks",
            shape=ListOf(item=Text(), single=True),
            doc="Names and globs of the stacks that must have them; else all of the target.",
        ),
    )
)

REDACTION: Final = Record(
    keys=(
        Key(
            name="off",
            shape=ListOf(item=Text(says="the id of a layer", pattern=r"[a-z0-9][a-z0-9-]*", most=100)),
            doc="Ids of layers of the redactor that are not wanted.",
        ),
        Key(
            name="words",
            shape=ListOf(item=Text(says="a word of three characters or more", pattern=r"\S{3,}", most=100)),
            doc="Names that sound secret in this company, beside those that do everywhere.",
        ),
        Key(
            name="entropy",
            shape=Number(least=0, most=8),
            doc="From how many bits in each character on a value under such a name counts as random.",
        ),
    )
)

HOLDFAST: Final = Record(
    keys=(
        Key(name="version", shape=Version(), doc="The version of this format.", required=True),
        Key(name="company", shape=NAME, doc="The value of {company}."),
        Key(
            name="environments",
            shape=Names(
                value=Record(
                    keys=(
                        Key(
                            name="match",
                            shape=ListOf(item=Text(), single=True),
                            doc="Values and globs that belong to it, besides its own name.",
                        ),
                        Key(
                            name="production",
                            shape=Flag(),
                            doc="Whether it counts as production; without it only "
                            f"{', '.join(PRODUCTION_NAMES)} do.",
                        ),
                    )
                ),
                pattern=NAME_PATTERN,
                says=NAME_SAYS,
            ),
            doc="What environments there are and which of them are production.",
        ),
        Key(
            name="targets",
            shape=Names(
                value=Record(
                    keys=(
                        Key(
                            name="owner",
                            shape=Choice(values=tuple(Owner)),
                            doc="Who applies: only CI, or developers too.",
                            default="developers",
                        ),
                        Key(name="lane", shape=NAME, doc="Where its changes queue; else the target's name."),
                        Key(name="contract", shape=CONTRACT, doc="Outputs that its stacks must have."),
                    )
                ),
                pattern=NAME_PATTERN,
                says=NAME_SAYS,
            ),
            doc="Where stacks live.",
        ),
        Key(name="stacks", shape=ListOf(item=STACK), doc="How stacks are found and what they are made of."),
        Key(
            name="engine",
            shape=ENGINE,
            doc="What runs Terraform.",
        ),
        Key(
            name="store",
            shape=Text(
                says="a folder, or `s3://bucket/prefix`",
                pattern=r"s3://[a-z0-9][a-z0-9.-]*(?:/[^\\\x00-\x1f]*)?"
                r"|(?![A-Za-z][A-Za-z0-9+.-]*://)(?!(?:.*/)?\.\.(?:/|$))[^\\\x00-\x1f]+",
                code="HF-CONF-16",
                numbers=False,
            ),
            doc="The run store: journals, marks, backups.",
            default=".holdfast",
        ),
        Key(
            name="work",
            shape=WORK,
            doc="When work directories are cleaned.",
        ),
        Key(name="guard", shape=GUARD, doc="What is refused, and what needs an approval."),
        Key(name="checks", shape=CHECKS, doc="What is looked for before anything runs."),
        Key(name="audit", shape=AUDIT, doc="Where the audit log goes besides the run store."),
        Key(name="backups", shape=BACKUPS, doc="How long old versions and copies of states are kept."),
        Key(name="redaction", shape=REDACTION, doc="What is hidden beside what is known to be secret."),
    )
)
