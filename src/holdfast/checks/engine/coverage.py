"""What each rule evaluated and found, and what it could not evaluate."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped
from holdfast.checks.model.report import NotEvaluated
from holdfast.checks.model.subjects import CheckedStack
from holdfast.checks.secrets.evidence import is_made_up


class Evaluation(Struct, frozen=True, kw_only=True):
    """A rule and what it was evaluated on."""

    rule: Rule
    files: tuple[str, ...] = ()
    stacks: tuple[CheckedStack, ...] = ()
    """The stacks that it concerns: their environments determine the severity."""
    single_stack: bool = False
    """It was about a single stack."""
    whole_repository: bool = False
    """It was about the whole repository, whatever was selected."""
    is_history: bool = False
    """It was about the Git history, not the current files."""
    unused: bool = False
    """It was about a building block, or a variables file, that no stack uses."""

    @property
    def stack(self) -> str | None:
        return self.stacks[0].name if len(self.stacks) == 1 else None


class Coverage:
    def __init__(self) -> None:
        self.findings: list[tuple[Evaluation, Finding]] = []
        self.skipped: dict[NotEvaluated, None] = {}
        self.crashes: list[tuple[Evaluation, str]] = []
        self.unfinished: list[tuple[Evaluation, str]] = []
        """Rules that ran into a limit, where this counts as an error."""
        self._files: dict[str, set[str]] = {}
        self._skipped_files: dict[str, set[str]] = {}
        self._partly_evaluated: set[str] = set()
        self._skipped_history: set[str] = set()

    def record_evaluated(self, evaluation: Evaluation, extra_files: Iterable[str] = ()) -> None:
        """Records what it was evaluated on, and extra files."""
        self._files.setdefault(evaluation.rule.id, set()).update(evaluation.files, extra_files)

    def add(self, evaluation: Evaluation, result: CheckResult) -> None:
        match result:
            case Finding():
                rule, file = evaluation.rule, result.place.file if result.place is not None else ""
                unused = evaluation.unused or not evaluation.stacks
                is_note = (evaluation.unused and not rule.everywhere) or (
                    # Terraform loads the code of a stack, whatever its name says.
                    rule.secret and unused and is_made_up(file)
                )
                finding = replace(result, severity=Severity.NOTE) if is_note else result
                self.findings.append((evaluation, finding))
            case Skipped():
                stack = result.stack or (evaluation.stack if evaluation.single_stack else None)
                skip = NotEvaluated(
                    rule=evaluation.rule.id,
                    reason=result.reason,
                    file=result.file,
                    stack=stack,
                    expected=result.expected,
                )
                self.skipped[skip] = None
                self._record_skip(evaluation, result.file)

    def record_left_out(self, rule: Rule) -> None:
        """The caller did not request all of the rule's targets."""
        self._partly_evaluated.add(rule.id)

    def record_crash(self, evaluation: Evaluation, how: str) -> None:
        self.crashes.append((evaluation, how))
        self._record_skip(evaluation, None)

    def record_unfinished(self, evaluation: Evaluation, reason: str, *, failed: bool) -> None:
        """Nothing of the subject counts as evaluated. `failed`: it counts as an error, too."""
        self.add(evaluation, Skipped(reason=reason))
        if failed:
            self.unfinished.append((evaluation, reason))

    def _record_skip(self, evaluation: Evaluation, file: str | None) -> None:
        self._partly_evaluated.add(evaluation.rule.id)
        if evaluation.is_history and file is None:
            self._skipped_history.add(evaluation.rule.id)
        self._skipped_files.setdefault(evaluation.rule.id, set()).update(
            (file,) if file else evaluation.files
        )

    def is_evaluated(self, rule: str, file: str) -> bool:
        """Whether the rule was evaluated on the whole file."""
        return file in self._files.get(rule, ()) and file not in self._skipped_files.get(rule, ())

    def is_history_evaluated(self, rule: str) -> bool:
        """Whether it was evaluated on the history, if it has that target."""
        return rule not in self._skipped_history

    def files_of(self, rule: str) -> frozenset[str]:
        return frozenset(self._files.get(rule, ()))

    def is_fully_evaluated(self, rule: str) -> bool:
        """Whether it was evaluated on everything that it should be."""
        return rule in self._files and rule not in self._partly_evaluated
