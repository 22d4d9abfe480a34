"""The keys of `engine`: what runs Terraform, for how long, and what is tried again."""

from __future__ import annotations

from typing import Final

from holdfast.config.shape import Choice, Duration, Key, ListOf, Record, Text, Whole
from holdfast.config.valid import EngineUse

_PART: Final = r"\s*(?:=|!=|>=|<=|>|<|~>)?\s*v?[0-9]+(?:\.[0-9]+){0,2}(?:-[0-9A-Za-z.-]+)?\s*"

ENGINE_PIN: Final = (
    Key(
        name="use",
        shape=Choice(values=tuple(EngineUse)),
        doc="Which engine: what fits best, the embedded one, any binary, or only terraform or tofu.",
        default="auto",
    ),
    Key(
        name="version",
        shape=Text(
            says="a version or a constraint such as `>= 1.9, < 2.0`", pattern=rf"{_PART}(?:,{_PART})*"
        ),
        doc="Which versions of it will do.",
    ),
)

TIME_LIMITS: Final = Record(
    keys=(
        *(
            Key(name=phase, shape=Duration(), doc=f"How long {phase} may take.", default="30m")
            for phase in ("init", "plan", "apply")
        ),
        Key(
            name="grace",
            shape=Duration(),
            doc="How long an apply that was asked to stop may go on with what it has begun.",
            default="60m",
        ),
    )
)

MEANINGLESS: Final = (
    r"\W*(?:(?:429|[Tt]oo [Mm]any [Rr]equests|[Hh][Tt][Tt][Pp]|[Ee]rror|[Ss]tatus|[Cc]ode)\W*)*"
)
"""What says no more than "too many requests": after that answer an object can be there all the same."""

REFUSED_CREATE: Final = Record(
    keys=(
        Key(
            name="provider",
            shape=Text(
                says="a provider's address or its end, such as `hashicorp/aws`",
                pattern=r"[A-Za-z0-9.-]+(?:/[A-Za-z0-9_-]+){0,2}",
            ),
            doc="The provider, by its address or the end of it.",
            required=True,
        ),
        Key(
            name="text",
            shape=Text(
                says="text that says more than that there were too many requests",
                pattern=rf"(?!{MEANINGLESS}$).+",
            ),
            doc="What its error says when nothing was made.",
            required=True,
        ),
    )
)

RETRIES: Final = Record(
    keys=(
        Key(
            name="attempts",
            shape=Whole(least=0, most=10),
            doc="How many further attempts follow the first one; 0 turns them off.",
            default=3,
        ),
        Key(
            name="wait",
            shape=Duration(least=0, most=3600),
            doc="How long to wait before the first of them; each further wait is twice as long.",
            default="2s",
        ),
        Key(
            name="also",
            shape=ListOf(item=Text(says="text of an error", pattern=r"[\s\S]*\S[\s\S]*")),
            doc="More texts of errors of init, plan and show that are worth another try.",
        ),
        Key(
            name="refused_creates",
            shape=ListOf(item=REFUSED_CREATE),
            doc="More errors that say that a create was refused before anything was made.",
        ),
    )
)

ENGINE: Final = Record(
    keys=(
        *ENGINE_PIN,
        Key(
            name="parallelism",
            shape=Whole(least=1, most=64),
            doc="How many stacks are worked on at once.",
            default=4,
        ),
        Key(
            name="plugin_tls",
            shape=Choice(values=("auto", "always")),
            doc="Whether providers may be spoken to without TLS over a private socket.",
            default="auto",
        ),
        Key(
            name="mirror",
            shape=Text(says="a folder", pattern=r"[^\\\x00-\x1f]+", numbers=False),
            doc="A filesystem mirror of providers, beside what the CLI configuration says.",
        ),
        Key(name="time_limits", shape=TIME_LIMITS, doc="How long each phase may take."),
        Key(name="retries", shape=RETRIES, doc="What failed for a moment is tried again."),
    )
)
