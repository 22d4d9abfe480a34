"""What every evaluator of Rego takes and returns: documents, results, and the error when it cannot evaluate.

The conventions are Conftest's. A value of an unexpected shape, which Conftest would count as a success, is an
error here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from holdfast.checks.tools.rego.policies import is_failure, is_warning
from holdfast.kernel.values import MaskedStruct

TIMEOUT: Final = 300.0
INSTALL: Final = "Install `opa` (openpolicyagent.org), or the extra `rego`: pip install 'holdfast[rego]'."
INSTALL_OPA: Final = (
    "Install `opa` (openpolicyagent.org): Holdfast uses it instead of regopy where it is on PATH."
)
FIX_POLICY: Final = "Fix the policy; `holdfast policy test` runs its tests."
_PREFIXES: Final = ("violation", "deny", "warn")


class EvaluationError(Exception):
    """The evaluator failed, or its output cannot be trusted."""

    def __init__(self, message: str, *, hint: str = FIX_POLICY) -> None:
        super().__init__(message)
        self.hint = hint


class Document(MaskedStruct, frozen=True, kw_only=True):
    """The input of a policy: a plan, or a file of code."""

    value: Mapping[str, Any]
    path: str | None = None
    stack: str | None = None


class ResultKind(StrEnum):
    FAILURE = "failure"
    WARNING = "warning"
    EXCEPTION = "exception"
    ERROR = "error"
    """The value of the rule is neither a message nor empty."""


class Result(Struct, frozen=True, kw_only=True):
    package: str
    rule: str
    kind: ResultKind
    message: str
    metadata: Mapping[str, object] = {}


def to_json(value: object) -> str:
    """Without escapes for non-ASCII characters: regopy compares strings as they are written."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def results_from_package(package: str, value: object, rules: Mapping[str, bool]) -> Iterator[Result]:
    """The results in the value of `data.<package>`.

    `rules` are the rules in the source: True for a set, which always has a value.
    """
    if not isinstance(value, dict):
        yield Result(package=package, rule="", kind=ResultKind.ERROR, message="the package has no value")
        return
    excepted = _exceptions(value.get("exception"))
    for rule in sorted({*rules, *(name for name in value if is_failure(name) or is_warning(name))}):
        if rule not in value:
            if rules[rule]:
                message = "the rule has no value"
                yield Result(package=package, rule=rule, kind=ResultKind.ERROR, message=message)
            continue
        for kind, message, metadata in _messages(rule, value[rule]):
            is_excepted = kind is not ResultKind.ERROR and _suffix(rule) in excepted
            yield Result(
                package=package,
                rule=rule,
                kind=ResultKind.EXCEPTION if is_excepted else kind,
                message=message,
                metadata=metadata,
            )


def _messages(rule: str, value: object) -> Iterator[tuple[ResultKind, str, Mapping[str, object]]]:
    kind = ResultKind.FAILURE if is_failure(rule) else ResultKind.WARNING
    match value:
        case False | None | "":
            return
        case True:
            yield kind, f"{rule} is true", {}
        case str():
            yield kind, value, {}
        case list():
            for member in value:
                yield _message(kind, member)
        case _:
            yield ResultKind.ERROR, f"not a set of messages: write `{rule} contains msg if`", {}


def _message(kind: ResultKind, member: Any) -> tuple[ResultKind, str, Mapping[str, object]]:
    match member:
        case str():
            return kind, member, {}
        case {"msg": str() as message}:
            return kind, message, {key: value for key, value in member.items() if key != "msg"}
        case dict():
            return ResultKind.ERROR, "an object without `msg`", {}
        case _:
            return ResultKind.ERROR, "a message that is neither text nor an object with `msg`", {}


def _exceptions(value: object) -> frozenset[str]:
    """`exception contains rules if { rules := ["public"] }`: a set of lists of names."""
    lists = value if isinstance(value, list) else []
    return frozenset(
        name for names in lists if isinstance(names, list) for name in names if isinstance(name, str)
    )


def _suffix(rule: str) -> str:
    """The name of a rule in an exception: `public` for `deny_public`, the empty string for `deny`."""
    if rule in _PREFIXES:
        return ""
    for prefix in _PREFIXES:
        rule = rule.removeprefix(f"{prefix}_")
    return rule
