"""Fills the placeholders of a gate. A value that is not known leaves the gate unchecked. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from holdfast.config.declarations import Section
from holdfast.config.gates import FACTS, GATE_NAMES, OUTPUTS
from holdfast.config.placeholders import VALUES, MalformedError, parse
from holdfast.kernel.text import plain_text
from holdfast.kernel.values import MaskedStruct


class MissingValue(Exception):  # noqa: N818 - a reason, not a failure
    """Why a placeholder has no value."""


class NoOutput(MissingValue):
    """An apply of the target's stacks may create it."""


class GateValues(MaskedStruct, frozen=True, kw_only=True):
    """What placeholders stand for in one environment of a target."""

    target: str
    environment: str | None
    outputs: Callable[[str], Mapping[str, object]]
    """All outputs, for who needs the named one; raises MissingValue if that cannot be used."""
    facts: Callable[[str], Mapping[str, object]]
    """All facts by their names, dots included, for who needs the named one; raises MissingValue."""
    values: Mapping[str, object]

    def text_of(self, name: str, within: frozenset[str] = frozenset()) -> str:
        if name == "target":
            return self.target
        if name == "environment":
            if self.environment is None:
                raise MissingValue("{environment} has no value: no stack of the target has an environment")
            return self.environment
        if name.startswith(VALUES):
            return self._value(name, within)
        if name.startswith(FACTS):
            return self._fact(name)
        path = name.removeprefix(OUTPUTS)
        return _text(_at(self.outputs(path.partition(".")[0]), path, name), name)

    def _value(self, name: str, within: frozenset[str]) -> str:
        """A value may contain placeholders itself."""
        text = _text(_at(self.values, name.removeprefix(VALUES), name), name)
        try:
            template = parse(text, GATE_NAMES)
        except MalformedError as error:
            raise MissingValue(f"{{{name}}} contains {error}") from None
        if name in within:
            raise MissingValue(f"{{{name}}} contains itself")
        return template.fill(lambda inner: self.text_of(inner, within | {name}))

    def _fact(self, name: str) -> str:
        fact = name.removeprefix(FACTS)
        facts = self.facts(fact)
        if fact not in facts:
            known = ", ".join(sorted(facts)) or "none"
            raise MissingValue(f"{{{name}}} has no value: the facts of {self.target} are {known}")
        return _text(facts[fact], name)


def _at(values: Mapping[str, object], path: str, name: str) -> object:
    value: object = values
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            if name.startswith(VALUES):
                raise MissingValue(f"{{{name}}} has no value: `values` has no {path}")
            raise NoOutput(f"{{{name}}} has no value: there is no output {path}")
        value = value[part]
    return value


def _text(value: object, name: str) -> str:
    text = plain_text(value)
    if text is None:
        raise MissingValue(f"{{{name}}} is {'null' if value is None else 'not a text or a number'}")
    return text


def names_in(settings: Any) -> frozenset[str]:
    """The placeholders of a section."""
    return frozenset(name for text in _texts(settings) for name in parse(text, GATE_NAMES).names)


def filled(settings: Any, value_of: Callable[[str], str]) -> Any:
    """The same with every text filled in; secret references stay references."""
    return _each_text(settings, lambda text: parse(text, GATE_NAMES).fill(value_of))


def _each_text(settings: Any, change: Callable[[str], str]) -> Any:
    if type(settings) is str:
        return change(settings)
    if isinstance(settings, tuple):
        return tuple(_each_text(item, change) for item in settings)
    if isinstance(settings, Mapping):
        return {name: _each_text(item, change) for name, item in settings.items()}
    if isinstance(settings, Section):
        names = settings.__struct_fields__
        return replace(settings, **{name: _each_text(getattr(settings, name), change) for name in names})
    return settings


def _texts(settings: Any) -> tuple[str, ...]:
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    _each_text(settings, note)
    return tuple(found)
