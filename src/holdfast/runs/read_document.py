"""The result of a stack from the document that another process printed: what `document.py` writes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.config.guard import RequiredApprovals
from holdfast.config.stack_rules import RuleKind
from holdfast.guard.decision import NAMES, Allow, Decision, Reason
from holdfast.kernel.errors import Place, Problem
from holdfast.plans.result import Output, Reader, StackResult
from holdfast.plans.status import Status
from holdfast.stacks.stack import Stack
from holdfast.terraform.engine.interface import EngineId, EngineKind, Product
from holdfast.terraform.plan.model import Plan

_DECISIONS: Mapping[str, type[Decision]] = {name: kind for kind, name in NAMES.items()}


def result_from_document(document: Mapping[str, Any], *, plan: Plan | None = None) -> StackResult:
    """`plan` comes from the run store: a document has no masks and no replace paths."""
    error, status = document["error"], document["status"]
    follows = document["blocked_by"] if status is None else None
    return StackResult(
        stack=_stack(document),
        status=Status(status or Status.QUEUED),
        remark=f"follows {follows}" if follows else None,
        engine=engine_from_document(document["engine"]),
        run=document["run"],
        digest=document["digest"],
        replaces=document["replaces"],
        plan=plan,
        decision=decision_from_document(document["guard"]),
        outputs={name: Output(**output) for name, output in document["outputs"].items()},
        duration=document["duration_ms"] / 1000,
        error=_problem(error) if error is not None else None,
        problems=tuple(map(_problem, document["errors"])),
        notes=tuple(document["notes"]),
        readers=tuple(msgspec.convert(document["readers"], list[Reader])),
        blocked_by=document["blocked_by"],
        outcomes={
            resource["address"]: resource["outcome"]
            for resource in document["resources"]
            if resource["outcome"] is not None
        },
        removed_resources=_tuple(document["removed_resources"]),
    )


def unfinished_document(run: Mapping[str, Any], error: Mapping[str, Any] | None) -> dict[str, Any]:
    """Of a run that has no result of its own: it was cancelled, or ended before a worker had one."""
    known = dict.fromkeys(
        ("engine", "replaces", "changes", "guard", "blocked_by", "removed_resources", "production")
    )
    empty: dict[str, Any] = {"outputs": {}, "output_changes": {}, "duration_ms": 0}
    lists: dict[str, Any] = {name: [] for name in ("resources", "suggestions", "notes", "mocks", "readers")}
    own = error or run.get("error")
    return {
        **known,
        **empty,
        **lists,
        "name": run["stack"],
        "environment": run["environment"],
        "production": True,
        "status": run["status"] or Status.UNKNOWN.value,
        "run": run["id"],
        "digest": run["digest"],
        "error": {**dict.fromkeys(("hint", "file", "line", "address")), **own} if own else None,
        "errors": [],
    }


def _stack(document: Mapping[str, Any]) -> Stack:
    """Only what results show of it."""
    return Stack(
        name=document["name"],
        kind=RuleKind.NAMED,
        place=Place(file=""),
        module=".",
        environment=document["environment"],
        production=document["production"],
    )


def engine_from_document(document: Mapping[str, str] | None) -> EngineId | None:
    if document is None:
        return None
    return EngineId(
        kind=EngineKind(document["kind"]),
        product=Product(document["product"]),
        version=document["version"],
        path="",
    )


def decision_from_document(document: Mapping[str, Any] | None) -> Decision:
    if document is None:
        return Allow()
    reasons = tuple(msgspec.convert(document["reasons"], list[Reason]))
    decision = _DECISIONS[document["decision"]](reasons=reasons)
    needed = [RequiredApprovals(**rule) for rule in document.get("approvals") or ()]
    if isinstance(decision, Allow) or not needed:
        return decision
    first, *others = needed
    return replace(decision, approvals=first.count, verified=first.verified, approvers=tuple(others))


def _problem(document: Mapping[str, Any]) -> Problem:
    place = Place(document["file"], document["line"]) if document.get("file") else None
    return Problem(
        code=document["code"],
        message=document["message"],
        hint=document["hint"],
        place=place,
        address=document.get("address"),
    )


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return tuple(values) if values is not None else None
