"""What each rule evaluated and found, and what it could not evaluate."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.checks.model.globs import is_retired, is_sample
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
    def sample(self) -> bool:
        """Whether it was about an example, a test, a template or a sandbox, and no clear production."""
        file = self.files[0] if self.files and not self.whole_repository else ""
        folder = self.stacks[0].stack.module if self.single_stack else file.rpartition("/")[0]
        return is_sample(folder) and all(
            stack.stack.environment_unclear or not stack.stack.production for stack in self.stacks
        )

    @property
    def stack(self) -> str | None:
        return self.stacks[0].name if len(self.stacks) == 1 else None


def _is_leaked(rule: Rule, severity: Severity) -> bool:
    """Whoever reads the repository has it, also where the code is not in use any more."""
    return rule.secret and severity is Severity.ERROR


def _severity_in_use(evaluation: Evaluation, finding: Finding, *, planned: bool) -> Severity:
    """An error needs code in use: what is only written, and may never be applied, is rated lower.

    A secret counts wherever it is, except in made-up content that no stack uses.
    """
    rule, severity = evaluation.rule, finding.severity or evaluation.rule.severity
    file = finding.place.file if finding.place is not None else ""
    retired = is_retired(file) and not planned
    if (evaluation.unused and not rule.everywhere) or (retired and not _is_leaked(rule, severity)):
        return Severity.NOTE
    if rule.secret:
        made_up = (evaluation.unused or not evaluation.stacks) and is_made_up(file)
        return Severity.NOTE if made_up else severity
    if evaluation.unused or (evaluation.sample and not planned):
        return severity.milder
    # A root module without a stack: what runs it may add to the code.
    held_back = evaluation.files and not evaluation.stacks and not evaluation.whole_repository
    return Severity.WARNING if held_back and not rule.everywhere and severity is Severity.ERROR else severity


class Coverage:
    def __init__(self, *, planned: bool = False) -> None:
        self._planned = planned
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
                severity = _severity_in_use(evaluation, result, planned=self._planned)
                self.findings.append((evaluation, replace(result, severity=severity)))
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
