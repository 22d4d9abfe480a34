"""For the same plan, no change to configuration or variables turns a refusal into an allowance."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from checkouts import checkout
from context_made import change_context
from guard_made import RANK, plan, resource
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_blobs import MemoryBlobs

from holdfast.changes.base_rules import base_rules
from holdfast.changes.old_repository import OldRepository
from holdfast.checks.engine.catalogue import rules
from holdfast.checks.engine.running import run_checks
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report
from holdfast.config import read as config_read
from holdfast.config.settings import Config
from holdfast.guard.decision import Allow, Decision
from holdfast.hcl.eval.code import Code
from holdfast.hcl.eval.worktree import Worktree
from holdfast.plans.base_rules import BaseRules, rules_of_bundles
from holdfast.plans.saved_plan import StateIdentity
from holdfast.review.decide import decide
from holdfast.review.findings_by_stack import with_base_findings
from holdfast.review.plan_checks import PlanFindings
from holdfast.stacks.backend import code_backend
from holdfast.stacks.discover import discover
from holdfast.stacks.listing import FolderTree
from holdfast.stacks.scope import variables_reader
from holdfast.stacks.stack import Stack
from holdfast.terraform.argv import PlanOptions

YAML = "holdfast.yaml"
NAMES = ("red", "green", "prod")
ADDRESSES = ("x.y", "x.y[0]", "module.m.x.y", "aws_db_instance.d")
EFFECTS = st.sampled_from(("allow", "warn", "approve", "deny"))
BUDGETS = st.sampled_from(("any", 0, 1, 3, "0%", "50%"))
RULES = st.fixed_dictionaries(
    {},
    optional={
        "deletions": st.fixed_dictionaries({}, optional={"per_stack": BUDGETS}),
        "protect": st.fixed_dictionaries(
            {},
            optional={
                "addresses": st.lists(st.sampled_from(("x.y", "module.m", "*")), max_size=2),
                "types": st.lists(st.sampled_from(("x", "aws_*")), max_size=1),
                "tags": st.sampled_from(({"keep": "*"}, {"keep": ["yes"]}, {})),
            },
        ),
        "destroy": EFFECTS,
        "target": EFFECTS,
        "policies": EFFECTS,
        "findings": EFFECTS,
        "max_changes": st.integers(0, 3),
        "approvals": st.integers(0, 3)
        | st.fixed_dictionaries({"count": st.integers(0, 3), "verified": st.booleans()}),
        "freeze": st.just([{"from": "2020-01-01", "to": "2099-01-01", "zone": "UTC", "effect": "deny"}]),
    },
)
ENVIRONMENTS = st.fixed_dictionaries(
    {
        name: st.fixed_dictionaries(
            {},
            optional={
                "production": st.booleans(),
                "match": st.lists(st.sampled_from(("blue", "r*", "*")), max_size=2),
            },
        )
        for name in NAMES
    }
)


@st.composite
def configurations(draw: st.DrawFn, *names: str) -> tuple[str, str]:
    """A configuration, and the variables of its only stack; the state is always the same."""
    entry = {
        "name": draw(st.sampled_from(names)),
        "module": "m",
        "variables_files": ["s.tfvars"],
        "backend": {"type": "local", "settings": {"path": "../s.tfstate"}},
        **draw(
            st.sampled_from(
                (
                    *({}, {"environment": "{var.where}"}, {"environment": "green"}, {"account": "red"}),
                    {"environment": "{values.where}"},
                )
            )
        ),
    }
    general = draw(RULES)
    general.pop("except_types", None)
    document = {
        "version": 1,
        "environments": draw(ENVIRONMENTS),
        "guard": {
            **general,
            "environments": {name: draw(RULES) for name in draw(st.sets(st.sampled_from(NAMES)))},
        },
        "stacks": [entry],
    }
    values = st.sampled_from(("red", "green", "prod", "blue", "unknown"))
    defaults: tuple[dict[str, Any], ...] = (
        {},
        {"account": "red"},
        {"account": "green"},
        {"inputs": {"environment": "prod"}},
    )
    document |= {"values": {"where": draw(values)}, "defaults": draw(st.sampled_from(defaults))}
    return json.dumps(document), f'where = "{draw(values)}"\nenvironment = "{draw(values)}"\n'


ACTIONS = (("create",), ("update",), ("delete",), ("delete", "create"), ("forget",))
CHANGES = st.builds(
    lambda address, actions, tags: resource(address, *actions, before={"id": "1", "tags": tags}),
    st.sampled_from(ADDRESSES),
    st.sampled_from(ACTIONS),
    st.sampled_from(({}, {"keep": "yes"})),
)


def discovered(folder: Path, text: str, variables: str) -> tuple[Config, Code, tuple[Stack, ...]]:
    (folder / YAML).write_text(text)
    (folder / "s.tfvars").write_text(variables)
    config, code = config_read.load(folder / YAML), Code(folder)
    stacks = discover(
        config,
        files=FolderTree(folder),
        read_values=variables_reader(Worktree(folder)),
        code_backend=lambda stack: code_backend(code, stack.module),
    )
    return config, code, stacks


class Findings:
    async def check_plan(self, *_: object) -> PlanFindings:
        return PlanFindings(())


def decided(
    folder: Path, config: Config, stack: Stack, base: BaseRules | None, changes: list[Any]
) -> Decision:
    context = change_context(folder, blobs=MemoryBlobs(), config=config, stacks=(stack,))
    project = cast(
        "Any",
        SimpleNamespace(
            **{
                name: getattr(context.project, name)
                for name in ("config", "code", "stacks", "root", "code_backend")
            },
            base=base,
        ),
    )
    file = cast(
        "Any",
        SimpleNamespace(
            plan=plan(*changes, prior=4),
            prior=StateIdentity(lineage="l", serial=4),
            digest="d",
            destroy=False,
            gone=False,
            targeted=False,
            options=PlanOptions(),
            changes=True,
            product_change=None,
            repository_change=None,
        ),
    )
    judged = stack if base is None else base.stricter(stack)
    return asyncio.run(decide(project, context.store, cast("Any", Findings()), judged, file))


def rank(decision: Decision) -> tuple[int, int]:
    return RANK[type(decision)], 0 if isinstance(decision, Allow) else decision.approvals


@settings(max_examples=80)
@given(configurations("s"), configurations("s", "renamed"), st.lists(CHANGES, min_size=1, max_size=3))
def test_a_changed_configuration_never_allows_more(
    base: tuple[str, str], change: tuple[str, str], changes: list[Any]
) -> None:
    """Whatever the change makes of environments, rules, variables and its name; also from a bundle."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "m").mkdir()
        (folder / "m/main.tf").write_text("")
        config, _, (stack,) = discovered(folder, *base)
        before = decided(folder, config, stack, None, changes)
        config, code, (stack,) = discovered(folder, *change)
        old = {YAML: base[0].encode(), "s.tfvars": base[1].encode()}
        found = base_rules(config, code, (stack,), OldRepository(config, code, old), "main")
        after = decided(folder, config, stack, found, changes)
        assert rank(after) >= rank(before)
        assert after.verified or not before.verified
        sealed = found.seal(stack.name) if found is not None else None
        assert decided(folder, config, stack, rules_of_bundles([sealed], config, code), changes) == after
        if rank(decided(folder, config, stack, None, changes)) < rank(before):
            assert found is not None
            assert found.weakened


