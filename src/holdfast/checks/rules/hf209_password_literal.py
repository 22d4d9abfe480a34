from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Checkout, Module, VariablesFile
from holdfast.checks.secrets import literals, secret_facts, texts
from holdfast.checks.secrets.suspicion import SecretKind, SuspiciousText

_FIX = "Pass it as a sensitive variable without a default, or read it from a secret store; then rotate it."


def _module(module: Module) -> Iterator[Finding]:
    for text in literals.in_module(module):
        if text.kind is SecretKind.KNOWN:
            own = secret_facts.remedy("managed", text.type or "", (text.name,), otherwise="")
            yield finding(
                text.place,
                f"`{text.name}` is a secret and is hard-coded here",
                address=text.address,
                hint=f"{_FIX} {own}".rstrip(),
            )
        elif text.kind is SecretKind.PASSWORD:
            yield _password(text)


def _variables(file: VariablesFile) -> Iterator[Finding]:
    yield from (_password(text) for text in literals.in_variables(file) if text.kind is SecretKind.PASSWORD)


def _repository(checkout: Checkout) -> Iterator[CheckResult]:
    for text in texts.in_documents(checkout):
        if isinstance(text, Skipped):
            yield text
        elif text.kind is SecretKind.PASSWORD:
            yield _password(text)


def _password(text: SuspiciousText) -> Finding:
    inline = " " in text.name or text.name.startswith("-")
    message = f"the password of `{text.name}` is hard-coded" if inline else f"`{text.name}` is hard-coded"
    return finding(text.place, message, address=text.address, severity=Severity.WARNING)


RULE = Rule(
    id="HF209",
    title="Hard-coded password",
    why="Everyone who can read the repository has it, it is the same in every environment, and it is "
    "stored in the state. Defaults that are meant to be changed usually stay.",
    fix=_FIX,
    severity=Severity.ERROR,
    source=_module,
    variables=_variables,
    repository=_repository,
    secret=True,
)
