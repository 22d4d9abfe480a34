"""Runs `holdfast check`, lists its rules and explains one."""

from __future__ import annotations

import functools
import sys

from holdfast import __version__
from holdfast.changes.repository import Repository, open_repository
from holdfast.checks.engine import catalogue
from holdfast.checks.engine.inputs import build_checkout
from holdfast.checks.engine.pages import rule_details, target_names, waiver_help
from holdfast.checks.engine.running import NO_ENGINE, NO_HISTORY, Available, CheckInputs, run_checks
from holdfast.checks.formats import json, text
from holdfast.checks.formats.interface import FORMATS, FormatInput, format_of
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.report import Report, redact_report
from holdfast.checks.model.subjects import Checkout, EngineOutput
from holdfast.checks.tools.interface import all_tools
from holdfast.cli.command import Invocation
from holdfast.cli.commands import check_inputs as inputs
from holdfast.config.problems import did_you_mean, listed
from holdfast.kernel.errors import ConfigError, Exit, Problem, UsageError
from holdfast.review.findings_by_stack import with_base_findings
from holdfast.system import clock

Selection = tuple[list[str], list[str], str | None]
"""Stacks, changed files, and the reference since which files changed."""


def chosen_format(invocation: Invocation, format_: str | None) -> str:
    if format_ is not None and format_ not in FORMATS:
        hint = did_you_mean(format_, FORMATS) or f"Write {listed(FORMATS)}."
        raise UsageError("HF-CHECK-2", f"--format {format_}: unknown format", hint=hint)
    if invocation.as_json and format_ not in (None, "json"):
        raise UsageError(
            "HF-USE-4", f"--json cannot be combined with --format {format_}", hint="Leave one out."
        )
    return "json" if invocation.as_json else format_ or "text"


def show_rules(invocation: Invocation, explain: str | None, wanted: str) -> Exit:
    if wanted not in ("text", "json"):
        raise UsageError(
            "HF-USE-4",
            f"--{'list' if explain is None else 'explain'} cannot be combined with --format {wanted}",
            hint="Rules can be shown as text or json.",
        )
    return _list_rules(invocation) if explain is None else _explain_rule(invocation, explain)


def chosen_level(level: str | None) -> Severity:
    try:
        return Severity(level or Severity.ERROR)
    except ValueError:
        raise UsageError(
            "HF-CHECK-3", f"--fail-on {level}: unknown severity", hint=f"Write {listed(Severity)}."
        ) from None


def _list_rules(invocation: Invocation) -> Exit:
    rules, console = catalogue.rules(), invocation.console

    def show() -> None:
        for rule in rules:
            needs = f" (needs configuration: {rule.needs})" if rule.needs else ""
            console.line(f" {rule.id}  {rule.severity:<8} {rule.title}{needs}")
        console.say("")
        console.say(f" {len(rules)} rules · details of one: holdfast check --explain {rules[0].id}")

    return invocation.answer({"version": 1, "rules": [_rule_document(rule) for rule in rules]}, show)


def _explain_rule(invocation: Invocation, id_: str) -> Exit:
    rule = catalogue.rule(id_)
    if rule is None:
        if (note := catalogue.removal_note(id_)) is not None:
            raise UsageError("HF-CHECK-1", note)
        hint = did_you_mean(id_.upper(), catalogue.ids()) or "List all rules with: holdfast check --list"
        raise UsageError("HF-CHECK-1", f"there is no rule `{id_}`", hint=hint)
    if invocation.as_json:
        invocation.document({"version": 1, "rules": [_rule_document(rule)]})
        return Exit.DONE
    details = rule_details(rule)
    line = invocation.console.line
    line((f" {rule.id}  {rule.title}", "bold"), f"  ({rule.severity})")
    line(f" Checks {target_names(rule)}.")
    if rule.needs:
        line(f" Off until configured: it needs {rule.needs}.")
    for title, paragraph in (
        ("Why it matters", details.why),
        ("How to fix it", rule.fix),
        ("Reported", details.bad),
        ("Not reported", details.good),
        ("More", details.more),
        ("Exceptions", waiver_help(rule)),
    ):
        if paragraph:
            line("")
            line((f" {title}", "bold"))
            for text_line in paragraph.strip("\n").splitlines():
                line(f"   {text_line}" if text_line else "")
    return Exit.DONE


