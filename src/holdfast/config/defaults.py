"""What entries of `stacks` share: `defaults` and `values` of the file, of targets and of environments.

Merge order: file < target < environment < entry. Mappings merge by key; everything else, lists included,
replaces. Defaults may have every key of an entry but those that say which stacks there are. `environment`
and `target` decide which defaults apply, so they cannot depend on them: `entry_needs` reveals such a cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.declarations import BAD, At, Group, Names, ScalarOrMapping, Section, Shape
from holdfast.config.placeholders import FILES, SHARED_VALUES, Needs, direct_needs
from holdfast.config.reader import build
from holdfast.config.stack_rules import StackRule

ENTRY_ONLY: Final = frozenset({"name", "folder", "variables", "module", "matrix", "environment", "target"})
_TEXT_KEYS: Final = ("environment", "account", "region", "target", "name")
_FILES_KEYS: Final = ("module", "variables_files")


class EntryDefaults(Section, frozen=True, kw_only=True):
    """Kept as it was read: its values are built only once they are merged with an entry."""

    written: At

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> EntryDefaults:
        return cls(written=values["written"])


EntryDefaults.keys.update((name, key) for name, key in StackRule.keys.items() if name not in ENTRY_ONLY)


def merge(low: At, high: At) -> At:
    """`high` over `low`; each value keeps the place where it was written."""
    return replace(high, value=merge_values(low.value, high.value))


def merge_values(low: Any, high: Any) -> Any:
    """Mappings of read values (`At`) and plain ones alike, but one kind does not merge with the other."""
    if not (isinstance(low, Mapping) and isinstance(high, Mapping)):
        return high
    if low and high and _is_read(low) != _is_read(high):
        return high
    merged = dict(low)
    for key, value in high.items():
        below = low.get(key)
        if isinstance(value, At) and isinstance(below, At):
            merged[key] = merge(below, value)
        else:
            merged[key] = merge_values(below, value)
    return merged if _is_read(merged) else MappingProxyType(merged)


def _is_read(values: Mapping[str, Any]) -> bool:
    return any(isinstance(value, At) for value in values.values())


def effective_rule(entry: StackRule, layers: Iterable[At | None]) -> StackRule:
    """The entry with defaults, the least specific first."""
    present = [layer for layer in layers if layer is not None]
    if not present:
        return entry
    return build(StackRule, reduce(merge, [*present, entry.written]))  # type: ignore[no-any-return]


def missing_keys(at: At, shape: Shape | Group = StackRule) -> Iterator[tuple[At, str]]:
    """Required keys that are missing in the mappings of an entry, which defaults may have completed."""
    if isinstance(shape, ScalarOrMapping):
        shape = shape.mapping
    if not isinstance(at.value, Mapping) or (at.value and not _is_read(at.value)):
        return
    match shape:
        case Names():
            for item in at.value.values():
                yield from missing_keys(item, shape.value)
        case type() | Group():
            for name, key in shape.keys.items():
                item = at.value.get(name)
                if item is None and key.required:
                    yield at, name
                elif item is not None:
                    yield from missing_keys(item, key.shape)
        case _:
            return


class Shared(Struct, frozen=True, kw_only=True):
    """The defaults and values of a file, by level."""

    file: At | None
    targets: Mapping[str, At]
    environments: Mapping[str, At]
    values: Mapping[str, Any]
    environment_values: Mapping[str, Mapping[str, Any]]

    def deciding(self, key: str) -> tuple[str, ...]:
        """Whether target and environment decide the default of a key."""
        levels = (("target", self.targets), ("environment", self.environments))
        return tuple(name for name, level in levels if any(key in at.value for at in level.values()))

    def layers(self, target: str | None, environment: str | None) -> tuple[At | None, ...]:
        return self.file, self.targets.get(target or ""), self.environments.get(environment or "")

    def values_of(self, environment: str | None) -> Mapping[str, Any]:
        own = self.environment_values.get(environment or "")
        return self.values if own is None else merge_values(self.values, own)

    @property
    def every_layer(self) -> tuple[At, ...]:
        file = (self.file,) if self.file is not None else ()
        return (*file, *self.targets.values(), *self.environments.values())


def shared_in(top: At) -> Shared:
    """Of a file that may still contain mistakes."""
    environments, targets = (_sections(top.get(key, {})) for key in ("environments", "targets"))
    return Shared(
        file=_section(top, "defaults"),
        targets={name: at for name, target in targets.items() if (at := _section(target, "defaults"))},
        environments={name: at for name, one in environments.items() if (at := _section(one, "defaults"))},
        values=_plain(top.get("values", {})),
        environment_values={
            name: _plain(environment.get("values"))
            for name, environment in environments.items()
            if environment.get("values")
        },
    )


def _sections(values: Mapping[str, At]) -> dict[str, At]:
    return {name: at for name, at in values.items() if at.value is not BAD}


def _section(section: At, key: str) -> At | None:
    at = section.value.get(key)
    return at if at is not None and at.value is not BAD else None


def _plain(values: Mapping[str, At]) -> dict[str, Any]:
    return {name: at.value for name, at in values.items() if at.value is not BAD}


def with_file_env(top: At) -> At:
    """The file's `env` as the lowest of its defaults."""
    env, defaults = (_section(top, key) for key in ("env", "defaults"))
    if env is None:
        return top
    layer = replace(env, value={"env": env})
    return replace(top, value={**top.value, "defaults": merge(layer, defaults) if defaults else layer})


def entry_needs(entry: At, shared: Shared, captured: Collection[str]) -> Needs:
    """Which values of an entry must be known before which others."""
    texts: dict[str, list[str]] = {}
    deciding: dict[str, set[str]] = {}
    for key in (*_TEXT_KEYS, *_FILES_KEYS):
        name = FILES if key in _FILES_KEYS else key
        at = entry.value.get(key)
        if at is not None:
            texts.setdefault(name, []).extend(texts_in(at))
        elif key not in ENTRY_ONLY and key not in captured:
            layers = (layer.value[key] for layer in shared.every_layer if key in layer.value)
            texts.setdefault(name, []).extend(text for layer in layers for text in texts_in(layer))
            deciding.setdefault(name, set()).update(shared.deciding(key))
    texts[SHARED_VALUES] = list(texts_in((shared.values, *shared.environment_values.values())))
    deciding[SHARED_VALUES] = {"environment"} if shared.environment_values else set()
    needs = direct_needs(texts, captured)
    return {name: (*needed, *sorted(deciding.get(name, ()))) for name, needed in needs.items()}


def texts_in(value: object) -> Iterator[str]:
    """Every text in a value, read or plain."""
    match value:
        case str():
            yield value
        case At():
            yield from texts_in(value.value)
        case Mapping():
            for item in value.values():
                yield from texts_in(item)
        case tuple() | list():
            for item in value:
                yield from texts_in(item)
        case _:
            return


def value_at(values: Mapping[str, Any], path: str) -> object:
    """`network.cidr` in nested mappings; None if there is no such value."""
    value: Any = values
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
