"""`holdfast runs reconcile`: resolve an interrupted run whose outcome is unknown."""

from __future__ import annotations

import re
import sys

from holdfast.changes.reconciliation import reconcile_run
from holdfast.cli.command import Invocation, fields
from holdfast.cli.confirmation import confirm
from holdfast.cli.context import CommandContext
from holdfast.cli.parameters import wait_from
from holdfast.cli.views.change import show_details, show_table
from holdfast.cli.views.progress import Progress
from holdfast.kernel.errors import Exit, UsageError
from holdfast.plans.context import ChangeContext
from holdfast.plans.result import StackResult, exit_code
from holdfast.plans.status import Status
from holdfast.recovery.crash_report import known, started
from holdfast.recovery.import_plan import updated_imports
from holdfast.recovery.reconcile import Proposal, Reconciled, Request
from holdfast.runs import lanes
from holdfast.runs.claims import Claim, all_claims
from holdfast.runs.document import result_document
from holdfast.runs.run import read_run
from holdfast.stacks.stack import Stack

_ADDRESS_AND_ID = re.compile(
    r"""(?P<address>(?:[^\s=\[\]"]|\[(?:[0-9]+|"(?:[^"\\]|\\.)*")\])+)=(?P<id>.+)""", re.DOTALL
)
"""A key in an address may contain anything, also `=` and brackets."""


def run_reconcile(
    invocation: Invocation,
    run: str,
    *,
    yes: bool,
    imported: list[str],
    recreate: list[str],
    holder_dead: bool,
    reason: str | None,
) -> Exit:
    request = reconcile_request(imported, recreate, holder_dead=holder_dead, reason=reason)
    context = CommandContext(invocation, wait=wait_from(None, ci=invocation.environment.ci))
    claim = _claim(context, run)
    if reason and not holder_dead and claim is not None:
        raise _reason_alone()
    if claim is not None:
        _require_answer(run, yes=yes)
        return _Reconcile(invocation, context, yes=yes).run(claim, request)
    if reason and holder_dead and (freed := _free_lanes(context, run, reason)) is not None:
        change, names = freed
        document = {"version": 1, "change": change, "lanes": list(names)}
        return invocation.answer(document, f" Change {change} is closed; released lanes: {', '.join(names)}")
    return _show_resolved(invocation, context, run)


def reconcile_request(
    imported: list[str], recreate: list[str], *, holder_dead: bool, reason: str | None
) -> Request:
    """What the options decide."""
    if holder_dead and not reason:
        raise _reason_alone()
    imports = _imports(imported)
    if both := sorted(imports.keys() & set(recreate)):
        raise UsageError(
            "HF-USE-15",
            f"{', '.join(both)}: --import and --recreate exclude each other",
            hint="Import what exists; recreate only what does not.",
        )
    declared = reason if holder_dead else None
    return Request(imports=imports, recreate=frozenset(recreate), declared=declared)


def _reason_alone() -> UsageError:
    return UsageError(
        "HF-USE-13",
        "--holder-dead and --reason must be used together",
        hint='Give the reason too: --holder-dead --reason "the runner was shut down"',
    )


def _require_answer(run: str, *, yes: bool) -> None:
    if not yes and not sys.stdin.isatty():
        raise UsageError(
            "HF-USE-14",
            "cannot ask for confirmation without a terminal",
            hint=f"Show the run: holdfast runs show {run}. Then add --yes.",
        )


def _imports(texts: list[str]) -> dict[str, str]:
    imports: dict[str, str] = {}
    for text in texts:
        match = _ADDRESS_AND_ID.fullmatch(text.strip())
        if match is None or match["address"] in imports:
            raise UsageError(
                "HF-USE-15",
                f"--import {text}: {'not ADDR=ID' if match is None else 'this address is given twice'}",
                hint="Write it as aws_eip.b=eipalloc-0123",
            )
        imports[match["address"]] = match["id"]
    return imports


def _claim(context: CommandContext, run: str) -> Claim | None:
    claims = [claim for claim in all_claims(context.repository.store) if claim.run.startswith(run.upper())]
    if len(claims) > 1:
        raise _ambiguous(run, "runs")
    return claims[0] if claims else None


def _ambiguous(prefix: str, what: str) -> UsageError:
    return UsageError("HF-RUN-21", f"{prefix} matches several {what}", hint="Give more characters of the id.")


def _free_lanes(context: CommandContext, prefix: str, reason: str) -> tuple[str, tuple[str, ...]] | None:
    """A change that died before its first run or after its last holds only lanes. None if there are none."""

    async def work(change_context: ChangeContext) -> tuple[str, tuple[str, ...]] | None:
        holders = {
            holder
            for holder in lanes.holders(change_context.store).values()
            if holder.startswith(prefix.upper())
        }
        if len(holders) > 1:
            raise _ambiguous(prefix, "changes")
        for change in holders:
            store, identity = change_context.store, change_context.identity
            return change, lanes.declare_dead(store, identity, change, reason)
        return None

    return context.run(work)


