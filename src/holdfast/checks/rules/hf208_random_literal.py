from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Checkout, Module, VariablesFile
from holdfast.checks.secrets import literals, texts
from holdfast.checks.secrets.suspicion import SecretKind, SuspiciousText


def _module(module: Module) -> Iterator[Finding]:
    return _random_texts(literals.in_module(module))


def _variables(file: VariablesFile) -> Iterator[Finding]:
    return _random_texts(literals.in_variables(file))


def _repository(checkout: Checkout) -> Iterator[CheckResult]:
    found = texts.in_documents(checkout)
    yield from (text for text in found if isinstance(text, Skipped))
    yield from _random_texts(text for text in found if isinstance(text, SuspiciousText))


def _random_texts(every: Iterable[SuspiciousText]) -> Iterator[Finding]:
    for text in every:
        if text.kind is SecretKind.RANDOM:
            message = (
                f"`{text.name}` is set to a text that looks like a secret"
                if text.name
                else "a secret-looking name is set to a text that looks like a secret"
            )
            yield finding(text.place, message, address=text.address)


RULE = Rule(
    id="HF208",
    title="Text that looks like a secret",
    why="A random text under such a name is nearly always a password, a token or a key, and everyone "
    "who can read the repository has it.",
    fix="If it is a secret, rotate it and read it from a secret store or a sensitive variable. If not, "
    "waive this line.",
    severity=Severity.ERROR,
    source=_module,
    variables=_variables,
    repository=_repository,
    secret=True,
)
