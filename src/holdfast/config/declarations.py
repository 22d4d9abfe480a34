"""How configuration keys are declared: one line in one section says everything about a key.

    class Work(Section, frozen=True, kw_only=True):
        max_age: float = key(Duration(), "Remove work directories older than this.", default="24h")

`reader.py` fills sections from the file; `tools/config_documents.py` writes the JSON Schema and the reference
page, all from these lines. Whatever concerns several keys is checked in `Section.check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from msgspec import Struct, StructMeta
from msgspec.structs import replace

from holdfast.config.problems import Problems
from holdfast.config.shapes import (
    NAME_EXPECTED,
    NAME_PATTERN,
    WRONG_VALUE,
    AnyValue,
    Duration,
    Scalar,
    SecretOnly,
    Size,
    Verbatim,
    seconds,
    size_in_bytes,
)
from holdfast.kernel.errors import Place

_UNSET: Final[Any] = object()
_FROM_READER: Final = ("name", "place", "places", "written")
_RESERVED: Final = frozenset(
    {"by_field", "keys", "from_reader", "schema_rules", "groups", "check", "from_keys"}
)
"""Fields that would hide a part of Section: such a key needs a field of another name, and its `path`."""


class Bad:
    """A value that is present but wrong, as opposed to a missing one."""


BAD: Final = Bad()
KeyPath = tuple[str | int, ...]


class At(Struct, frozen=True, kw_only=True):
    """A value and its place. A section is a dict of these, a list a tuple of them."""

    value: Any
    place: Place
    key_place: Place
    """Where its key is; for the item of a list, where the item is."""
    keys: KeyPath

    @property
    def where(self) -> str:
        return dotted(self.keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key that is present and valid."""
        at = self.value.get(key) if isinstance(self.value, Mapping) else None
        return default if at is None or at.value is BAD else at.value


def dotted(keys: KeyPath) -> str:
    """`stacks[0].backend.settings`, for messages."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".") or "the file"


class ReservedNames(Struct, frozen=True):
    """Names that cannot be used, and why."""

    pattern: str
    why: str


class Names(Struct, frozen=True):
    """A mapping whose keys are names that the user chooses."""

    value: Shape
    pattern: str
    expected: str
    code: str = WRONG_VALUE
    reserved: tuple[ReservedNames, ...] = ()
    reserved_code: str = WRONG_VALUE
    entry: Callable[[str, Any, Place], Any] | None = None
    """Makes an item of name, value and place. The mapping is then read as a tuple of these items."""

    @property
    def empty(self) -> Any:
        return MappingProxyType({}) if self.entry is None else ()


class ListOf(Struct, frozen=True):
    item: Shape
    single: bool = False
    """One value may be written without the list."""


class ScalarOrMapping(Struct, frozen=True):
    scalar: Scalar | ListOf
    mapping: Names | Verbatim | type[Section]
    from_scalar: Callable[[Any], Any] | None = None
    """Makes of a single value what the mapping becomes; without it, the value stays as it is."""


class Key(Struct, frozen=True, kw_only=True):
    shape: Shape | Group
    doc: str
    """Markdown, for the reference page and (without links) for the schema."""
    path: str = ""
    """Its name, or `group.name`."""
    field: str = ""
    required: bool = False
    value: Any = _UNSET
    """What the field is without the key."""
    default: str | float | bool | None = None
    """The same as it would be written in the file."""
    default_doc: str | None = None
    """What the reference page says where the default is not one fixed value."""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


def key(
    shape: Shape,
    doc: str,
    *,
    default: Any = _UNSET,
    implied: str | float | None = None,
    default_doc: str | None = None,
    path: str = "",
    required: bool = False,
) -> Any:
    """Declare a key of a section.

    `default` is written as in the file and becomes the field's value. `implied` is only documented: the field
    is None, and the code that uses it knows what that means. With neither, lists, mappings and sections are
    empty and everything else is None. `path` is needed where the key's name differs from the field's; `a.b`
    is the key `b` in the mapping `a`, which the section describes in `groups`.
    """
    value = default
    if default is _UNSET:
        value = _UNSET if required else _empty(shape)
    elif isinstance(shape, Duration):
        value = seconds(default)
    elif isinstance(shape, Size):
        value = size_in_bytes(default)
    return Key(
        shape=shape,
        doc=doc,
        path=path,
        required=required,
        value=value,
        default=None if required else implied if default is _UNSET else default,
        default_doc=default_doc,
    )


def _empty(shape: Shape) -> Any:
    match shape:
        case ListOf():
            return ()
        case Names():
            return shape.empty
        case ScalarOrMapping(mapping=Names() as names):
            return names.empty
        case type():
            return shape.from_keys({})
        case _:
            return None


class Group(Struct, frozen=True, kw_only=True):
    """A mapping of the file whose keys are fields of the section around it."""

    keys: Mapping[str, Key]


class SectionType(StructMeta):
    """Takes the declared keys out of a class; what remains is an ordinary msgspec.Struct."""

    by_field: dict[str, Key]
    keys: dict[str, Key]
    """By name, as the file has them; those of a group are below the group's own."""
    from_reader: tuple[str, ...]
    """Fields that the reader fills: the name in the mapping above, the place, the places of all keys, and
    everything as it was read."""
    schema_rules: Mapping[str, Any]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        by_field: dict[str, Key] = {}
        groups: dict[str, str] = {}
        for base in bases:
            by_field.update(getattr(base, "by_field", {}))
            groups.update(getattr(base, "groups", {}))
        for field, declared in tuple(namespace.items()):
            by_field.pop(field, None)
            if isinstance(declared, Key):
                if field in _RESERVED:
                    raise TypeError(
                        f"{name}.{field} hides a part of Section: rename the field and give `path`"
                    )
                by_field[field] = replace(declared, path=declared.path or field, field=field)
                if declared.value is _UNSET:
                    del namespace[field]
                else:
                    namespace[field] = declared.value
        groups.update(namespace.get("groups", {}))
        namespace.update(by_field=by_field, keys=_tree(by_field.values(), groups))
        cls = super().__new__(mcs, name, bases, namespace, **options)
        fields = cls.__struct_fields__
        cls.from_reader = tuple(field for field in _FROM_READER if field in fields and field not in by_field)
        return cls