def _show_resolved(invocation: Invocation, context: CommandContext, run: str) -> Exit:
    store = context.repository.store
    ids = [id_ for id_ in store.runs.ids() if id_.startswith(run.upper())]
    recorded = read_run(store, ids[0]) if len(ids) == 1 else None
    if recorded is None:
        raise UsageError("HF-RUN-20", f"there is no run {run}", hint="List the runs: holdfast runs list")
    return invocation.answer(
        {"version": 1, "run": recorded.id, "stack": recorded.stack, "status": recorded.status.value},
        f" Nothing to reconcile: run {recorded.id} of {recorded.stack} has ended ({recorded.status})",
    )


class _Reconcile:
    def __init__(self, invocation: Invocation, context: CommandContext, *, yes: bool) -> None:
        self._invocation = invocation
        self._console = invocation.console
        self._context = context
        self._yes = yes

    def run(self, claim: Claim, request: Request) -> Exit:
        if claim.stack not in self._context.repository.by_name:
            raise UsageError(
                "HF-REC-12",
                f"run {claim.run} belongs to {claim.stack}, which is not in the repository any more",
                hint="Check out a commit that still has it and repeat the command. If the stack was renamed, "
                f"then run: holdfast state rename {claim.stack} NEW",
            )
        stack = self._context.repository.stack(claim.stack)
        with Progress(self._console) as progress:
            self._progress = progress
            done, rest = self._context.run(
                lambda change_context: self._reconcile(change_context, stack, claim, request),
                tell=progress.handle,
            )
        exit_ = self._show_outcome(done, rest)
        repository = self._context.repository
        if done.settled and repository.config.notify.routes:
            from holdfast.cli.notifications import notify_reconciled

            notify_reconciled(self._invocation, repository, stack, rest)
        return exit_

    async def _reconcile(
        self, change_context: ChangeContext, stack: Stack, claim: Claim, request: Request
    ) -> tuple[Reconciled, StackResult | None]:
        self._change_context = change_context
        return await reconcile_run(
            change_context,
            stack,
            claim,
            request,
            show=self._show,
            ask=None if self._yes else self._confirm,
            ask_rest=None if self._yes else self._ask_rest,
        )

    async def _confirm(self, proposal: Proposal) -> bool:
        question = "Import these into the state?" if proposal.resolution.imports else "Close the run?"
        if proposal.undecided:
            question = (
                f"{question[:-1]}, and let the next apply create {', '.join(proposal.undecided)} again?"
            )
        return await self._ask(question)

    async def _ask_rest(self, result: StackResult) -> bool:
        show_table(self._console, (result,))
        show_details(self._console, (result,), verbose=self._invocation.verbose)
        return await self._ask("Apply the remaining changes?")

    async def _ask(self, question: str) -> bool:
        with self._progress.paused():
            return await confirm(self._console, self._change_context, question)

    def _show(self, proposal: Proposal) -> None:
        console, claim = self._console, proposal.report.claim
        console.say(f" {claim.stack}: the last {claim.intent.operation} was interrupted")
        for line in (started(claim, proposal.report), *known(proposal.report)):
            console.say(f"   {line}")
        for imported in proposal.resolution.imports:
            console.say(("   + ", "green"), f"{imported.address}   import {imported.id}")
            for record in imported.conflict.put_back:
                console.say(f"       the old instance of {record.address} is restored as deposed")
        for other in proposal.resolution.unresolved:
            mark = ("   · ", "dim") if other.harmless else ("   ? ", "yellow")
            console.say(mark, f"{other.address}   {other.reason}")
        if proposal.undecided:
            console.say("   If one of these exists, import it: --import ADDR=ID. If not: --recreate ADDR")
        if proposal.plan is not None and (updates := updated_imports(proposal.plan)):
            console.say(f"   The import also updates {', '.join(updates)} in place:")
            shown = StackResult(stack=proposal.stack, status=Status.PLANNED, plan=proposal.plan)
            show_details(console, (shown,), verbose=self._invocation.verbose)

    def _show_outcome(self, done: Reconciled, rest: StackResult | None) -> Exit:
        if self._invocation.as_json:
            self._invocation.document(document(done, rest))
        else:
            for note in done.notes:
                self._console.say(f"   {note}")
            if rest is not None:
                show_table(self._console, (rest,))
                show_details(self._console, (rest,), verbose=self._invocation.verbose)
            self._console.line(
                f" Run {done.claim.run} is resolved." if done.settled else " Nothing was changed."
            )
        if rest is None:
            return Exit.DONE if done.settled else Exit.UNKNOWN
        return exit_code((rest,))


def document(done: Reconciled, rest: StackResult | None) -> dict[str, object]:
    resolution = done.resolution
    evidence = done.report.evidence if done.report is not None else None
    return {
        "version": 1,
        "run": done.claim.run,
        "stack": done.claim.stack,
        "status": rest.status.value if rest is not None else "failed" if done.settled else "unknown",
        "resolved": done.settled,
        "recorded": evidence.recorded if evidence is not None else None,
        "planned": evidence.planned if evidence is not None else None,
        "imported": [
            fields(imported, "address", "id", "given")
            for imported in (resolution.imports if resolution is not None else ())
        ],
        "unresolved": [
            {**fields(other, "address", "reason", "created"), "safe_to_recreate": other.harmless}
            for other in (resolution.unresolved if resolution is not None else ())
        ],
        "updated": list(done.updated),
        "restored": list(done.put_back),
        "notes": list(done.notes),
        "remaining": result_document(rest) if rest is not None else None,
    }
