"""The standard library's `dataclass`, made as late as it can be.

The standard one writes and compiles up to six methods for each class when its module is loaded, which was
half of the time that the program took to start. Here a class gets methods that are shared, and an `__init__`
that is compiled when the first value is made; most classes of most commands never make one. Everything else
is as the standard has it: `fields`, `replace`, `asdict`, patterns, copies. What is not offered here is
refused when the module is loaded.

The standard module itself is imported when somebody asks for what only it can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NoReturn

Class = type[Any]
_set = object.__setattr__
_ABSENT: Any = object()
_OWN = "__late_fields__"
_NOT_OFFERED = ("InitVar", "KW_ONLY", "dataclasses.")


class Field:
    """One field as it was declared."""

    __slots__ = ("compare", "default", "factory", "hash", "init", "keyword", "name", "repr", "type")

    def __init__(
        self,
        default: Any,
        factory: Any,
        *,
        init: bool = True,
        repr: bool = True,  # noqa: A002 - as the standard calls it
        hash: bool | None = None,  # noqa: A002 - as the standard calls it
        compare: bool = True,
        kw_only: bool | None = None,
    ) -> None:
        self.default = default
        self.factory = factory
        self.init = init
        self.repr = repr
        self.hash = hash
        self.compare = compare
        self.keyword = kw_only
        self.name = ""
        self.type = ""

    def standard(self) -> Any:
        import dataclasses  # noqa: PLC0415 - see above

        said: dict[str, Any] = {"default": self.default, "default_factory": self.factory}
        made: Any = dataclasses.field(
            init=self.init,
            repr=self.repr,
            hash=self.hash,
            compare=self.compare,
            kw_only=bool(self.keyword),
            **{name: value for name, value in said.items() if value is not _ABSENT},
        )
        made.name, made.type = self.name, self.type
        made._field_type = vars(dataclasses)["_FIELD"]  # noqa: SLF001 - what `fields` and `replace` look for
        return made


def field(*, default: Any = _ABSENT, default_factory: Any = _ABSENT, **said: Any) -> Any:
    return Field(default, default_factory, **said)


class _Standard:
    """`__dataclass_fields__` of a class, made when the standard library asks for it."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    def __get__(self, value: object, owner: Class) -> dict[str, Any]:
        made = {one.name: one.standard() for one in self._fields}
        for holder in owner.__mro__:
            if holder.__dict__.get("__dataclass_fields__") is self:
                type.__setattr__(holder, "__dataclass_fields__", made)
        return made


class Params:
    """What a class that grows another asks of it."""

    __slots__ = ("frozen",)

    def __init__(self, *, frozen: bool) -> None:
        self.frozen = frozen


Fields = tuple[Field, ...]


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
    known: dict[str, Field] = {}
    for base in cls.__mro__[-1:0:-1]:
        known.update((one.name, one) for one in base.__dict__.get(_OWN, ()))
    known.update(own)
    fields, given = tuple(known.values()), cls.__dict__
    methods = _methods(fields, frozen=frozen, slots=slots, eq=eq)
    added = {name: method for name, method in methods.items() if given.get(name) is None}
    added["__match_args__"] = tuple(one.name for one in fields if one.init and not one.keyword)
    added["__dataclass_fields__"] = _Standard(fields)
    added["__dataclass_params__"] = Params(frozen=frozen)
    added[_OWN] = fields
    if slots:
        cls = _slotted(cls, own, added)
    else:
        for name, one in own.items():
            if one.default is not _ABSENT:
                setattr(cls, name, one.default)
            elif name in given:
                delattr(cls, name)
        for name, method in added.items():
            setattr(cls, name, method)
    if "__init__" not in given:
        cls.__init__ = _init_of(cls, fields, frozen=frozen)
    return cls


def _own_fields(cls: Class, *, kw_only: bool) -> dict[str, Field]:
    own: dict[str, Field] = {}
    for name, said in cls.__annotations__.items():
        if not isinstance(said, str) or said.startswith(_NOT_OFFERED):
            raise TypeError(f"{cls.__qualname__}.{name}: this annotation is not offered here")
        if said.startswith("ClassVar"):
            continue
        default = cls.__dict__.get(name, _ABSENT)
        if isinstance(default, list | dict | set):
            raise TypeError(f"{cls.__qualname__}.{name}: all values would share this default")
        one = default if isinstance(default, Field) else Field(default, _ABSENT)
        one.name, one.type = name, said
        if one.keyword is None:
            one.keyword = kw_only
        own[name] = one
    return own


def _slotted(cls: Class, own: dict[str, Field], added: dict[str, Any]) -> Class:
    """Slots can only be given to a class when it is made: so it is made again."""
    body = {name: value for name, value in cls.__dict__.items() if name not in own}
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    body.update(added)
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
    known: dict[str, Any] = {"_set": _set, "_absent": _ABSENT}
    lines = []
    for one in fields:
        name = value = one.name
        known[f"_d_{name}"] = one.default
        if one.factory is not _ABSENT:
            known[f"_f_{name}"] = one.factory
            value = f"_f_{name}()" + (f" if {name} is _absent else {name}" if one.init else "")
        elif not one.init:
            if one.default is _ABSENT:
                continue
            value = f"_d_{name}"
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if after:
        lines.append("self.__post_init__()")
    words = ["self", *(_word(one) for one in fields if one.init and not one.keyword)]
    named = [_word(one) for one in fields if one.init and one.keyword]
    words += ["*", *named] if named else []
    text = f"def __init__({', '.join(words)}):\n " + "\n ".join(lines or ["pass"])
    exec(text, known)  # noqa: S102 - made of the names of fields and of nothing else
    made: Callable[..., None] = known["__init__"]
    return made


def _word(one: Field) -> str:
    if one.factory is not _ABSENT:
        return f"{one.name}=_absent"
    return one.name if one.default is _ABSENT else f"{one.name}=_d_{one.name}"


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
    _refuse(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    del self
    _refuse(f"cannot delete field {name!r}")


def _refuse(why: str) -> NoReturn:
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 - see above

    raise FrozenInstanceError(why)


def _state(self: Any) -> list[object]:
    return [getattr(self, one.name) for one in getattr(type(self), _OWN)]


def _take_state(self: Any, state: list[object]) -> None:
    for one, value in zip(getattr(type(self), _OWN), state, strict=True):
        _set(self, one.name, value)
