"""`holdfast runs reconcile`: settle a run that ended without an answer."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Argument, Group, Invocation, Option, command
from holdfast.cli.parameters import CI_WAIT
from holdfast.kernel.errors import Exit, UsageError

if TYPE_CHECKING:
    from holdfast.cli.context import Workshop
    from holdfast.plans.context import Session
    from holdfast.plans.result import StackResult
    from holdfast.recovery.reconcile import Proposal, Reconciled
    from holdfast.store.claims import Claim


_ADDRESS_AND_ID = re.compile(
    r"""(?P<address>(?:[^\s=\[\]"]|\[(?:[0-9]+|"(?:[^"\\]|\\.)*")\])+)=(?P<id>.+)""", re.DOTALL
)
"""A key in an address may hold whatever it likes, `=` and brackets too."""


def add_to(group: Group) -> None:
    command(group, "reconcile")(reconcile)


def reconcile(
    invocation: Invocation,
    run: Annotated[str, Argument(metavar="RUN", help="The run's id, or its beginning.")],
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
    import_: Annotated[
        list[str] | None,
        Option("--import", metavar="ADDR=ID", help="The id of an object that the run made; repeatable."),
    ] = None,
    holder_dead: Annotated[
        bool, Option("--holder-dead", help="The machine of the run is gone; nothing here can prove it.")
    ] = False,
    reason: Annotated[str | None, Option("--reason", metavar="TEXT", help="Why you know.")] = None,
) -> Exit:
    """Settle a run of unknown end: import what it made, show what is left to do, and do it."""
    from holdfast.cli.context import Workshop

    if holder_dead != bool(reason):
        raise UsageError(
            "HF-USE-13",
            "--holder-dead and --reason belong together",
            hint='Say why you know: --holder-dead --reason "the runner was shut down"',
        )
    if not yes and not sys.stdin.isatty():
        raise UsageError(
            "HF-USE-14",
            "without a terminal nothing can be asked",
            hint="Look with `holdfast runs show RUN`, then say --yes.",
        )
    given = _given(import_ or [])
    workshop = Workshop(invocation, wait=CI_WAIT if invocation.environment.ci else 0.0)
    claim = _claim(workshop, run)
    if claim is None:
        if reason and (freed := _lanes_freed(workshop, run, reason)) is not None:
            return _say_freed(invocation, *freed)
        return _nothing_open(invocation, workshop, run)
    stack = workshop.repository.one(claim.stack)
    return _Reconcile(invocation, workshop, yes=yes).run(
        lambda session, talk: talk.whole(session, stack, claim, given, reason)
    )


def _given(texts: list[str]) -> dict[str, str]:
    """By address. An id may be any text; of an address given twice nobody knows which id is meant."""
    found: dict[str, str] = {}
    for text in texts:
        match = _ADDRESS_AND_ID.fullmatch(text.strip())
        if match is None or match["address"] in found:
            raise UsageError(
                "HF-USE-15",
                f"--import {text}: {'not ADDR=ID' if match is None else 'this address stands there twice'}",
                hint="Write it as aws_eip.b=eipalloc-0123",
            )
        found[match["address"]] = match["id"]
    return found


def _claim(workshop: Workshop, run: str) -> Claim | None:
    fits = [one for one in workshop.repository.store.claims.all() if one.run.startswith(run.upper())]
    if len(fits) > 1:
        raise UsageError("HF-RUN-21", f"{run} is the beginning of several runs", hint="Give more of the id.")
    return fits[0] if fits else None


def _lanes_freed(workshop: Workshop, beginning: str, reason: str) -> tuple[str, tuple[str, ...]] | None:
    """Of a change that died before its first run, or after its last, only lanes are left. None: none are."""
    from holdfast.runs import lanes

    async def work(session: Session) -> tuple[str, tuple[str, ...]] | None:
        fits = {one for one in lanes.holders(session).values() if one.startswith(beginning.upper())}
        if len(fits) > 1:
            raise UsageError(
                "HF-RUN-21", f"{beginning} is the beginning of several changes", hint="Give more of the id."
            )
        return next(((change, lanes.declare_dead(session, change, reason)) for change in fits), None)

    return workshop.run(work)


def _say_freed(invocation: Invocation, change: str, lanes: tuple[str, ...]) -> Exit:
    if invocation.as_json:
        invocation.document({"version": 1, "change": change, "lanes": list(lanes)})
    else:
        invocation.console.line(f" change {change} is over, as you said; free again: {', '.join(lanes)}")
    return Exit.DONE


def _nothing_open(invocation: Invocation, workshop: Workshop, run: str) -> Exit:
    store = workshop.repository.store
    known = [one for one in store.runs.ids() if one.startswith(run.upper())]
    outcome = store.runs.outcome(known[0]) if len(known) == 1 else None
    if outcome is None:
        raise UsageError("HF-RUN-20", f"there is no run {run}", hint="holdfast runs list names them.")
    if invocation.as_json:
        invocation.document(
            {"version": 1, "run": known[0], "stack": outcome["stack"], "status": outcome["status"]}
        )
    else:
        invocation.console.line(f" run {known[0]} of {outcome['stack']} is settled: {outcome['status']}")
    return Exit.DONE


class _Reconcile:
    def __init__(self, invocation: Invocation, workshop: Workshop, *, yes: bool) -> None:
        self._invocation = invocation
        self._console = invocation.console
        self._workshop = workshop
        self._yes = yes

    def run(self, work: object) -> Exit:
        from holdfast.cli.views.progress import Progress

        with Progress(self._console) as progress:
            self._progress = progress
            done, rest = self._workshop.run(
                lambda session: work(session, self),  # type: ignore[operator]
                tell=progress.hear,
            )
        return self._end(done, rest)

    async def whole(
        self, session: Session, stack: object, claim: Claim, given: dict[str, str], reason: str | None
    ) -> tuple[Reconciled, StackResult | None]:
        from holdfast.changes.resume import go_on
        from holdfast.recovery.crash_report import intent_of
        from holdfast.recovery.reconcile import Declared, reconcile

        done = await reconcile(
            session,
            stack,  # type: ignore[arg-type]
            claim,
            given=given,
            declared=Declared(reason=reason) if reason else None,
            confirm=self._confirm,
        )
        if not done.settled or "intent" not in claim.intent:
            return done, None
        ask = None if self._yes else self._ask_rest
        return done, await go_on(session, stack, intent_of(claim), ask)  # type: ignore[arg-type]

    async def _confirm(self, proposal: Proposal) -> bool:
        self._show(proposal)
        return self._yes or await self._asked(
            "Bring these back into the state?" if proposal.resolution.imports else "Settle the run so?"
        )

    async def _ask_rest(self, result: StackResult) -> bool:
        from holdfast.cli.views.change import show_details, show_table

        show_table(self._console, (result,))
        show_details(self._console, (result,), verbose=self._invocation.verbose)
        return await self._asked("Apply what is left?")

    async def _asked(self, question: str) -> bool:
        import asyncio

        self._progress.paused()
        self._console.question(question)
        answer = await asyncio.to_thread(sys.stdin.readline)
        self._progress.resumed()
        return answer.strip().lower() in {"y", "yes"}

    def _show(self, proposal: Proposal) -> None:
        from holdfast.recovery.explain import known, started

        console, claim = self._console, proposal.aftermath.claim
        console.say(f" {claim.stack}: the last {claim.intent.get('operation')} ended without an answer")
        for line in (started(claim, proposal.aftermath), *known(proposal.aftermath)):
            console.say(f"   {line}")
        for one in proposal.resolution.imports:
            console.say(("   + ", "green"), f"{one.address}   import {one.id}")
            for record in one.standing.put_back:
                console.say(f"       the old object of {record.address} is put back as deposed")
        for other in proposal.resolution.unresolved:
            mark = ("   · ", "dim") if other.harmless else ("   ? ", "yellow")
            console.say(mark, f"{other.address}   {other.reason}")
        if any(not one.harmless for one in proposal.resolution.unresolved):
            console.say(
                "   If one of these exists, name it: --import ADDRESS=ID. What is left out is made again."
            )

    def _end(self, done: Reconciled, rest: StackResult | None) -> Exit:
        from holdfast.cli.views.change import show_details, show_table
        from holdfast.plans.result import exit_of

        if self._invocation.as_json:
            self._invocation.document(document(done, rest))
        else:
            for note in done.notes:
                self._console.say(f"   {note}")
            if rest is not None:
                show_table(self._console, (rest,))
                show_details(self._console, (rest,), verbose=self._invocation.verbose)
            self._console.line(
                f" run {done.claim.run} is settled"
                if done.settled
                else " nothing was changed, as you answered"
            )
        if rest is None:
            return Exit.DONE if done.settled else Exit.UNKNOWN
        return exit_of((rest,))


def document(done: Reconciled, rest: StackResult | None) -> dict[str, object]:
    from holdfast.runs.document import result_document

    resolution = done.resolution
    evidence = done.aftermath.evidence if done.aftermath is not None else None
    return {
        "version": 1,
        "run": done.claim.run,
        "stack": done.claim.stack,
        "status": rest.status.value if rest is not None else "failed" if done.settled else "unknown",
        "settled": done.settled,
        "recorded": evidence.recorded if evidence is not None else None,
        "of": evidence.planned if evidence is not None else None,
        "imported": [
            {"address": one.address, "id": one.id, "given": one.given}
            for one in (resolution.imports if resolution is not None else ())
        ],
        "unresolved": [
            {"address": one.address, "reason": one.reason, "made": one.made, "harmless": one.harmless}
            for one in (resolution.unresolved if resolution is not None else ())
        ],
        "put_back": list(done.put_back),
        "notes": list(done.notes),
        "left": result_document(rest) if rest is not None else None,
    }
