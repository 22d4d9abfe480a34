"""A plan as the lines of a diff in Markdown: each starts with the sign that gives it its colour."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.kernel.text import plural
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.diff import (
    KNOWN_AFTER_APPLY,
    Clean,
    Difference,
    Differences,
    Limits,
    differences,
    unknown_together,
    value_differences,
)
from holdfast.terraform.plan.effects import PlanDrift, ordered_effects
from holdfast.terraform.plan.model import Plan, PlanEffect, ResourceChange
from holdfast.terraform.plan.moves import suggested_moves

_LIMITS = Limits(attributes=40, lines=60, width=100)
_SIGNS = {
    ChangeKind.CREATE: "+",
    ChangeKind.DELETE: "-",
    ChangeKind.FORGET: "-",
    ChangeKind.READ: "#",
    ChangeKind.NO_OP: "#",
}
_CHANGES = "!"
_GONE = (ChangeKind.DELETE, ChangeKind.FORGET)


def diff_lines(
    plan: Plan, plain: Callable[[str], str], clean: Clean, most: int
) -> tuple[tuple[str, ...], bool]:
    """The plan, deletions first, as far as there is room; and whether it was cut.

    `plain` redacts a text, `clean` one with the name of its attribute.
    """
    chosen: list[str] = []
    for line in map(plain, _lines(plan, clean)):
        most -= len(line) + 1
        if most < 0:
            return tuple(chosen), True
        chosen.append(line)
    return tuple(chosen), False


def forced_text(change: ResourceChange, clean: Clean) -> str:
    """The attributes that force a replacement."""
    if not change.replaces:
        return ""
    shown = differences(change, clean=clean, limits=Limits(attributes=2)).shown
    texts = [
        f"{attribute.path}: {attribute.before or 'null'} → {attribute.after or 'null'}"
        for attribute in shown
        if attribute.forces_replacement and (attribute.before or attribute.after)
    ]
    return f" ({'; '.join(texts)})" if texts else ""


def _lines(plan: Plan, clean: Clean) -> Iterator[str]:
    drift = PlanDrift(plan)
    for effect in ordered_effects(plan):
        yield from _effect_lines(effect, drift, clean)
    for action in plan.action_invocations:
        cause = f" because of {action.triggered_by}" if action.triggered_by else ""
        yield f"{_CHANGES} {action.address}  invoked{cause}"
    for deferred in plan.deferred:
        yield f"# {deferred.change.address}  postponed by Terraform: {deferred.reason}"
    for output in plan.outputs:
        if output.kind is not ChangeKind.NO_OP:
            compared = value_differences(output.name, output.change, clean=clean, limits=_LIMITS)
            yield from _all_lines(compared, " output ", "values")
    for number, change in enumerate(drift.without_action):
        if number == 0:
            yield "# Changed outside Terraform, no action planned:"
        yield f"# {change.address}{'  deleted' if change.kind in _GONE else ''}"
        if change.kind not in _GONE:
            yield from _all_lines(differences(change, clean=clean, limits=_LIMITS))
    for move in suggested_moves(plan):
        yield f"# {move.sentence}"
        yield from (f"#     {line}" for line in move.block)


def _effect_lines(effect: PlanEffect, drift: PlanDrift, clean: Clean) -> Iterator[str]:
    change = effect.change
    yield f"{_SIGNS.get(change.kind, _CHANGES)} {change.address}  {drift.explanation(effect)}"
    if change.kind not in _GONE or effect.state_only:
        yield from _all_lines(differences(change, clean=clean, limits=_LIMITS, drift=drift.of(effect)))


def _all_lines(compared: Differences, margin: str = "     ", noun: str = "attributes") -> Iterator[str]:
    shown = unknown_together(compared.shown)
    for difference in shown:
        yield from _attribute_lines(difference, margin)
    if compared.hidden:
        yield f" {margin}… and {compared.hidden} more {noun}"
    if shortened := sum(part.shortened for difference in shown for part in (difference, *difference.parts)):
        yield f" {margin}… {plural(shortened, 'shortened value')}: holdfast plan --full"


def _attribute_lines(difference: Difference, margin: str) -> Iterator[str]:
    path = difference.path or "(value)"
    notes = "".join(f"   ({note})" for note in difference.notes)
    form = f" ({difference.form})" if difference.form else ""
    before, after = difference.before, difference.after
    if before is None and after is None:
        sign = _CHANGES if difference.sign == "~" else difference.sign
        yield f"{sign}{margin}{path}{form}{notes if difference.parts or difference.lines else ': null'}"
    if before is not None:
        yield f"-{margin}{path}{form}: {before}{notes if after is None else ''}"
    if after is not None:
        sign = "#" if after == KNOWN_AFTER_APPLY and before is None else "+"
        yield f"{sign}{margin}{path}{form}: {after}{notes}"
    inner = f"{margin}    "
    for part in difference.parts:
        yield from _attribute_lines(part, inner)
    for sign, text in difference.lines:
        yield f"{'#' if sign == '@' else sign}{inner}{'@@ ' if sign == '@' else ''}{text}"
    if difference.hidden:
        yield f" {inner}… {plural(difference.hidden, 'more line' if difference.lines else 'more path')}"
