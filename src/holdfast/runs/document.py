"""Results as the JSON that machines read. Fields are only ever added; absent is null.

Texts in it pass the redactor where a document leaves: `secrets.redact` lists the fields that do not.
"""

from __future__ import annotations

from collections import Counter

from holdfast.checks.formats.json import document as report_document
from holdfast.checks.model.report import Report
from holdfast.guard.decision import NAMES
from holdfast.kernel.errors import Problem
from holdfast.plans.result import StackResult
from holdfast.plans.status import RESULTS
from holdfast.terraform.addresses import address_order
from holdfast.terraform.engine.interface import EngineId
from holdfast.terraform.plan.model import Counts, Plan

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
        "changes": result.plan.counts.document() if result.plan is not None else None,
        "resources": resources_document(result.plan),
        "guard": {
            "decision": NAMES[type(result.decision)],
            "reasons": [
                {
                    "code": one.code,
                    "address": one.address,
                    "message": one.message,
                    "rule": one.rule,
                    "effect": one.effect.value,
                }
                for one in result.decision.reasons
            ],
        }
        if result.plan is not None
        else None,
        "outputs": {
            name: {"value": None if one.sensitive else one.value, "sensitive": one.sensitive}
            for name, one in sorted(result.outputs.items())
        },
        "duration_ms": round(result.duration * 1000),
        "error": error_document(result.error),
        "errors": [error_document(one) for one in result.problems],
        "notes": list(result.notes),
        "removed_resources": list(result.removed_resources) if result.removed_resources is not None else None,
    }


def resources_document(plan: Plan | None) -> list[Document]:
    """What would happen, and to what: everything that has an effect, risk first."""
    if plan is None:
        return []
    changes = [change for change in plan.changes if change.has_effect]
    changes.sort(key=lambda change: (not change.destroys, address_order(change.address)))
    return [
        {
            "address": change.address,
            "actions": list(change.actions),
            "reason": change.reason,
            "previous_address": change.previous_address,
            "importing": str(change.importing) if change.importing is not None else None,
            "deposed": change.deposed,
            "explanation": change.explanation,
        }
        for change in changes
    ]


def error_document(error: Problem | None) -> Document | None:
    if error is None:
        return None
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "file": error.place.file if error.place is not None else None,
        "line": error.place.line if error.place is not None else None,
    }


def change_document(results: tuple[StackResult, ...], report: Report | None = None) -> Document:
    """`report` is what the checks found, without secrets."""
    totals: Counter[str] = Counter()
    for result in results:
        if result.plan is not None:
            totals.update(result.plan.counts.document())
    statuses = Counter(result.status.value for result in results)
    return {
        "version": 1,
        "stacks": [result_document(result) for result in results],
        "checks": _checks(report) if report is not None else None,
        "summary": {
            "stacks": len(results),
            **{status.value: statuses[status.value] for status in RESULTS},
            "changes": {name: totals[name] for name in Counts().document()},
        },
    }


def _checks(report: Report) -> Document:
    """As `holdfast check --json` has it."""
    return {name: part for name, part in report_document(report).items() if name != "version"}


def summary_document(result: StackResult) -> Document:
    """The readable part of a bundle: names, counts, digest. Only structural fields, so no secrets."""
    plan = result.plan
    return {
        "stack": result.stack.name,
        "environment": result.stack.environment,
        "production": result.stack.production,
        "status": result.status.value,
        "digest": result.digest,
        "engine": engine_document(result.engine),
        "changes": plan.counts.document() if plan is not None else None,
        "resources": [
            {"address": one["address"], "actions": one["actions"], "reason": one["reason"]}
            for one in resources_document(plan)
        ],
    }


def errors_document(problems: tuple[Problem, ...]) -> Document:
    return {
        "version": 1,
        "errors": [
            {
                "code": one.code,
                "message": one.message,
                "hint": one.hint,
                "file": one.place.file if one.place is not None else None,
                "line": one.place.line if one.place is not None else None,
                "column": one.place.column if one.place is not None else None,
            }
            for one in problems
        ],
    }
