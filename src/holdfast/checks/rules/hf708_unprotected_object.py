"""HF708: an object that cannot simply be made again, in production, that nothing keeps from being deleted."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.interface import Finding, Rule, Severity, Skipped, finding
from holdfast.checks.protection import Kept, is_made, kept, objects, provider_bodies
from holdfast.checks.subjects import Module, Resource
from holdfast.hcl.nodes import Body
from holdfast.terraform.stateful_types import Stateful, stateful_types

_GRAVE = ("data", "keys")


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
        if bare:
            yield _finding(resource, row, bare)
        elif unclear:
            yield Skipped(
                reason=f"whether {resource.address} is protected cannot be told before it is planned",
                file=resource.place.file,
                stack=unclear[0] if len(unclear) == 1 else None,
            )


def _answers(module: Module, resource: Resource, body: Body, row: Stateful) -> Iterator[tuple[str, Kept]]:
    """For each stack in production; the worst of its instances, and none where it is not made there."""
    for stack in module.stacks:
        if not stack.stack.production:
            continue
        found = [
            kept(
                body,
                row,
                visited.scope,
                provider_bodies(stack.module, resource.type.partition("_")[0], stack.scope),
            )
            for visited in stack.scopes
            if visited.folder == module.folder and not visited.dormant and is_made(body, visited.scope)
        ]
        if found:
            yield stack.name, min(found, key=lambda one: int(one.value))


def _finding(resource: Resource, row: Stateful, stacks: list[str]) -> Finding:
    ways = ("`prevent_destroy = true` in `lifecycle`", *row.protections)
    return finding(
        resource.block,
        f"`{resource.address}` {row.loss}, and nothing in its code keeps it from being deleted",
        address=resource.address,
        hint=f"Write {_either(ways)}.",
        severity=Severity.WARNING if row.holds in _GRAVE else Severity.NOTE,
        stack=stacks[0] if len(stacks) == 1 else None,
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
    bad='resource "aws_db_instance" "main" {\n  instance_class = "db.t4g.small"\n}\n',
    good='resource "aws_db_instance" "main" {\n  instance_class      = "db.t4g.small"\n'
    "  deletion_protection = true\n}\n",
    more="It looks at stacks in production, and at the types of [the guard's table](../guard.md). A type "
    "that holds data or keys is a warning, one that others know by its identity or address a note. Where a "
    "provider can refuse a deletion, that counts, or `prevent_destroy`; where it cannot, its last snapshot "
    "or the time in which a deletion can be taken back does, and so does a default of the provider that is "
    "safe.",
)
