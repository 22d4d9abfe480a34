r"""Cases for each rule: code that passes or fails, that lacks what the rule checks, or that is not known.

A table of these (`rule_cases_*.py`) has a row for every rule; `test_every_rule_on_its_cases.py` runs them all
and waives every finding once.

    "HF709": Cases(
        missing=(reported("terraform {}\n"),),
        unknown=(passing("terraform {\n  required_version = local.v\n}\n"),),
    )

The examples of the rule's own page are cases as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from checkouts import checkout, plan_of, state_of

from holdfast.checks.engine.pages import rule_details
from holdfast.checks.engine.running import Available, CheckInputs
from holdfast.checks.model.contents import Commit, History
from holdfast.checks.model.interface import Rule
from holdfast.checks.model.subjects import Checkout, EngineOutput

Files = Mapping[str, str | bytes]
MakeInputs = Callable[[Checkout], CheckInputs]


class Expected(Enum):
    REPORTED = "the rule reports something"
    PASSED = "the rule was fully evaluated and reports nothing"
    SKIPPED = "the rule was not fully evaluated, with the reason"


class Case(NamedTuple):
    expected: Expected
    files: Files
    config: str | None = None
    make_inputs: MakeInputs | None = None
    no_git: bool = False

    def checkout(self, more: str = "") -> Checkout:
        """`more`: lines for the configuration."""
        made = checkout(self.files, config=configured(self.config, more) if more else self.config)
        if self.no_git:
            made.tracked = None
        return made


class Cases(NamedTuple):
    missing: tuple[Case, ...]
    """The code lacks what the rule checks."""
    unknown: tuple[Case, ...]
    """Only Terraform knows the value, or it cannot be read."""
    passes: tuple[Case, ...] = ()
    fails: tuple[Case, ...] = ()


def _case(expected: Expected, code: str | Files, config: str | None, make_inputs: MakeInputs | None) -> Case:
    return Case(expected, {"main.tf": code} if isinstance(code, str) else code, config, make_inputs)


def reported(code: str | Files, config: str | None = None, make_inputs: MakeInputs | None = None) -> Case:
    return _case(Expected.REPORTED, code, config, make_inputs)


def passing(code: str | Files, config: str | None = None, make_inputs: MakeInputs | None = None) -> Case:
    return _case(Expected.PASSED, code, config, make_inputs)


def skipped(code: str | Files, config: str | None = None, make_inputs: MakeInputs | None = None) -> Case:
    return _case(Expected.SKIPPED, code, config, make_inputs)


def all_cases(rule: Rule, ways: Cases) -> dict[str, tuple[Case, ...]]:
    """With the rule's own examples, in a stack and in code that no stack uses."""
    examples = rule_details(rule)
    good = (passing(examples.good),) if examples.good else ()
    bad = (reported(examples.bad),) if examples.bad else ()
    return {
        "passes": (*good, *ways.passes),
        "fails": (*bad, *ways.fails),
        "missing": ways.missing,
        "unknown": ways.unknown,
    }


ONE_STACK = "version: 1\nstacks:\n  - name: root\n    module: .\n    environment: prod\n"


def configured(config: str | None, more: str) -> str:
    """A configuration with a waiver in its `checks`."""
    text = ONE_STACK if config is None else config or "version: 1\n"
    if "\nchecks:\n" in text:
        return text.replace("\nchecks:\n", f"\nchecks:\n{more}")
    return f"{text}checks:\n{more}"


# Inputs besides the repository.


def with_plan(document: Mapping[str, Any]) -> MakeInputs:
    data = json.dumps({"format_version": "1.2", "terraform_version": "1.9.0", **document}).encode()
    return lambda made: CheckInputs(plans=Available(items=(plan_of(made, data),)))


def change(address: str, after: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """One change of a plan that creates this resource."""
    *mode, type_, name = address.split(".")
    return {
        "address": address,
        "mode": mode[0] if mode else "managed",
        "type": type_,
        "name": name,
        "provider_name": "p",
        "change": {"actions": ["create"], "before": None, "after": after or {}, **more},
    }


def with_state(*resources: Mapping[str, Any], outputs: Mapping[str, Any] | None = None) -> MakeInputs:
    document = {"version": 4, "terraform_version": "1.9.0", "serial": 1, "lineage": "l"}
    data = json.dumps({**document, "outputs": outputs or {}, "resources": resources}).encode()
    return with_state_file(data)


def with_state_file(data: bytes) -> MakeInputs:
    return lambda made: CheckInputs(states=Available(items=(state_of(made, data),)))


def state_resource(address: str, **attributes: Any) -> dict[str, Any]:
    """One resource of a state."""
    *mode, type_, name = address.split(".")
    instance = {"schema_version": 0, "attributes": attributes}
    return {
        "mode": mode[0] if mode else "managed",
        "type": type_,
        "name": name,
        "provider": "p",
        "instances": [instance],
    }


def with_engine_output(**more: Any) -> MakeInputs:
    """The output of Terraform for the root module."""
    return lambda made: CheckInputs(
        engine=Available(items=(EngineOutput(stack=made.stacks[0], folder=".", **more),)),
    )


def with_history(*paths: str) -> MakeInputs:
    """A history in which these files were added and removed again."""
    commit = Commit(id="0123456789abcdef", date="2025-03-04", paths=paths)
    return lambda made: CheckInputs(history=Available(items=(History(checkout=made, commits=(commit,)),)))
