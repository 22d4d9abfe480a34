"""`holdfast check`: check code, variables and repository before anything runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Invocation, Option
from holdfast.cli.parameters import Changed, Since, Stacks
from holdfast.kernel.errors import ConfigError, Exit, UsageError

if TYPE_CHECKING:
    from holdfast.changes.repository import Repository
    from holdfast.checks.engine.running import CheckInputs
    from holdfast.checks.formats.interface import FormatInput
    from holdfast.checks.model.interface import Rule, Severity
    from holdfast.checks.model.subjects import Checkout, EngineOutput
    from holdfast.kernel.errors import Problem


def check(
    invocation: Invocation,
    stacks: Stacks = None,
    changed: Changed = None,
    since: Since = None,
    format_: Annotated[
        str | None,
        Option("--format", metavar="FORMAT", help="text, json, sarif, github, markdown or junit."),
    ] = None,
    fail_on: Annotated[
        str | None,
        Option(
            "--fail-on",
            metavar="LEVEL",
            help="Exit 3 for findings of this level or above: error (default), warning, note.",
        ),
    ] = None,
    engine: Annotated[bool, Option("--engine", help="Also run terraform fmt and validate.")] = False,
    fix: Annotated[bool, Option("--fix", help="With --engine: write the formatted code.")] = False,
    history: Annotated[
        bool, Option("--history", help="Also search the Git history for files and secrets.")
    ] = False,
    list_: Annotated[bool, Option("--list", help="List all rules.")] = False,
    explain: Annotated[
        str | None,
        Option("--explain", metavar="RULE", help="Explain a rule: what it finds, why, and what to do."),
    ] = None,
) -> Exit:
    """Check code, variables and repository without running a plan."""
    wanted = _format(invocation, format_)
    invocation.as_json = wanted == "json"  # So that an error is a JSON document, too.
    if list_ or explain is not None:
        return _show_rules(invocation, explain, wanted)
    level = _level(fail_on)
    if fix and not engine:
        raise UsageError(
            "HF-CHECK-4", "--fix needs --engine: Terraform formats the code", hint="Add --engine."
        )
    if wanted != "text":
        invocation.console.reserve_output()
    return _Check(invocation, engine=engine, fix=fix, history=history).run(
        stacks or [], changed or [], since, wanted, level
    )


def _format(invocation: Invocation, format_: str | None) -> str:
    from holdfast.checks.formats.interface import FORMATS
    from holdfast.config.problems import did_you_mean, listed

    if format_ is not None and format_ not in FORMATS:
        hint = did_you_mean(format_, FORMATS) or f"Write {listed(FORMATS)}."
        raise UsageError("HF-CHECK-2", f"--format {format_}: unknown format", hint=hint)
    if invocation.as_json and format_ not in (None, "json"):
        raise UsageError(
            "HF-USE-4", f"--json cannot be combined with --format {format_}", hint="Leave one out."
        )
    return "json" if invocation.as_json else format_ or "text"


def _show_rules(invocation: Invocation, explain: str | None, wanted: str) -> Exit:
    """List all rules, or explain one."""
    if wanted not in ("text", "json"):
        raise UsageError(
            "HF-USE-4",
            f"--{'list' if explain is None else 'explain'} cannot be combined with --format {wanted}",
            hint="Rules can be shown as text or json.",
        )
    return _list_rules(invocation) if explain is None else _explain_rule(invocation, explain)


def _level(level: str | None) -> Severity:
    from holdfast.checks.model.interface import Severity
    from holdfast.config.problems import listed

    try:
        return Severity(level or Severity.ERROR)
    except ValueError:
        raise UsageError(
            "HF-CHECK-3", f"--fail-on {level}: unknown level", hint=f"Write {listed(Severity)}."
        ) from None


def _list_rules(invocation: Invocation) -> Exit:
    from holdfast.checks.engine.catalogue import rules

    if invocation.as_json:
        invocation.document({"version": 1, "rules": [_rule_document(rule) for rule in rules()]})
        return Exit.DONE
    for rule in rules():
        invocation.console.line(f" {rule.id}  {rule.severity:<8} {rule.title}")
    invocation.console.say("")
    invocation.console.say(
        f" {len(rules())} rules · details of one: holdfast check --explain {rules()[0].id}"
    )
    return Exit.DONE


def _explain_rule(invocation: Invocation, id_: str) -> Exit:
    from holdfast.checks.engine import catalogue
    from holdfast.checks.engine.pages import rule_details, target_names, waiver_help
    from holdfast.config.problems import did_you_mean

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
    for title, text in (
        ("Why it matters", rule.why),
        ("How to fix it", rule.fix),
        ("Reported", details.bad),
        ("Not reported", details.good),
        ("More", details.more),
        ("Exceptions", waiver_help(rule)),
    ):
        if text:
            line("")
            line((f" {title}", "bold"))
            for text_line in text.strip("\n").splitlines():
                line(f"   {text_line}" if text_line else "")
    return Exit.DONE


def _rule_document(rule: Rule) -> dict[str, object]:
    return {
        "rule": rule.id,
        "severity": rule.severity.value,
        "title": rule.title,
        "why": rule.why,
        "fix": rule.fix,
        "looks_at": list(rule.targets),
    }


class _Check:
    def __init__(self, invocation: Invocation, *, engine: bool, fix: bool, history: bool) -> None:
        self._invocation = invocation
        self._engine = engine
        self._fix = fix
        self._history = history

    def run(
        self, stacks: list[str], changed: list[str], since: str | None, format_: str, level: Severity
    ) -> Exit:
        from holdfast import __version__
        from holdfast.checks.engine.catalogue import rules
        from holdfast.checks.engine.running import run_checks
        from holdfast.checks.formats.interface import FormatInput
        from holdfast.checks.model.report import redact_report
        from holdfast.system import clock

        started = clock.monotonic()
        repository, problems = self._open()
        repository.tune(self._invocation.console.redactor)
        # Without stacks, none can be selected by name: check everything.
        checkout = self._checkout(repository, [] if problems else stacks, changed, since)
        report = run_checks(checkout, rules(), self._inputs(repository, checkout, problems))
        clean = redact_report(report, self._invocation.console.redactor.clean)
        self._show(
            format_,
            FormatInput(
                report=clean,
                prefix=repository.prefix,
                version=__version__,
                fail_on=level,
                verbose=self._invocation.verbose,
                seconds=clock.monotonic() - started,
            ),
        )
        return report.exit(level)

    def _open(self) -> tuple[Repository, tuple[Problem, ...]]:
        """A mistake in the stacks is a finding; the code is checked anyway."""
        from holdfast.changes.repository import open_repository

        config, environment = self._invocation.config, self._invocation.environment
        try:
            return open_repository(config, environment), ()
        except ConfigError as error:
            # A mistake in holdfast.yaml itself is raised again here: without it, nothing can be checked.
            return open_repository(config, environment, with_stacks=False), error.problems

    def _checkout(
        self, repository: Repository, stacks: list[str], changed: list[str], since: str | None
    ) -> Checkout:
        from holdfast.checks.engine.inputs import build_checkout
        from holdfast.cli.commands.check_inputs import affects_every_file, repository_files
        from holdfast.system import clock

        selection = repository.select(stacks, changed, since)
        # Files outside the root select the stacks that read them, but are not checked themselves.
        inside = (path for path in selection.changed or () if not path.startswith("../"))
        paths = frozenset() if stacks else frozenset(inside)
        whole = not (stacks or changed or since is not None) or affects_every_file(repository, paths)
        files, tracked = repository_files(repository)
        return build_checkout(
            repository.config,
            repository.code,
            stacks=repository.stacks if whole else [selected.stack for selected in selection.selected],
            all_stacks=repository.stacks,
            files=files,
            tracked=tracked,
            today=clock.now().date(),
            whole=whole,
            changed=paths,
        )

    def _inputs(
        self, repository: Repository, checkout: Checkout, problems: tuple[Problem, ...]
    ) -> CheckInputs:
        from holdfast.checks.engine.catalogue import rules
        from holdfast.checks.engine.running import NO_ENGINE, NO_HISTORY, Available, CheckInputs
        from holdfast.checks.tools.interface import all_tools
        from holdfast.cli.commands import check_inputs as inputs

        answers: Available[EngineOutput] = Available(missing=NO_ENGINE)
        if self._engine:
            answers = inputs.engine_answers(self._invocation, checkout, fix=self._fix)
        return CheckInputs(
            states=inputs.readable_states(repository, checkout, rules()),
            history=inputs.git_history(repository, checkout)
            if self._history
            else Available(missing=NO_HISTORY),
            engine=answers,
            stack_problems=problems,
            tool_results=(
                *(answer for tool in all_tools() for answer in tool.run(checkout, {})),
                *inputs.git_failure(repository),
                *(inputs.engine_failure(answers) if self._engine else ()),
            ),
        )

    def _show(self, format_: str, shown: FormatInput) -> None:
        invocation = self._invocation
        match format_:
            case "text":
                from holdfast.checks.formats.text import lines

                for line in lines(shown):
                    invocation.console.line(*line)
            case "json":
                from holdfast.checks.formats.json import document

                invocation.document(document(shown.report))
            case _:
                from holdfast.checks.formats.interface import format_of

                sys.stdout.write(format_of(format_)(shown))
