"""The results of a change: the answer first, risk before routine, the next command to type."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager

from holdfast.cli.console import Console
from holdfast.cli.views.outcomes import show_outcomes
from holdfast.cli.views.plan_diff import detail_for, show_plan
from holdfast.config.guard import Effect
from holdfast.guard.decision import Allow, Reason
from holdfast.kernel.errors import Problem
from holdfast.kernel.text import cut, plural
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.secrets.redact import clean_value
from holdfast.terraform.plan.effects import PlanDrift
from holdfast.terraform.plan.model import Counts

_MARKS: dict[Status, tuple[str, str]] = {
    Status.UNKNOWN: ("✗", "bold red"),
    Status.FAILED: ("✗", "bold red"),
    Status.REFUSED: ("✗", "bold red"),
    Status.LOCKED: ("✗", "bold red"),
    Status.BLOCKED: ("‖", "yellow"),
    Status.CANCELLED: ("■", "yellow"),
    Status.WAITING: ("…", "yellow"),
    Status.QUEUED: ("…", "dim"),
    Status.REMOVED: ("?", "yellow"),
    Status.PLANNED: ("~", "yellow"),
    Status.APPLIED: ("✓", "green"),
    Status.UNCHANGED: ("·", "dim"),
}
_MOST_SEVERE_FIRST = tuple(_MARKS)
_HEADINGS = {
    Effect.DENY: ("Refused", "bold red"),
    Effect.APPROVE: ("Needs approval", "yellow"),
    Effect.WARN: ("Warning", "yellow"),
}
_MOST_REASONS = 4
_MOST_PROBLEMS = 10
_APPLIED = frozenset({Status.APPLIED, Status.FAILED, Status.UNKNOWN})
_MOST_UNCHANGED = 20
_MOST_OUTPUTS = 4
_WIDEST_VALUE = 120
_WIDEST_REASON = 100


def status_text(status: Status, *, destroys: bool = False) -> str:
    if status is Status.APPLIED and destroys:
        return "destroyed"
    return {Status.UNCHANGED: "no changes", Status.PLANNED: "ready"}.get(status, str(status))


def counts_text(counts: Counts) -> str:
    """`1 delete, 2 replacements, 4 new`: deletions first."""
    parts = (
        (counts.delete, "delete"),
        (counts.replace, "replacement"),
        (counts.forget, "forget"),
        (counts.update, "change"),
        (counts.create, "new"),
        (counts.import_, "import"),
        (counts.move, "move"),
        (counts.read, "read"),
    )
    return ", ".join(
        f"{number} new" if word == "new" else plural(number, word) for number, word in parts if number
    )


def show_table(
    console: Console, results: tuple[StackResult, ...], *, destroys: frozenset[str] = frozenset()
) -> None:
    """One line per stack, the most severe first. Many unchanged stacks share one line."""
    ordered = sorted(results, key=lambda result: (_MOST_SEVERE_FIRST.index(result.status), result.stack.name))
    unchanged = [result for result in ordered if result.status is Status.UNCHANGED]
    shown = ordered if len(unchanged) <= _MOST_UNCHANGED else ordered[: -len(unchanged)]
    width = min(max((len(result.stack.name) for result in shown), default=0), 60)
    texts = {result.stack.name: _counts(result) for result in shown}
    column = max(26, *map(len, texts.values())) if texts else 0
    if shown:
        console.say("")
    for result in shown:
        mark, style = _mark(result)
        status = status_text(result.status, destroys=result.stack.name in destroys)
        reason = _short_reason(console, result)
        console.line(
            ("  " + mark + " ", style),
            f"{result.stack.name:<{width}}  {texts[result.stack.name]:<{column}} ",
            (f"{status:<10} " if reason else status, style),
            reason,
        )
    if len(shown) < len(ordered):
        console.line(("  · ", "dim"), f"{len(unchanged)} more stacks have no changes")


def _counts(result: StackResult) -> str:
    counts = counts_text(result.plan.counts) if result.plan is not None else ""
    if result.plan is not None and not counts and result.status is Status.PLANNED:
        return "outputs only" if result.plan.outputs else "state only"
    return counts


def _mark(result: StackResult) -> tuple[str, str]:
    """A plan's mark is its most destructive action."""
    if result.status is not Status.PLANNED or result.plan is None:
        return _MARKS[result.status]
    counts = result.plan.counts
    if counts.delete or counts.replace or counts.forget:
        return "-", "red"
    return ("+", "green") if counts.create and not counts.update else _MARKS[Status.PLANNED]


