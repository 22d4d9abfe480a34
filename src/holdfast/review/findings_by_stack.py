"""Which findings concern which stack, as the guard is told of them, and what it has said already. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report, Reported
from holdfast.checks.model.subjects import CheckedStack
from holdfast.guard.finding_rules import named
from holdfast.guard.plan_context import Found
from holdfast.kernel.errors import Place
from holdfast.plans.result import StackResult

REGO = "rego"
BROKEN = "HF905"
NO_TOOL_ANSWER = "HF908"


def errors_of(report: Report, stack: CheckedStack) -> Iterator[Reported]:
    """The errors that count against this stack."""
    return (one for one in report.counted if one.severity is Severity.ERROR and _concerns(one, stack))


def _concerns(one: Reported, stack: CheckedStack) -> bool:
    """What is said of nothing in particular is that somebody could not look: that concerns everyone."""
    if one.stacks:
        return stack.name in one.stacks
    if one.file is None:
        return one.rule.id in {BROKEN, NO_TOOL_ANSWER}
    folder = one.file.rpartition("/")[0] or "."
    return folder in stack.folders or one.file in stack.stack.variables_files or _of_contract(one, stack)


def _of_contract(one: Reported, stack: CheckedStack) -> bool:
    """It is said of the contract of the stack's target, or of the line that names it."""
    target = stack.stack.target
    use = target.contract if target is not None else None
    return use is not None and (
        one.file == use.schema or (one.file, one.line) == (use.place.file, use.place.line)
    )


def found_of(one: Reported) -> Found:
    """As the guard is told of it."""
    return Found(
        rule=one.rule.id,
        message=one.message,
        where=str(Place(file=one.file, line=one.line)) if one.file is not None else None,
        address=one.address,
        policy=one.rule.tool == REGO,
    )


def unsaid(
    report: Report, results: Iterable[StackResult], clean: Callable[[str], str]
) -> tuple[Reported, ...]:
    """What the guard has not said of its stack yet. The report is clean, the guard's own words are not."""
    said = {
        (result.stack.name, one.rule, clean(one.message))
        for result in results
        for one in result.decision.reasons
    }
    of_any = {(rule, message) for _, rule, message in said}

    def is_said(one: Reported) -> bool:
        words = named(found_of(one))
        return words in of_any if one.stack is None else (one.stack, *words) in said

    return tuple(one for one in report.counted if not is_said(one))
