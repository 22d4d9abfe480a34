"""Finish an interrupted `state mv` between two stacks, by what their states hold now.

The destination is written first. If it holds the resources and the source still does, they are removed from
the source; nothing else is changed. Then both stacks are free again.
"""

from __future__ import annotations

from holdfast.kernel.errors import UnknownOutcome, UsageError
from holdfast.plans.context import ChangeContext
from holdfast.plans.status import Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir, open_workdir
from holdfast.recovery.cleanup import hold_reconcile_lock, release_stale_lock, require_holder_dead
from holdfast.recovery.crash_report import state_now
from holdfast.runs.claims import Claim, claim_on
from holdfast.runs.intent import MoveIntent
from holdfast.runs.outcome import close_run
from holdfast.stacks.stack import Stack
from holdfast.states.edits import write_edited
from holdfast.states.moves import MoveOutcome, move_outcome, moved_text
from holdfast.states.surgery import state_change
from holdfast.terraform.statefile.edit import raise_serial, remove_instances
from holdfast.terraform.statefile.model import read_contents


async def finish_move(context: ChangeContext, claim: Claim, declared: str | None) -> tuple[str, ...]:
    """What happened, as notes. The holder of `claim` is dead; so must be that of the other stack."""
    move = claim.intent.move
    if move is None:
        raise ValueError("the claim is not one of a move")
    claims = _claims(context, move)
    for other in claims:
        require_holder_dead(context.store, context.identity, other, declared)
    with hold_reconcile_lock(context.store, context.identity, claims[0], declared=declared):
        async with (
            open_workdir(context, _stack(context, move.source), for_state=True) as left,
            open_workdir(context, _stack(context, move.destination), for_state=True) as right,
        ):
            for workdir in (left, right):
                terraform = Terraform(context, workdir)
                await terraform.init()
                await release_stale_lock(terraform, claim, declared=declared is not None)
            outcome, source = await _outcome(context, move, left, right)
            if outcome is MoveOutcome.BOTH:
                await _remove_from_source(context, move, left, source)
        note = _note(move, outcome)
        moved = outcome in {MoveOutcome.BOTH, MoveOutcome.DONE}
        for other in claims:
            close_run(context.store, other, Status.APPLIED if moved else Status.FAILED, note)
    return (note,)


def _claims(context: ChangeContext, move: MoveIntent) -> tuple[Claim, ...]:
    """Those of the move that are left: one of its stacks may have been freed already."""
    runs = {move.source: move.source_run, move.destination: move.destination_run}
    claims = (claim_on(context.store, name) for name in runs)
    return tuple(claim for claim in claims if claim is not None and claim.run == runs[claim.stack])


def _stack(context: ChangeContext, name: str) -> Stack:
    stack = context.project.stacks.get(name)
    if stack is None:
        raise UsageError(
            "HF-REC-12",
            f"the interrupted move concerns {name}, which is not in the repository any more",
            hint="Check out a commit that still has it and repeat the command.",
        )
    return stack


async def _outcome(
    context: ChangeContext, move: MoveIntent, left: StackWorkdir, right: StackWorkdir
) -> tuple[MoveOutcome, bytes]:
    content = {workdir.stack.name: await state_now(context, workdir) for workdir in (left, right)}
    contents = {name: read_contents(state) for name, state in content.items()}
    for name, known in contents.items():
        if known.unseen is not None:
            raise UnknownOutcome(
                "HF-REC-7",
                f"{name}: cannot finish the move: {known.unseen}",
                hint=f"Restore the state first, from a backup or a version: holdfast state push {name} FILE",
            )
    outcome = move_outcome(move, contents[move.source], contents[move.destination])
    return outcome, content[move.source] or b""


async def _remove_from_source(
    context: ChangeContext, move: MoveIntent, workdir: StackWorkdir, before: bytes
) -> None:
    """For the dead run, which holds the claim."""
    places = [(old, deposed) for old, _, deposed in move.moved]
    serial = (read_contents(before).serial or 0) + 1
    after = raise_serial(remove_instances(before, places), serial)
    change = state_change(move.source, "mv", before, after)
    await write_edited(context, workdir, change, run=move.source_run)


def _note(move: MoveIntent, outcome: MoveOutcome) -> str:
    between = f"from {move.source} to {move.destination}"
    match outcome:
        case MoveOutcome.NOTHING:
            return f"nothing was moved {between}; both states are as before"
        case MoveOutcome.MIXED:
            return (
                f"the states were changed after the interrupted move {between}, so Holdfast leaves them as "
                f"they are. Check where each resource is: {moved_text(move)}"
            )
        case MoveOutcome.BOTH | MoveOutcome.DONE:
            return f"the move {between} is complete: {moved_text(move)}"
