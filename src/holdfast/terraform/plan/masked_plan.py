"""A plan without its sensitive values, in Terraform's own format: what is stored to show it later. Pure.

It shows the same differences as the plan: where a value is left out, a stand-in says whether it changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import structs

from holdfast.terraform.addresses import Step
from holdfast.terraform.plan.configuration import FALSE, NULL, Configuration, PriorState
from holdfast.terraform.plan.diff import SENSITIVE, SENSITIVE_CHANGED, Clean
from holdfast.terraform.plan.effects import ordered_effects
from holdfast.terraform.plan.model import Change, Plan, ResourceChange
from holdfast.terraform.plan.value_text import encode, read_json
from holdfast.terraform.plan.values import any_true, item, part_of_mask


class MaskedPlan(msgspec.Struct, frozen=True, kw_only=True):
    plan: Plan
    left_out: int
    """Resources and outputs that did not fit."""


def masked_plan(plan: Plan, clean: Clean, most: int) -> MaskedPlan:
    """What has an effect, the most destructive first, and what drifted, in about `most` bytes."""
    room = _Room(most)
    effects = (effect.change for effect in ordered_effects(plan) if not effect.state_only)
    changes = room.resources(effects, clean)
    if not changes and plan.changes:
        # A plan without any is a refresh-only plan.
        changes = (structs.replace(plan.changes[0], change=Change(actions=("no-op",))),)
    outputs = {
        name: _masked_change(change, name, clean)
        for name, change in plan.output_changes.items()
        if change.actions != ("no-op",) and room.has(change)
    }
    return MaskedPlan(
        plan=structs.replace(
            plan,
            changes=changes,
            drift=room.resources(plan.drift, clean),
            output_changes=outputs,
            deferred=(),
            invoked=tuple(
                structs.replace(action, config_values=NULL, config_sensitive=FALSE)
                for action in plan.action_invocations
            ),
            deferred_action_invocations=(),
            prior_state=PriorState(),
            variables={},
            configuration=Configuration(),
        ),
        left_out=room.left_out,
    )


class _Room:
    def __init__(self, most: int) -> None:
        self._left = most
        self.left_out = 0

    def has(self, change: Change) -> bool:
        self._left -= len(change.before) + len(change.after) + 200
        self.left_out += self._left < 0
        return self._left >= 0

    def resources(self, changes: Iterable[ResourceChange], clean: Clean) -> tuple[ResourceChange, ...]:
        return tuple(
            structs.replace(resource, change=_masked_change(resource.change, "", clean))
            for resource in changes
            if self.has(resource.change)
        )


def _masked_change(change: Change, name: str, clean: Clean) -> Change:
    masks = read_json(change.before_sensitive), read_json(change.after_sensitive)
    before, after = _sides(read_json(change.before), read_json(change.after), masks, name, clean)
    return structs.replace(change, before=msgspec.Raw(encode(before)), after=msgspec.Raw(encode(after)))


def _sides(before: Any, after: Any, masks: tuple[Any, Any], name: str, clean: Clean) -> tuple[Any, Any]:
    """Both sides, with a stand-in for each sensitive part."""
    if True in masks:
        return _stand_ins(before, after)
    for kind in (dict, list):
        if isinstance(before, kind) or isinstance(after, kind):
            if not all(side is None or isinstance(side, kind) for side in (before, after)):
                # Two shapes: each for itself.
                return _sides(before, None, masks, name, clean)[0], _sides(None, after, masks, name, clean)[1]
            return _containers(before, after, masks, name, clean)
    if any(map(any_true, masks)):
        return _stand_ins(before, after)
    texts = isinstance(before, str) and isinstance(after, str) and before != after
    if texts and clean(name, before) == clean(name, after):  # Only the redacted part differs.
        return before, SENSITIVE_CHANGED
    return before, after


def _stand_ins(before: Any, after: Any) -> tuple[str | None, str | None]:
    changed = SENSITIVE if encode(before) == encode(after) else SENSITIVE_CHANGED
    return None if before is None else SENSITIVE, None if after is None else changed


def _containers(before: Any, after: Any, masks: tuple[Any, Any], name: str, clean: Clean) -> tuple[Any, Any]:
    def part(step: Step) -> tuple[Any, Any]:
        inner = (part_of_mask(masks[0], step), part_of_mask(masks[1], step))
        old, new = (
            side.get(step) if isinstance(side, dict) else item(side, step) for side in (before, after)
        )
        return _sides(old, new, inner, step if isinstance(step, str) else name, clean)

    if isinstance(before, dict) or isinstance(after, dict):
        parts = {key: part(key) for key in {**(before or {}), **(after or {})}}
        old, new = (
            None if side is None else {key: parts[key][number] for key in side}
            for number, side in enumerate((before, after))
        )
        return old, new
    items = [part(number) for number in range(max(len(before or ()), len(after or ())))]
    return (
        None if before is None else [pair[0] for pair in items[: len(before)]],
        None if after is None else [pair[1] for pair in items[: len(after)]],
    )
