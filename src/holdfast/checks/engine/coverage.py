"""What each rule evaluated and found, and what it could not evaluate."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Skipped
from holdfast.checks.model.report import Unseen
from holdfast.checks.model.subjects import CheckedStack


class Asked(Struct, frozen=True, kw_only=True):
    """A rule and what it was evaluated on."""

    rule: Rule
    files: tuple[str, ...] = ()
    stacks: tuple[CheckedStack, ...] = ()
    """The stacks that it concerns: their environments determine the severity."""
    one: bool = False
    """It was about a single stack."""
    whole: bool = False
    """It was about the whole repository, whatever was selected."""
    past: bool = False
    """It was about the Git history, not the current files."""

    @property
    def stack(self) -> str | None:
        return self.stacks[0].name if len(self.stacks) == 1 else None


class Coverage:
    def __init__(self) -> None:
        self.found: list[tuple[Asked, Finding]] = []
        self.skipped: dict[Unseen, None] = {}
        self.broken: list[tuple[Asked, str]] = []
        self._files: dict[str, set[str]] = {}
        self._unseen_files: dict[str, set[str]] = {}
        self._skipping: set[str] = set()
        self._unseen_past: set[str] = set()

    def record_evaluated(self, asked: Asked, beside: Iterable[str] = ()) -> None:
        """Records what it was evaluated on, and extra files."""
        self._files.setdefault(asked.rule.id, set()).update(asked.files, beside)

    def add(self, asked: Asked, answer: CheckResult) -> None:
        match answer:
            case Finding():
                self.found.append((asked, answer))
            case Skipped():
                stack = answer.stack or (asked.stack if asked.one else None)
                unseen = Unseen(rule=asked.rule.id, reason=answer.reason, file=answer.file, stack=stack)
                self.skipped[unseen] = None
                self._could_not(asked, answer.file)

    def record_left_out(self, rule: Rule) -> None:
        """The caller did not request all of the rule's targets."""
        self._skipping.add(rule.id)

    def record_crash(self, asked: Asked, how: str) -> None:
        self.broken.append((asked, how))
        self._could_not(asked, None)

    def _could_not(self, asked: Asked, file: str | None) -> None:
        self._skipping.add(asked.rule.id)
        if asked.past and file is None:
            self._unseen_past.add(asked.rule.id)
        self._unseen_files.setdefault(asked.rule.id, set()).update((file,) if file else asked.files)

    def is_evaluated(self, rule: str, file: str) -> bool:
        """Whether the rule was evaluated on the whole file."""
        return file in self._files.get(rule, ()) and file not in self._unseen_files.get(rule, ())

    def is_history_evaluated(self, rule: str) -> bool:
        """Whether it was evaluated on the history, if it has that target."""
        return rule not in self._unseen_past

    def files_of(self, rule: str) -> frozenset[str]:
        return frozenset(self._files.get(rule, ()))

    def is_fully_evaluated(self, rule: str) -> bool:
        """Whether it was evaluated on everything that it should be."""
        return rule in self._files and rule not in self._skipping
