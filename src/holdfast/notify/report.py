"""What came out of a change, as values to tell people: plain texts and numbers, already without secrets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct, field

from holdfast.kernel.values import MaskedStruct

GRAVE_FIRST = (
    "unknown", "failed", "cancelled", "refused", "locked", "waiting",
    "removed", "blocked", "planned", "applied", "unchanged",
)  # fmt: skip
"""Every status, the gravest first."""
_COUNTED = (
    ("delete", "delete", "deletes"),
    ("replace", "replacement", "replacements"),
    ("forget", "forget", "forgets"),
    ("update", "change", "changes"),
    ("create", "new", "new"),
    ("import", "import", "imports"),
    ("move", "move", "moves"),
    ("read", "read", "reads"),
)


class Risk(Struct, frozen=True, kw_only=True):
    """An object that would be lost, or of which this version cannot say what would happen to it."""

    address: str
    what: str
    """`deleted because it is no longer in the configuration`"""


class Rule(Struct, frozen=True, kw_only=True):
    """What the guard said, and by which rule."""

    code: str
    message: str
    address: str | None = None
    rule: str = ""
    """The rule in a few words: `protected type aws_db_instance`."""


class Trouble(Struct, frozen=True, kw_only=True):
    """An error, with its place in the source where there is one."""

    code: str
    message: str
    hint: str | None = None
    file: str | None = None
    line: int | None = None


class StackReport(MaskedStruct, frozen=True, kw_only=True):
    name: str
    status: str
    environment: str | None = None
    production: bool = False
    decision: str = "allow"
    """`allow`, `approval` or `deny`."""
    counts: Mapping[str, int] = field(default_factory=dict)
    risks: tuple[Risk, ...] = ()
    rules: tuple[Rule, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    notes: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()
    """Of a removed stack: what its state still holds."""
    diff: tuple[str, ...] = ()
    """The plan, line by line; each begins with a sign."""
    diff_cut: bool = False
    """There is more of the plan than stands here."""
    digest: str | None = None
    run: str | None = None

    @property
    def changes(self) -> str:
        return counts_text(self.counts)

    @property
    def needs_a_look(self) -> bool:
        """Whether there is more to say of it than its row does."""
        grave = self.status not in {"planned", "applied", "unchanged"}
        return grave or bool(self.rules) or bool(self.risks and self.status == "planned")


class ChangeReport(Struct, frozen=True, kw_only=True):
    operation: str
    """`plan`, `apply` or `destroy`."""
    headline: str
    """`3 of 214 stacks are touched by 2 changed files`"""
    stacks: tuple[StackReport, ...]
    troubles: tuple[Trouble, ...] = ()
    """What kept the whole change from being done: then there are no stacks."""
    findings: tuple[Trouble, ...] = ()
    """Errors that the checks found, and that the guard did not speak of already."""
    warnings: tuple[Trouble, ...] = ()
    """What only plans showed, and is no error: nobody finds it again in the code."""
    found: str = ""
    """All that they found in a few words: `2 errors, 5 warnings`."""

    @property
    def ordered(self) -> list[StackReport]:
        """The gravest first; among equals those that lose something, then by name."""
        return sorted(self.stacks, key=lambda one: (gravity(one.status), not one.risks, one.name))

    @property
    def statuses(self) -> Counter[str]:
        return Counter(one.status for one in self.stacks)

    @property
    def totals(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for one in self.stacks:
            total.update(one.counts)
        return {name: total[name] for name, _, _ in _COUNTED}


def gravity(status: str) -> int:
    """A status that is not known counts as the gravest."""
    return GRAVE_FIRST.index(status) if status in GRAVE_FIRST else -1


def counts_text(counts: Mapping[str, int]) -> str:
    """`1 delete, 2 replacements, 4 new`: what loses something first."""
    return ", ".join(
        f"{counts[name]} {one if counts[name] == 1 else many}"
        for name, one, many in _COUNTED
        if counts.get(name)
    )
