"""From what a policy evaluates to, to what it says about a document: failures, warnings, exceptions. Pure.

The conventions are Conftest's. Where Conftest takes a result for a success because it has an unexpected
shape, this does not: it is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from holdfast.checks.tools.rego.policies import is_failure, is_warning

_PREFIXES = ("violation", "deny", "warn")


class Kind(StrEnum):
    FAILURE = "failure"
    WARNING = "warning"
    EXCEPTION = "exception"
    ERROR = "error"
    """The policy gave something that says neither yes nor no."""


class Result(Struct, frozen=True, kw_only=True):
    package: str
    rule: str
    kind: Kind
    message: str
    metadata: Mapping[str, object] = field(default_factory=dict)


def results(package: str, value: object, rules: Mapping[str, bool]) -> Iterator[Result]:
    """What `data.<package>` says; `rules` are those in the source, True for one that must be there."""
    if not isinstance(value, dict):
        yield Result(package=package, rule="", kind=Kind.ERROR, message="it evaluates to no package")
        return
    excepted = _exceptions(value.get("exception"))
    for rule in sorted({*rules, *(name for name in value if is_failure(name) or is_warning(name))}):
        if rule not in value:
            if rules[rule]:
                yield Result(package=package, rule=rule, kind=Kind.ERROR, message="it evaluates to nothing")
            continue
        for kind, message, metadata in _said(rule, value[rule]):
            spared = kind is not Kind.ERROR and _suffix(rule) in excepted
            yield Result(
                package=package,
                rule=rule,
                kind=Kind.EXCEPTION if spared else kind,
                message=message,
                metadata=metadata,
            )


def _said(rule: str, value: object) -> Iterator[tuple[Kind, str, Mapping[str, object]]]:
    kind = Kind.FAILURE if is_failure(rule) else Kind.WARNING
    match value:
        case False | None | "":
            return
        case True:
            yield kind, f"{rule} holds", {}
        case str():
            yield kind, value, {}
        case list():
            for one in value:
                yield _one(kind, one)
        case _:
            yield Kind.ERROR, f"it is no set of messages: write `{rule} contains msg if`", {}


def _one(kind: Kind, one: Any) -> tuple[Kind, str, Mapping[str, object]]:
    match one:
        case str():
            return kind, one, {}
        case {"msg": str() as message}:
            return kind, message, {key: value for key, value in one.items() if key != "msg"}
        case dict():
            return Kind.ERROR, "an object without `msg`", {}
        case _:
            return Kind.ERROR, "a message that is neither text nor an object with `msg`", {}


def _exceptions(value: object) -> frozenset[str]:
    """`exception contains rules if { rules := ["public"] }`: a set of lists of names."""
    lists = value if isinstance(value, list) else []
    return frozenset(
        name for names in lists if isinstance(names, list) for name in names if isinstance(name, str)
    )


def _suffix(rule: str) -> str:
    """What an exception calls a rule: `deny_public` is `public`, and `deny` alone is the empty text."""
    if rule in _PREFIXES:
        return ""
    for prefix in _PREFIXES:
        rule = rule.removeprefix(f"{prefix}_")
    return rule