def test_a_new_stack_cannot_hide_behind_what_only_the_change_has(tmp_path: Path) -> None:
    """Without its value it would not exist with the base's environments, and not be judged by them."""
    base = {"version": 1, "environments": {"prod": {"match": ["live-*"]}}}
    hidden = {"match": ["live-9"], "values": {"v": "x"}, "defaults": {"region": "r"}}
    new = {"name": "new", "module": "m", "environment": "live-9", "workspace": "{values.v}-{region}"}
    change = {**base, "environments": {**base["environments"], "cheap": hidden}, "stacks": [new]}  # type: ignore[dict-item]
    (tmp_path / "m").mkdir()
    (tmp_path / "m/main.tf").write_text("")
    config, code, stacks = discovered(tmp_path, json.dumps(change), "")
    assert [stack.production for stack in stacks] == [False]
    found = base_rules(
        config, code, stacks, OldRepository(config, code, {YAML: json.dumps(base).encode()}), "x"
    )
    assert found is not None
    assert "environment prod (production) → cheap (new)" in found.weakened


LEVELS = st.sampled_from(("off", "note", "warning", "error"))
CHECKS = st.fixed_dictionaries(
    {},
    optional={
        "rules": st.dictionaries(st.sampled_from(("HF207", "HF2*", "HF*", "HF208")), LEVELS, max_size=2),
        "environments": st.fixed_dictionaries(
            {
                "prod": st.fixed_dictionaries(
                    {"rules": st.dictionaries(st.sampled_from(("HF207", "HF2*")), LEVELS, max_size=1)}
                )
            }
        ),
        "paths": st.lists(
            st.fixed_dictionaries(
                {
                    "path": st.sampled_from(("m", "**")),
                    "rules": st.dictionaries(st.sampled_from(("HF207", "HF2*")), LEVELS, max_size=1),
                }
            ),
            max_size=1,
        ),
        "waivers": st.lists(
            st.fixed_dictionaries(
                {
                    "rule": st.just("HF207"),
                    "path": st.sampled_from(("m", "other")),
                    "owner": st.just("me"),
                    "reason": st.just("none"),
                    "until": st.sampled_from(("2001-01-01", "2099-01-01")),
                }
            ),
            max_size=1,
        ),
    },
)
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
COMMENTS = st.sampled_from(
    (
        "",
        "# holdfast:ignore HF207 until=2099-01-01 reason=none",
        "# holdfast:ignore HF208 until=2099-01-01 reason=none",
    )
)


