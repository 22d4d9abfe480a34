"""The guard's decision about a plan: refusals first, each rule by name, at most a few lines."""

from __future__ import annotations

from holdfast.cli.console import Console
from holdfast.config.guard import Effect
from holdfast.guard.decision import Reason
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status

_HEADINGS = {
    Effect.DENY: ("Refused", "bold red"),
    Effect.APPROVE: ("Needs approval", "yellow"),
    Effect.WARN: ("Warning", "yellow"),
}
_MOST_REASONS = 4
_APPLIED = frozenset({Status.APPLIED, Status.FAILED, Status.UNKNOWN})


def shows_decision(result: StackResult) -> bool:
    """Not after an apply: the plan was shown before, and the decision is in the audit log."""
    return result.plan is not None and result.status not in _APPLIED


def show_guard(console: Console, result: StackResult, *, verbose: bool) -> None:
    if not shows_decision(result):
        return
    for effect, (heading, style) in _HEADINGS.items():
        reasons = [reason for reason in result.decision.reasons if reason.effect is effect]
        if reasons:
            console.line((f"   {heading}: ", style), _rules(reasons))
            _show_reasons(console, reasons, verbose=verbose)


def _rules(reasons: list[Reason]) -> str:
    """`deletions in production (HF-GUARD-1), protected type aws_db_instance (HF-GUARD-3)`."""
    return ", ".join(dict.fromkeys(f"{reason.rule or reason.code} ({reason.code})" for reason in reasons))


def _show_reasons(console: Console, reasons: list[Reason], *, verbose: bool) -> None:
    texts = list(dict.fromkeys(reason.message for reason in reasons))
    shown = texts if verbose else texts[:_MOST_REASONS]
    for text in shown:
        console.line(f"     {text}")
    if len(shown) < len(texts):
        console.line((f"     … and {len(texts) - len(shown)} more (details: --verbose)", "dim"))
