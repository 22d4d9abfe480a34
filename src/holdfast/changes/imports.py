"""`holdfast import`: a run whose plan imports one existing resource and changes nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from holdfast.changes.change import Confirm, OnChecks, Results, apply_change
from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import Problem
from holdfast.plans.context import ChangeContext
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.stacks.stack import Stack
from holdfast.states.moves import declares
from holdfast.terraform.addresses import without_keys
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Plan
from holdfast.terraform.tables.import_ids import shipped_table

_PLANNED = frozenset({Status.PLANNED, Status.UNCHANGED})
_STOPPED = frozenset({Status.REFUSED, Status.WAITING})


async def import_resource(
    context: ChangeContext,
    stack: Stack,
    address: str,
    id_: str,
    *,
    confirm: Confirm | None,
    reason: str | None = None,
    on_checks: OnChecks | None = None,
) -> Results:
    """Plan with an `import` block, limited to the address; apply only if the plan does nothing else."""
    options = PlanOptions(targets=(address,), imports=((address, id_),))

    def review(result: StackResult) -> StackResult:
        if result.status in _PLANNED and result.plan is not None:
            problem = why_not_imported(stack, result.plan, address)
            if problem is None:
                return result
            return structs.replace(result, status=Status.REFUSED, error=problem, problems=(problem,))
        if result.error is None:
            return result
        problem = _with_next_step(context.project.code, stack, result.status, result.error, address)
        return structs.replace(result, error=problem, problems=(problem, *result.problems[1:]))

    return await apply_change(
        context,
        (stack,),
        options,
        confirm=confirm,
        what="import",
        plan=lambda run: run.plan(options, review),
        reason=reason,
        on_checks=on_checks,
    )


def why_not_imported(stack: Stack, plan: Plan, address: str) -> Problem | None:
    """Why a plan is not just the import of this address. Pure."""
    if not any(change.address == address and change.importing is not None for change in plan.changes):
        there = any(change.address == address for change in plan.changes)
        why = (
            f"{address} is already in its state" if there else f"Terraform does not plan to import {address}"
        )
        hint = f"List the addresses: holdfast terraform {stack.name} -- state list"
        return Problem(code="HF-IMP-2", message=f"{stack.name}: {why}", hint=hint)
    more = tuple(_other_effects(plan, address))
    if not more:
        return None
    return Problem(
        code="HF-IMP-1",
        message=f"{stack.name}: the plan does more than import {address}: {', '.join(more)}",
        hint="Adjust the code to the existing resource and import it again. To import and change it in one "
        f"step, put an `import` block into the code, then: holdfast plan {stack.name}",
    )


def _other_effects(plan: Plan, address: str) -> Iterator[str]:
    for change in plan.changes:
        imports = change.address == address and change.kind is ChangeKind.NO_OP
        if change.has_effect and change.kind is not ChangeKind.READ and not imports:
            yield f"{change.address} ({', '.join(change.actions)})"
    yield from (f"{invocation.address} (action)" for invocation in plan.action_invocations)


def _with_next_step(code: Code, stack: Stack, status: Status, error: Problem, address: str) -> Problem:
    """With the next step where Terraform, or the guard, does not import it."""
    *_, type_, name = without_keys(address).split(".")
    if status in _STOPPED:
        hint = "To get it approved or to override this, put an `import` block into the code, then: "
        return error._replace(hint=f"{hint}holdfast plan {stack.name} --out bundle/")
    if status is not Status.FAILED:
        return error
    if not declares(code, stack.module, address):
        return Problem(
            code="HF-IMP-3",
            message=f"{stack.name}: its code does not declare {address}",
            hint=f'Add it to the code in {stack.module} first: resource "{type_}" "{name}" {{ … }}',
        )
    # The place would be in the file with the `import` block.
    return error._replace(hint=_id_hint(type_) or error.hint, place=None)


def _id_hint(type_: str) -> str | None:
    table = shipped_table()
    if type_ in table.never:
        return f"The provider does not support import for {type_}."
    template, note = table.template(type_), table.note(type_)
    form = f"The import id of {type_} has the form {template}." if template is not None else None
    return " ".join(filter(None, (form, note))) or None