def _short_reason(console: Console, result: StackResult) -> str:
    """Redacted before it is cut: the redactor does not recognise half a secret."""
    if result.error is not None:
        message = console.redactor.clean(result.error.message).removeprefix(f"{result.stack.name}: ")
        return f"{result.error.code} {_cut(message)}" if message else result.error.code
    if not isinstance(result.decision, Allow):
        return result.decision.reasons[0].message
    if result.mocks:
        return f"with mocks: {', '.join(sorted(result.mocks))}"
    return result.remark or ""


def _cut(message: str) -> str:
    first = message.splitlines()[0]
    return cut(first, _WIDEST_REASON)


def show_details(
    console: Console,
    results: tuple[StackResult, ...],
    *,
    verbose: bool,
    full: bool = False,
    from_plan: bool = False,
    fold: Callable[[str], AbstractContextManager[None]] | None = None,
) -> None:
    """For each stack with something to report: what, why, and the next command.

    `from_plan`: `holdfast plan STACK` makes the same plan again. With `fold`, for the log of a CI job, each
    plan is in a fold.
    """
    applied = sum(1 for result in results if result.status is Status.APPLIED)
    with_outputs = verbose or applied <= _MOST_OUTPUTS
    detail = detail_for(sum(map(_shows_plan, results)), verbose=verbose or fold is not None, full=full)
    failed: dict[tuple[Problem, ...], str] = {}
    for result in results:
        urgent = any(note.startswith("break-glass") for note in result.notes)
        plan = result.plan if _shows_plan(result) else None
        if result.status is Status.UNCHANGED and not (plan or urgent or (result.notes and verbose)):
            continue
        outputs = result.outputs if with_outputs else {}
        reasons = result.decision.reasons if shows_decision(result) else ()
        in_table = _short_reason(console, result)
        notes = [note for note in result.notes if note != in_table]
        if not (plan or notes or result.problems or outputs or result.error or reasons):
            continue
        console.line("")
        environment = result.stack.environment or "no environment"
        production = ", counts as production" if result.stack.production else ""
        console.line((f" {result.stack.name}", "bold"), (f"  {environment}{production}", "dim"))
        if result.outcomes and plan is not None:
            show_outcomes(console, result, plan.effects, verbose=verbose)
        elif plan is not None:
            again = f"plan {result.stack.name} --full"
            title = f"{result.stack.name}: {counts_text(plan.counts) or 'no resource changes'}"
            with fold(title) if fold is not None else contextlib.nullcontext():
                show_plan(console, plan, detail, more=f"holdfast {again if from_plan else _show_run(result)}")
        _show_guard(console, result, verbose=verbose)
        if (first := _failed_alike(failed, result)) is not None:
            console.line(("   ✗ ", "bold red"), f"the same as {first}")
        else:
            _show_problems(console, result, verbose=verbose)
        for address in result.removed_resources or ():
            console.line("   ? ", address)
        for note in notes:
            console.line(("   ! ", "yellow"), note)
        if with_outputs:
            _show_outputs(console, result)


def _show_run(result: StackResult) -> str:
    return f"runs show {result.run} --plan"


def _shows_plan(result: StackResult) -> bool:
    """Not of an applied stack, whose plan was shown before; of an unchanged one only drift."""
    plan = result.plan
    if plan is None or result.status is Status.APPLIED:
        return False
    return plan.has_changes or bool(PlanDrift(plan).without_action)


def shows_decision(result: StackResult) -> bool:
    """Not after an apply: the plan was shown before, and the decision is in the audit log."""
    return result.plan is not None and result.status not in _APPLIED and not result.outcomes


