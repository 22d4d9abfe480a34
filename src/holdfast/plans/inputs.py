"""Outputs of other stacks as inputs of a stack: read once per change, before the stack takes a slot.

Each state is read with the settings, credentials and environment of its own stack, and must be the one that
this stack had. A state that cannot be read is an error, never a missing output.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from msgspec.structs import replace

from holdfast.config.output_refs import OutputRef
from holdfast.config.problems import did_you_mean
from holdfast.config.secret_refs import SecretRef
from holdfast.hcl.reader import constant
from holdfast.kernel.errors import Failed, HoldfastError
from holdfast.kernel.secret import reveal_all
from holdfast.plans import state_continuity
from holdfast.plans.context import NO_INPUTS, ChangeContext, InputValues
from holdfast.plans.environment.stack_environment import resolve
from holdfast.plans.errors import Cancelled, InputMissing
from holdfast.plans.events import ignore_events
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import home_of, open_workdir, state_at
from holdfast.stacks.generated import code_of
from holdfast.stacks.stack import Stack
from holdfast.terraform.plan.values import texts
from holdfast.terraform.statefile.model import State, StateFile, StateOutput, UnreadableState, read_state


async def read_inputs(context: ChangeContext, stack: Stack, *, mocks: bool) -> InputValues:
    """The values of a stack's inputs. `mocks`: for a plan, those that do not exist yet may be mocks."""
    names = tuple(dict.fromkeys(reference.stack for reference in stack.inputs.values()))
    states = dict(
        zip(names, await asyncio.gather(*(_read(context, stack, name) for name in names)), strict=True)
    )
    values: dict[str, object] = {}
    mocked: dict[str, object] = {}
    reasons: dict[str, list[str]] = {}
    notes: list[str] = []
    for variable, reference in stack.inputs.items():
        state = states[reference.stack]
        output = _output(state, reference.output)
        if output is not None:
            values[variable] = value = output.read()
            if output.sensitive:
                context.redactor.register_all(texts(value))
                notes += _sensitive_note(context, stack, variable, reference)
        elif mocks and reference.mock is not None:
            if not _is_declared(context, reference):
                raise _undeclared_error(context, stack, variable, reference, state)
            values[variable] = mocked[variable] = mock_of(context, reference)
            reasons.setdefault(_why_missing(state, reference), []).append(variable)
        else:
            raise _missing_error(context, stack, variable, reference, state)
    for why, variables in reasons.items():
        are = "is a mock" if len(variables) == 1 else "are mocks"
        notes.append(f"{', '.join(variables)} {are}, because {why}; a plan with mocks is never applied")
    return InputValues(values=values, mocks=mocked, notes=tuple(notes))


def mock_of(context: ChangeContext, reference: OutputRef) -> object:
    """None if the input has none."""
    return reveal_all(resolve(context, reference.mock)) if reference.mock is not None else None


async def inputs_or_none(context: ChangeContext, stack: Stack) -> InputValues:
    """For commands that work without them, as far as they can."""
    with contextlib.suppress(HoldfastError, OSError):
        return await read_inputs(context, stack, mocks=False)
    return NO_INPUTS


async def _read(context: ChangeContext, reader: Stack, name: str) -> StateFile:
    """The state of another stack, for this one."""
    stack = context.project.stacks[name]
    try:
        return await context.states.read(name, lambda: read_state_of(context, stack))
    except Cancelled:
        raise
    except HoldfastError as error:
        problem = error.problem
        owner = f" (target {stack.target.name}, owned by {stack.target.owner})" if stack.target else ""
        raise Failed(
            "HF-INPUT-1",
            f"{reader.name}: the outputs of {name}{owner} cannot be read: "
            f"{problem.message.removeprefix(f'{name}: ')} ({problem.code})",
            hint=f"Reading them needs access to the state of {name}, with its settings and credentials. "
            f"Try it: holdfast output {name}",
        ) from error


