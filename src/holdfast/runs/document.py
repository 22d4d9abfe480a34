"""Results as JSON. Fields are only added, never removed; absent is null.

Texts are redacted when a document is printed: `secrets.redact` lists the fields that are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from holdfast.checks.model.report import Report
from holdfast.guard.decision import NAMES, Allow, Decision, required_approvals
from holdfast.kernel.errors import Problem
from holdfast.plans.result import NOT_STARTED, StackResult
from holdfast.plans.status import RESULTS
from holdfast.runs.checks_document import checks_document
from holdfast.terraform.addresses import address_order
from holdfast.terraform.engine.interface import EngineId
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.effects import PlanDrift, ordered_effects
from holdfast.terraform.plan.model import Change, Counts, Plan, ResourceChange
from holdfast.terraform.plan.moves import suggested_moves
from holdfast.terraform.plan.value_text import read_json
from holdfast.terraform.plan.values import any_true, masked_value

Document = dict[str, object]


def engine_document(engine: EngineId | None) -> Document | None:
    if engine is None:
        return None
    return {"kind": engine.kind.value, "product": engine.product.value, "version": engine.version}


def result_document(result: StackResult) -> Document:
    return {
        "name": result.stack.name,
        "environment": result.stack.environment,
        "production": result.stack.production,
        "status": result.status.value,
        "engine": engine_document(result.engine),
        "run": result.run,
        "digest": result.digest,
        "replaces": result.replaces,
        **plan_document(result.plan, result.outcomes),
        "guard": guard_document(result.decision) if result.plan is not None else None,
        "outputs": {
            name: {"value": None if output.sensitive else output.value, "sensitive": output.sensitive}
            for name, output in sorted(result.outputs.items())
        },
        "duration_ms": round(result.duration * 1000),
        "error": error_document(result.error) if result.error is not None else None,
        "errors": [error_document(error) for error in result.problems],
        "notes": list(result.notes),
        "mocks": mocks_document(result),
        "readers": to_builtins(result.readers),
        "blocked_by": result.blocked_by,
        "removed_resources": list(result.removed_resources) if result.removed_resources is not None else None,
    }


def guard_document(decision: Decision) -> Document:
    """With the approvals that it needs, all of them; empty if it needs none."""
    needed = () if isinstance(decision, Allow) or not decision.approvals else required_approvals(decision)
    return {
        "decision": NAMES[type(decision)],
        "reasons": [
            {name: to_builtins(reason)[name] for name in ("code", "address", "message", "rule", "effect")}
            for reason in decision.reasons
        ],
        "approvals": [
            {name: getattr(rule, name) for name in ("count", "verified", "role", "group")} for rule in needed
        ],
    }


def resources_document(plan: Plan | None, outcomes: Mapping[str, str] | None = None) -> list[Document]:
    """Every change that has an effect, deletions first; then what changed outside Terraform only.

    After an apply, with the outcomes of the changes by address.
    """
    if plan is None:
        return []
    drift = PlanDrift(plan)
    unmanaged = "changed outside Terraform, no action planned"
    effects = sorted(
        plan.effects, key=lambda effect: (not effect.change.destroys, address_order(effect.change.address))
    )
    return [
        *(
            {
                **_resource_document(change, explanation, drift=state_only or drift.of(effect) is not None),
                "outcome": outcomes.get(change.address, NOT_STARTED) if outcomes else None,
            }
            for effect in effects
            for change, explanation, state_only in [effect]
        ),
        *(
            {**_resource_document(change, unmanaged, drift=True), "actions": ["no-op"]}
            for change in drift.without_action
        ),
    ]


def _resource_document(change: ResourceChange, explanation: str, *, drift: bool) -> Document:
    return {
        "address": change.address,
        "actions": list(change.actions),
        "reason": change.reason,
        "previous_address": change.previous_address,
        "importing": str(change.importing) if change.importing is not None else None,
        "deposed": change.deposed,
        "explanation": explanation,
        "drift": drift,
        "outcome": None,
        **values_document(change.change),
    }


def values_document(change: Change) -> Document:
    """Sensitive values are null on both sides; one that is known only after apply is `{"unknown": true}`."""
    masks = read_json(change.before_sensitive), read_json(change.after_sensitive)
    unknown: Document = {"unknown": True}
    return {
        "before": masked_value(read_json(change.before), masks, None, unknown_as=unknown),
        "after": masked_value(
            read_json(change.after), masks, read_json(change.after_unknown), unknown_as=unknown
        ),
    }


def output_changes_document(plan: Plan | None) -> Document:
    return {
        output.name: {
            "actions": list(output.actions),
            "sensitive": any_true(read_json(output.change.before_sensitive))
            or any_true(read_json(output.change.after_sensitive)),
            **values_document(output.change),
        }
        for output in (plan.outputs if plan is not None else ())
        if output.kind is not ChangeKind.NO_OP
    }


def suggestions_document(plan: Plan | None) -> list[Document]:
    return [
        {
            "kind": "moved",
            "from": move.old,
            "to": move.new,
            "resources": move.resources,
            "code": "\n".join(move.block),
        }
        for move in (suggested_moves(plan) if plan is not None else ())
    ]


def plan_document(plan: Plan | None, outcomes: Mapping[str, str] | None = None) -> Document:
    """What a plan does: also that of a stored plan."""
    return {
        "changes": plan.counts.document() if plan is not None else None,
        "resources": resources_document(plan, outcomes),
        "output_changes": output_changes_document(plan),
        "suggestions": suggestions_document(plan),
    }


def mocks_document(result: StackResult) -> list[Document]:
    return [
        {"variable": variable, "output": result.stack.inputs[variable].text, "value": value}
        for variable, value in sorted(result.mocks.items())
    ]


def error_document(error: Problem) -> Document:
    file, line, _ = error.place or (None, None, None)
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "file": file,
        "line": line,
        "address": error.address,
    }


def change_document(
    results: tuple[StackResult, ...],
    report: Report | None = None,
    *,
    weakened: tuple[str, ...] = (),
    change: str | None = None,
    left: tuple[str, ...] = (),
    planned_later: int = 0,
) -> Document:
    """`report` has the findings of the checks, redacted; `weakened`, rules that the change weakens.

    `left` are the stacks that `apply --continue` would apply.
    """
    checks = checks_document(report, results) if report is not None else None
    return stacks_document(
        [result_document(result) for result in results],
        change=change,
        left=left,
        checks=checks,
        weakened=weakened,
        planned_later=planned_later,
    )


def stacks_document(
    stacks: Sequence[Mapping[str, Any]],
    *,
    change: str | None,
    left: tuple[str, ...] = (),
    checks: Document | None = None,
    weakened: tuple[str, ...] = (),
    planned_later: int = 0,
) -> Document:
    """With the documents of its stacks."""
    totals: Counter[str] = Counter()
    for stack in stacks:
        totals.update(stack["changes"] or {})
    statuses = Counter(stack["status"] for stack in stacks)
    return {
        "version": 1,
        "change": change,
        "left": list(left),
        "stacks": list(stacks),
        "checks": checks,
        "summary": {
            "stacks": len(stacks),
            **{status.value: statuses[status.value] for status in RESULTS},
            "changes": {name: totals[name] for name in Counts().document()},
            "weakened": list(weakened),
            "planned_later": planned_later,
        },
    }


def summary_document(result: StackResult) -> Document:
    """The readable part of a bundle: names, counts, digest."""
    plan = result.plan
    return {
        "stack": result.stack.name,
        "environment": result.stack.environment,
        "production": result.stack.production,
        "status": result.status.value,
        "digest": result.digest,
        "engine": engine_document(result.engine),
        "changes": plan.counts.document() if plan is not None else None,
        "mocks": mocks_document(result),
        "resources": [
            {
                "address": effect.change.address,
                "actions": list(effect.change.actions),
                "reason": effect.change.reason,
            }
            for effect in (ordered_effects(plan) if plan is not None else ())
        ],
    }


def errors_document(problems: tuple[Problem, ...]) -> Document:
    return {
        "version": 1,
        "errors": [
            {**error_document(error), "column": error.place.column if error.place is not None else None}
            for error in problems
        ],
    }
