"""Runs as the run store has them: what they did, how they ended, what Terraform wrote. Reads only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from msgspec import structs

from holdfast.kernel.errors import Refused, UsageError
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import ChangeContext
from holdfast.plans.status import Status
from holdfast.plans.workdir import HookRun
from holdfast.runs.claims import Claim, holder_liveness, is_working, readable_claims
from holdfast.runs.intent import Intent
from holdfast.runs.outcome import outcome_from_journal
from holdfast.runs.record import register_run_secrets
from holdfast.runs.run import Run, read_run, run_from_claim
from holdfast.store.approvals import ApprovalKind
from holdfast.store.journal import Journal
from holdfast.store.run_records import IMPORTS_FOR
from holdfast.store.run_store import RunStore

_DECIDED = {
    ApprovalKind.APPROVAL: "approved",
    ApprovalKind.REJECTION: "rejected",
    ApprovalKind.OVERRIDE: "overridden",
}
_ENDED = ("code", "at", "unsaved", "forced")
_APPLICABLE = frozenset({Status.PLANNED, Status.WAITING, Status.REFUSED})


class RunDetails(MaskedStruct, frozen=True, kw_only=True):
    run: Run
    intent: Intent | None
    """What it was about to do, until its outcome is known."""
    journal: Journal

    def document(self) -> dict[str, object]:
        run = self.run
        return {
            **run_document(run),
            "change": run.change,
            "digest": run.digest,
            "engine": run.engine,
            "changes": run.changes,
            "error": structs.asdict(run.error) if run.error is not None else None,
            "notes": list(run.notes) if run.notes is not None else None,
            "hooks": [
                {"when": hook.when, "run": list(hook.run), "code": hook.code, "seconds": hook.seconds}
                for hook in run.hooks or ()
            ],
            "stages": [stage.document() for stage in run.stages] if run.stages is not None else None,
            "gates": [gate.document() for gate in run.gates] if run.gates is not None else None,
            "intent": _intent_document(self.intent),
            "journal": journal_document(self.journal),
        }


def run_document(run: Run) -> dict[str, object]:
    return {
        "id": run.id,
        "stack": run.stack,
        "target": run.target,
        "operation": run.operation,
        "status": None if run.status.is_running else run.status.value,
        "started": run.started,
        "ended": run.ended,
        "who": run.who,
        "change": run.change,
    }


def list_runs(store: RunStore, *, limit: int, stack: str | None = None) -> tuple[Run, ...]:
    """Newest first, at most `limit`; reads no more runs than that needs."""
    claims = readable_claims(store)
    ids = sorted({*store.runs.ids(), *claims}, reverse=True)
    runs: list[Run] = []
    for run_id in ids:
        if len(runs) >= limit:
            break
        run = _read(store, run_id, claims.get(run_id))
        if stack is None or run.stack == stack:
            runs.append(run)
    return tuple(runs)


def run_details(context: ChangeContext, wanted: str) -> RunDetails:
    """Everything known of a run, named by its id or an unambiguous beginning of it."""
    claims = readable_claims(context.store)
    run_id = choose_run({*context.store.runs.ids(), *claims}, wanted)
    claim = claims.get(run_id)
    run = _read(context.store, run_id, claim)
    register_run_secrets(context, run_id, run.stack)
    run = structs.replace(run, notes=(*(run.notes or ()), *_since_planned(context.store, run)))
    return RunDetails(
        run=run,
        intent=claim.intent if claim is not None else None,
        journal=context.store.runs.journal(run_id),
    )


def run_output(context: ChangeContext, wanted: str) -> RunDetails:
    """For those who may see what Terraform printed."""
    if not context.store.shows_output:
        raise Refused(
            "HF-STORE-24",
            "your role may not read what Terraform printed: that may contain secrets",
            hint="Use a token with the role planner, operator or ci: holdfast token create --role planner",
        )
    return run_details(context, wanted)


def _since_planned(store: RunStore, run: Run) -> Iterator[str]:
    """What became of a plan: who decided on it, which run used it, or wrote its state. Ids sort by time."""
    if run.stack is None or run.operation != "plan" or run.status not in _APPLICABLE:
        return
    for given in store.approvals.of(run.digest) if run.digest is not None else ():
        yield f"{_DECIDED[given.kind]} by {given.shown} at {given.at[:16]}: {given.reason}"
    used = store.used(run.digest) if run.digest is not None else None
    record = store.last_seen(run.stack)
    if used is not None:
        yield f"used by run {used.get('run')}: holdfast runs show {used.get('run')}"
    elif record is not None and record.run > run.id:
        yield f"out of date: run {record.run} was applied since; plan again: holdfast plan {run.stack}"


def choose_run(ids: Iterable[str], wanted: str) -> str:
    """The one run whose id begins so."""
    matching = sorted((run for run in ids if wanted and run.startswith(wanted.upper())), reverse=True)
    if len(matching) > 1:
        raise UsageError(
            "HF-RUN-21",
            f"{wanted} matches several runs: {', '.join(matching[:5])}",
            hint="Give more characters of the id.",
        )
    if not matching:
        raise UsageError("HF-RUN-20", f"there is no run {wanted}", hint="List the runs: holdfast runs list")
    return matching[0]


def unrecorded_status(journal: Journal, *, working: bool = False, dead: bool = True) -> Status:
    """The status of a run without a record: what its journal proves, else unknown. Pure."""
    if working:
        return Status.APPLYING
    outcome = outcome_from_journal(journal, dead=dead)
    return outcome[0] if outcome is not None else Status.UNKNOWN


def _read(store: RunStore, run_id: str, claim: Claim | None) -> Run:
    recorded = read_run(store, run_id)
    if recorded is not None:
        return recorded
    journal = store.runs.journal(run_id)
    if claim is not None:
        dead = holder_liveness(store, claim, journal).proved_dead
        dead = dead and store.shows_output  # Without the journal, nothing is known of its end.
        status = unrecorded_status(journal, working=is_working(store, claim), dead=dead)
        if claim.intent.move is not None and status is not Status.APPLYING:
            status = Status.UNKNOWN  # Only the two states tell.
        return structs.replace(run_from_claim(claim), status=status)
    started = journal.started.get("at") if journal.started is not None else None
    times = {Status.APPLYING: started} if isinstance(started, str) else {}
    run = Run(id=run_id, status=unrecorded_status(journal), times=times)
    imports = store.runs.read(run_id, IMPORTS_FOR)
    if imports is None:
        return run
    document = json.loads(imports)
    note = f"the imports that reconcile run {document['run']}"
    known = {name: document[name] for name in ("stack", "who", "change")}
    return structs.replace(run, operation="reconcile", notes=(note,), **known)


def _intent_document(intent: Intent | None) -> dict[str, object] | None:
    """Without the values that resources were to have."""
    if intent is None or intent.plan is None:
        return None
    plan = intent.plan
    return {
        "lineage": plan.lineage,
        "serial": plan.serial,
        "place": plan.place,
        "engine": plan.engine,
        "host": intent.process.host,
        "pid": intent.process.pid,
        "backup": plan.backup,
        "changes": [{"address": change.address, "actions": list(change.actions)} for change in plan.changes],
    }


def journal_document(journal: Journal) -> dict[str, object]:
    """When Terraform started, when it last wrote, and how it exited."""
    ended = journal.ended
    return {
        "started": journal.started.get("at") if journal.started is not None else None,
        "lines": len(journal.lines),
        "last": next((at for line in reversed(journal.lines) if (at := _timestamp(line))), None),
        "ended": {name: ended.get(name) for name in _ENDED} if ended is not None else None,
        "complete": journal.whole,
    }


def log_lines(details: RunDetails) -> Iterator[dict[str, object] | str]:
    """Each line as a JSON object, or as text where it is none. Not redacted: the caller does that."""
    hooks = details.run.hooks or ()
    for hook in hooks:
        if hook.when != "after_apply":
            yield from _hook_lines(hook)
    for line in details.journal.lines:
        document = _object(line)
        yield document if document is not None else line.decode(errors="replace")

    for hook in hooks:
        if hook.when == "after_apply":
            yield from _hook_lines(hook)


def _hook_lines(hook: HookRun) -> Iterator[str]:
    yield f"hook {hook.when}: {' '.join(hook.run)}: exit {hook.code} after {hook.seconds:g} s"
    yield from (f"hook {hook.when}: {line}" for line in hook.output.splitlines())


def log_text(line: dict[str, object] | str) -> str:
    """For a person: time and message."""
    if isinstance(line, str):
        return line
    at, message = line.get("@timestamp"), line.get("@message")
    return " ".join(str(part) for part in (at, message) if part) or json.dumps(line, ensure_ascii=False)


def _timestamp(line: bytes) -> str | None:
    document = _object(line)
    at = document.get("@timestamp") if document is not None else None
    return at if isinstance(at, str) else None


def _object(line: bytes) -> dict[str, object] | None:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