async def read_state_of(context: ChangeContext, stack: Stack) -> StateFile:
    """The state of a stack, verified. Call it before taking a slot: it takes one if it needs Terraform."""
    seen = context.store.last_seen(stack.name)
    state_continuity.require_state_saved(context.store, stack)
    home = home_of(context.project, stack)
    settings = stack.backend.settings if stack.backend is not None else {}
    content = None
    if not any(isinstance(value, SecretRef) for value in settings.values()):
        state_continuity.require_readable(stack, home, seen)
        content = state_at(context.store, stack.name, home)
    state = read_state(content) if content is not None else None
    if state is None or (isinstance(state, State) and state.encrypted):
        # The reader's change shows no progress of a stack that may not be part of it.
        quiet = replace(context, control=replace(context.control, tell=ignore_events))
        async with context.engines.slots, open_workdir(quiet, stack, for_state=True) as workdir:
            terraform, home = Terraform(quiet, workdir), workdir.home
            await terraform.init()
            state = read_state(await terraform.state_pull())
    if isinstance(state, UnreadableState):
        raise Failed("HF-INPUT-2", f"{stack.name}: its state cannot be read: {state.reason}")
    state_continuity.require_same_state(stack, home, seen, state)
    return state


def _outputs(state: StateFile) -> tuple[StateOutput, ...]:
    return (state.outputs or ()) if isinstance(state, State) else ()


def _output(state: StateFile, name: str) -> StateOutput | None:
    return next((output for output in _outputs(state) if output.name == name), None)


def _why_missing(state: StateFile, reference: OutputRef) -> str:
    what = f"no output {reference.output}" if isinstance(state, State) else "no state"
    return f"{reference.stack} has {what} yet"


def _missing_error(
    context: ChangeContext, stack: Stack, variable: str, reference: OutputRef, state: StateFile
) -> HoldfastError:
    """Blocked if an apply of the other stack creates the output; failed if it has none of that name."""
    if not _is_declared(context, reference):
        return _undeclared_error(context, stack, variable, reference, state)
    return InputMissing(
        "HF-INPUT-4",
        f"{stack.name}: its input {variable} needs {reference.text}, but {_why_missing(state, reference)}",
        hint=f"Apply both: holdfast apply {reference.stack} {stack.name}. To plan before that, give the "
        "input a `mock`.",
    )


def _declared_outputs(context: ChangeContext, reference: OutputRef) -> list[str]:
    other = context.project.stacks[reference.stack]
    module = code_of(context.project.code, other).module(other.module)
    return [block.labels[0] for block in module.blocks("output") if block.labels]


def _is_declared(context: ChangeContext, reference: OutputRef) -> bool:
    """If not, no apply creates the output. A hook may write code that Holdfast does not see."""
    other = context.project.stacks[reference.stack]
    return bool(other.hooks) or reference.output in _declared_outputs(context, reference)


def _undeclared_error(
    context: ChangeContext, stack: Stack, variable: str, reference: OutputRef, state: StateFile
) -> HoldfastError:
    """Also for an input with a mock, which would hide a misspelt name until the apply."""
    outputs = (output.name for output in _outputs(state))
    names = sorted({*_declared_outputs(context, reference), *outputs})
    near = did_you_mean(reference.output, names)
    return Failed(
        "HF-INPUT-3",
        f"{stack.name}: its input {variable} reads {reference.text}, but {reference.stack} has no output "
        f"`{reference.output}`",
        hint=f"{f'{near} ' if near else ''}Its outputs: {', '.join(names) or 'none'}.",
    )


def _sensitive_note(
    context: ChangeContext, stack: Stack, variable: str, reference: OutputRef
) -> Iterator[str]:
    """Holdfast masks the value; Terraform does so only where the variable says it."""
    for block in code_of(context.project.code, stack).module(stack.module).blocks("variable"):
        mark = block.body.attribute("sensitive")
        if block.labels == (variable,) and (mark is None or constant(mark.expression) is False):
            yield (
                f"{reference.text} is sensitive, but the variable {variable} is not: add `sensitive = true` "
                f"({block.place.file}:{block.place.line})"
            )
