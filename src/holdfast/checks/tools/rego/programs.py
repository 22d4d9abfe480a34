"""Chooses the evaluator: `opa` or `conftest` if installed, otherwise regopy. Runs the first two.

Both read the policy files unchanged, and the documents from standard input: a plan contains secrets and is
never written to disk. The programs themselves refuse calls that reach the network or the system.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.checks.tools.interface import child_variables, exit_message, program_of, run_program
from holdfast.checks.tools.rego import forbidden_calls
from holdfast.checks.tools.rego.by_regopy import Regopy
from holdfast.checks.tools.rego.interface import (
    TIMEOUT,
    Document,
    EvaluationError,
    Result,
    results_from_package,
    to_json,
)
from holdfast.checks.tools.rego.policies import PolicyFile, rules_of
from holdfast.system import clock, files
from holdfast.system.environment import Environment
from holdfast.system.processes import Finished
from holdfast.terraform.workdirs.scratch import open_scratch_folder


class _Program:
    def __init__(self, program: str, root: Path, variables: Mapping[str, str]) -> None:
        self._program = program
        self._root = root
        self._variables = variables

    def _run(self, *arguments: str, folder: Path | None = None, given: bytes | None = None) -> Finished:
        argv = [self._program, *arguments]
        return run_program(argv, folder or self._root, self._variables, TIMEOUT, given)


class Opa(_Program):
    name = "opa"

    def evaluate(self, policies: Sequence[PolicyFile], documents: Sequence[Document]) -> list[list[Result]]:
        rules = rules_of(policies)
        data = [f"--data={policy.path}" for policy in policies if not policy.is_test]
        query = _query(rules, "input")
        with self._open_capabilities() as confined:
            given = to_json([document.value for document in documents]).encode(errors="replace")
            finished = self._run(
                *("eval", *confined, "--format=json", "--stdin-input", *data, query), given=given
            )
        return _results(rules, opa_value(finished), len(documents))

    def test(self, policies: Sequence[PolicyFile]) -> Finished:
        with self._open_capabilities() as confined:
            return self._run("test", *confined, "--format=json", *(policy.path for policy in policies))

    @contextlib.contextmanager
    def _open_capabilities(self) -> Iterator[tuple[str, ...]]:
        """The options that select Rego 1.0 and take away the forbidden built-in functions."""
        finished = self._run("capabilities", "--current")
        try:
            text = forbidden_calls.capabilities(finished.out)
        except (ValueError, KeyError, TypeError):
            raise EvaluationError(
                f"opa did not list its built-in functions: {exit_message(finished)}"
            ) from None
        with open_scratch_folder() as folder:
            file = folder / "capabilities.json"
            files.write(file, text, durable=False)
            yield "--v1-compatible", f"--capabilities={file}"


def _query(packages: Iterable[str], documents: str) -> str:
    """A list with, for each package, its value by the index of the document."""
    each = (
        f"{{i: v | some i, d in {documents}; v := data.{package} with input as d}}" for package in packages
    )
    return f"[{', '.join(each)}]"


def _results(
    rules: Mapping[str, Mapping[str, bool]], values: Sequence[Mapping[str, Any]], count: int
) -> list[list[Result]]:
    return [
        [
            result
            for (package, heads), by_document in zip(rules.items(), values, strict=True)
            for result in results_from_package(package, by_document.get(str(index), {}), heads)
        ]
        for index in range(count)
    ]


def opa_value(finished: Finished) -> list[dict[str, Any]]:
    """The value of the one expression in the query."""
    try:
        output = json.loads(finished.out or b"null")
        if finished.code == 0:
            value = output["result"][0]["expressions"][0]["value"]
            if isinstance(value, list) and all(isinstance(item, dict) for item in value):
                return value
        error = output["errors"][0]
        place = error.get("location") or {}
        raise EvaluationError(f"opa: {error['message']} ({place.get('file', '')}:{place.get('row', '')})")
    except (ValueError, KeyError, IndexError, TypeError):
        raise EvaluationError(f"opa failed: {exit_message(finished)}") from None


class Conftest(_Program):
    """Evaluates a policy of Holdfast whose single message is the value of the user's packages.

    So a result means the same as with `opa`; Conftest itself ignores results of an unexpected shape.
    Documents are passed as strings, because Conftest reads large numbers as floats.
    """

    name = "conftest"

    def evaluate(self, policies: Sequence[PolicyFile], documents: Sequence[Document]) -> list[list[Result]]:
        rules = rules_of(policies)
        used = [policy for policy in policies if not policy.is_test]
        parsed = "[json.unmarshal(text) | some text in input.documents]"
        query = f"documents := {parsed}\nanswer := {_query(rules, 'documents')}"
        values = self.query(used, query, [to_json(document.value) for document in documents])
        try:
            return _results(rules, values, len(documents))
        except (ValueError, TypeError, AttributeError):
            raise EvaluationError("conftest returned an unexpected value") from None

    def query(self, policies: Sequence[PolicyFile], rules: str, documents: Sequence[str] = ()) -> Any:
        """The value of the rule `answer`, with these policies as data."""
        self._require_allowed_calls(policies)
        return self._answer(policies, rules, documents)

    def _require_allowed_calls(self, policies: Sequence[PolicyFile]) -> None:
        """Conftest cannot be started without the forbidden functions, so the parsed policies are searched."""
        texts = {policy.path: policy.text for policy in policies}
        names = self._answer((), forbidden_calls.NAMES, [to_json(texts)])
        if forbidden := list(forbidden_calls.forbidden_names(names)):
            raise EvaluationError(forbidden_calls.message(forbidden), hint=forbidden_calls.HINT)
        if unread := sorted(texts.keys() - names.keys()):
            # Conftest's own error for a file that it cannot parse is better than the one below.
            self._answer(policies, "answer := []", ())
            raise EvaluationError(f"conftest could not parse {', '.join(unread)}")

    def _answer(self, policies: Sequence[PolicyFile], rules: str, documents: Sequence[str]) -> Any:
        # A random package name, so that no policy can add rules to it.
        package = f"holdfast_{clock.random_token()}"
        with open_scratch_folder() as folder:
            own = folder / "answer.rego"
            text = f"package {package}\nimport rego.v1\n{rules}\ndeny contains json.marshal(answer)\n"
            files.write(own, text, durable=False)
            paths = [*(self._root / policy.path for policy in policies), own]
            finished = self._run(
                *("test", f"--namespace={package}", "--output=json", "--no-color", "--no-fail"),
                *("--parser=json", *(f"--policy={path}" for path in paths), "-"),
                # Not in the repository: a `conftest.toml` there could change the query.
                folder=folder,
                given=to_json({"documents": documents}).encode(errors="replace"),
            )
        return conftest_value(finished, f"{self._root}/")


def conftest_value(finished: Finished, root: str = "") -> Any:
    """The single message of the single rule in the query."""
    try:
        ((failure,),) = [output["failures"] for output in json.loads(finished.out) if finished.code == 0]
        return json.loads(failure["msg"])
    except (ValueError, KeyError, TypeError):
        raise EvaluationError(f"conftest failed: {exit_message(finished).replace(root, '')}") from None


Evaluator = Opa | Conftest | Regopy
"""`evaluate` returns the results for each document, in order, or raises `EvaluationError`."""


def find_evaluator(root: Path, environment: Environment) -> Evaluator | None:
    variables = child_variables(environment)
    if (opa := program_of(environment, "opa")) is not None:
        return Opa(opa, root, variables)
    if (conftest := program_of(environment, "conftest")) is not None:
        return Conftest(conftest, root, variables)
    # It needs no variables, and a policy can read every variable it has.
    return Regopy(root, {}) if importlib.util.find_spec("regopy") is not None else None
