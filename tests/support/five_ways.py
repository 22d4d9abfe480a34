r"""What each rule must be shown to do: pass, find, and not stumble over what is missing or not known.

A table of these (`ways_*.py`) has a row for every rule; `test_every_rule_five_ways.py` asks them all. The
fifth way, a waiver, needs no row: it is tried on every finding of the others.

    "HF709": Ways(
        missing=(found("terraform {}\n"),),
        unknown=(quiet("terraform {\n  required_version = local.v\n}\n"),),
    )

What the rule's own page shows as right and wrong (`good`, `bad`) passes and is found without being said.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from checks_made import checkout, plan_of, state_of

from holdfast.checks.engine.pages import rule_details
from holdfast.checks.engine.running import Available, CheckInputs
from holdfast.checks.model.interface import Rule
from holdfast.checks.model.subjects import Checkout, Commit, EngineOutput, History

Files = Mapping[str, str | bytes]
Hand = Callable[[Checkout], CheckInputs]


class Says(Enum):
    FOUND = "it finds something"
    QUIET = "it finds nothing, and looked at everything"
    SKIPPED = "it finds nothing, and says why it could not look"


class Way(NamedTuple):
    says: Says
    files: Files
    config: str | None = None
    hand: Hand | None = None
    no_git: bool = False

    def checkout(self, more: str = "") -> Checkout:
        """`more`: lines for the configuration."""
        made = checkout(self.files, config=configured(self.config, more) if more else self.config)
        if self.no_git:
            made.tracked = None
        return made


class Ways(NamedTuple):
    missing: tuple[Way, ...]
    """What the rule looks at is not written."""
    unknown: tuple[Way, ...]
    """It is written, and only Terraform will know it; or nobody can look."""
    passes: tuple[Way, ...] = ()
    fails: tuple[Way, ...] = ()


def _way(says: Says, code: str | Files, config: str | None, hand: Hand | None) -> Way:
    return Way(says, {"main.tf": code} if isinstance(code, str) else code, config, hand)


def found(code: str | Files, config: str | None = None, hand: Hand | None = None) -> Way:
    return _way(Says.FOUND, code, config, hand)


def quiet(code: str | Files, config: str | None = None, hand: Hand | None = None) -> Way:
    return _way(Says.QUIET, code, config, hand)


def skipped(code: str | Files, config: str | None = None, hand: Hand | None = None) -> Way:
    return _way(Says.SKIPPED, code, config, hand)


def all_ways(rule: Rule, ways: Ways) -> dict[str, tuple[Way, ...]]:
    """With the rule's own examples, in a stack and in code that no stack uses."""
    examples = rule_details(rule)
    good = (quiet(examples.good),) if examples.good else ()
    bad = (found(examples.bad),) if examples.bad else ()
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


# What is at hand beside the repository.


def planned(document: Mapping[str, Any]) -> Hand:
    data = json.dumps({"format_version": "1.2", "terraform_version": "1.9.0", **document}).encode()
    return lambda made: CheckInputs(plans=Available(items=(plan_of(made, data),)))


def change(address: str, after: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """One change of a plan: it makes this object."""
    *mode, type_, name = address.split(".")
    return {
        "address": address,
        "mode": mode[0] if mode else "managed",
        "type": type_,
        "name": name,
        "provider_name": "p",
        "change": {"actions": ["create"], "before": None, "after": after or {}, **more},
    }


def kept(*resources: Mapping[str, Any], outputs: Mapping[str, Any] | None = None) -> Hand:
    document = {"version": 4, "terraform_version": "1.9.0", "serial": 1, "lineage": "l"}
    data = json.dumps({**document, "outputs": outputs or {}, "resources": resources}).encode()
    return state(data)


def state(data: bytes) -> Hand:
    return lambda made: CheckInputs(states=Available(items=(state_of(made, data),)))


def held(address: str, **attributes: Any) -> dict[str, Any]:
    """One object of a state."""
    *mode, type_, name = address.split(".")
    instance = {"schema_version": 0, "attributes": attributes}
    return {
        "mode": mode[0] if mode else "managed",
        "type": type_,
        "name": name,
        "provider": "p",
        "instances": [instance],
    }


def said(**more: Any) -> Hand:
    """What Terraform said of the root module."""
    return lambda made: CheckInputs(
        engine=Available(items=(EngineOutput(stack=made.stacks[0], folder=".", **more),)),
    )


def past(*paths: str) -> Hand:
    """A history in which these were added, and taken away again."""
    commit = Commit(id="0123456789abcdef", date="2025-03-04", paths=paths)
    return lambda made: CheckInputs(history=Available(items=(History(checkout=made, commits=(commit,)),)))
