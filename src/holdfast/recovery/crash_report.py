"""What an interrupted run left (claim, journal, states), what they prove, and the message about it."""

from __future__ import annotations

from holdfast.kernel.errors import HoldfastError, UnknownOutcome
from holdfast.kernel.patterns import pattern
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import ChangeContext
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir, open_workdir, state_without_terraform
from holdfast.recovery.change_outcome import ChangeOutcome, OutcomeKind
from holdfast.recovery.evidence import Evidence, compare
from holdfast.runs.claims import Claim, HolderLiveness, holder_liveness
from holdfast.runs.intent import PlanIntent, moved_text
from holdfast.runs.outcome import UnknownRun, was_forced
from holdfast.stacks.stack import Stack
from holdfast.store.journal import Journal
from holdfast.store.run_store import RunStore
from holdfast.terraform.engine.interface import Product
from holdfast.terraform.statefile.model import Contents, State, read_contents, read_state


class CrashReport(MaskedStruct, frozen=True, kw_only=True):
    claim: Claim
    journal: Journal
    holder: HolderLiveness
    intent: PlanIntent
    evidence: Evidence
    state: bytes | None
    """The current state. None: there is none, or it could not be read (`evidence.unseen`)."""
    before: bytes | None
    unsaved: bool
    """Terraform left a state that it could not save."""


def require_plan_intent(claim: Claim) -> PlanIntent:
    if claim.intent.plan is None:
        raise UnknownOutcome(
            "HF-REC-1",
            f"{claim.stack}: run {claim.run} did not record its planned changes",
            hint=f"Compare the state (holdfast state show {claim.stack}) with the real resources.",
        )
    return claim.intent.plan


async def inspect(context: ChangeContext, stack: Stack, claim: Claim, journal: Journal) -> CrashReport:
    """Read-only. A state that cannot be read is part of the report."""
    try:
        async with open_workdir(context, stack, for_state=True) as workdir:
            content = _newer(context.store.errored(stack.name), await state_now(context, workdir))
            seen = read_contents(content)
    except HoldfastError as error:
        content = None
        seen = Contents(
            lineage=None, serial=None, unseen=f"the state cannot be read: {error.problem.message}"
        )
    return collect(context.store, claim, journal, content, seen)


def _newer(unsaved: bytes | None, saved: bytes | None) -> bytes | None:
    """An unsaved state is the newest one, unless the saved one has caught up."""
    if unsaved is None:
        return saved
    kept, there = read_state(unsaved), read_state(saved or b"")
    if not isinstance(kept, State):
        return saved
    if not isinstance(there, State) or (there.managed == 0 and not kept.lineage):
        return unsaved
    return saved if there.lineage != kept.lineage or there.serial >= kept.serial else unsaved


def collect(
    store: RunStore, claim: Claim, journal: Journal, content: bytes | None, seen: Contents | None = None
) -> CrashReport:
    intent = require_plan_intent(claim)
    before = state_before(store, claim, intent)
    seen = seen if seen is not None else read_contents(content)
    return CrashReport(
        claim=claim,
        journal=journal,
        holder=holder_liveness(store, claim, journal),
        intent=intent,
        evidence=compare(
            intent,
            journal.lines,
            seen,
            read_contents(before) if before is not None else None,
            forced=was_forced(journal),
        ),
        state=content,
        before=before,
        unsaved=store.errored(claim.stack) is not None,
    )


async def state_now(context: ChangeContext, workdir: StackWorkdir) -> bytes | None:
    """None if there is no state; empty bytes if its file is empty."""
    if workdir.home.managed or workdir.home.file is not None:
        content = state_without_terraform(context.store, workdir)
        there = workdir.home.file is not None and workdir.home.file.exists()
        return content if content or there else None
    terraform = Terraform(context, workdir)
    await terraform.init()
    return await terraform.state_pull() or None


