"""A stack whose secrets stay unread: for commands of Terraform that need no values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from holdfast.config.valid import SecretRef, Value
from holdfast.stacks.stack import Stack

STAND_IN: Final = "a-secret-that-was-not-read"
_VARIABLE = "TF_VAR_"


def without_secrets(stack: Stack) -> Stack:
    """A text stands in for every reference but those of the backend."""
    return replace(
        stack,
        env=_stood_in_for(stack.env),
        variables=_stood_in_for(stack.variables),
        credentials={name: _stood_in_for(given) for name, given in stack.credentials.items()},
    )


def without_values(stack: Stack) -> Stack:
    """The same for values of variables alone: what fetches modules and providers has its secrets."""
    env = {name: _stood_in(one) if name.startswith(_VARIABLE) else one for name, one in stack.env.items()}
    return replace(stack, env=env, variables=_stood_in_for(stack.variables))


def _stood_in_for(values: Mapping[str, Value]) -> Mapping[str, Value]:
    return {name: _stood_in(value) for name, value in values.items()}


def _stood_in(value: Value) -> Value:
    match value:
        case SecretRef():
            return STAND_IN
        case Mapping():
            return _stood_in_for(value)
        case tuple():
            return tuple(map(_stood_in, value))
        case _:
            return value
