"""The one redactor for all output: logs, screens, JSON, summaries, errors.

    registered   known secrets of five characters or more: masked everywhere, in every encoding (`encodings`)
    by format    text with the format of a secret (`formats`)
    by entropy   random-looking values under secret names (`entropy`)

Text without secrets does not change. docs/redaction.md is the page for users.

In instance keys and map keys, each secret has its own stand-in, such as `***(1)`: addresses and keys stay
distinct, and the same in everything that one command prints.

Of a document, values are redacted, instance keys in addresses, and keys of foreign content. Structural fields
never change: names, enums, digests, places, and the parts of an address that are names in the code. A secret
that equals the name of a stack must not make its document unusable, and masking it there would hide nothing,
since the name is in the repository.
"""

from __future__ import annotations

import functools
import json
import numbers
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, overload

from msgspec import Struct

from holdfast.config.problems import closest
from holdfast.kernel.errors import UsageError
from holdfast.kernel.patterns import pattern
from holdfast.kernel.secret import Secret
from holdfast.secrets import entropy, formats
from holdfast.secrets.encodings import SHORTEST, encodings_of
from holdfast.secrets.finder import Finder, Span, merge_spans

__all__ = ["MASK", "SHORTEST", "Layer", "RedactionSettings", "Redactor", "layers", "redaction_settings"]

MASK = "***"
ENTROPY = "entropy"
_KEY_WINDOW: Final = 500
_IN_BRACKETS: Final = pattern(r"""[\w\])-]\[\\*"(?:\\.|[^"\\\n])*\Z""")
"""The text before a secret in an instance key: `aws_x.y["a-`, also inside of JSON."""
_BEFORE_NAME: Final = pattern(r"""[{,\n]\s*[+~-]?\s*\\*"(?:\\.|[^"\\\n])*\Z""")
_AFTER_NAME: Final = pattern(r"""(?:\\.|[^"\\\n])*"\s*[:=](?!=)""")
"""The text before and after a secret in the key of a JSON or HCL map."""
_INSTANCE_KEY: Final = pattern(r"""(?<=\[")(?:[^"\\]|\\.)*(?="\])""", re.DOTALL)
_FIELD: Final = pattern(r"[@A-Za-z_][A-Za-z0-9_@.-]*")
"""Names of fields, and names in the code, such as those of outputs."""


class RedactionSettings(Struct, frozen=True, kw_only=True):
    off: frozenset[str] = frozenset()
    """Ids of disabled layers."""
    words: tuple[str, ...] = ()
    """More words that make a name secret."""
    entropy: float = entropy.BITS
    """Bits per character from which on a value under such a name counts as a secret."""


class Layer(Struct, frozen=True, kw_only=True):
    id: str
    what: str


def layers() -> tuple[Layer, ...]:
    """Everything that can be disabled. Registered values are always masked."""
    by_format = (Layer(id=row.id, what=row.what) for row in formats.shipped_formats())
    return (*by_format, Layer(id=ENTROPY, what="Random-looking values under secret names"))


def redaction_settings(off: Iterable[str], words: Iterable[str], bits: float | None) -> RedactionSettings:
    """From the configuration. An unknown layer is an error."""
    known = {layer.id for layer in layers()}
    disabled = tuple(off)
    if unknown := [layer for layer in disabled if layer not in known]:
        similar = closest(unknown[0], known)
        raise UsageError(
            "HF-RED-1",
            f"redaction.off: unknown layer `{unknown[0]}`",
            hint=f"Did you mean `{similar}`?" if similar else "docs/redaction.md lists all layers.",
        )
    return RedactionSettings(
        off=frozenset(disabled), words=tuple(words), entropy=entropy.BITS if bits is None else bits
    )


@functools.cache
def _formats_without(off: frozenset[str]) -> formats.FormatTable:
    return formats.FormatTable(row for row in formats.shipped_formats() if row.id not in off)


