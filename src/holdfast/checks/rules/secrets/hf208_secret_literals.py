from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Checkout
from holdfast.checks.secrets import literals, secret_facts, texts
from holdfast.checks.secrets.suspicion import SecretKind, SuspiciousText

_FIX = "Pass it as a sensitive variable without a default, or read it from a secret store; then rotate it."
Report = Callable[[SuspiciousText], Finding | None]


def _for_texts(report: Report) -> dict[str, Any]:
    """The fields of a `Rule` about suspicious texts in code, variables files and documents."""
    return {
        "source": lambda module: filter(None, map(report, literals.in_module(module))),
        "variables": lambda file: filter(None, map(report, literals.in_variables(file))),
        "repository": partial(_in_documents, report),
        "secret": True,
        "everywhere": True,
    }


def _in_documents(report: Report, checkout: Checkout) -> Iterator[CheckResult]:
    for text in texts.in_documents(checkout):
        result = text if isinstance(text, Skipped) else report(text)
        if result is not None:
            yield result


def _random_text(text: SuspiciousText) -> Finding | None:
    if text.kind is not SecretKind.RANDOM:
        return None
    name = f"`{text.name}`" if text.name else "a secret-looking name"
    message = f"{name} is set to a text that looks like a secret"
    return _finding(text, message)


def _finding(text: SuspiciousText, message: str, hint: str | None = None) -> Finding:
    address, severity = text.address, text.severity
    return finding(text.place, message, address=address, hint=hint, severity=severity, group=text.digest)


def _hard_coded(text: SuspiciousText) -> Finding | None:
    if text.kind is SecretKind.KNOWN:
        own = secret_facts.remedy("managed", text.type or "", (text.name,), otherwise="")
        message = f"`{text.name}` is a secret and is hard-coded here"
        return _finding(text, message, hint=f"{_FIX} {own}".rstrip())
    if text.kind is not SecretKind.PASSWORD:
        return None
    inline = " " in text.name or text.name.startswith("-")
    message = f"the password of `{text.name}` is hard-coded" if inline else f"`{text.name}` is hard-coded"
    return _finding(text, message)


HF208 = Rule(
    id="HF208",
    title="Text that looks like a secret",
    fix="If it is a secret, rotate it and read it from a secret store or a sensitive variable. If not, "
    "waive this line.",
    severity=Severity.ERROR,
    **_for_texts(_random_text),
)

HF209 = Rule(
    id="HF209",
    title="Hard-coded password",
    fix=_FIX,
    severity=Severity.ERROR,
    **_for_texts(_hard_coded),
)