def state_before(store: RunStore, claim: Claim, intent: PlanIntent) -> bytes | None:
    """The state that was planned against, from the backup taken before the apply."""
    if intent.backup is not None:
        version = store.states.version(claim.stack, int(intent.backup))
        return version.state if version is not None else None
    backup = store.backups.read(claim.stack, claim.run)
    return backup.state if backup is not None else None


_MOST = 12
_FRACTION = pattern(r"(\d\d:\d\d:\d\d)\.\d+")


async def explain_unknown_run(context: ChangeContext, error: UnknownRun) -> UnknownOutcome:
    """The error of an interrupted run, with everything that is known of it."""
    claim = error.claim
    if (move := claim.intent.move) is not None:
        text = (
            f"It was to move resources from {move.source} to {move.destination}; they may be in both states"
        )
        return _with_lines(error, [started(claim), f"{text}: {moved_text(move.moved)}."])
    try:
        report = await inspect(context, error.stack, claim, error.journal)
    except HoldfastError as failure:
        lines = [started(claim), f"Its plan and journal cannot be read: {failure.problem.message}"]
    else:
        lines = [started(claim, report), *known(report)]
    return _with_lines(error, lines)


def _with_lines(error: UnknownRun, lines: list[str]) -> UnknownOutcome:
    return UnknownOutcome(
        error.problem.code, "\n   ".join((error.problem.message, *lines)), hint=error.problem.hint
    )


def _short(text: str) -> str:
    """Times to the second."""
    return _FRACTION.sub(r"\1", text)


def started(claim: Claim, report: CrashReport | None = None) -> str:
    text = f"Run {claim.run}, started {claim.intent.started} by {claim.intent.who}"
    if report is None:
        return _short(f"{text}.")
    times = (("output", report.evidence.last_output), ("heartbeat", report.holder.heartbeat))
    return _short("".join((text, *(f", last {what} {at}" for what, at in times if at), ".")))


def known(report: CrashReport) -> list[str]:
    evidence = report.evidence
    product = Product(report.intent.engine.get("product") or Product.TERRAFORM).shown
    lines = [f"{product} {_end(report)}."]
    if evidence.unseen is not None:
        lines.append(f"{evidence.unseen[:1].upper()}{evidence.unseen[1:]}.")
    lines.append(
        f"Recorded in the state: {evidence.recorded} of {evidence.planned}.  "
        f"Created and not recorded: {len(evidence.not_recorded)}.  "
        f"Started, outcome unknown: {len(evidence.end_unknown)}."
    )
    shown = [*map(_created_line, evidence.not_recorded), *map(_unknown_line, evidence.end_unknown)]
    lines += [f"  {line}" for line in shown[:_MOST]]
    if len(shown) > _MOST:
        lines.append(f"  and {len(shown) - _MOST} more: holdfast runs show {report.claim.run}")
    if report.unsaved:
        lines.append(f"{product} could not save the state; Holdfast has stored it, encrypted.")
    return [_short(line) for line in lines]


def _end(report: CrashReport) -> str:
    ended = report.journal.ended
    if ended is None:
        return "exited without an exit record"
    code = ended.get("code")
    if isinstance(code, int) and code < 0:
        return f"was killed by signal {-code} at {ended.get('at')}"
    if was_forced(report.journal):
        return f"was stopped without waiting for changes in progress, at {ended.get('at')}"
    return f"exited with code {code} at {ended.get('at')}"


def _created_line(outcome: ChangeOutcome) -> str:
    what = "created" if outcome.kind is OutcomeKind.CREATED_NOT_RECORDED else "replaced"
    return f"{outcome.address}   {outcome.id or 'id unknown'}   {_at(what, outcome)}, not in the state"


def _unknown_line(outcome: ChangeOutcome) -> str:
    if outcome.kind is OutcomeKind.FAILED_MAY_EXIST:
        return f"{outcome.address}   {_at('failed', outcome)}, may exist anyway"
    return f"{outcome.address}   {_at('started', outcome)}, no output since"


def _at(what: str, outcome: ChangeOutcome) -> str:
    return f"{what} {outcome.at}" if outcome.at else what
