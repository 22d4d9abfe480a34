"""`engine`: what runs Terraform, how long it may take, and what is retried."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from holdfast.config.declarations import ListOf, Section, key
from holdfast.config.shapes import Choice, Duration, Integer, Text

_CONSTRAINT: Final = r"\s*(?:=|!=|>=|<=|>|<|~>)?\s*v?[0-9]+(?:\.[0-9]+){0,2}(?:-[0-9A-Za-z.-]+)?\s*"
MEANINGLESS: Final = (
    r"\W*(?:(?:429|[Tt]oo [Mm]any [Rr]equests|[Hh][Tt][Tt][Pp]|[Ee]rror|[Ss]tatus|[Cc]ode)\W*)*"
)
"""Errors that say no more than "too many requests": the resource may have been created all the same."""


TERRAFORM_PARALLELISM: Final = key(
    Integer(1, 256),
    "How many resources Terraform reads and changes at the same time: `-parallelism` of plan, apply and "
    "destroy. 1 to 256.",
    default=None,
    default_doc="Terraform's own, 10",
)


class EngineUse(StrEnum):
    AUTO = "auto"
    EMBEDDED = "embedded"
    BINARY = "binary"
    TERRAFORM = "terraform"
    TOFU = "tofu"


class EnginePin(Section, frozen=True, kw_only=True):
    """Which engine a stack, or the whole configuration, requires."""

    use: EngineUse = key(
        Choice(tuple(EngineUse)),
        "`auto` (the best match); a product, `terraform` or `tofu` (embedded if its library is installed, "
        "else the program); or a kind, `embedded` or `binary`.",
        default=EngineUse.AUTO,
    )
    version: str | None = key(
        Text("a version or a constraint such as `>= 1.9, < 2.0`", rf"{_CONSTRAINT}(?:,{_CONSTRAINT})*"),
        "A version or a constraint: `1.9.5`, `>= 1.9, < 2.0`.",
    )


class TimeLimits(Section, frozen=True, kw_only=True):
    """Seconds for each phase."""

    init: float = key(Duration(), "The time limit of `init`.", default="30m")
    plan: float = key(
        Duration(), "The time limit of `plan`, `validate`, `show` and other reading commands.", default="30m"
    )
    apply: float = key(Duration(), "The time limit of `apply`.", default="30m")
    grace: float = key(
        Duration(), "How long a cancelled apply may take to finish what it has started.", default="60m"
    )


class RefusedCreate(Section, frozen=True, kw_only=True):
    """`text` in an error of `provider` means that a create was refused before anything was created."""

    provider: str = key(
        Text(
            "a provider's address or its end, such as `hashicorp/aws`",
            r"[A-Za-z0-9.-]+(?:/[A-Za-z0-9_-]+){0,2}",
        ),
        "The provider's address or the end of it: `hashicorp/aws`.",
        required=True,
    )
    text: str = key(
        Text("text that says more than that there were too many requests", rf"(?!{MEANINGLESS}$).+"),
        'A part of the error. It must say more than "too many requests".',
        required=True,
    )


class Retries(Section, frozen=True, kw_only=True):
    """How often, and after how many seconds at first, a transient failure is retried."""

    attempts: int = key(
        Integer(0, 10), "Number of retries after the first attempt, 0 to 10; 0 disables retries.", default=3
    )
    wait: float = key(
        Duration(0, 3600),
        "Wait before the first retry, up to `1h`; each further wait is twice as long.",
        default="2s",
    )
    also: tuple[str, ...] = key(
        ListOf(Text("text of an error", r"[\s\S]*\S[\s\S]*")),
        "Texts of errors of init, plan and show to retry, in addition to the built-in list.",
    )
    refused_creates: tuple[RefusedCreate, ...] = key(
        ListOf(RefusedCreate),
        "Errors that mean that a create was refused before anything was created, in addition to the "
        "built-in list.",
    )


class EngineLimits(EnginePin, frozen=True, kw_only=True):
    """What one stack needs; how many run at the same time is a question of the file around it."""

    plugin_tls: str = key(
        Choice(("auto", "always")),
        "`auto`: Terraform talks to providers without TLS over a private socket if a probe shows that all of "
        "them allow it. `always`: with TLS, as Terraform does by default.",
        default="auto",
    )
    confine: str = key(
        Choice(("auto", "required")),
        "`auto`: Terraform and all that it starts are [confined](engines.md#confinement) if the machine "
        "allows it; otherwise plans have a note. `required`: Terraform never runs unconfined.",
        default="auto",
    )
    mirror: str | None = key(
        Text("a folder", r"[^\\\x00-\x1f]+", numbers=False),
        "A filesystem mirror of providers (packed or unpacked), relative to `holdfast.yaml` or absolute. "
        "Providers that it does not contain come from the usual sources.",
    )
    time_limits: TimeLimits = key(TimeLimits, "How long each phase may take.")
    retries: Retries = key(Retries, "What is retried after a transient failure: [retries](retries.md).")


class EngineSettings(EngineLimits, frozen=True, kw_only=True):
    parallelism: int = key(Integer(1, 64), "How many stacks run at the same time: 1 to 64.", default=4)

    @property
    def pin(self) -> EnginePin:
        return EnginePin(use=self.use, version=self.version)
