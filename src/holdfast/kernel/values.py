"""Base classes for values: `msgspec.Struct`, with what some values must not do.

Modules that the supervisor process loads use `NamedTuple` instead: it starts faster without msgspec.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.kernel.secret import masked_repr


class MaskedStruct(Struct, frozen=True, kw_only=True):
    """A value that holds a plan, a state or a secret: its repr names the type and shows no field."""

    __repr__ = masked_repr


class PlacedStruct(Struct, frozen=True, kw_only=True):
    """A value read from a file. Where and how it was written does not make two values different."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._compared() == other._compared()

    def __ne__(self, other: object) -> bool:
        # msgspec does not derive it from `__eq__`.
        return not self == other

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[object, ...]:
        return tuple(
            getattr(self, name)
            for name in self.__struct_fields__
            if name not in {"place", "places", "written"}
        )
