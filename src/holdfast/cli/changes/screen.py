"""What a change shows: the plans before the question, the results at the end, and nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from holdfast.changes.readers import unselected_readers
from holdfast.checks.model.report import Report, ReportedFinding
from holdfast.cli.command import Invocation
from holdfast.cli.views.change import show_details, show_footer, show_table
from holdfast.cli.views.checks import show_checks
from holdfast.kernel.server_hints import on_server
from holdfast.plans.result import StackResult, awaiting_approval
from holdfast.plans.status import Status
from holdfast.runs.checks_document import repeated_by_guard
from holdfast.runs.document import change_document
from holdfast.system import clock
from holdfast.terraform.workdirs.gc import GcResult
from holdfast.terraform.workdirs.gc_policy import format_size

if TYPE_CHECKING:  # Loaded where there is a pull request.
    from holdfast.cli.views.pull_request import Fold

Results = tuple[StackResult, ...]


class ChangeScreen:
    def __init__(self, invocation: Invocation) -> None:
        self.invocation = invocation
        self.console = invocation.console
        self.findings: Report | None = None
        self.full = False
        self.from_plan = False
        """`holdfast plan` without options."""
        self.destroys: frozenset[str] = frozenset()
        """Names of the stacks that are destroyed."""
        self.server: str | None = None
        """The option that commands in hints need."""
        self.change: str | None = None
        self.left: tuple[str, ...] = ()
        """What an apply left of the change: it can be continued."""
        self.planned_later = 0
        self._started = clock.monotonic()
        self._shown_findings: set[ReportedFinding] = set()
        self._shown_notes: dict[str, tuple[str, ...]] = {}

    def take_findings(self, report: Report) -> None:
        """From a document, in which findings are marked that the guard repeats."""
        self.findings = report
        if not self.invocation.verbose:
            self._shown_findings |= repeated_by_guard(report)

    def show_plan(self, result: StackResult) -> None:
        """The plan of a stack that is applied without a question."""
        if not self.invocation.as_json and not self.console.quiet:
            show_details(self.console, (result,), verbose=self.invocation.verbose)
            self.console.line("")
            self._shown_notes[result.stack.name] = result.notes

    def show_before_question(self, results: Results) -> None:
        self._show_plans(results)
        self._shown_notes |= {result.stack.name: result.notes for result in results}

    def _show_plans(self, results: Results, fold: Fold | None = None) -> None:
        verbose = self.invocation.verbose
        show_table(self.console, results, destroys=self.destroys)
        show_details(
            self.console, results, verbose=verbose, full=self.full, from_plan=self.from_plan, fold=fold
        )
        if self.findings is not None:
            show_checks(self.console, self.findings, results, verbose=verbose, shown=self._shown_findings)

    def _without_shown_notes(self, result: StackResult) -> StackResult:
        shown = self._shown_notes.get(result.stack.name, ())
        return structs.replace(result, notes=tuple(note for note in result.notes if note not in shown))

    def show(
        self,
        results: Results,
        *,
        weakened: tuple[str, ...],
        cleaned: GcResult | None,
        fold: Fold | None = None,
    ) -> None:
        """The results; `weakened` are rules that the change weakens, `cleaned` is what was removed."""
        if self.invocation.as_json:
            document = change_document(
                *(results, self.findings),
                weakened=weakened,
                change=self.change,
                left=self.left,
                planned_later=self.planned_later,
            )
            self.invocation.document(document)
            return
        self._show_plans(tuple(map(self._without_shown_notes, results)), fold)
        # What needs an approval is not continued: it is planned with --out, approved and applied.
        left = frozenset(self.left) - awaiting_approval(results)
        show_footer(
            *(self.console, results, clock.monotonic() - self._started),
            destroys=self.destroys,
            left=f"holdfast apply --continue {self.change}" if left else None,
            later=self.planned_later,
        )
        if (unselected := unselected_readers(results)) is not None:
            shown = unselected if self.server is None else on_server(unselected, self.server)
            self.console.line(f" {shown}")
        if cleaned is not None and cleaned.freed:
            freed, used = format_size(cleaned.freed), format_size(cleaned.used)
            self.console.say((f" Removed {freed} of old work directories; {used} remain.", "dim"))

    def show_saved(self, results: Results, out: Path) -> None:
        """Where the bundle is, and how to approve and apply it."""
        if self.invocation.as_json:
            return
        ready = any(result.status in {Status.PLANNED, Status.UNCHANGED} for result in results)
        self.console.say(
            f" Saved to {out}." + (f" Apply it with: holdfast apply --plan {out}" if ready else "")
        )
        if sum(result.status is Status.WAITING for result in results) > 1:
            self.console.say(f" Approve all: holdfast runs approve --bundle {out} --reason TEXT")
        if sum(result.status is Status.REFUSED and result.saved for result in results) > 1:
            self.console.say(f" The id of the change overrides all refused plans: {self.change}")
