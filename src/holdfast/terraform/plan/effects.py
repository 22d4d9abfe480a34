"""What a plan does, in the order in which it is shown, and what changed outside Terraform. Pure."""

from __future__ import annotations

from holdfast.terraform.addresses import address_order
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Plan, PlanEffect, ResourceChange

_DRIFT = frozenset({ChangeKind.UPDATE, ChangeKind.DELETE})


def ordered_effects(plan: Plan) -> list[PlanEffect]:
    """What destroys first, then what changes, then what is new; reads last."""
    return sorted(
        plan.effects,
        key=lambda effect: (
            not effect.change.destroys,
            effect.change.kind is ChangeKind.READ,
            effect.change.kind is ChangeKind.CREATE,
            address_order(effect.change.address),
        ),
    )


class PlanDrift:
    """What Terraform found changed outside it, by the resource it concerns."""

    def __init__(self, plan: Plan) -> None:
        self._by_address = {
            change.address: change
            for change in plan.drift
            if change.kind in _DRIFT and change.mode == "managed" and change.deposed is None
        }
        effects = plan.effects if self._by_address else ()
        concerned = {effect.change.address for effect in effects}
        concerned |= {effect.change.previous_address or "" for effect in effects}
        self.without_action = tuple(
            sorted(
                (change for address, change in self._by_address.items() if address not in concerned),
                key=lambda change: address_order(change.address),
            )
        )
        """Resources that the plan does not touch otherwise."""

    def of(self, effect: PlanEffect) -> ResourceChange | None:
        change = effect.change
        if effect.state_only:
            return None
        drift = self._by_address.get(change.address)
        return drift or self._by_address.get(change.previous_address or "")

    def explanation(self, effect: PlanEffect) -> str:
        """Why the plan does it, and that the resource itself is gone."""
        drift = self.of(effect)
        gone = drift is not None and drift.kind is ChangeKind.DELETE
        return f"{effect.explanation}, was deleted outside Terraform" if gone else effect.explanation
