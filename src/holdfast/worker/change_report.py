"""What a worker stores about a whole change: findings of the checks and, for a pull request, its report.

A change can be run in several passes: plans that were approved are applied later. What an earlier pass said
about other stacks stays.
"""

from __future__ import annotations

from holdfast.changes.readers import unselected_readers
from holdfast.changes.removed_stacks import inspect_removed
from holdfast.changes.report import change_report
from holdfast.checks.model.report import Report, redact_report
from holdfast.kernel.server_hints import on_server
from holdfast.notify.report import ChangeReport, with_earlier_stacks
from holdfast.plans.context import ChangeContext
from holdfast.plans.policies import with_unchecked_policies
from holdfast.plans.result import StackResult, result_on_server
from holdfast.review.plan_checks import PlanChecks
from holdfast.runs.checks_document import checks_document, with_earlier_findings
from holdfast.store.server_runs.rows import Change
from holdfast.worker.run_contents import RunContents
from holdfast.worker.selected_stacks import SelectedStacks

Results = tuple[StackResult, ...]


class ChangeReporter:
    def __init__(self, contents: RunContents) -> None:
        self._contents = contents
        self._checks: PlanChecks | None = None

    def take_checks(self, checks: PlanChecks) -> None:
        self._checks = checks

    async def save(
        self, change: Change, selected: SelectedStacks, context: ChangeContext, results: Results
    ) -> None:
        """Masked. Only who follows a pull request reads the report, so others have none."""
        checked = await self._findings(selected, context)
        if checked is not None:
            self._save_checks(change, checked, results)
        if change.requester.kind == "webhook":
            removed = await inspect_removed(context, selected.selection.removed) if selected.selection else ()
            results = tuple(map(result_on_server, (*results, *(stack.result() for stack in removed))))
            report = _report(change, selected, context, results, checked)
            before = self._contents.read_report(change.id)
            self._contents.save_report(change.id, with_earlier_stacks(report, before))

    async def _findings(self, selected: SelectedStacks, context: ChangeContext) -> Report | None:
        """None: nothing was checked, or the checks were stopped."""
        if self._checks is None or context.control.stop.level:
            return None
        unchecked = selected.selection.unchecked if selected.selection is not None else None
        report = with_unchecked_policies(await self._checks.report(), unchecked)
        return redact_report(report, context.redactor.clean)

    def _save_checks(self, change: Change, checked: Report, results: Results) -> None:
        document = checks_document(checked, results)
        names = frozenset(result.stack.name for result in results)
        before = self._contents.read_checks(change.id)
        self._contents.save_checks(change.id, with_earlier_findings(document, before, names))


def _report(
    change: Change,
    selected: SelectedStacks,
    context: ChangeContext,
    results: Results,
    checked: Report | None,
) -> ChangeReport:
    selection = selected.selection
    told = (selection.headline(), selection.unchecked) if selection is not None else ()
    return change_report(
        results,
        operation=change.operation.value,
        headline="; ".join(filter(None, (*told, on_server(unselected_readers(results) or "")))),
        clean=context.redactor.clean,
        clean_field=context.redactor.clean_field,
        checked=checked,
        weakened=context.project.weakened,
        on_server=True,
    )