class Redactor:
    """Values are only added, never removed. Thread-safe."""

    __slots__ = ("_finder", "_formats", "_lock", "_settings", "_stand_ins", "_values")

    def __init__(
        self, values: Iterable[str | Secret] = (), settings: RedactionSettings | None = None
    ) -> None:
        self._finder = Finder()
        self._values: set[str] = set()
        self._stand_ins: dict[str, str] = {}
        self._lock = threading.Lock()
        self.tune(settings or RedactionSettings())
        self.register_all(values)

    def __repr__(self) -> str:
        return f"Redactor({len(self._finder)} texts)"

    def tune(self, settings: RedactionSettings) -> None:
        """Called once the configuration is read; output before that uses the defaults."""
        self._settings = settings
        self._formats = _formats_without(settings.off)

    def register(self, value: str | Secret) -> None:
        """Mask a value from now on. A short one is masked only in its own field."""
        text = value.reveal() if isinstance(value, Secret) else value
        encodings = encodings_of(text)
        if encodings:
            self._values.add(text)
            self._finder.add(encodings)
            for part in self._secrets_inside(text):
                self._finder.add(encodings_of(part))

    def register_all(self, values: Iterable[str | Secret]) -> None:
        for value in values:
            self.register(value)

    def registered(self) -> frozenset[str]:
        """The plain values: only to be stored encrypted, so that a later command can mask them again."""
        return frozenset(self._values)

    def clean(self, text: str) -> str:
        return self._replace(text, self.spans(text), self._mask)

    def clean_address(self, address: str) -> str:
        """Only instance keys can be secret: the rest are names in the code."""
        return _INSTANCE_KEY.sub(lambda key: self.clean_key(key[0]), address)

    def clean_key(self, text: str) -> str:
        """For an instance key or a key of a map: a stand-in for each secret."""
        spans = (*self._finder.spans(text), *self._formats.spans(text, lower_case(text)))
        return self._replace(text, spans, lambda text, start, end: self._stand_in(text[start:end]))

    def _replace(self, text: str, spans: Iterable[Span], mask: Callable[[str, int, int], str]) -> str:
        kept: list[str] = []
        at = 0
        for start, end in merge_spans(spans):
            kept += (text[at:start], mask(text, start, end))
            at = end
        return "".join((*kept, text[at:])) if kept else text

    def _mask(self, text: str, start: int, end: int) -> str:
        before = text[max(0, start - _KEY_WINDOW) : start]
        in_key = _IN_BRACKETS.search(before) or (
            _BEFORE_NAME.search(before) and _AFTER_NAME.match(text, end, end + _KEY_WINDOW)
        )
        return self._stand_in(text[start:end]) if in_key else MASK

    def _stand_in(self, secret: str) -> str:
        with self._lock:
            return self._stand_ins.setdefault(secret, f"{MASK}({len(self._stand_ins) + 1})")

    def clean_bytes(self, data: bytes) -> bytes:
        """For UTF-8; other bytes do not change."""
        return self.clean(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def clean_field(self, name: str, text: str) -> str:
        """For text with a name, such as a value in a document."""
        if (
            ENTROPY not in self._settings.off
            and entropy.is_secret_name(name, self._settings.words)
            and entropy.looks_random(text, self._settings.entropy)
        ):
            return MASK
        return self.clean(text)

    def spans(self, text: str) -> Iterator[Span]:
        """The positions of secrets, in no order; they may overlap."""
        lowered = lower_case(text)
        yield from self._finder.spans(text)
        yield from self._formats.spans(text, lowered)
        if ENTROPY not in self._settings.off:
            yield from entropy.spans(text, lowered, self._settings.words, self._settings.entropy)

    def _secrets_inside(self, text: str) -> Iterator[str]:
        """The password in a connection string, the token in a JSON document."""
        for start, end in self._formats.spans(text, lower_case(text)):
            if end - start < len(text):
                yield text[start:end]
        if text.lstrip()[:1] in {"{", "["}:
            try:
                document = json.loads(text)
            except (ValueError, RecursionError):
                return
            yield from self._values_of_secret_names("", document)

    def _values_of_secret_names(self, name: str, value: object) -> Iterator[str]:
        match value:
            case dict():
                for key, part in value.items():
                    yield from self._values_of_secret_names(key, part)
            case list():
                for part in value:
                    yield from self._values_of_secret_names(name, part)
            case str() if entropy.is_secret_name(name, self._settings.words):
                yield value


def lower_case(text: str) -> str:
    """Keeps the position of every character."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(char if len(char.lower()) > 1 else char.lower() for char in text)


_LONGEST_FIELD = 2


class Structure(Struct, frozen=True, kw_only=True):
    fields: Mapping[str, str]
    """From a field, or `parent.field`, to the reason to keep it. The items of a list have the list's name."""
    values: frozenset[str]
    """Fields with foreign content: nothing below them is structural, and numbers are redacted too."""
    addresses: frozenset[str] = frozenset()
    """Fields, or `parent.field`, with an address or an attribute path."""
    keys: frozenset[str] = frozenset()
    """Fields with an instance key."""


def reasons_by_field(reasons: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({field: why for why, fields in reasons.items() for field in fields.split()})


OURS: Final = Structure(
    fields=reasons_by_field(
        {
            "a name from the configuration": "name stack stacks environment account region target lane"
            " workspace depends_on backend.type",
            "a place in the repository or on this machine": "file path root home module variables",
            "one of a closed set": "status decision code kind product actions operation severity rule"
            " resources.reason",
            "an id or a digest": "id run digest lineage deposed key change store",
            "a version": "engine.version tools.version tool.version engines.version holdfast python",
            "a time": "started ended created at",
        }
    ),
    values=frozenset({"value", "before", "after"}),
    addresses=frozenset(
        {
            *("address", "previous_address", "resources", "removed_resources", "attributes.path"),
            *("suggestions.from", "suggestions.to"),
        }
    ),
)
TERRAFORM: Final = Structure(
    fields=reasons_by_field(
        {
            "a name in the code": "name mode deposed",
            "the address of a provider": "provider_name provider_config_key full_name source",
            "one of a closed set": "actions action_reason status kind severity",
            "a version": "format_version terraform_version schema_version version_constraint",
        }
    ),
    values=frozenset(
        {
            *("value", "values", "before", "after", "constant_value", "default", "config_values"),
            *("after_unknown", "before_sensitive", "after_sensitive", "sensitive_values", "config_sensitive"),
            # The type of an output names the keys of its value.
            "type",
        }
    ),
    addresses=frozenset({"address", "previous_address", "module_address", "to_display"}),
    keys=frozenset({"index", "instance_key", "resource_key"}),
)
"""The output of `terraform … -json`."""


@overload
def clean_document(
    redactor: Redactor, document: Mapping[str, object], structural: Structure = OURS
) -> dict[str, object]: ...


@overload
def clean_document(redactor: Redactor, document: object, structural: Structure = OURS) -> object: ...


def clean_document(redactor: Redactor, document: object, structural: Structure = OURS) -> Any:
    """The document without secrets. What is not JSON becomes text."""
    return _DocumentRedactor(redactor, structural).value(document, (), foreign=False)


def clean_value(redactor: Redactor, name: str, value: object) -> object:
    """Foreign content with a name, such as an output."""
    return _DocumentRedactor(redactor, OURS).value(value, (name,), foreign=True)


class _DocumentRedactor:
    def __init__(self, redactor: Redactor, structural: Structure) -> None:
        self._redactor = redactor
        self._structural = structural
        self._cleaners: dict[tuple[str, ...], Callable[[str], str]] = {}

    def value(self, value: object, path: tuple[str, ...], *, foreign: bool) -> object:
        match value:
            case None | bool():
                return value
            case str():
                return self._text(value, path, foreign=foreign)
            case dict() | Mapping():
                return self._mapping(value, path, foreign=foreign)
            case list() | tuple():
                return [self.value(item, path, foreign=foreign) for item in value]
            case int() | float() | numbers.Number():
                return MASK if foreign and self._redactor.clean(str(value)) == MASK else value
            case _:
                return self._text(str(value), path, foreign=foreign)

    def _mapping(
        self, value: Mapping[Any, Any], path: tuple[str, ...], *, foreign: bool
    ) -> dict[Any, object]:
        result: dict[Any, object] = {}
        for key, item in value.items():
            name = str(key)
            ours = not foreign and _FIELD.fullmatch(name)
            cleaned = name if ours else self._redactor.clean_key(name)
            inside = foreign or name in self._structural.values
            shown = _unused(key if cleaned == name else cleaned, result)
            result[shown] = self.value(item, (*path, name), foreign=inside)
        return result

    def _text(self, text: str, path: tuple[str, ...], *, foreign: bool) -> str:
        if foreign:
            return self._redact(text, path)
        if path not in self._cleaners:
            self._cleaners[path] = self._cleaner(path)
        return self._cleaners[path](text)

    def _cleaner(self, path: tuple[str, ...]) -> Callable[[str], str]:
        structural = self._structural
        if _names_field(structural.addresses, path):
            return self._redactor.clean_address
        if _names_field(structural.keys, path):
            return self._redactor.clean_key
        return str if _names_field(structural.fields, path) else functools.partial(self._redact, path=path)

    def _redact(self, text: str, path: tuple[str, ...]) -> str:
        """The name of a value is the nearest key that is not a generic one such as `value`."""
        names = [part for part in path if part not in self._structural.values]
        return self._redactor.clean_field(names[-1] if names else "", text)


def _names_field(fields: Collection[str], path: tuple[str, ...]) -> bool:
    return any(".".join(path[-size:]) in fields for size in range(1, _LONGEST_FIELD + 1) if len(path) >= size)


def _unused(key: Any, taken: Mapping[Any, object]) -> Any:
    """A key may be written like the stand-in of another."""
    while key in taken:
        key = f"{key}'"
    return key
