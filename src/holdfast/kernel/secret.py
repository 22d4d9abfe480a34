"""A value that must not be shown; `reveal` makes every use visible in the code."""

from __future__ import annotations

import hmac
from collections.abc import Mapping


class Secret:
    """Masked when printed, logged or formatted."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(("Secret", self._text))


def reveal_all(value: object) -> object:
    """A value for Terraform, with every secret inside it revealed."""
    match value:
        case Secret():
            return value.reveal()
        case Mapping():
            return {key: reveal_all(item) for key, item in value.items()}
        case tuple() | list():
            return [reveal_all(item) for item in value]
        case _:
            return value


def masked_repr(value: object) -> str:
    """The `__repr__` of values that hold a secret, a state or output of Terraform: no field is shown."""
    return f"{type(value).__name__}(…)"
