"""The ledger of one check: which rule looked where, what it answered, where it could not look."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Skipped
from holdfast.checks.model.report import Unseen
from holdfast.checks.model.subjects import CheckedStack


class Asked(Struct, frozen=True, kw_only=True):
    """A rule and what it was asked about."""

    rule: Rule
    files: tuple[str, ...] = ()
    stacks: tuple[CheckedStack, ...] = ()
    """Those that the subject belongs to: their environments decide how grave its findings are."""
    one: bool = False
    """It was about one stack alone."""
    whole: bool = False
    """It was about the repository as a whole, whatever was selected."""
    past: bool = False
    """It was about the history: lines and files of now are not what it speaks of."""

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
        """At what it was asked about, and at files beside that."""
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
        """It was not asked about everything that it can look at, as somebody wished."""
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
        """Whether the rule looked at all of a file."""
        return file in self._files.get(rule, ()) and file not in self._unseen_files.get(rule, ())

    def is_history_evaluated(self, rule: str) -> bool:
        """Whether it looked at the history, if it ever does."""
        return rule not in self._unseen_past

    def files_of(self, rule: str) -> frozenset[str]:
        return frozenset(self._files.get(rule, ()))

    def is_fully_evaluated(self, rule: str) -> bool:
        """Whether it looked at everything that it should have looked at."""
        return rule in self._files and rule not in self._skipping
