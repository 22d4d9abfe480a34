"""How a command of Terraform can end, other than well: errors that retries and follow-ups tell apart."""

from __future__ import annotations

from holdfast.kernel.errors import Busy, Failed, HoldfastError, Problem, UnknownOutcome
from holdfast.terraform.diagnostics import LockInfo
from holdfast.terraform.engine.interface import CommandResult


class Cancelled(HoldfastError):  # noqa: N818 - the status it becomes
    """The person asked to stop, and it stopped."""


class TerraformFailed(Failed):
    """Terraform said why: each of its diagnostics is a problem with a place in the source."""

    def __init__(self, code: str, message: str, *, problems: tuple[Problem, ...]) -> None:
        super().__init__(code, message, hint=problems[0].hint if problems else None)
        if problems:
            self.problems = problems


class StateLocked(Busy):
    """Terraform did not get the lock of the state. `lock` is None where it does not say whose that is."""

    def __init__(self, stack: str, lock: LockInfo | None, detail: str) -> None:
        held = f"held by {lock}" if lock is not None else f"held by somebody. {detail}"
        super().__init__(
            "HF-LOCK-1",
            f"{stack}: the lock of its state is {held}",
            hint="Wait until they are done, then try again. If they are gone for certain: "
            f"holdfast state unlock {stack} {lock.id if lock is not None else 'ID'} --reason TEXT",
        )
        self.lock = lock


def apply_interrupted(name: str, run: str, answer: CommandResult) -> UnknownOutcome:
    late = "took longer than its time limit, did not end in its grace either, and was killed; it "
    return UnknownOutcome(
        "HF-RUN-6",
        f"{name}: the apply {late if answer.timed_out else ''}ended without an answer "
        f"(code {answer.code}): {tail(answer.log)}",
        hint="Nobody can say what was done. Nothing will be planned or applied on this stack until that is "
        f"settled: holdfast runs reconcile {run}",
    )


def plugin_died(name: str, run: str, unfinished: tuple[str, ...]) -> UnknownOutcome:
    """Terraform ended by itself; a provider did not, and nobody heard what became of its last calls."""
    return UnknownOutcome(
        "HF-RUN-10",
        f"{name}: a provider ended in the middle of the apply. Nobody knows the end of: "
        f"{', '.join(unfinished)}",
        hint=f"These may be made and missing in the state. See what is known: holdfast runs reconcile {run}",
    )


def apply_timed_out(name: str, run: str, unfinished: tuple[str, ...], done: str) -> UnknownOutcome:
    """A time limit, and then the end of the grace: Terraform did not wait for the provider's answer."""
    return UnknownOutcome(
        "HF-TIME-2",
        f"{name}: the apply took longer than its time limit, was asked to stop and did not end in its grace; "
        f"{done}. Nobody waited for the end of: {', '.join(unfinished)}",
        hint="These may be made and missing in the state. See what is known: "
        f"holdfast runs reconcile {run}. engine.time_limits.grace in holdfast.yaml is how long an apply may "
        "take to end.",
    )


def apply_force_cancelled(name: str, run: str, unfinished: tuple[str, ...], done: str) -> UnknownOutcome:
    """A second interrupt: Terraform did not wait for the provider's answer."""
    return UnknownOutcome(
        "HF-RUN-7",
        f"{name}: stopped at once, as asked; {done}. Nobody waited for the end of: {', '.join(unfinished)}",
        hint=f"These may be made and missing in the state. See what is known: holdfast runs reconcile {run}",
    )


def tail(log: str | None) -> str:
    """The first line of what a crashed process left, which says most."""
    lines = [line for line in (log or "").splitlines() if line.strip()]
    return lines[0] if lines else "it left no log"