def _show_guard(console: Console, result: StackResult, *, verbose: bool) -> None:
    if not shows_decision(result):
        return
    for effect, (heading, style) in _HEADINGS.items():
        reasons = [reason for reason in result.decision.reasons if reason.effect is effect]
        if reasons:
            rules = dict.fromkeys(f"{reason.rule or reason.code} ({reason.code})" for reason in reasons)
            console.line((f"   {heading}: ", style), ", ".join(rules))
            _show_reasons(console, reasons, verbose=verbose)


def _show_reasons(console: Console, reasons: list[Reason], *, verbose: bool) -> None:
    texts = list(dict.fromkeys(reason.message for reason in reasons))
    shown = texts if verbose else texts[:_MOST_REASONS]
    for text in shown:
        console.line(f"     {text}")
    if len(shown) < len(texts):
        console.line((f"     … and {len(texts) - len(shown)} more (details: --verbose)", "dim"))


def _failed_alike(failed: dict[tuple[Problem, ...], str], result: StackResult) -> str | None:
    """An earlier stack with the same errors, such as one of the same module that cannot be downloaded."""
    if result.plan is not None or not result.problems or result.error not in (None, *result.problems):
        return None
    first = failed.setdefault(result.problems, result.stack.name)
    return first if first != result.stack.name else None


def _show_problems(console: Console, result: StackResult, *, verbose: bool) -> None:
    if result.plan is not None and not isinstance(result.decision, Allow):
        # `_show_guard` showed the reasons; the next command is left.
        if result.error is not None and result.error.hint:
            console.line(f"   {result.error.hint}")
        return
    # An apply cannot be repeated to see the rest.
    shown = result.problems if verbose or result.outcomes else result.problems[:_MOST_PROBLEMS]
    for problem in shown:
        where = f"{problem.place}  " if problem.place is not None else ""
        message = problem.message.replace("\n", "\n     ")
        console.line(("   ✗ ", "bold red"), (problem.code, "bold"), f"  {where}{message}")
        if problem.hint:
            console.line(f"     {problem.hint}")
    if len(shown) < len(result.problems):
        more = len(result.problems) - len(shown)
        console.line((f"     … and {more} more (details: --verbose)", "dim"))
    if result.error is not None and result.error not in result.problems:
        console.line(("   ! ", "yellow"), (result.error.code, "bold"), f"  {result.error.message}")
        if result.error.hint:
            console.line(f"     {result.error.hint}")


def _show_outputs(console: Console, result: StackResult) -> None:
    for name, output in sorted(result.outputs.items()):
        value = (
            "(sensitive)" if output.sensitive else _value(clean_value(console.redactor, name, output.value))
        )
        console.line(("     ", ""), f"{name} = {value}")


def _value(value: object) -> str:
    return cut(json.dumps(value, ensure_ascii=False), _WIDEST_VALUE)


def show_footer(
    console: Console,
    results: tuple[StackResult, ...],
    seconds: float,
    *,
    destroys: frozenset[str] = frozenset(),
    left: str | None = None,
    later: int = 0,
) -> None:
    """`left` is the command that applies what is left; `later`, how many stacks could not be planned yet."""
    names = Counter(
        status_text(result.status, destroys=result.stack.name in destroys)
        for result in sorted(results, key=lambda result: _MOST_SEVERE_FIRST.index(result.status))
    )
    unchanged = names.pop(status_text(Status.UNCHANGED), 0)
    parts = [f"{number} {name}" for name, number in names.items()]
    if unchanged:
        parts.append(
            f"{unchanged} without changes" if parts else f"No changes in {plural(unchanged, 'stack')}"
        )
    engines = sorted({str(result.engine) for result in results if result.engine is not None})
    spent = f" · {seconds:.1f} s"
    engine = f" · engine: {', '.join(engines)}" if engines else ""
    console.line("")
    console.line(f" {', '.join(parts) or 'Nothing to do'}{spent}{engine}")
    if later:
        console.line(f" {plural(later, 'stack')} can be planned only after others are applied.")
    if left is not None:
        console.line(f" What is left: {left}")
