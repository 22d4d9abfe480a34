"""Who evaluates Rego: `opa` or `conftest` where one is installed, else regopy in a process of its own.

Documents are handed over on standard input: a plan holds secrets, and none of it lies on a disk.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from holdfast.checks.tools import rego_exact, regopy_worker
from holdfast.checks.tools.interface import child_variables, how_it_ended, program_of
from holdfast.checks.tools.rego_answers import Kind, Result, from_conftest, results
from holdfast.checks.tools.rego_policies import Policy, rules_of, slim
from holdfast.doors import processes
from holdfast.doors.environment import Environment
from holdfast.kernel.values import dataclass, field

_SECONDS = 300.0
_SLIM_FROM = 1_000_000
_MOST = 20_000_000
"""Characters: regopy takes more than a hundred times as many bytes of memory."""
_CHUNK = 200
INSTALL = "Install `opa` (openpolicyagent.org), or the extra `rego`: pip install 'holdfast[rego]'."
BROKE = (
    "it broke in regopy: a built-in failed, is not supported, or was given a text with quotes, backslashes "
    "or line ends that regopy gets wrong"
)


class NoAnswer(Exception):  # noqa: N818 - what happened
    """The evaluator said nothing that can be believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What policies are asked about: a plan, or a file of code."""

    value: Mapping[str, Any] = field(repr=False)
    path: str | None = None
    stack: str | None = None


class Evaluator(Protocol):
    name: str

    def evaluate(self, policies: Sequence[Policy], documents: Sequence[Document]) -> list[list[Result]]:
        """What the policies say of each document, in their order; `NoAnswer` where nobody can tell."""
        ...


def find(root: Path, environment: Environment) -> Evaluator | None:
    """The real thing first."""
    variables = child_variables(environment)
    if (opa := program_of(environment, "opa")) is not None:
        return Opa(opa, root, variables)
    if (conftest := program_of(environment, "conftest")) is not None:
        return Conftest(conftest, root, variables)
    return Regopy(root, variables) if has_regopy() else None


def has_regopy() -> bool:
    return importlib.util.find_spec("regopy") is not None


class Opa:
    name = "opa"

    def __init__(self, program: str, root: Path, variables: Mapping[str, str]) -> None:
        self._program = program
        self._root = root
        self._variables = variables

    def evaluate(self, policies: Sequence[Policy], documents: Sequence[Document]) -> list[list[Result]]:
        rules = rules_of(policies)
        query = ", ".join(
            f"{{i: v | some i, d in input; v := data.{package} with input as d}}" for package in rules
        )
        data = [f"--data={policy.path}" for policy in policies if not policy.is_test]
        finished = processes.run(
            [self._program, "eval", "--v1-compatible", "--format=json", "--stdin-input", *data, f"[{query}]"],
            folder=self._root,
            environment=self._variables,
            seconds=_SECONDS,
            given=_json([document.value for document in documents]).encode(errors="replace"),
        )
        found = opa_value(finished)
        return [
            [
                result
                for (package, heads), values in zip(rules.items(), found, strict=True)
                for result in results(package, values.get(str(number), {}), heads)
            ]
            for number in range(len(documents))
        ]


def opa_value(finished: processes.Finished) -> list[dict[str, Any]]:
    """The value of the one expression that was asked for."""
    try:
        said = json.loads(finished.out or b"null")
        if finished.code == 0:
            value = said["result"][0]["expressions"][0]["value"]
            if isinstance(value, list) and all(isinstance(one, dict) for one in value):
                return value
        errors = said["errors"]
        first = errors[0]
        place = first.get("location") or {}
        raise NoAnswer(f"opa: {first['message']} ({place.get('file', '')}:{place.get('row', '')})")
    except (ValueError, KeyError, IndexError, TypeError):
        raise NoAnswer(f"opa gave no answer: {how_it_ended(finished)}") from None


class Conftest:
    name = "conftest"

    def __init__(self, program: str, root: Path, variables: Mapping[str, str]) -> None:
        self._program = program
        self._root = root
        self._variables = variables

    def evaluate(self, policies: Sequence[Policy], documents: Sequence[Document]) -> list[list[Result]]:
        """Files of code it reads itself: that is what its users know. Plans come one by one."""
        folder = os.path.commonpath([str(Path(policy.path).parent) for policy in policies])
        found: dict[int, list[Result]] = {}
        files = {
            document.path: number for number, document in enumerate(documents) if document.path is not None
        }
        paths = list(files)
        for start in range(0, len(paths), _CHUNK):
            chunk = paths[start : start + _CHUNK]
            for name, answers in self._test(folder, chunk, None):
                found.setdefault(files.get(name, -1), []).extend(answers)
        for number, document in enumerate(documents):
            if document.path is None:
                for _, answers in self._test(folder, ["--parser=json", "-"], _json(document.value)):
                    found.setdefault(number, []).extend(answers)
        if missing := [number for number in range(len(documents)) if number not in found]:
            raise NoAnswer(f"conftest said nothing about {len(missing)} of {len(documents)} documents")
        return [found[number] for number in range(len(documents))]

    def _test(
        self, folder: str, what: Sequence[str], given: str | None
    ) -> Iterator[tuple[str, list[Result]]]:
        finished = processes.run(
            [
                *(self._program, "test", f"--policy={folder}", "--all-namespaces", "--output=json"),
                *("--no-color", "--no-fail", *what),
            ],
            folder=self._root,
            environment=self._variables,
            seconds=_SECONDS,
            given=None if given is None else given.encode(errors="replace"),
        )
        yield from conftest_answers(finished)


def conftest_answers(finished: processes.Finished) -> Iterator[tuple[str, list[Result]]]:
    try:
        found = json.loads(finished.out)
    except ValueError:
        raise NoAnswer(f"conftest gave no answer: {how_it_ended(finished)}") from None
    if finished.code != 0 or not isinstance(found, list):
        raise NoAnswer(f"conftest gave no answer: {how_it_ended(finished)}")
    for one in found:
        yield str(one.get("filename", "")) if isinstance(one, dict) else "", list(from_conftest(one))


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

    def evaluate(self, policies: Sequence[Policy], documents: Sequence[Document]) -> list[list[Result]]:
        used = [policy for policy in policies if not policy.is_test]
        rules = rules_of(used)
        texts = [_slimmed(document, used) for document in documents]
        modules = {policy.path: rego_exact.guarded(policy.text) for policy in used}
        doubtful = any(f"data.{rego_exact.PACKAGE}." in text for text in modules.values())
        said = self.ask(modules, {package: list(heads) for package, heads in rules.items()}, texts)
        return [
            [
                result
                for (package, heads), text in zip(rules.items(), answers, strict=True)
                for result in _read(package, heads, text, odd=doubtful and rego_exact.odd(document))
            ]
            for document, answers in zip(texts, said, strict=True)
        ]

    def ask(
        self, modules: Mapping[str, str], queries: Mapping[str, Sequence[str]], documents: Sequence[str]
    ) -> list[list[Any]]:
        """For each document and package what it evaluates to, as text; where that broke, each rule of it."""
        asked = {
            "modules": {**modules, "holdfast_exact.rego": rego_exact.module()},
            "queries": queries,
            "documents": documents,
        }
        finished = processes.run(
            self._program,
            folder=self._root,
            environment=self._variables,
            seconds=_SECONDS,
            given=_json(asked).encode(errors="replace"),
        )
        try:
            said = json.loads(finished.out)
        except ValueError:
            raise NoAnswer(f"regopy gave no answer: {how_it_ended(finished)}") from None
        if finished.code != 0 or "results" not in said:
            raise NoAnswer(f"regopy cannot read the policies: {_short(said, finished)}")
        found: list[list[Any]] = said["results"]
        if len(found) != len(documents) or any(len(one) != len(queries) for one in found):
            raise NoAnswer("regopy answered less than it was asked")
        return found


def _read(package: str, heads: Mapping[str, bool], text: object, *, odd: bool) -> Iterator[Result]:
    """`undefined`, `<error>` and text that is no JSON are not taken for nothing found."""
    if odd:
        why = "the input holds control characters, which regopy gets wrong"
        yield Result(package=package, rule="", kind=Kind.ERROR, message=why)
        return
    if isinstance(text, dict):
        values = {rule: regopy_value(one) for rule, one in text.items()}
        broken = [rule for rule, value in values.items() if isinstance(value, NoAnswer)]
        for rule in broken or ("",):
            yield Result(package=package, rule=rule, kind=Kind.ERROR, message=BROKE)
        whole = {rule: value for rule, value in values.items() if value is not None and rule not in broken}
        left = {rule: head for rule, head in heads.items() if rule not in broken}
        yield from results(package, whole, left)
        return
    value = regopy_value(text)
    if isinstance(value, NoAnswer):
        yield Result(package=package, rule="", kind=Kind.ERROR, message=str(value))
    else:
        yield from results(package, {} if value is None else value, heads)


def regopy_value(text: object) -> Any:
    """The value of a result; None for an undefined one, `NoAnswer` for what cannot be believed."""
    if text == "undefined":
        return None
    try:
        return json.loads(str(text))["expressions"][0]
    except (ValueError, KeyError, IndexError, TypeError):
        return NoAnswer(BROKE)


def _slimmed(document: Document, policies: Sequence[Policy]) -> str:
    text = _json(document.value)
    if len(text) > _SLIM_FROM and document.path is None:
        text = _json(slim(document.value, policies))
    if len(text) > _MOST:
        size = len(text) // 1_000_000
        raise NoAnswer(f"{document.stack or document.path}: {size} MB are too much for regopy; install `opa`")
    return text


def _json(value: object) -> str:
    """Without escapes for what is not ASCII: regopy compares texts as they are written."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _short(said: Mapping[str, object], finished: processes.Finished) -> str:
    text = " ".join(str(said.get("error") or how_it_ended(finished)).split())
    return text[:500]
