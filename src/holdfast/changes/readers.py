"""Who reads the outputs that a change changes, selected or not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs

from holdfast.hcl.eval.code import Code
from holdfast.kernel.text import first_names
from holdfast.plans.result import Reader, StackResult
from holdfast.plans.status import Status
from holdfast.stacks.reads.outputs import named_outputs
from holdfast.stacks.reads.remote_states import Outputs
from holdfast.stacks.stack import Stack
from holdfast.terraform.plan.actions import ChangeKind

_MOST_READERS = 5

ReadersOf = Mapping[str, Mapping[str, Outputs]]
"""From a stack to the stacks that read its outputs, with the outputs that each reads."""


def readers_of(code: Code, stacks: Iterable[Stack]) -> ReadersOf:
    readers: dict[str, dict[str, Outputs]] = {}
    for stack in stacks:
        for other, outputs in named_outputs(code, stack).items():
            readers.setdefault(other, {})[stack.name] = outputs
    return readers


def with_readers(
    results: tuple[StackResult, ...], code: Code, stacks: Iterable[Stack]
) -> tuple[StackResult, ...]:
    """Each result with the readers of its changed outputs, and a note that names them."""
    if not any(result.plan is not None and result.plan.outputs for result in results):
        return results
    selected = {result.stack.name for result in results}
    readers = readers_of(code, stacks)
    return tuple(_with_readers(result, readers.get(result.stack.name, {}), selected) for result in results)


def _with_readers(result: StackResult, readers: Mapping[str, Outputs], selected: set[str]) -> StackResult:
    changes = {output.name: output for output in result.plan.outputs} if result.plan is not None else {}
    changed = {name for name, output in changes.items() if output.kind is not ChangeKind.NO_OP}
    named = tuple(
        Reader(stack=reader, outputs=tuple(sorted(names)), selected=reader in selected)
        for reader, outputs in sorted(readers.items())
        if (names := changed if outputs is None else changed & outputs)
    )
    removed = {name for name in changed if changes[name].removed}
    # A new output has no reader that worked before.
    other = {name for name in changed - removed if changes[name].kind is not ChangeKind.CREATE}
    texts = (("removes outputs that others read", removed), ("changes outputs that others read", other))
    notes = tuple(f"{what}: {shown}" for what, chosen in texts if (shown := _by_output(named, chosen)))
    if result.status is Status.APPLIED:
        notes = ()
    return structs.replace(result, readers=named, notes=(*result.notes, *notes))


def _by_output(readers: tuple[Reader, ...], outputs: set[str]) -> str:
    """`vpc_id (dev/app, dev/dns), zone (dev/dns)`."""
    names = {
        output: [reader.stack for reader in readers if output in reader.outputs] for output in sorted(outputs)
    }
    return ", ".join(
        f"{output} ({first_names(stacks, _MOST_READERS)})" for output, stacks in names.items() if stacks
    )


def unselected_readers(results: tuple[StackResult, ...]) -> str | None:
    """The stacks that this change leaves out although what they read changes; None if there are none."""
    missing: dict[str, set[str]] = {}
    done = False
    for result in results:
        for reader in result.readers:
            if not reader.selected:
                missing.setdefault(reader.stack, set()).update(reader.outputs)
                done = done or result.status is Status.APPLIED
    if not missing:
        return None
    named = [f"{stack} ({', '.join(sorted(outputs))})" for stack, outputs in sorted(missing.items())]
    step = f"Plan them: holdfast plan {' '.join(sorted(missing))}" if done else "Add them with --dependents."
    what = "changed" if done else "change"
    return f"Not selected, but reading outputs that {what}: {first_names(named, _MOST_READERS)}. {step}"
