"""The one redactor that every exit passes: logs, screens, JSON, summaries, errors.

    registered   values that are known to be secret and have five characters or more: replaced wherever they
                 stand, in every form they travel in (`forms`)
    by format    what is known by how it looks (`formats`)
    by entropy   what looks random under a name that sounds secret (`entropy`)

A text without secrets stays as it is, byte for byte. docs/redaction.md is the page for users.
"""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Iterable, Iterator

from holdfast.kernel.errors import UsageError
from holdfast.kernel.secret import Secret
from holdfast.kernel.values import dataclass
from holdfast.secrets import entropy, formats
from holdfast.secrets.encodings import SHORTEST, forms_of
from holdfast.secrets.finder import Finder, Span, merged
from holdfast.secrets.trie_regex import beginnings

__all__ = ["MASK", "SHORTEST", "Layer", "RedactionSettings", "Redactor", "layers", "settings_of"]

MASK = "***"
ENTROPY = "entropy"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionSettings:
    off: frozenset[str] = frozenset()
    """Ids of layers that are not wanted."""
    words: tuple[str, ...] = ()
    """Names that sound secret in this company, beside those that do everywhere."""
    entropy: float = entropy.BITS
    """From how many bits in each character on a value under such a name is taken for a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    id: str
    what: str


def layers() -> tuple[Layer, ...]:
    """All that can be turned off. Registered values cannot."""
    by_format = (Layer(id=one.id, what=one.what) for one in formats.shipped_formats())
    return (*by_format, Layer(id=ENTROPY, what="What looks random under a name that sounds secret"))


def settings_of(off: Iterable[str], words: Iterable[str], bits: float | None) -> RedactionSettings:
    """What a configuration says. A layer that there is not is a mistake: nobody knows what was meant."""
    known = {layer.id for layer in layers()}
    wanted = tuple(off)
    if unknown := [one for one in wanted if one not in known]:
        near = difflib.get_close_matches(unknown[0], known, n=1)
        raise UsageError(
            "HF-RED-1",
            f"redaction.off: there is no layer `{unknown[0]}`",
            hint=f"Did you mean `{near[0]}`?" if near else "docs/redaction.md lists them all.",
        )
    return RedactionSettings(
        off=frozenset(wanted), words=tuple(words), entropy=entropy.BITS if bits is None else bits
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _On:
    """The layers that the settings leave on."""

    formats: formats.Table
    entropy: bool
    begun: frozenset[str]
    """How anchors and names that sound secret begin: a stream that ends so may go on to be one."""
    longest_begun: int


@functools.cache
def _layers_on(settings: RedactionSettings) -> _On:
    on = formats.Table(one for one in formats.shipped_formats() if one.id not in settings.off)
    names = () if ENTROPY in settings.off else (*entropy.WORDS, *settings.words)
    begun = beginnings(word.lower() for word in (*on.anchors, *names))
    return _On(formats=on, entropy=bool(names), begun=begun, longest_begun=max(map(len, begun), default=0))


class Redactor:
    """Values are only ever added. Safe to use from several threads."""

    __slots__ = ("_finder", "_on", "_settings", "_values")

    def __init__(
        self, values: Iterable[str | Secret] = (), settings: RedactionSettings | None = None
    ) -> None:
        self._finder = Finder()
        self._values: set[str] = set()
        self._settings = settings or RedactionSettings()
        self._on = _layers_on(self._settings)
        self.register_all(values)

    def __repr__(self) -> str:
        return f"Redactor({len(self._finder)} forms)"

    def tune(self, settings: RedactionSettings) -> None:
        """From now on with these layers: the configuration is read after the first words were shown."""
        self._settings = settings
        self._on = _layers_on(settings)

    def register(self, value: str | Secret) -> None:
        """Hide a value from now on. A short one is left to the field that it stands in."""
        text = value.reveal() if isinstance(value, Secret) else value
        forms = forms_of(text)
        if forms:
            self._values.add(text)
            self._finder.add(forms)
            for part in self._inside(text):
                self._finder.add(forms_of(part))

    def register_all(self, values: Iterable[str | Secret]) -> None:
        for value in values:
            self.register(value)

    def registered(self) -> frozenset[str]:
        """The values in clear: only to be sealed, so that whoever reads it later can hide them again."""
        return frozenset(self._values)

    def clean(self, text: str) -> str:
        """The text without any secret. Where two overlap, both go."""
        kept: list[str] = []
        at = 0
        for start, end in merged(self.spans(text)):
            kept += (text[at:start], MASK)
            at = end
        return "".join((*kept, text[at:])) if kept else text

    def clean_bytes(self, data: bytes) -> bytes:
        """The same for a text in UTF-8, or in what is mostly that: other bytes stay what they are."""
        return self.clean(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def clean_field(self, name: str, text: str) -> str:
        """A text that stands under a name, such as a value in a document."""
        if self._on.entropy and entropy.sounds_secret(name, self._settings.words) and self._random(text):
            return MASK
        return self.clean(text)

    def spans(self, text: str) -> Iterator[Span]:
        """Where secrets stand, in no order; they may overlap."""
        lowered = lower_case(text)
        yield from self._finder.spans(text)
        yield from self._on.formats.spans(text, lowered)
        if self._on.entropy:
            yield from entropy.spans(text, lowered, self._settings.words, self._settings.entropy)

    def open_at(self, text: str, start: int) -> int:
        """From where on, at the earliest, a secret may have begun that goes on after the end of the text."""
        lowered = lower_case(text)
        return min(
            self._finder.begun_at(text, start),
            self._on.formats.open_at(text, lowered, start),
            entropy.open_at(text, lowered, start, self._settings.words) if self._on.entropy else len(text),
            self._name_begun(lowered, start),
        )

    def all_open(self, text: str) -> bool:
        """Whether one registered value begins with all of this text and goes on: quicker than `open_at`."""
        return self._finder.begun(text)

    def _random(self, text: str) -> bool:
        return entropy.random_enough(text, self._settings.entropy)

    def _name_begun(self, lowered: str, start: int) -> int:
        """Where an anchor or a name that sounds secret has begun, and is not complete."""
        for at in range(max(start, len(lowered) - self._on.longest_begun), len(lowered)):
            if lowered[at:] in self._on.begun:
                return at
        return len(lowered)

    def _inside(self, text: str) -> Iterator[str]:
        """What is secret in a secret: the password of a connection string, the token in a JSON document."""
        for start, end in self._on.formats.spans(text, lower_case(text)):
            if end - start < len(text):
                yield text[start:end]
        if text.lstrip()[:1] in {"{", "["}:
            try:
                document = json.loads(text)
            except (ValueError, RecursionError):
                return
            yield from self._named_secret("", document)

    def _named_secret(self, name: str, value: object) -> Iterator[str]:
        match value:
            case dict():
                for key, part in value.items():
                    yield from self._named_secret(key, part)
            case list():
                for part in value:
                    yield from self._named_secret(name, part)
            case str() if entropy.sounds_secret(name, self._settings.words):
                yield value


def lower_case(text: str) -> str:
    """In lower case, and every character in its place."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(one if len(one.lower()) > 1 else one.lower() for one in text)
