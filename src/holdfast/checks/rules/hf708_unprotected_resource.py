"""HF708: an object that cannot simply be made again, in production, that nothing keeps from being deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from holdfast.checks.code.protection import Kept, is_made, kept, objects, planned_values, provider_bodies
from holdfast.checks.model.interface import Answer, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import CheckedPlan, CheckedStack, Module, Resource
from holdfast.hcl.eval.evaluate import Scope
from holdfast.hcl.nodes import Body
from holdfast.terraform.addresses import without_keys
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Plan
from holdfast.terraform.tables.stateful_types import Stateful, stateful_types

_GRAVE = ("data", "keys")
_LEAVING = (ChangeKind.DELETE, ChangeKind.FORGET)


def _look(module: Module) -> Iterator[Finding | Skipped]:
    if not module.production:
        return
    table = stateful_types()
    for resource, body in objects(module):
        row = table.get(resource.type)
        if row is None:
            continue
        answers = dict(_answers(module, resource, body, row))
        bare = [stack for stack, answer in answers.items() if answer is Kept.NO]
        unclear = [stack for stack, answer in answers.items() if answer is Kept.UNKNOWN]
        for stack in bare:
            yield _finding(resource, row, stack)
        for stack in unclear if not bare else ():
            yield Skipped(
                reason=f"whether {resource.address} is protected cannot be told before it is planned",
                file=resource.place.file,
                stack=stack,
            )


def _answers(module: Module, resource: Resource, body: Body, row: Stateful) -> Iterator[tuple[str, Kept]]:
    """For each stack in production; the worst of its instances, and none where it is not made there."""
    for stack in module.stacks:
        if not stack.stack.production:
            continue
        found = [
            kept(body, row, visited.scope, _providers(stack, resource.type))
            for visited in stack.scopes
            if visited.folder == module.folder and not visited.dormant and is_made(body, visited.scope)
        ]
        if found:
            yield stack.name, _worst(found)


def _worst(found: Iterable[Kept]) -> Kept:
    return min(found, key=lambda one: int(one.value))


def _providers(stack: CheckedStack, type_: str) -> Iterator[tuple[Body, Scope]]:
    return provider_bodies(stack.module, type_.partition("_")[0], stack.scope)


# In a plan: what the code could not tell, and what modules from elsewhere make.


class _Written(NamedTuple):
    """An object in the code of a stack."""

    resource: Resource
    body: Body
    scope: Scope
    said: Kept
    """Of all its instances the worst."""


def _plan(plan: CheckedPlan) -> Iterator[Answer]:
    stack, table = plan.stack, stateful_types()
    partial = plan.plan.complete is False
    if not stack.stack.production or not (partial or any(one.type in table for one in plan.plan.changes)):
        return
    written = _in_code(stack)
    for address, answer in _planned(plan.plan, stack, written).items():
        about = written.get(address)
        if answer is Kept.NO and about is not None:
            yield _finding(about.resource, table[about.resource.type], stack.name)
        elif answer is not Kept.YES:
            yield _untold(
                address, "the plan does not know it" if about else "its module is not in this repository"
            )
    if partial:
        there = {without_keys(change.address) for change in plan.plan.changes}
        for address, one in written.items():
            if one.said is Kept.UNKNOWN and address not in there:
                yield _untold(address, "the plan leaves it out")


def _untold(address: str, why: str) -> Skipped:
    return Skipped(reason=f"whether {address} is protected cannot be told: {why}")


def _in_code(stack: CheckedStack) -> dict[str, _Written]:
    """By address, without keys."""
    table = stateful_types()
    found: dict[str, _Written] = {}
    for visited in stack.scopes:
        home = without_keys(visited.address)
        for resource, body in objects(stack.checkout.module(visited.folder)):
            row = table.get(resource.type)
            if row is None or visited.dormant or not is_made(body, visited.scope):
                continue
            address = f"{home}.{resource.address}".removeprefix(".")
            said = kept(body, row, visited.scope, _providers(stack, resource.type))
            worst = _worst((said, found[address].said)) if address in found else said
            found[address] = _Written(resource, body, visited.scope, worst)
    return found


def _planned(plan: Plan, stack: CheckedStack, written: Mapping[str, _Written]) -> dict[str, Kept]:
    """Of each object of which the code does not say enough: the worst of its instances."""
    table = stateful_types()
    found: dict[str, Kept] = {}
    for change in plan.changes:
        row = table.get(change.type)
        if row is None or change.mode != "managed" or change.deposed or change.kind in _LEAVING:
            continue
        address = without_keys(change.address)
        about = written.get(address)
        if about is None or about.said is Kept.UNKNOWN:
            body, scope = (about.body, about.scope) if about is not None else (None, stack.scope)
            said = kept(body, row, scope, _providers(stack, change.type), planned_values(change))
            found[address] = _worst((said, found.get(address, Kept.YES)))
    return found


def _finding(resource: Resource, row: Stateful, stack: str) -> Finding:
    ways = ("`prevent_destroy = true` in `lifecycle`", *row.protections)
    return finding(
        resource.block,
        f"`{resource.address}` {row.loss}, and nothing in its code keeps it from being deleted",
        address=resource.address,
        hint=f"Write {_either(ways)}.",
        severity=Severity.WARNING if row.holds in _GRAVE else Severity.NOTE,
        stack=stack,
    )


def _either(ways: tuple[str, ...]) -> str:
    return ways[0] if len(ways) == 1 else f"{', '.join(ways[:-1])} or {ways[-1]}"


RULE = Rule(
    id="HF708",
    title="Nothing keeps an object in production from being deleted",
    why="What it holds, or what others know it by, is gone with it. The guard refuses the deletion in "
    "Holdfast; a protection in the code holds wherever the code is run, and one of the provider's against "
    "everybody.",
    fix="Write `prevent_destroy = true` in its `lifecycle`, or turn on the protection that its provider has.",
    severity=Severity.WARNING,
    source=_look,
    plan=_plan,
    bad='resource "aws_db_instance" "main" {\n  instance_class = "db.t4g.small"\n}\n',
    good='resource "aws_db_instance" "main" {\n  instance_class      = "db.t4g.small"\n'
    "  deletion_protection = true\n}\n",
    more="It looks at stacks in production, and at the types of [the guard's table](../guard.md). A type "
    "that holds data or keys is a warning, one that others know by its identity or address a note. Where a "
    "provider can refuse a deletion, that counts, or `prevent_destroy`; where it cannot, its last snapshot "
    "or the time in which a deletion can be taken back does, and so does a default of the provider that is "
    "safe. A plan tells what the code does not: values that are computed, and objects of modules from "
    "elsewhere, but for their `prevent_destroy`.",
)
