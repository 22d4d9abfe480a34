"""What a saved plan read from the stacks it depends on: recorded when it is saved, compared at the apply.

A plan stays valid while these stacks changed only by the apply of the same bundle, and the outputs it read
are equal. Its digest has a hash of each, keyed with the plan's own id, which only the sealed part contains.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping

import msgspec

from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import Refused
from holdfast.kernel.text import cut
from holdfast.kernel.values import MaskedStruct
from holdfast.plans import state_continuity
from holdfast.plans.context import ChangeContext
from holdfast.plans.inputs import read_state_of
from holdfast.plans.plan_file import PlanFile
from holdfast.plans.saved_plan import SavedPlan, StateIdentity
from holdfast.plans.status import Status
from holdfast.runs.run import applied_run
from holdfast.secrets.redact import clean_value
from holdfast.stacks.reads.outputs import outputs_read
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore
from holdfast.terraform.plan.diff import SENSITIVE
from holdfast.terraform.statefile.model import State, StateOutput
from holdfast.terraform.statefile.sensitive import sensitive_in_state

ALL = "*"
"""Under this name: a hash of the names of all outputs, for a stack that may read any of them."""
_UNKNOWN = ""
"""Instead of the hash of an output that did not exist, or could not be read. It equals nothing."""
_WIDEST_VALUE = 60


class DependencyState(MaskedStruct, frozen=True, kw_only=True):
    identity: StateIdentity
    outputs: Mapping[str, StateOutput] | None
    """None: the state is encrypted."""


def dependency_state(identity: StateIdentity, outputs: Iterable[StateOutput] | None) -> DependencyState:
    by_name = {output.name: output for output in outputs} if outputs is not None else None
    return DependencyState(identity=identity, outputs=by_name)


async def read_dependency(context: ChangeContext, stack: Stack) -> DependencyState:
    """The current state of a stack, as the inputs of others read it."""
    state = await context.states.read(stack.name, lambda: read_state_of(context, stack))
    context.redactor.register_all(sensitive_in_state(state))
    outputs = state.outputs if isinstance(state, State) else ()
    return dependency_state(state_continuity.identity(state), outputs)


def reads_of(
    plan_file: PlanFile, states: Mapping[str, DependencyState], code: Code
) -> dict[str, dict[str, str]]:
    """A hash of each output that the plan read; of an input, of the value that it really had."""
    workdir, salt = plan_file.terraform.workdir, plan_file.parts.made
    reads = {
        other: output_hashes(salt, other, states[other], names)
        for other, names in outputs_read(code, workdir.stack).items()
    }
    for variable, reference in workdir.stack.inputs.items():
        if variable in workdir.read.mocks:
            reads[reference.stack][reference.output] = _UNKNOWN
        elif variable in workdir.read.values:
            value = _keyed_hash(salt, reference.stack, reference.output, workdir.read.values[variable])
            reads[reference.stack][reference.output] = value
    return reads


def output_hashes(
    salt: str, stack: str, state: DependencyState, names: frozenset[str] | None
) -> dict[str, str]:
    """Of the outputs with these names, or of all of them."""
    if state.outputs is None:
        return dict.fromkeys(names if names is not None else (ALL,), _UNKNOWN)
    hashes = {
        name: _keyed_hash(salt, stack, name, output.read()) if output is not None else _UNKNOWN
        for name in sorted(names if names is not None else state.outputs)
        for output in (state.outputs.get(name),)
    }
    if names is None:
        hashes[ALL] = _keyed_hash(salt, stack, ALL, sorted(state.outputs))
    return hashes


def _keyed_hash(salt: str, stack: str, name: str, value: object) -> str:
    message = msgspec.json.encode((stack, name, value), order="deterministic")
    return hmac.new(salt.encode(), message, hashlib.sha256).hexdigest()


async def changed_reads(context: ChangeContext, stack: Stack, bundle: SavedPlan) -> tuple[str, ...]:
    """Outputs that are not as the plan read them, for the user; none: the plan is valid as it is.

    Raises if anything but the bundle's own apply changed a stack that it depends on.
    """
    changed: list[str] = []
    for name, then in bundle.dependencies.items():
        other = context.project.stacks.get(name)
        if other is None:
            raise _changed_error(
                stack, f"{name}, which it depended on when the plan was made, no longer exists"
            )
        now = await read_dependency(context, other)
        same = now.identity == then
        if not same and not _left_by_bundle(context.store, bundle, name, then, now.identity):
            raise _changed_error(
                stack,
                f"{name}, which it depends on, changed since the plan was made "
                f"(serial {then.serial} then, {now.identity.serial} now), and not by this bundle",
            )
        changed += _differences(context, bundle, name, now, same_state=same)
    return tuple(changed)


def _changed_error(stack: Stack, what: str) -> Refused:
    return Refused(
        "HF-BUND-8", f"{stack.name}: {what}", hint=f"Plan again: holdfast plan {stack.name} --out DIR"
    )


def _left_by_bundle(
    store: RunStore, bundle: SavedPlan, name: str, then: StateIdentity, now: StateIdentity
) -> bool:
    """Whether the run that applied the dependency's plan of this bundle turned one state into the other."""
    digest = bundle.plans.get(name)
    mark = store.used(digest) if digest is not None else None
    run = applied_run(store, str(mark.get("run"))) if mark is not None else None
    if run is None or (run.stack, run.status, run.state_before) != (name, Status.APPLIED, then):
        return False
    if run.state_after is not None:
        return run.state_after == now
    # Holdfast was killed during the apply. A managed state still says which run wrote it.
    version = store.states.current(name)
    return (
        version is not None
        and version.run == run.id
        and (version.lineage, version.serial) == (now.lineage, now.serial)
    )


def _differences(
    context: ChangeContext, bundle: SavedPlan, name: str, now: DependencyState, *, same_state: bool
) -> list[str]:
    """`dev/network.vpc_id was unknown, now "vpc-0a1b"`. What it was is not stored.

    What was unknown is still so in the same state; an input could have been read from another one.
    """
    then = bundle.parts.reads.get(name)
    if not then or now.outputs is None:
        return [] if same_state else [f"the outputs of {name} could not be compared"]
    names = None if ALL in then else frozenset(then)
    current = output_hashes(bundle.parts.made, name, now, names)
    texts = []
    for output in sorted({*then, *current} - {ALL}):
        known = then.get(output)
        if (known or same_state) and known in {current.get(output), _UNKNOWN, None}:
            continue
        was = "changed" if known else "was unknown"
        texts.append(f"{name}.{output} {was}, {_shown(context, now.outputs.get(output))}")
    return texts


def _shown(context: ChangeContext, output: StateOutput | None) -> str:
    if output is None:
        return "now missing"
    if output.sensitive:
        return f"now {SENSITIVE}"
    text = json.dumps(clean_value(context.redactor, output.name, output.read()), ensure_ascii=False)
    return f"now {cut(text, _WIDEST_VALUE)}"