def _rule_document(rule: Rule) -> dict[str, object]:
    return {
        "rule": rule.id,
        "severity": rule.severity.value,
        "title": rule.title,
        "why": rule_details(rule).why,
        "fix": rule.fix,
        "targets": list(rule.targets),
        "needs": rule.needs or None,
    }


def run_check(
    invocation: Invocation,
    selection: Selection,
    format_: str,
    level: Severity,
    *,
    engine: bool,
    fix: bool,
    history: bool,
) -> Exit:
    if format_ != "text":
        invocation.console.reserve_output()
    started = clock.monotonic()
    repository, problems = _open(invocation)
    repository.tune(invocation.console.redactor)
    if problems:  # Without stacks, none can be selected by name: check everything.
        selection = ([], *selection[1:])
    checkout, base = _checkouts(repository, *selection)
    answers: Available[EngineOutput] = Available(missing=NO_ENGINE)
    if engine:
        answers = inputs.engine_answers(invocation, checkout, fix=fix)
    past = inputs.git_history(repository, checkout) if history else Available(missing=NO_HISTORY)

    def run(checkout: Checkout) -> Report:
        given = CheckInputs(
            states=inputs.readable_states(repository, checkout, catalogue.rules()),
            history=past,
            engine=answers,
            stack_problems=problems,
            tool_results=(
                *(answer for tool in all_tools() for answer in tool.run(checkout, {})),
                *inputs.git_failure(repository),
                *(inputs.engine_failure(answers) if engine else ()),
            ),
        )
        return run_checks(checkout, catalogue.rules(), given)

    report = run(checkout)
    if base is not None:
        report = with_base_findings(report, run(base))
    format_input = FormatInput(
        report=redact_report(report, invocation.console.redactor.clean),
        prefix=repository.prefix,
        version=__version__,
        fail_on=level,
        verbose=invocation.verbose,
        seconds=clock.monotonic() - started,
    )
    _print_report(invocation, format_, format_input)
    return report.exit(level)


def _open(invocation: Invocation) -> tuple[Repository, tuple[Problem, ...]]:
    """A mistake in the stacks is a finding; the code is checked anyway."""
    config, environment = invocation.config, invocation.environment
    try:
        return open_repository(config, environment), ()
    except ConfigError as error:
        # A mistake in holdfast.yaml itself is raised again here: without it, nothing can be checked.
        return open_repository(config, environment, with_stacks=False), error.problems


def _checkouts(
    repository: Repository, stacks: list[str], changed: list[str], since: str | None
) -> tuple[Checkout, Checkout | None]:
    """What is checked, and the same with the settings, policies and waivers of the base, if these differ."""
    selection = repository.select(stacks, changed, since)
    # Files outside the root select the stacks that read them, but are not checked themselves.
    inside = (path for path in selection.changed or () if not path.startswith("../"))
    paths = frozenset() if stacks else frozenset(inside)
    whole = not (stacks or changed or since is not None) or inputs.affects_every_file(repository, paths)
    files, tracked = inputs.repository_files(repository)
    chosen = repository.stacks if whole else [selected.stack for selected in selection.selected]
    build = functools.partial(
        build_checkout,
        files=files,
        tracked=tracked,
        today=clock.now().date(),
        whole=whole,
        changed=paths,
    )
    checkout = build(repository.config, repository.code, stacks=chosen, all_stacks=repository.stacks)
    base = selection.base
    if base is None or not base.sealed.checks:
        return checkout, None
    judged, all_judged = ([base.judged(stack) for stack in some] for some in (chosen, repository.stacks))
    return checkout, build(base.config, base.code, stacks=judged, all_stacks=all_judged)


def _print_report(invocation: Invocation, format_: str, inputs: FormatInput) -> None:
    match format_:
        case "text":
            for line in text.lines(inputs):
                invocation.console.line(*line)
        case "json":
            invocation.document(json.document(inputs.report))
        case _:
            sys.stdout.write(format_of(format_)(inputs))
