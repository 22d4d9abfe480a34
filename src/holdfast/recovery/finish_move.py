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
from holdfast.runs.intent import MoveIntent, moved_text
from holdfast.runs.outcome import close_run
from holdfast.states.edits import write_edited
from holdfast.states.moves import MoveOutcome, move_outcome
from holdfast.states.surgery import state_change
from holdfast.terraform.statefile.edit import raise_serial, remove_instances
from holdfast.terraform.statefile.model import read_contents


async def finish_move(
    context: ChangeContext, claim: Claim, move: MoveIntent, declared: str | None
) -> tuple[str, ...]:
    """What happened, as notes. One of the two stacks may have been freed already."""
    runs = {move.source: move.source_run, move.destination: move.destination_run}
    if gone := [name for name in runs if name not in context.project.stacks]:
        raise UsageError(
            "HF-REC-12",
            f"the interrupted move concerns {gone[0]}, which is not in the repository any more",
            hint="Check out a commit that still has it and repeat the command.",
        )
    held = [claim_on(context.store, name) for name in runs]
    claims = [other for other in held if other is not None and other.run == runs[other.stack]] or [claim]
    for held_claim in claims:
        require_holder_dead(context.store, context.identity, held_claim, declared)
    stacks = context.project.stacks
    with hold_reconcile_lock(context.store, context.identity, claims[0], declared=declared):
        async with (
            open_workdir(context, stacks[move.source], for_state=True) as left,
            open_workdir(context, stacks[move.destination], for_state=True) as right,
        ):
            for workdir in (left, right):
                terraform = Terraform(context, workdir)
                await terraform.init()
                await release_stale_lock(terraform, claim, declared=declared is not None)
            outcome = await _finish(context, move, left, right)
        moved = outcome in {MoveOutcome.BOTH, MoveOutcome.DONE}
        for held_claim in claims:
            close_run(
                context.store, held_claim, Status.APPLIED if moved else Status.FAILED, _note(move, outcome)
            )
    return (_note(move, outcome),)


async def _finish(
    context: ChangeContext, move: MoveIntent, left: StackWorkdir, right: StackWorkdir
) -> MoveOutcome:
    """What was found; resources in both states are removed from the source."""
    content = {workdir.stack.name: await state_now(context, workdir) for workdir in (left, right)}
    contents = {name: read_contents(state) for name, state in content.items()}
    for name, known in contents.items():
        if known.unseen is not None:
            raise UnknownOutcome(
                "HF-REC-7",
                f"{name}: cannot finish the move: {known.unseen}",
                hint=f"Restore the state first, from a backup or a version: holdfast state push {name} FILE",
            )
    source = contents[move.source]
    outcome = move_outcome(move, source, contents[move.destination])
    if outcome is MoveOutcome.BOTH:
        before = content[move.source] or b""
        places = [(old, deposed) for old, _, deposed in move.moved]
        after = raise_serial(remove_instances(before, places), (source.serial or 0) + 1)
        # For the dead run, which holds the claim.
        change = state_change(move.source, "mv", before, after)
        await write_edited(context, left, change, run=move.source_run)
    return outcome


def _note(move: MoveIntent, outcome: MoveOutcome) -> str:
    between = f"from {move.source} to {move.destination}"
    match outcome:
        case MoveOutcome.NOTHING:
            return f"nothing was moved {between}; both states are as before"
        case MoveOutcome.MIXED:
            what = "so Holdfast leaves them as they are. Check where each resource is"
            return f"the states were changed after the move {between}, {what}: {moved_text(move.moved)}"
        case MoveOutcome.BOTH | MoveOutcome.DONE:
            return f"the move {between} is complete: {moved_text(move.moved)}"
