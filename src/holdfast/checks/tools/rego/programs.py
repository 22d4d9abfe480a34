"""The real programs, `opa` and `conftest`: how they are called, and what they answered.

Documents are handed over on standard input: a plan holds secrets, and none of it lies on a disk. Nothing that
a policy calls leads out of the program: the program itself decides that, for it knows how calls are written.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.checks.tools.interface import how_it_ended
from holdfast.checks.tools.rego import forbidden_calls
from holdfast.checks.tools.rego.answers import Result, results
from holdfast.checks.tools.rego.interface import SECONDS, Document, NoAnswer, as_json
from holdfast.checks.tools.rego.policies import Policy, rules_of
from holdfast.system import clock, files, processes
from holdfast.terraform.workdirs.scratch import open_scratch_folder


class _Program:
    def __init__(self, program: str, root: Path, variables: Mapping[str, str]) -> None:
        self._program = program
        self._root = root
        self._variables = variables


class Opa(_Program):
    name = "opa"

    def evaluate(self, policies: Sequence[Policy], documents: Sequence[Document]) -> list[list[Result]]:
        rules = rules_of(policies)
        data = [f"--data={policy.path}" for policy in policies if not policy.is_test]
        asked = _about_each(rules, "input")
        with self._confined() as confined:
            finished = processes.run(
                [self._program, "eval", *confined, "--format=json", "--stdin-input", *data, asked],
                folder=self._root,
                environment=self._variables,
                seconds=SECONDS,
                background=True,
                given=as_json([document.value for document in documents]).encode(errors="replace"),
            )
        return _of_each(rules, opa_value(finished), len(documents))

    def test(self, policies: Sequence[Policy]) -> processes.Finished:
        with self._confined() as confined:
            return processes.run(
                [self._program, "test", *confined, "--format=json", *(policy.path for policy in policies)],
                folder=self._root,
                environment=self._variables,
                seconds=SECONDS,
                background=True,
            )

    @contextlib.contextmanager
    def _confined(self) -> Iterator[tuple[str, ...]]:
        """How it is told to read Rego 1.0, and what it must not do."""
        finished = processes.run(
            [self._program, "capabilities", "--current"],
            folder=self._root,
            environment=self._variables,
            seconds=SECONDS,
            background=True,
        )
        try:
            text = forbidden_calls.capabilities(finished.out)
        except (ValueError, KeyError, TypeError):
            raise NoAnswer(
                f"opa does not say what policies could call, so it is not asked: {how_it_ended(finished)}"
            ) from None
        with open_scratch_folder() as folder:
            file = folder / "capabilities.json"
            files.write(file, text, durable=False)
            yield "--v1-compatible", f"--capabilities={file}"


def _about_each(rules: Iterable[str], documents: str) -> str:
    """A list with, for each package, what it evaluates to by the number of the document."""
    each = (f"{{i: v | some i, d in {documents}; v := data.{package} with input as d}}" for package in rules)
    return f"[{', '.join(each)}]"


def _of_each(
    rules: Mapping[str, Mapping[str, bool]], found: Sequence[Mapping[str, Any]], count: int
) -> list[list[Result]]:
    return [
        [
            result
            for (package, heads), values in zip(rules.items(), found, strict=True)
            for result in results(package, values.get(str(number), {}), heads)
        ]
        for number in range(count)
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


class Conftest(_Program):
    """Asked by a policy of ours, whose one message is what the others evaluate to.

    So its answers mean what those of `opa` mean: by itself it passes over results of an unexpected shape.
    Documents are texts to it, for it would read their numbers as fractions.
    """

    name = "conftest"

    def evaluate(self, policies: Sequence[Policy], documents: Sequence[Document]) -> list[list[Result]]:
        rules = rules_of(policies)
        used = [policy for policy in policies if not policy.is_test]
        parsed = "[json.unmarshal(text) | some text in input.documents]"
        asked = f"documents := {parsed}\nanswer := {_about_each(rules, 'documents')}"
        found = self.ask(used, asked, [as_json(document.value) for document in documents])
        try:
            return _of_each(rules, found, len(documents))
        except (ValueError, TypeError, AttributeError):
            raise NoAnswer("conftest answered something else than it was asked") from None

    def ask(self, policies: Sequence[Policy], rules: str, documents: Sequence[str] = ()) -> Any:
        """What the rule `answer` evaluates to, where these policies are at hand as data."""
        self._look_through(policies)
        return self._answer(policies, rules, documents)

    def _look_through(self, policies: Sequence[Policy]) -> None:
        """It is not asked by policies that call what leads out. It cannot say what they could call."""
        texts = {policy.path: policy.text for policy in policies}
        found = self._answer((), forbidden_calls.NAMES, [as_json(texts)])
        if out := list(forbidden_calls.named(found)):
            raise NoAnswer(forbidden_calls.refused(out))
        if unread := sorted(texts.keys() - found.keys()):
            # It says better itself what is wrong with them; only where it can read them this is said.
            self._answer(policies, "answer := []", ())
            raise NoAnswer(f"conftest does not say what is called in {', '.join(unread)}")

    def _answer(self, policies: Sequence[Policy], rules: str, documents: Sequence[str]) -> Any:
        # A name that no policy can know, and so can add nothing to.
        asking = f"holdfast_{clock.random_token()}"
        with open_scratch_folder() as folder:
            own = folder / "answer.rego"
            text = f"package {asking}\nimport rego.v1\n{rules}\ndeny contains json.marshal(answer)\n"
            files.write(own, text, durable=False)
            paths = [*(self._root / policy.path for policy in policies), own]
            finished = processes.run(
                [
                    *(self._program, "test", f"--namespace={asking}", "--output=json", "--no-color"),
                    *("--no-fail", "--parser=json", *(f"--policy={path}" for path in paths), "-"),
                ],
                # Not where the code is: a `conftest.toml` there could change what is asked.
                folder=folder,
                environment=self._variables,
                seconds=SECONDS,
                background=True,
                given=as_json({"documents": documents}).encode(errors="replace"),
            )
        return conftest_value(finished, f"{self._root}/")


def conftest_value(finished: processes.Finished, root: str = "") -> Any:
    """The one message of the one rule that was asked."""
    try:
        ((one,),) = [found["failures"] for found in json.loads(finished.out) if finished.code == 0]
        return json.loads(one["msg"])
    except (ValueError, KeyError, TypeError):
        said = how_it_ended(finished).replace(root, "")
        raise NoAnswer(f"conftest gave no answer: {said}") from None