def written(comment: str, *, above: int = 0) -> str:
    return "\n" * above + f'locals {{\n  token = "{TOKEN}" {comment}\n}}\n'


def errors(report: Report) -> set[str]:
    return {
        found.rule.id
        for found in report.active
        if found.severity is Severity.ERROR and found.file == "m/main.tf"
    }


@settings(max_examples=60)
@given(CHECKS, COMMENTS, CHECKS, COMMENTS, st.integers(0, 2))
def test_changed_checks_never_hide_an_error(
    base: dict[str, Any], old: str, change: dict[str, Any], new: str, above: int
) -> None:
    """An error by the settings and waivers of the base stays one: levels, paths, waivers, comments."""

    def text(checks: dict[str, Any]) -> str:
        stack = {"name": "s", "module": "m", "environment": "prod"}
        return json.dumps({"version": 1, "checks": checks, "environments": {"prod": {}}, "stacks": [stack]})

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "m").mkdir()
        (folder / "m/main.tf").write_text(written(new, above=above))
        (folder / YAML).write_text(text(change))
        config, code, stacks = discovered(folder, text(change), "")
        before = {YAML: text(base).encode(), "m/main.tf": written(old).encode()}
        found = base_rules(config, code, stacks, OldRepository(config, code, before), "main")
        expected = errors(_checked(written(old, above=above), text(base)))
        report = _checked(written(new, above=above), text(change))
        if found is not None and found.sealed.checks:
            content = (found.code.content("m/main.tf") or b"").decode()
            report = with_base_findings(report, _checked(content, text(base)))
        assert expected <= errors(report)


def _checked(code: str, config: str) -> Report:
    subject = checkout({"m/main.tf": code}, config=config)
    return run_checks(subject, tuple(rule for rule in rules() if rule.id in {"HF207", "HF208"}))
