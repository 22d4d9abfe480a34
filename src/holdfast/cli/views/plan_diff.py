"""What a plan changes, attribute by attribute: a screenful, or everything.

What does not fit is counted, with the command that shows it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, structs

from holdfast.cli.console import Console
from holdfast.kernel.text import plural
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.diff import (
    EVERYTHING,
    KNOWN_AFTER_APPLY,
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

_SIGNS: dict[ChangeKind, tuple[str, str]] = {
    ChangeKind.CREATE: ("+", "green"),
    ChangeKind.READ: ("≤", "cyan"),
    ChangeKind.UPDATE: ("~", "yellow"),
    ChangeKind.DELETE: ("-", "red"),
    ChangeKind.DELETE_THEN_CREATE: ("±", "red"),
    ChangeKind.CREATE_THEN_DELETE: ("±", "red"),
    ChangeKind.FORGET: (".", "red"),
    ChangeKind.CREATE_THEN_FORGET: ("±", "red"),
    ChangeKind.FORGET_THEN_CREATE: ("±", "red"),
    ChangeKind.NO_OP: ("→", "cyan"),
    ChangeKind.UNKNOWN: ("?", "bold red"),
}
_STYLES = {"+": "green", "-": "red", "~": "yellow", "@": "cyan", " ": "dim"}
_GONE = frozenset({ChangeKind.DELETE, ChangeKind.FORGET})
_WIDEST_ADDRESS = 44
_WIDEST_PATH = 28
_WIDEST_LINE = 110
"""Two values that need more are shown one below the other."""
_MARGIN = 24
"""About how many columns an attribute needs besides its values."""
_RESERVED = 8


class Detail(Struct, frozen=True, kw_only=True):
    """How much of one plan is shown; None is everything."""

    resources: int | None = 12
    limits: Limits = Limits(attributes=8, lines=8, width=64)
    lines: int | None = 40
    """Of attributes, in all resources of the stack."""
    deleted: bool = False
    """Also the attributes of resources that are deleted."""


SCREENFUL = Detail()
VERBOSE = Detail(resources=None, limits=Limits(attributes=40, lines=40, width=160), lines=None)
FULL = Detail(resources=None, limits=EVERYTHING, lines=None, deleted=True)


def detail_for(stacks: int, *, verbose: bool, full: bool) -> Detail:
    """With many stacks, each gets less of the screen."""
    if full:
        return FULL
    return VERBOSE if verbose else structs.replace(SCREENFUL, lines=max(6, min(40, 120 // max(stacks, 1))))


def show_plan(console: Console, plan: Plan, detail: Detail, *, more: str) -> None:
    """`more` is the command that shows everything."""
    _PlanView(console, plan, detail).show(more)


def _fit(detail: Detail, columns: int | None) -> Detail:
    """On a narrow terminal, a value that is cut anyway is cut to fit a line."""
    width = detail.limits.width
    if columns is None or width is None:
        return detail
    return structs.replace(
        detail, limits=structs.replace(detail.limits, width=max(_MARGIN, min(width, columns - _MARGIN)))
    )


class _PlanView:
    def __init__(self, console: Console, plan: Plan, detail: Detail) -> None:
        self._console = console
        self._plan = plan
        self._detail = _fit(detail, console.columns)
        self._drift = PlanDrift(plan)
        self._room = detail.lines
        self._columns = min(console.columns or _WIDEST_LINE, _WIDEST_LINE)
        self._hidden: dict[str, int] = {}
        """By noun: how many are not shown."""
        self._shortened = 0

    def show(self, more: str) -> None:
        effects = ordered_effects(self._plan)
        shown = effects[: self._detail.resources]
        width = min(max((len(effect.change.address) for effect in shown), default=0), _WIDEST_ADDRESS)
        for effect in shown:
            self._show_effect(effect, width)
        self._hide("resource", len(effects) - len(shown))
        self._show_actions()
        self._show_outputs()
        self._show_drift()
        counts = [plural(number, f"more {noun}") for noun, number in self._hidden.items()]
        counts += [plural(self._shortened, "shortened value")] if self._shortened else []
        if counts:
            self._console.line((f"   … {', '.join(counts)}: {more}", "dim"))
        for move in suggested_moves(self._plan):
            self._console.line(("   ! ", "yellow"), move.sentence)
            for line in move.block:
                self._console.line(f"       {line}")

    def _hide(self, noun: str, number: int) -> None:
        if number:
            self._hidden[noun] = self._hidden.get(noun, 0) + number

    def _show_effect(self, effect: PlanEffect, width: int) -> None:
        change, drift = effect.change, self._drift.of(effect)
        sign, style = _SIGNS[change.kind]
        quiet = change.kind is ChangeKind.CREATE and not change.reason and drift is None
        why = "" if quiet else self._drift.explanation(effect)
        address = f"{change.address:<{width}}  " if why else change.address
        self._console.line((f"   {sign} ", style), (address, "bold"), why)
        if change.kind not in _GONE or effect.state_only or self._detail.deleted:
            self._show_change(change, drift)

    def _show_change(self, change: ResourceChange, drift: ResourceChange | None = None) -> None:
        clean = self._console.redactor.clean_field
        self._show_all(differences(change, clean=clean, limits=self._limits(), drift=drift))

    def _reserve(self) -> None:
        """Outputs and drift are shown however long the resources were."""
        if self._room is not None:
            self._room = max(self._room, _RESERVED)

    def _limits(self) -> Limits:
        limits, room = self._detail.limits, self._room
        if room is None or limits.attributes is None or limits.lines is None:
            return limits
        return structs.replace(limits, attributes=min(limits.attributes, room), lines=min(limits.lines, room))

    def _show_all(self, compared: Differences, indent: int = 7) -> None:
        shown = compared.shown if self._detail.deleted else unknown_together(compared.shown)
        width = _column(shown)
        for number, difference in enumerate(shown):
            if self._room is not None and self._room <= 0:
                self._hide("attribute", len(shown) - number)
                break
            self._show(difference, width, indent)
        self._hide("attribute", compared.hidden)
        if compared.hidden and compared.shown:
            self._console.line((f"{' ' * indent}… {plural(compared.hidden, 'more attribute')}", "dim"))

    def _show(self, difference: Difference, width: int, indent: int) -> None:
        if self._room is not None:
            self._room -= 1
        margin = " " * indent
        values = _values(difference)
        self._shortened += difference.shortened
        form = f" ({difference.form})" if difference.form else ""
        name = difference.path or "(value)"
        used = indent + 5 + max(width, len(name)) + len(form) + sum(len(text) for text, _ in values)
        below: tuple[tuple[str, str], ...] = ()
        if difference.sign == "~" and used > self._columns and difference.after != KNOWN_AFTER_APPLY:
            values, below = (), values[::2]
        self._console.line(
            (f"{margin}{difference.sign} ", _STYLES[difference.sign]),
            f"{name:<{width}}" if values and not form else name,
            (form, "dim"),
            *(("   ", ""), *values) if values else (),
            *((f"   {note}", "magenta") for note in difference.notes),
        )
        for sign, (text, style) in zip("-+", below, strict=False):
            self._console.line((f"{margin}    {sign} {text}", style))
        inner = _column(difference.parts)
        for part in difference.parts:
            self._show(part, inner, indent + 4)
        for sign, text in difference.lines:
            if self._room is not None:
                self._room -= 1
            shown = f"@@ {text}" if sign == "@" else f"{sign} {text}"
            self._console.line((f"{margin}    {shown}", _STYLES[sign]))
        if difference.hidden:
            noun = "line" if difference.lines else "path"
            self._hide(noun, difference.hidden)
            self._console.line((f"{margin}    … {plural(difference.hidden, f'more {noun}')}", "dim"))

    def _show_outputs(self) -> None:
        changed = [output for output in self._plan.outputs if output.kind is not ChangeKind.NO_OP]
        self._reserve()
        clean, limits = self._console.redactor.clean_field, self._limits()
        compared = [
            value_differences(output.name, output.change, clean=clean, limits=limits)
            for output in changed[: self._detail.resources]
        ]
        shown = tuple(
            structs.replace(difference, path=f"output {difference.path}")
            for output in compared
            for difference in output.shown
        )
        self._show_all(Differences(shown=shown, hidden=sum(output.hidden for output in compared)), indent=3)
        self._hide("output", len(changed) - len(compared))

    def _show_actions(self) -> None:
        for action in self._plan.action_invocations:
            cause = f" because of {action.triggered_by}" if action.triggered_by else ""
            self._console.line(("   ! ", "yellow"), f"{action.address}  invoked{cause}")
        for deferred in self._plan.deferred:
            self._console.line(f"   ? {deferred.change.address}  postponed by Terraform: {deferred.reason}")

    def _show_drift(self) -> None:
        if not self._drift.without_action:
            return
        self._reserve()
        shown = self._drift.without_action[: self._detail.resources]
        self._console.line(("   Changed outside Terraform, no action planned:", "magenta"))
        for change in shown:
            gone = "  deleted" if change.kind is ChangeKind.DELETE else ""
            self._console.line(("   ≠ ", "magenta"), (change.address, "bold"), gone)
            if change.kind not in _GONE:
                self._show_change(change)
        self._hide("drifted resource", len(self._drift.without_action) - len(shown))


def _column(shown: Iterable[Difference]) -> int:
    widths = [len(difference.path) for difference in shown if not difference.form]
    return max((width for width in widths if width <= _WIDEST_PATH), default=0)


def _values(difference: Difference) -> tuple[tuple[str, str], ...]:
    before, after = difference.before, difference.after
    if before is None and after is None:
        return ()
    removed, added = (before or "null", "red"), (after or "null", _style_of(after))
    if difference.sign == "+":
        return (added,)
    return (removed,) if difference.sign == "-" else (removed, (" → ", ""), added)


def _style_of(after: str | None) -> str:
    return "dim" if after == KNOWN_AFTER_APPLY else "green"
