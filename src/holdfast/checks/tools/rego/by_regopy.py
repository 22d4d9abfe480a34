"""regopy, in a process of its own: where it goes wrong, that is an error and never nothing found.

Documents are handed over on standard input: a plan holds secrets, and none of it lies on a disk.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.checks.tools.interface import how_it_ended
from holdfast.checks.tools.rego import exact, regopy_worker
from holdfast.checks.tools.rego.answers import Kind, Result, results
from holdfast.checks.tools.rego.interface import SECONDS, Document, NoAnswer, as_json
from holdfast.checks.tools.rego.names import doubtful_names
from holdfast.checks.tools.rego.policies import Policy, rules_of, slim
from holdfast.system import processes

_SLIM_FROM = 1_000_000
_MOST = 20_000_000
"""Characters: regopy takes more than a hundred times as many bytes of memory."""
_WRONG = re.compile(r"\(error \d+:([^|]+)\|(\d+)\|\d+ \(errormsg \d+:([^()]*)\)")
BROKE = (
    "it broke in regopy: a built-in failed, is not supported, or was given a text with quotes, backslashes "
    "or line ends that regopy gets wrong"
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

    def evaluate(self, policies: Sequence[Policy], documents: Sequence[Document]) -> list[list[Result]]:
        used = [policy for policy in policies if not policy.is_test]
        rules = rules_of(used)
        texts = [_slimmed(document, used) for document in documents]
        modules = {policy.path: exact.guarded(policy.text) for policy in used}
        doubtful = any(map(exact.doubtful, modules.values()))
        said = self.ask(modules, {package: list(heads) for package, heads in rules.items()}, texts)
        if doubtful_ones := list(doubtful_names(used)):
            raise NoAnswer("; ".join(doubtful_ones))
        return [
            [
                result
                for (package, heads), text in zip(rules.items(), answers, strict=True)
                for result in _read(package, heads, text, odd=doubtful and exact.odd(document))
            ]
            for document, answers in zip(texts, said, strict=True)
        ]

    def ask(
        self, modules: Mapping[str, str], queries: Mapping[str, Sequence[str]], documents: Sequence[str]
    ) -> list[list[Any]]:
        """For each document and package what it evaluates to, as text; where that broke, each rule of it."""
        asked = {
            "modules": {**modules, "holdfast_exact.rego": exact.module()},
            "queries": queries,
            "documents": documents,
        }
        finished = processes.run(
            self._program,
            folder=self._root,
            environment=self._variables,
            seconds=SECONDS,
            background=True,
            given=as_json(asked).encode(errors="replace"),
        )
        try:
            said = json.loads(finished.out)
        except ValueError:
            raise NoAnswer(f"regopy gave no answer: {how_it_ended(finished)}") from None
        if finished.code != 0 or "results" not in said:
            raise NoAnswer(f"regopy cannot read the policies: {_short(said, finished, modules)}")
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
    text = as_json(document.value)
    if len(text) > _SLIM_FROM and document.path is None:
        text = as_json(slim(document.value, policies))
    if len(text) > _MOST:
        size = len(text) // 1_000_000
        raise NoAnswer(f"{document.stack or document.path}: {size} MB are too much for regopy; install `opa`")
    return text


def _short(said: Mapping[str, object], finished: processes.Finished, modules: Mapping[str, str]) -> str:
    """Its own words are a tree; a person wants the place and what is wrong there."""
    text = " ".join(str(said.get("error") or how_it_ended(finished)).split())
    found = [
        f"{wrong[3].strip()} ({wrong[1]}:{modules[wrong[1]].encode()[: int(wrong[2])].count(10) + 1})"
        for wrong in _WRONG.finditer(text)
        if wrong[1] in modules
    ]
    return "; ".join(dict.fromkeys(found)) or text[:500]
