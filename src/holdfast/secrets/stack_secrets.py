"""The secret references of a stack, and the stack without them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from holdfast.config.secret_refs import SecretRef, Value
from holdfast.stacks.stack import Stack

PLACEHOLDER: Final = "a-secret-that-was-not-read"
_VARIABLE = "TF_VAR_"


def references_of(stack: Stack) -> tuple[SecretRef, ...]:
    """In environment, variables, credentials and backend: each once, in that order."""
    backend = stack.backend.settings if stack.backend is not None else {}
    return tuple(dict.fromkeys(_references_in((stack.env, stack.variables, stack.credentials, backend))))


def stacks_by_reference(stacks: Iterable[Stack]) -> Mapping[SecretRef, tuple[str, ...]]:
    names: dict[SecretRef, list[str]] = {}
    for stack in stacks:
        for ref in references_of(stack):
            names.setdefault(ref, []).append(stack.name)
    return {ref: tuple(names[ref]) for ref in sorted(names, key=str)}


def without_secrets(stack: Stack) -> Stack:
    """For Terraform commands that need no values: only the backend keeps its references."""
    return replace(
        stack,
        env=_replace_in(stack.env),
        variables=_replace_in(stack.variables),
        credentials={name: _replace_in(settings) for name, settings in stack.credentials.items()},
    )


def without_values(stack: Stack) -> Stack:
    """Only variables lose their references: downloads of modules and providers keep their secrets."""
    env = {
        name: _without_references(value) if name.startswith(_VARIABLE) else value
        for name, value in stack.env.items()
    }
    return replace(stack, env=env, variables=_replace_in(stack.variables))


def _references_in(value: object) -> Iterator[SecretRef]:
    match value:
        case SecretRef():
            yield value
        case Mapping():
            for item in value.values():
                yield from _references_in(item)
        case tuple() | list():
            for item in value:
                yield from _references_in(item)
        case _:
            return


def _replace_in(values: Mapping[str, Value]) -> Mapping[str, Value]:
    return {name: _without_references(value) for name, value in values.items()}


def _without_references(value: Value) -> Value:
    match value:
        case SecretRef():
            return PLACEHOLDER
        case Mapping():
            return _replace_in(value)
        case tuple():
            return tuple(map(_without_references, value))
        case _:
            return value
