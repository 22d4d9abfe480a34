"""What an apply that did not finish has done, and what is left."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cli.console import Console
from holdfast.kernel.text import plural
from holdfast.plans.result import NOT_STARTED, StackResult
from holdfast.terraform.addresses import address_order
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import PlanEffect

_MARKS = {
    "applied": ("✓", "green"),
    "failed": ("✗", "bold red"),
    "unknown": ("?", "bold red"),
    "incomplete": ("✗", "bold red"),
    NOT_STARTED: ("·", "dim"),
}
_TEXTS = {
    "unknown": "started, outcome unknown",
    "incomplete": "only one half of the replacement is done",
}
_MOST_APPLIED = 12
_WITHOUT_EVENTS = frozenset({ChangeKind.NO_OP, ChangeKind.FORGET})
"""Terraform reports no progress for these."""


def show_outcomes(
    console: Console, result: StackResult, effects: Sequence[PlanEffect], *, verbose: bool
) -> None:
    """One line per planned change: what is applied, then what is left."""
    rows = [
        (result.outcomes.get(effect.change.address, NOT_STARTED), effect.change)
        for effect in sorted(effects, key=lambda effect: address_order(effect.change.address))
        if effect.change.kind not in _WITHOUT_EVENTS
    ]
    applied = [row for row in rows if row[0] == "applied"]
    left = sorted((row for row in rows if row[0] != "applied"), key=lambda row: list(_MARKS).index(row[0]))
    shown = applied if verbose else applied[:_MOST_APPLIED]
    console.line(f"   {len(applied)} of {plural(len(rows), 'change')} applied")
    width = min(max((len(change.address) for _, change in (*shown, *left)), default=0), 60)
    for number, (outcome, change) in enumerate((*shown, *left)):
        if number == len(shown) < len(applied):
            console.line((f"     … and {len(applied) - len(shown)} more applied (details: --verbose)", "dim"))
        mark, style = _MARKS[outcome]
        what = "replace" if change.replaces else " ".join(change.actions)
        text = f"{what}: {_TEXTS.get(outcome, outcome)}"
        console.line((f"   {mark} ", style), f"{change.address:<{width}}  {text}")
    product = result.engine.product.shown if result.engine is not None else "Terraform"
    console.line((f"     everything that {product} printed: holdfast runs log {result.run}", "dim"))
