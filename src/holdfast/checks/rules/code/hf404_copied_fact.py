from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from holdfast.checks.model.globs import is_path
from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import CheckedState, Checkout
from holdfast.contract.comparison import OutputValue
from holdfast.contract.facts import OutputsOfStack, build_facts, texts_of
from holdfast.contract.facts_file import read_facts
from holdfast.kernel.errors import Place

_DISTINCTIVE: Final = re.compile(
    r"(?:\d{1,3}\.){3}\d{1,3}|[0-9a-fA-F:]*::?[0-9a-fA-F:]{2,}|arn:\S+|[a-z][a-z0-9+.-]*://\S+"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[A-Za-z0-9_](?:[A-Za-z0-9_-]*\.)+[A-Za-z0-9-]{2,}"
)
"""Addresses, host names, ARNs, URIs and ids. Other texts, such as `prod`, are equal by chance."""
_INSIDE: Final = r"[\w.:/-]"


def _in_state(state: CheckedState) -> Iterator[CheckResult]:
    stack, checkout = state.stack.stack, state.stack.checkout
    target = stack.target
    settings = target.facts if target is not None else None
    if target is None or settings is None or not settings.gitops:
        return
    if target.contract is not None and stack.contract is None:
        return  # Its outputs are no facts.
    if state.contents.unseen is not None:
        yield Skipped(reason=state.contents.unseen)
        return
    outputs = {
        output.name: OutputValue(value=output.read(), sensitive=output.sensitive) for output in state.outputs
    }
    environments = settings.environments if stack.environment is None else (stack.environment,)
    source = OutputsOfStack(stack=stack.name, environment=stack.environment, outputs=outputs)
    values: dict[str, str] = {}
    for environment in environments:
        facts = build_facts(settings.map, environment, (source,), is_secret=lambda _: False)
        for fact, value in facts.facts.items():
            for name, text in texts_of(fact, value):
                if _DISTINCTIVE.fullmatch(text):
                    values.setdefault(text, f"`{name}` of {environment}")
    for path, line, text in _copies(checkout, settings.gitops, tuple(values)):
        yield finding(
            Place(file=path, line=line),
            f"the value of the fact {values[text]} (target {target.name}) is copied here",
        )


def _copies(
    checkout: Checkout, patterns: tuple[str, ...], values: tuple[str, ...]
) -> Iterator[tuple[str, int, str]]:
    for path in checkout.files:
        if not any(is_path(pattern, path) for pattern in patterns):
            continue
        present = [value for value in values if checkout.mentions(path, value.encode())]
        text = checkout.text(path) if present else None
        if text is None or read_facts(text).about is not None:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("#"):
                continue
            for value in present:
                if re.search(rf"(?<!{_INSIDE}){re.escape(value)}(?!{_INSIDE})", line):
                    yield path, number, value


HF404 = Rule(
    id="HF404",
    title="Copy of a fact",
    fix="Remove the value and take it from the facts, which GitOps layers over the other values.",
    severity=Severity.ERROR,
    state=_in_state,
)
