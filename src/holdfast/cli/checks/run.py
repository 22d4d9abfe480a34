"""Runs `holdfast check`, lists its rules and explains one."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from holdfast import __version__
from holdfast.changes.repository import Repository, open_repository
from holdfast.checks.engine import catalogue
from holdfast.checks.engine.inputs import build_checkout
from holdfast.checks.engine.limits import RuleLimit
from holdfast.checks.engine.novelty import mark_known, next_baseline
from holdfast.checks.engine.pages import rule_details, target_names, waiver_help
from holdfast.checks.engine.running import NO_ENGINE, NO_HISTORY, Available, CheckInputs, run_checks
from holdfast.checks.formats import json, text
from holdfast.checks.formats.interface import FORMATS, FormatInput, format_of
from holdfast.checks.model.baseline import BASELINE, BaselineEntry, write_baseline
from holdfast.checks.model.contents import History
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.report import BaselineUse, Novelty, Report, redact_report
from holdfast.checks.model.subjects import Checkout, EngineOutput
from holdfast.checks.tools.interface import all_tools
from holdfast.cli.checks import inputs
from holdfast.cli.checks.base import BaseChecks
from holdfast.cli.command import Invocation
from holdfast.config.problems import did_you_mean, listed
from holdfast.hcl.eval.code import is_code
from holdfast.kernel.errors import ConfigError, Exit, Problem, UsageError
from holdfast.kernel.text import plural
from holdfast.plans.base_rules import BaseRules
from holdfast.review.baseline import counting_baseline, lenient_baseline
from holdfast.review.findings_by_stack import with_base_findings
from holdfast.stacks.stack import Stack
from holdfast.system import clock, files

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


def check_baseline_option(value: str, *, selected: bool) -> None:
    if value != "write":
        raise UsageError(
            "HF-CHECK-8", f"--baseline {value}: unknown", hint="Write: holdfast check --baseline write"
        )
    if selected:
        raise UsageError(
            "HF-CHECK-8",
            "--baseline write needs the findings of the whole repository",
            hint="Leave out stacks, --changed and --since: holdfast check --baseline write",
        )


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


class CheckOptions(Struct, frozen=True, kw_only=True):
    """How to check, apart from the selection."""

    format: str = "text"
    fail_on: Severity = Severity.ERROR
    engine: bool = False
    fix: bool = False
    history: bool = False
    write_baseline: bool = False
    full: bool = False


def run_check(invocation: Invocation, selection: Selection, options: CheckOptions) -> Exit:
    if options.format != "text":
        invocation.console.reserve_output()
    started = clock.monotonic()
    repository, problems = _open(invocation)
    repository.tune(invocation.console.redactor)
    if problems:  # Without stacks, none can be selected by name: check everything.
        selection = ([], *selection[1:])
    checkouts = _checkouts(repository, *selection)
    since = selection[2]
    engine: Available[EngineOutput] = Available(missing=NO_ENGINE)
    if options.engine:
        engine = inputs.engine_answers(invocation, checkouts.now, fix=options.fix)
    past = Available[History](missing=NO_HISTORY)
    if options.history:
        past = inputs.git_history(repository, checkouts.now)
    if options.write_baseline:  # An invalid one is replaced.
        known: tuple[BaselineEntry, ...] | None = lenient_baseline(repository.code)
    else:
        known = counting_baseline(repository.code, checkouts.base)

    def run(checkout: Checkout) -> Report:
        given = CheckInputs(
            states=inputs.readable_states(repository, checkout, catalogue.rules()),
            history=past,
            engine=engine,
            stack_problems=problems,
            tool_results=(
                *(answer for tool in all_tools() for answer in tool.run(checkout, {})),
                *inputs.git_failure(repository),
                *(inputs.engine_failure(engine) if options.engine else ()),
            ),
            baseline=known,
        )
        return run_checks(checkout, catalogue.rules(), given, limit=RuleLimit(fail_closed=since is not None))

    report = run(checkouts.now)
    if checkouts.by_base is not None:
        report = with_base_findings(report, run(checkouts.by_base), options.fail_on)
    if checkouts.before is not None:
        report = checkouts.before.compare(report, checkouts.now, engine, known or ())
    if options.write_baseline:
        report = _write_baseline(invocation, repository, report)
    format_input = FormatInput(
        report=redact_report(report, invocation.console.redactor.clean),
        prefix=repository.prefix,
        version=__version__,
        fail_on=options.fail_on,
        verbose=invocation.verbose,
        full=options.full,
        seconds=clock.monotonic() - started,
    )
    _print_report(invocation, options.format, format_input)
    return report.exit(options.fail_on)


def _write_baseline(invocation: Invocation, repository: Repository, report: Report) -> Report:
    """Write the baseline of this report, and compare the report with it."""
    entries, left_out = next_baseline(report, invocation.console.redactor.clean)
    files.write(repository.config.root / BASELINE, write_baseline(entries), mode=0o644)
    say = invocation.console.say
    fixed = len(report.baseline.fixed) if report.baseline is not None else 0
    added = report.count_novelty(Novelty.NEW) - left_out
    say(f" wrote {BASELINE}: {plural(len(entries), 'known finding')} ({added} added, {fixed} removed)")
    errors = [finding for finding in report.findings if finding.severity is Severity.ERROR]
    secrets = sum(finding.rule.secret and not finding.waived for finding in errors)
    if secrets:
        say(f" {plural(secrets, 'known error')} about secrets: rotate them, whether reported or not")
    if left_out:
        why = "about waivers, policies or what was not checked, or with a secret in its name"
        say(f" {plural(left_out, 'finding')} cannot be in a baseline ({why})")
    findings, _ = mark_known(report.findings, entries)
    return replace(report, findings=tuple(findings), baseline=BaselineUse())


def _open(invocation: Invocation) -> tuple[Repository, tuple[Problem, ...]]:
    """A mistake in the stacks is a finding; the code is checked anyway."""
    config, environment = invocation.config, invocation.environment
    try:
        repository = open_repository(config, environment)
        if repository.held_back is not None:
            invocation.console.warn(repository.held_back)
        return repository, _unread(repository.stacks)
    except ConfigError as error:
        # A mistake in holdfast.yaml itself is raised again here: without it, nothing can be checked.
        return open_repository(config, environment, with_stacks=False), error.problems


def _unread(stacks: Iterable[Stack]) -> tuple[Problem, ...]:
    """Files that stacks need and that cannot be read, except code and variables, which HF904 reports."""
    problems = dict.fromkeys(problem for stack in stacks for problem in stack.problems)
    files = ((problem, problem.place.file if problem.place is not None else "") for problem in problems)
    return tuple(problem for problem, file in files if not is_code(file) and ".tfvars" not in file)


class _Checkouts(Struct, frozen=True, kw_only=True):
    now: Checkout
    by_base: Checkout | None
    """The same with the settings, policies and waivers of the base, if these differ."""
    before: BaseChecks | None
    """With `--since`."""
    base: BaseRules | None


def _checkouts(
    repository: Repository, stacks: list[str], changed: list[str], since: str | None
) -> _Checkouts:
    selection = repository.select(stacks, changed, since)
    # Files outside the root select the stacks that read them, but are not checked themselves.
    inside = (path for path in selection.changed or () if not path.startswith("../"))
    paths = frozenset() if stacks else frozenset(inside)
    whole = not (stacks or changed or since is not None) or inputs.affects_every_file(repository, paths)
    files, tracked = inputs.repository_files(repository)
    chosen = repository.stacks if whole else tuple(selected.stack for selected in selection.selected)
    today = clock.now().date()
    build = functools.partial(
        build_checkout,
        files=files,
        tracked=tracked,
        today=today,
        whole=whole,
        changed=paths,
        count_authors=repository.git.authors if repository.git is not None else lambda: None,
    )
    base, before, by_base = selection.base, selection.before, None
    if base is not None and base.sealed.checks:
        judged, all_judged = ([base.judged(stack) for stack in some] for some in (chosen, repository.stacks))
        by_base = build(base.config, base.code, stacks=judged, all_stacks=all_judged)
    before_checks = None
    if before is not None:
        before_checks = BaseChecks(repository=repository, before=before, rules=base, selected=chosen)
    return _Checkouts(
        now=build(repository.config, repository.code, stacks=chosen, all_stacks=repository.stacks),
        by_base=by_base,
        before=before_checks,
        base=base,
    )


def _print_report(invocation: Invocation, format_: str, inputs: FormatInput) -> None:
    match format_:
        case "text":
            for line in text.lines(inputs):
                invocation.console.line(*line)
        case "json":
            invocation.document(json.document(inputs.report))
        case _:
            sys.stdout.write(format_of(format_)(inputs))
