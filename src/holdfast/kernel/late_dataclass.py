"""The standard library's `dataclass`, made as late as it can be.

The standard one writes and compiles up to six methods for each class when its module is loaded, which was
half of the time that the program took to start. Here a class gets methods that are shared, and an `__init__`
that is compiled when the first value is made; most classes of most commands never make one. Everything else
is as the standard has it: `fields`, `replace`, `asdict`, patterns, copies. What is not offered here is
refused when the module is loaded.
"""

from __future__ import annotations

import dataclasses as standard
import inspect
from collections.abc import Callable, Iterable
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NoReturn

Class = type[Any]
Field = Any
Fields = tuple[Field, ...]

_MISSING = standard.MISSING
_FIELD = vars(standard)["_FIELD"]
"""What `fields` and `replace` of the standard look for."""
_set = object.__setattr__


def dataclass(
    cls: Class | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
    eq: bool = True,
) -> Any:
    def made(cls: Class) -> Class:
        return _made(cls, frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)

    return made if cls is None else made(cls)


def _made(cls: Class, *, frozen: bool, slots: bool, kw_only: bool, eq: bool) -> Class:
    own = _own_fields(cls, kw_only=kw_only)
    fields: dict[str, Field] = {}
    for base in cls.__mro__[-1:0:-1]:
        fields.update(getattr(base, "__dataclass_fields__", None) or {})
    fields.update(own)
    given = cls.__dict__
    methods = _methods(tuple(fields.values()), frozen=frozen, slots=slots, eq=eq)
    methods = {name: method for name, method in methods.items() if given.get(name) is None}
    positional = tuple(one.name for one in fields.values() if one.init and not one.kw_only)
    methods["__match_args__"] = positional
    methods["__dataclass_fields__"] = fields
    methods["__dataclass_params__"] = SimpleNamespace(frozen=frozen)
    if slots:
        cls = _slotted(cls, own, methods)
    else:
        for name, one in own.items():
            if one.default is not _MISSING:
                setattr(cls, name, one.default)
            elif name in given:
                delattr(cls, name)
        for name, method in methods.items():
            setattr(cls, name, method)
    if "__init__" not in given:
        cls.__init__ = _init_of(cls, tuple(fields.values()), frozen=frozen)
    return cls


def _own_fields(cls: Class, *, kw_only: bool) -> dict[str, Field]:
    own: dict[str, Field] = {}
    for name, said in inspect.get_annotations(cls).items():
        if not isinstance(said, str) or said.startswith(("InitVar", "KW_ONLY", "dataclasses.")):
            raise TypeError(f"{cls.__qualname__}.{name}: this annotation is not offered here")
        if said.startswith("ClassVar"):
            continue
        default = cls.__dict__.get(name, _MISSING)
        one: Field = default if isinstance(default, standard.Field) else standard.field(default=default)
        one.name, one.type = name, said
        one._field_type = _FIELD  # noqa: SLF001 - as the standard marks it
        if one.kw_only is _MISSING:
            one.kw_only = kw_only
        own[name] = one
    return own


def _slotted(cls: Class, own: dict[str, Field], methods: dict[str, Any]) -> Class:
    """Slots can only be given to a class when it is made: so it is made again."""
    body = {name: value for name, value in cls.__dict__.items() if name not in own}
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    body.update(methods)
    inherited = {slot for base in cls.__mro__[1:] for slot in base.__dict__.get("__slots__", ())}
    body["__slots__"] = tuple(name for name in own if name not in inherited)
    kind: Any = type(cls)
    again: Class = kind(cls.__name__, cls.__bases__, body)
    again.__qualname__ = cls.__qualname__
    return again


def _init_of(cls: Class, fields: Fields, *, frozen: bool) -> Callable[..., None]:
    def __init__(self: object, /, *values: object, **named: object) -> None:  # noqa: N807 - it stands in for the real one, once
        cls.__init__ = _compiled_init(fields, frozen=frozen, after=hasattr(cls, "__post_init__"))
        cls.__init__(self, *values, **named)

    return __init__


def _compiled_init(fields: Fields, *, frozen: bool, after: bool) -> Callable[..., None]:
    known: dict[str, Any] = {"_set": _set, "_absent": _MISSING}
    lines = []
    for one in fields:
        name = value = one.name
        known[f"_d_{name}"] = one.default
        if one.default_factory is not _MISSING:
            known[f"_f_{name}"] = one.default_factory
            value = f"_f_{name}()" + (f" if {name} is _absent else {name}" if one.init else "")
        elif not one.init:
            if one.default is _MISSING:
                continue
            value = f"_d_{name}"
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if after:
        lines.append("self.__post_init__()")
    words = ["self", *(_word(one) for one in fields if one.init and not one.kw_only)]
    named = [_word(one) for one in fields if one.init and one.kw_only]
    words += ["*", *named] if named else []
    text = f"def __init__({', '.join(words)}):\n " + "\n ".join(lines or ["pass"])
    exec(text, known)  # noqa: S102 - made of the names of fields and of nothing else
    made: Callable[..., None] = known["__init__"]
    return made


def _word(one: Field) -> str:
    if one.default_factory is not _MISSING:
        return f"{one.name}=_absent"
    return one.name if one.default is _MISSING else f"{one.name}=_d_{one.name}"


def _methods(fields: Fields, *, frozen: bool, slots: bool, eq: bool) -> dict[str, Any]:
    methods: dict[str, Any] = {"__repr__": _repr_of(tuple(one.name for one in fields if one.repr))}
    if eq:
        methods["__eq__"] = _eq_of(_values_of(one.name for one in fields if one.compare))
        hashed = (one.name for one in fields if (one.compare if one.hash is None else one.hash))
        methods["__hash__"] = _hash_of(_values_of(hashed)) if frozen else None
    if frozen:
        methods["__setattr__"] = _refuse_to_set
        methods["__delattr__"] = _refuse_to_delete
        if slots:
            methods["__getstate__"] = _state
            methods["__setstate__"] = _take_state
    return methods


def _values_of(names: Iterable[str]) -> Callable[[object], object]:
    known = tuple(names)
    return attrgetter(*known) if known else lambda _: ()


def _repr_of(names: tuple[str, ...]) -> Callable[[object], str]:
    def __repr__(self: object) -> str:  # noqa: N807 - becomes the class's own
        said = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({said})"

    return __repr__


def _eq_of(values: Callable[[object], object]) -> Callable[[object, object], bool]:
    def __eq__(self: object, other: object) -> bool:  # noqa: N807 - becomes the class's own
        if other.__class__ is self.__class__:
            return values(self) == values(other)
        return NotImplemented

    return __eq__


def _hash_of(values: Callable[[object], object]) -> Callable[[object], int]:
    def __hash__(self: object) -> int:  # noqa: N807 - becomes the class's own
        return hash(values(self))

    return __hash__


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    del self, value
    raise standard.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    del self
    raise standard.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, one.name) for one in standard.fields(self)]


def _take_state(self: Any, state: list[object]) -> None:
    for one, value in zip(standard.fields(self), state, strict=True):
        _set(self, one.name, value)
