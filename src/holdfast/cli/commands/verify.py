"""`holdfast verify`: the gates of a target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.kernel.errors import Exit

if TYPE_CHECKING:
    from holdfast.config.settings import Target
    from holdfast.deploy.verify import Verification
    from holdfast.plans.context import ChangeContext

OneTarget = Annotated[str, Argument(metavar="TARGET", help="Name of the target.")]
InEnvironment = Annotated[
    str | None, Option("--environment", metavar="NAME", help="Only in this environment of the target.")
]


def verify(
    invocation: Invocation,
    target_name: OneTarget,
    gate: Annotated[
        list[str] | None, Option("--gate", metavar="NAME", help="Only this gate; repeatable.")
    ] = None,
    environment: InEnvironment = None,
) -> Exit:
    """Check the gates of a target: that what was applied works. Exit 1 if one failed or was not checked."""
    from holdfast.cli.context import CommandContext
    from holdfast.cli.views.gates import show_verification
    from holdfast.facts.outputs import target_named

    target = target_named(CommandContext(invocation).repository.config, target_name)
    verification = run_gates(invocation, target, gates=gate or (), environment=environment)
    return invocation.answer(
        verification.document(),
        lambda: show_verification(invocation.console, verification),
        exit_code=Exit.DONE if verification.passed else Exit.FAILED,
    )


def run_gates(
    invocation: Invocation,
    target: Target,
    *,
    gates: Sequence[str] = (),
    environment: str | None = None,
    part_of: str | None = None,
) -> Verification:
    """Check the gates, show each result, and raise alerts. `part_of`: a run that has them in its record."""
    from holdfast.cli.context import CommandContext
    from holdfast.cli.notifications import raise_alerts
    from holdfast.cli.views.gates import GateProgress
    from holdfast.deploy.verify import choose_gates, environments_of, gate_alerts, verify_target
    from holdfast.system import clock

    context = CommandContext(invocation)
    environments = environments_of(context.repository.stacks, target)
    chosen = choose_gates(target, environments, names=gates, only=environment)
    with GateProgress(invocation.console, target.name, chosen) as progress:

        async def work(change_context: ChangeContext) -> Verification:
            return await verify_target(
                *(change_context, target, chosen),
                follow=progress.attempted,
                decided=progress.decided,
                part_of=part_of,
            )

        verification = context.run(work)
    raise_alerts(invocation, context.repository, gate_alerts(verification, clock.now()))
    return verification
