"""Which stacks are not applied here, whatever their plans say: not ours, or nothing would remember it."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.config.settings import Owner
from holdfast.kernel.errors import Refused
from holdfast.plans.context import Project
from holdfast.stacks.stack import Stack
from holdfast.states.versions import is_kept


def may_apply(project: Project, stacks: Iterable[Stack]) -> tuple[Stack, ...]:
    """The stacks that need their lane: a stack that is refused anyway does not wait for one."""
    return tuple(stack for stack in stacks if refusal(project, stack) is None)


def refusal(project: Project, stack: Stack) -> Refused | None:
    """Why a stack is not applied here, whatever its plan says."""
    try:
        require_owner(project, stack)
        require_store_that_lasts(project, stack)
    except Refused as error:
        return error
    return None


def require_owner(project: Project, stack: Stack) -> None:
    """A target that CI owns is validated and planned anywhere, and applied only there."""
    if stack.target is not None and stack.target.owner is Owner.CI and not project.environment.ci:
        raise Refused(
            "HF-OWN-1",
            f"{stack.name}: target `{stack.target.name}` is applied by CI only",
            hint="Plan it here, and let CI apply it.",
        )


def require_store_that_lasts(project: Project, stack: Stack) -> None:
    """The default folder goes with the CI runner: what must be known afterwards cannot be left to it."""
    kept = is_kept(project, stack)
    if project.config.store_named or not project.environment.ci or not (stack.production or kept):
        return
    why = "its state would be kept in" if kept else "it is production, and its record would be kept in"
    raise Refused(
        "HF-STORE-10",
        f"{stack.name}: {why} {project.config.store}, the default folder, which goes with the CI runner",
        hint="Name a store that lasts in holdfast.yaml (`store: s3://bucket/prefix`, or a folder that stays) "
        "and give its key as HOLDFAST_KEY. Planning needs neither.",
    )
