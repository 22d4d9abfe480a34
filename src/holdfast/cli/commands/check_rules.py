"""`holdfast check --list` and `--explain`: the rules."""

from __future__ import annotations

from holdfast.checks.model.interface import Rule
from holdfast.cli.command import Invocation
from holdfast.kernel.errors import Exit, UsageError


def list_rules(invocation: Invocation) -> Exit:
    from holdfast.checks.engine.catalogue import rules

    if invocation.as_json:
        invocation.document({"version": 1, "rules": [_document(rule) for rule in rules()]})
        return Exit.DONE
    for rule in rules():
        invocation.console.line(f" {rule.id}  {rule.severity:<8} {rule.title}")
    invocation.console.say("")
    invocation.console.say(
        f" {len(rules())} rules · details of one: holdfast check --explain {rules()[0].id}"
    )
    return Exit.DONE


def explain_rule(invocation: Invocation, id_: str) -> Exit:
    from holdfast.checks.engine import catalogue
    from holdfast.checks.engine.pages import target_names, waiver_help
    from holdfast.config.problems import did_you_mean

    rule = catalogue.rule(id_)
    if rule is None:
        if (note := catalogue.removal_note(id_)) is not None:
            raise UsageError("HF-CHECK-1", note)
        hint = did_you_mean(id_.upper(), catalogue.ids()) or "List all rules with: holdfast check --list"
        raise UsageError("HF-CHECK-1", f"there is no rule `{id_}`", hint=hint)
    if invocation.as_json:
        invocation.document({"version": 1, "rules": [_document(rule)]})
        return Exit.DONE
    line = invocation.console.line
    line((f" {rule.id}  {rule.title}", "bold"), f"  ({rule.severity})")
    line(f" Checks {target_names(rule)}.")
    for title, text in (
        ("Why it matters", rule.why),
        ("How to fix it", rule.fix),
        ("Reported", rule.bad),
        ("Not reported", rule.good),
        ("More", rule.more),
        ("Exceptions", waiver_help(rule)),
    ):
        if text:
            line("")
            line((f" {title}", "bold"))
            for text_line in text.strip("\n").splitlines():
                line(f"   {text_line}" if text_line else "")
    return Exit.DONE


def _document(rule: Rule) -> dict[str, object]:
    return {
        "rule": rule.id,
        "severity": rule.severity.value,
        "title": rule.title,
        "why": rule.why,
        "fix": rule.fix,
        "looks_at": list(rule.targets),
    }