def _tree(keys: Iterable[Key], groups: Mapping[str, str]) -> dict[str, Key]:
    tree: dict[str, Key] = {}
    grouped: dict[str, dict[str, Key]] = {}
    for key in keys:
        group, _, name = key.path.rpartition(".")
        if not group:
            tree[name] = key
        elif group in grouped:
            grouped[group][name] = key
        else:
            grouped[group] = {name: key}
            tree[group] = Key(shape=Group(keys=grouped[group]), doc=groups[group], path=group)
    return tree


class Section(Struct, metaclass=SectionType, frozen=True, kw_only=True):
    """A mapping with the declared keys and no other, and the value that it becomes."""

    groups: ClassVar[Mapping[str, str]] = {}
    """What the mappings named in the `path` of keys are for."""
    schema_rules: ClassVar[Mapping[str, Any]] = {}
    """What the JSON Schema says about several keys."""

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        """Add mistakes that concern several keys. Some of the values may be wrong themselves."""

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> Any:
        """The value of the section; `values` are those of the fields that the file gives."""
        return cls(**values)


Shape = Scalar | SecretOnly | AnyValue | Verbatim | Names | ListOf | ScalarOrMapping | type[Section]


def named(value: Shape, *, entry: Callable[[str, Any, Place], Any] | None = None) -> Names:
    """A mapping of names such as those of environments and targets."""
    return Names(value, NAME_PATTERN, NAME_EXPECTED, entry=entry)


def walk(shape: Shape | Group, prefix: str = "") -> Iterator[tuple[str, Key]]:
    """Every key with its full name: `engine.time_limits.init`, `stacks[].name`, `targets.*.owner`."""
    match shape:
        case type() | Group():
            for name, key in shape.keys.items():
                path = f"{prefix}.{name}" if prefix else name
                yield path, key
                yield from walk(key.shape, path)
        case Names():
            yield from walk(shape.value, f"{prefix}.*")
        case ListOf():
            yield from walk(shape.item, f"{prefix}[]")
        case ScalarOrMapping(mapping=type() as section):
            yield from walk(section, prefix)
        case _:
            return
