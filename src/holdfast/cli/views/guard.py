"""What the guard says of a plan, on a screen: the gravest first, each rule by name, never a page of it."""

from __future__ import annotations

from holdfast.cli.console import Console
from holdfast.config.guard_valid import Effect
from holdfast.guard.decision import Reason
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status

_HEADS = {
    Effect.DENY: ("Refused by", "bold red"),
    Effect.APPROVE: ("Needs approval for", "yellow"),
    Effect.WARN: ("Mind", "yellow"),
}
_MOST = 4
_DONE = frozenset({Status.APPLIED, Status.FAILED, Status.UNKNOWN})


def speaks_of(result: StackResult) -> bool:
    """Not of what was applied: the plan was shown before, and the record has it."""
    return result.plan is not None and result.status not in _DONE


def show_guard(console: Console, result: StackResult, *, verbose: bool) -> None:
    if not speaks_of(result):
        return
    for effect, (head, style) in _HEADS.items():
        reasons = [one for one in result.decision.reasons if one.effect is effect]
        if reasons:
            console.line((f"   {head}: ", style), _rules(reasons))
            _show_reasons(console, reasons, verbose=verbose)


def _rules(reasons: list[Reason]) -> str:
    """`deletions in production (HF-GUARD-1), protected type aws_db_instance (HF-GUARD-3)`."""
    return ", ".join(dict.fromkeys(f"{one.rule or one.code} ({one.code})" for one in reasons))


def _show_reasons(console: Console, reasons: list[Reason], *, verbose: bool) -> None:
    """What is said of one object stands beside it in the list of changes already, unless that was cut."""
    texts = list(dict.fromkeys(one.message for one in reasons))
    shown = texts if verbose else texts[:_MOST]
    for text in shown:
        console.line(f"     {text}")
    if len(shown) < len(texts):
        console.line((f"     … and {len(texts) - len(shown)} more (--verbose shows them)", "dim"))
