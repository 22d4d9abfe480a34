"""The report of a change from its results. Every text in it is redacted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import structs

from holdfast.changes.plan_lines import diff_lines, forced_text
from holdfast.checks.formats.interface import summary_text
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report, ReportedFinding
from holdfast.guard.decision import NAMES
from holdfast.kernel.errors import Place, Problem
from holdfast.kernel.text import first_names
from holdfast.notify.report import ChangeReport, OtherRequest, Risk, Rule, StackReport, Trouble
from holdfast.plans.result import StackResult, planned_later
from holdfast.plans.status import Status
from holdfast.review.findings_by_stack import not_yet_reported
from holdfast.system.markup import visible
from holdfast.terraform.addresses import address_order
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.diff import Clean as CleanField
from holdfast.terraform.plan.model import Plan

_MOST_OF_A_PLAN = 300_000
_MOST_OF_ALL_PLANS = 1_500_000
"""Characters. More than any place shows; a plan of 100 MB is not turned into text in full."""
_MOST_PLACES = 5
_LOSING = frozenset(
    {ChangeKind.FORGET, ChangeKind.CREATE_THEN_FORGET, ChangeKind.FORGET_THEN_CREATE, ChangeKind.UNKNOWN}
)
Clean = Callable[[str], str]


def change_report(
    results: tuple[StackResult, ...],
    *,
    operation: str,
    headline: str,
    clean: Clean,
    clean_field: CleanField | None = None,
    checked: Report | None = None,
    weakened: tuple[str, ...] = (),
    elsewhere: tuple[OtherRequest, ...] = (),
    saved_in: str | None = None,
    on_server: bool = False,
) -> ChangeReport:
    """`clean` redacts, `clean_field` a value with its name; `headline` says what was selected.

    `checked` has the findings of the checks, `weakened` rules that are weaker in the change than in its base,
    `elsewhere` other pull requests that change the same stacks; `saved_in` is the folder of the bundle, and
    `on_server` says that a server has the plans instead.
    """
    plain = _plain(clean)
    by_name = clean_field or (lambda _, text: clean(text))
    own = not_yet_reported(checked, results) if checked is not None else ()
    left = _MOST_OF_ALL_PLANS
    stacks = []
    for result in results:
        report = _stack(result, plain, by_name, min(left, _MOST_OF_A_PLAN))
        left -= sum(map(len, report.diff))
        stacks.append(report)
    return ChangeReport(
        operation=operation,
        headline=plain(headline),
        weakened=tuple(map(plain, weakened)),
        stacks=tuple(stacks),
        findings=_findings((error for error in own if error.severity is Severity.ERROR), plain),
        warnings=_findings(
            sorted(
                (finding for finding in own if finding.severity is not Severity.ERROR),
                key=lambda finding: (finding.file is not None, finding.severity is not Severity.WARNING),
            ),
            plain,
        ),
        checks_summary=summary_text(checked) if checked is not None else "",
        planned_later=planned_later(results),
        elsewhere=elsewhere,
        saved_in=plain(saved_in) if saved_in is not None else None,
        on_server=on_server,
    )


def _findings(findings: Iterable[ReportedFinding], plain: Clean) -> tuple[Trouble, ...]:
    """What was found in several stacks is listed once, with the stacks and addresses."""
    places: dict[Trouble, dict[str, None]] = {}
    for finding in findings:
        place = Place(finding.file, finding.line) if finding.file is not None else None
        trouble = _trouble(Problem(finding.rule.id, finding.message, finding.hint, place), plain)
        where = ", ".join(part for part in (finding.stack, finding.address) if part) if place is None else ""
        places.setdefault(trouble, {})[plain(where)] = None
    return tuple(
        structs.replace(trouble, message=f"{trouble.message} ({first_names(named, _MOST_PLACES)})")
        if (named := [where for where in at if where])
        else trouble
        for trouble, at in places.items()
    )


def failure_report(problems: tuple[Problem, ...], *, operation: str, clean: Clean) -> ChangeReport:
    """For a change that could not start: an older report must not keep saying "May be merged"."""
    plain = _plain(clean)
    return ChangeReport(
        operation=operation,
        headline="",
        stacks=(),
        troubles=tuple(_trouble(problem, plain) for problem in problems),
    )


def _plain(clean: Clean) -> Clean:
    """Redacted twice: invisible characters may be part of a secret, or hide one."""

    def plain(text: str) -> str:
        cleaned = clean(text)
        shown = "\n".join(map(visible, cleaned.split("\n")))
        return shown if shown == cleaned else clean(shown)

    return plain


def _stack(result: StackResult, plain: Clean, clean: CleanField, most: int) -> StackReport:
    plan = result.plan if result.status is not Status.APPLIED else None
    diff, cut = diff_lines(plan, plain, clean, most) if plan is not None else ((), False)
    errors = dict.fromkeys([*([result.error] if result.error is not None else []), *result.problems])
    name = f"{result.stack.name}: "
    reported = {reason.message.removeprefix(name) for reason in result.decision.reasons}
    # A missing approval is not repeated: the rules and the next step name it.
    problems = [
        error._replace(message=message)
        for error in errors
        if error.code != "HF-APPR-1" and (message := error.message.removeprefix(name)) not in reported
    ]
    reported |= {error.message for error in problems}
    notes = dict.fromkeys(note.removeprefix(name) for note in result.notes)
    return StackReport(
        name=plain(result.stack.name),
        environment=plain(result.stack.environment) if result.stack.environment else None,
        production=result.stack.production,
        status=result.status.value,
        decision=NAMES[type(result.decision)],
        counts=result.plan.counts.document() if result.plan is not None else {},
        risks=tuple(_risks(plan, plain, clean)) if plan is not None else (),
        rules=tuple(
            Rule(
                code=reason.code,
                message=plain(reason.message.removeprefix(name)),
                address=plain(reason.address) if reason.address else None,
                rule=plain(reason.rule),
            )
            for reason in result.decision.reasons
        ),
        troubles=tuple(_trouble(problem, plain) for problem in problems),
        notes=tuple(plain(note) for note in notes if note not in reported),
        mocks=tuple(map(plain, sorted(result.mocks))),
        remains=tuple(map(plain, result.removed_resources or ())),
        diff=diff,
        diff_cut=cut,
        digest=result.digest if result.saved else None,
        run=result.run,
    )


def _trouble(error: Problem, plain: Clean) -> Trouble:
    return Trouble(
        code=plain(error.code),
        message=plain(error.message),
        hint=plain(error.hint) if error.hint else None,
        file=plain(error.place.file) if error.place is not None else None,
        line=error.place.line if error.place is not None else None,
    )


def _risks(plan: Plan, plain: Clean, clean: CleanField) -> Iterator[Risk]:
    """Changes that delete or forget a resource, or are not supported; deletions before replacements."""
    risky = (
        effect
        for effect in plan.effects
        if effect.change.destroys or effect.change.kind in _LOSING or not effect.change.understood
    )
    for change, explanation, _ in sorted(
        risky, key=lambda effect: (effect.change.replaces, address_order(effect.change.address))
    ):
        yield Risk(address=plain(change.address), what=plain(f"{explanation}{forced_text(change, clean)}"))
