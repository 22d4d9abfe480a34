"""Evaluates policies with regopy in a process of its own. What regopy gets wrong is an error, never a pass.

Documents go to its standard input: a plan contains secrets and is never written to disk.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.checks.tools.interface import exit_message, run_program
from holdfast.checks.tools.rego import regopy_worker, rewrite
from holdfast.checks.tools.rego.interface import (
    FIX_POLICY,
    INSTALL_OPA,
    TIMEOUT,
    Document,
    EvaluationError,
    Result,
    ResultKind,
    results_from_package,
    to_json,
)
from holdfast.checks.tools.rego.policies import PolicyFile, rules_of
from holdfast.checks.tools.rego.syntax import name_problems, without_tests
from holdfast.system import processes

_MAX_SIZE = 20_000_000
"""Characters. regopy needs more than a hundred times as many bytes of memory."""
_SYNTAX_ERROR = re.compile(r"\(error \d+:([^|]+)\|(\d+)\|\d+ \(errormsg \d+:([^()]*)\)")
RULE_FAILED = (
    "regopy could not evaluate this rule: a built-in function failed or is not supported, or its input "
    "contains quotes, backslashes, line breaks or non-ASCII letters that regopy handles incorrectly"
)


class Regopy:
    name = "regopy"

    def __init__(
        self, root: Path, variables: Mapping[str, str], program: Sequence[str] | None = None
    ) -> None:
        self._root = root
        self._variables = variables
        self._program = program or (
            *(sys.executable, "-I", "-S", str(Path(regopy_worker.__file__))),
            os.pathsep.join(filter(None, sys.path)),
        )

    def evaluate(self, policies: Sequence[PolicyFile], documents: Sequence[Document]) -> list[list[Result]]:
        # regopy can crash on a loaded rule with `with input as …`, even if nothing evaluates it.
        texts = rewrite_all([policy for policy in policies if not policy.is_test], without_tests)
        used = [PolicyFile(path=path, text=text) for path, text in texts.items()]
        rules = rules_of(used)
        inputs = [_input(document) for document in documents]
        modules = rewrite_all(used, rewrite.rewrite_policy)
        inspects_strings = any(map(rewrite.inspects_strings, modules.values()))
        values_by_document = self.query(
            modules, {package: list(heads) for package, heads in rules.items()}, inputs
        )
        if problems := list(name_problems(used)):
            raise EvaluationError("; ".join(problems), hint=f"{FIX_POLICY} Or install `opa`.")
        return [
            [
                result
                for (package, heads), value in zip(rules.items(), values, strict=True)
                for result in _results(
                    package, heads, value, unsafe=inspects_strings and rewrite.has_control_characters(text)
                )
            ]
            for text, values in zip(inputs, values_by_document, strict=True)
        ]

    def query(
        self, modules: Mapping[str, str], queries: Mapping[str, Sequence[str]], documents: Sequence[str]
    ) -> list[list[Any]]:
        """For each document and package its value as text, or on failure the value of each of its rules."""
        request = {
            "modules": {**modules, "holdfast_exact.rego": rewrite.helper_module()},
            "queries": queries,
            "documents": documents,
        }
        given = to_json(request).encode(errors="replace")
        finished = run_program(self._program, self._root, self._variables, TIMEOUT, given)
        try:
            output = json.loads(finished.out)
        except ValueError:
            message = f"regopy crashed while evaluating the policies ({exit_message(finished)})"
            raise EvaluationError(message, hint=INSTALL_OPA) from None
        if finished.code != 0 or "results" not in output:
            message = f"regopy cannot read the policies: {_reason(output, finished, modules)}"
            raise EvaluationError(message, hint=f"{FIX_POLICY} Or install `opa`.")
        results: list[list[Any]] = output["results"]
        if len(results) != len(documents) or any(len(values) != len(queries) for values in results):
            raise EvaluationError("regopy returned too few results", hint=INSTALL_OPA)
        return results


def rewrite_all(policies: Sequence[PolicyFile], rewrite_text: Callable[[str], str]) -> dict[str, str]:
    """The rewritten text of each policy, by path."""
    modules: dict[str, str] = {}
    for policy in policies:
        try:
            modules[policy.path] = rewrite_text(policy.text)
        except ValueError as error:
            raise EvaluationError(f"regopy cannot read the policies: {error} ({policy.path})") from None
    return modules


def _results(package: str, heads: Mapping[str, bool], text: object, *, unsafe: bool) -> Iterator[Result]:
    """`undefined`, `<error>` and invalid JSON are errors, never a pass."""
    if unsafe:
        why = "the input contains control characters, which regopy handles incorrectly"
        yield Result(package=package, rule="", kind=ResultKind.ERROR, message=why)
        return
    if isinstance(text, dict):
        values = {rule: parse_value(value) for rule, value in text.items()}
        failed = [rule for rule, value in values.items() if isinstance(value, EvaluationError)]
        for rule in failed or ("",):
            yield Result(package=package, rule=rule, kind=ResultKind.ERROR, message=RULE_FAILED)
        evaluated = {
            rule: value for rule, value in values.items() if value is not None and rule not in failed
        }
        left = {rule: head for rule, head in heads.items() if rule not in failed}
        yield from results_from_package(package, evaluated, left)
        return
    value = parse_value(text)
    if isinstance(value, EvaluationError):
        yield Result(package=package, rule="", kind=ResultKind.ERROR, message=str(value))
    else:
        yield from results_from_package(package, {} if value is None else value, heads)


def parse_value(text: object) -> Any:
    """The value of a result; None if it is undefined, an `EvaluationError` if regopy failed."""
    if text == "undefined":
        return None
    try:
        return json.loads(str(text))["expressions"][0]
    except (ValueError, KeyError, IndexError, TypeError):
        return EvaluationError(RULE_FAILED)


def _input(document: Document) -> str:
    text = to_json(document.value)
    if len(text) > _MAX_SIZE:
        size = len(text) // 1_000_000
        name = document.stack or document.path
        raise EvaluationError(f"{name}: {size} MB is too large for regopy", hint=INSTALL_OPA)
    return text


def _reason(output: Mapping[str, object], finished: processes.Finished, modules: Mapping[str, str]) -> str:
    """The message and place of each syntax error; regopy itself prints a syntax tree."""
    text = " ".join(str(output.get("error") or exit_message(finished)).split())
    errors = [
        f"{error[3].strip()} ({error[1]}:{modules[error[1]].encode()[: int(error[2])].count(10) + 1})"
        for error in _SYNTAX_ERROR.finditer(text)
        if error[1] in modules
    ]
    return "; ".join(dict.fromkeys(errors)) or text[:500]
