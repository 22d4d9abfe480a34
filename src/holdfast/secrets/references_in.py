"""Which secrets a stack uses: each reference in its environment, variables, credentials, backend. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from holdfast.config.valid import SecretRef
from holdfast.stacks.stack import Stack


def references_of(stack: Stack) -> tuple[SecretRef, ...]:
    """Each once, in the order in which they stand there."""
    backend = stack.backend.settings if stack.backend is not None else {}
    return tuple(dict.fromkeys(_inside((stack.env, stack.variables, stack.credentials, backend))))


def users(stacks: Iterable[Stack]) -> Mapping[SecretRef, tuple[str, ...]]:
    """From a reference to the names of the stacks that use it."""
    found: dict[SecretRef, list[str]] = {}
    for stack in stacks:
        for ref in references_of(stack):
            found.setdefault(ref, []).append(stack.name)
    return {ref: tuple(names) for ref, names in sorted(found.items(), key=lambda one: str(one[0]))}


def _inside(value: object) -> Iterator[SecretRef]:
    match value:
        case SecretRef():
            yield value
        case Mapping():
            for one in value.values():
                yield from _inside(one)
        case tuple() | list():
            for one in value:
                yield from _inside(one)
        case _:
            return
