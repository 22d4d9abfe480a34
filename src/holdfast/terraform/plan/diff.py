"""What changes inside a resource or an output: one model for the terminal, comments and stored plans. Pure.

No text leaves this module for a part that a mask, before or after, covers. Two different values never have
the same text. Only what is shown is turned into text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.kernel.text import cut
from holdfast.terraform.addresses import Path, path_text
from holdfast.terraform.plan.compare import NO_VALUE, Nothing, Sides, equal, leaves, sides_of
from holdfast.terraform.plan.model import Change, ResourceChange
from holdfast.terraform.plan.value_text import (
    TextLine,
    common_prefix,
    encode,
    line_count,
    pair_text,
    read_json,
    text_diff,
    value_text,
)
from holdfast.terraform.plan.values import any_true, masked_value

SENSITIVE = "(sensitive)"
SENSITIVE_CHANGED = "(sensitive, changed)"
KNOWN_AFTER_APPLY = "(known after apply)"
_WIDEST = 80

Clean = Callable[[str, str], str]
"""The redactor for a text with the name of its attribute (`Redactor.clean_field`)."""


class Limits(Struct, frozen=True, kw_only=True):
    """How much is shown; None is everything."""

    attributes: int | None = 20
    lines: int | None = 40
    """In one attribute: paths of a JSON document, lines of a text."""
    width: int | None = _WIDEST


LIMITED = Limits()
EVERYTHING = Limits(attributes=None, lines=None, width=None)


class Difference(Struct, frozen=True, kw_only=True):
    path: str
    before: str | None = None
    """None: there is no value, or it is null."""
    after: str | None = None
    sensitive: bool = False
    forces_replacement: bool = False
    drift: bool = False
    """The attribute was changed outside Terraform."""
    form: str = ""
    """`JSON`, `text, 41 lines`, or the size of a long value."""
    parts: tuple[Difference, ...] = ()
    """Of a JSON document: the paths that differ. Then there are no values."""
    lines: tuple[TextLine, ...] = ()
    """Of a text: the lines that differ. Then there are no values."""
    hidden: int = 0
    """How many parts or lines more there are."""
    sign: str = "~"

    @property
    def notes(self) -> tuple[str, ...]:
        forces = ("forces replacement",) if self.forces_replacement else ()
        return (*forces, "changed outside Terraform") if self.drift else forces

    @property
    def shortened(self) -> bool:
        """Whether a part of a value or line is left out. A whole value begins and ends otherwise."""
        texts = (self.before or "", self.after or "", *(text for _, text in self.lines))
        return any(text.startswith("…") or text.endswith("…") for text in texts)


class Differences(Struct, frozen=True, kw_only=True):
    shown: tuple[Difference, ...]
    """Those that force a replacement first, then drift; what is known only after apply comes last."""
    hidden: int
    """How many more there are."""


def differences(
    change: ResourceChange, *, clean: Clean, limits: Limits = LIMITED, drift: ResourceChange | None = None
) -> Differences:
    """What differs between before and after, attribute by attribute.

    `clean` is the redactor. It gets each text before it is cut: Terraform itself loses some marks (the
    `output` of a `terraform_data` with a sensitive `input`), and half a secret is not recognised.
    `drift` is what Terraform found changed outside it.
    """
    marks = _Marks(
        forcing=change.replace_paths,
        drifted=tuple(path for path, _ in leaves((), sides_of(drift.change))) if drift is not None else (),
    )
    return _differences(sides_of(change.change), marks, clean, limits)


def value_differences(name: str, change: Change, *, clean: Clean, limits: Limits) -> Differences:
    """The same for a value with a name, such as an output."""
    sides = Sides(*({name: side} for side in sides_of(change)))
    return _differences(sides, _Marks(), clean, limits)


def differences_of(
    before: bytes, after: bytes, *, before_mask: object, after_mask: object, clean: Clean, at_most: int
) -> Differences:
    """The same for two values as JSON; each difference has one text per side."""
    sides = Sides(read_json(before), read_json(after), False, before_mask, after_mask)  # noqa: FBT003 - none is unknown
    return _differences(sides, _Marks(flat=True), clean, Limits(attributes=at_most))


def unknown_together(shown: tuple[Difference, ...]) -> tuple[Difference, ...]:
    """New attributes that are known only after apply share one line."""
    unknown = [
        difference for difference in shown if difference.sign == "+" and difference.after == KNOWN_AFTER_APPLY
    ]
    if len(unknown) <= 1 or any(difference.notes for difference in unknown):
        return shown
    names = ", ".join(difference.path for difference in unknown)
    together = msgspec.structs.replace(unknown[0], path=names)
    return (*(difference for difference in shown if difference not in unknown), together)


class _Marks(Struct, frozen=True, kw_only=True):
    forcing: tuple[Path, ...] = ()
    drifted: tuple[Path, ...] = ()
    flat: bool = False
    """JSON documents and texts are shown like other values."""


def _differences(sides: Sides, marks: _Marks, clean: Clean, limits: Limits) -> Differences:
    writer = _Writer(marks, clean, limits)
    parts = sorted(leaves((), sides), key=lambda leaf: writer.rank(*leaf))
    shown = tuple(writer.difference(path, part) for path, part in parts[: limits.attributes])
    return Differences(shown=shown, hidden=len(parts) - len(shown))


class _Writer:
    """Turns parts into text."""

    def __init__(self, marks: _Marks, clean: Clean, limits: Limits) -> None:
        self._marks = marks
        self._clean = clean
        self._limits = limits
        # Keys of a map may be secret. The redactor recognises them by their brackets.
        self._clean_key = functools.cache(lambda key: clean("", f"_{key}")[1:])

    def rank(self, path: Path, part: Sides) -> int:
        if _overlaps(path, self._marks.forcing):
            return 0
        if _overlaps(path, self._marks.drifted):
            return 1
        return 3 if part.unknown is True or part.after in ([], {}) else 2

    def difference(self, path: Path, part: Sides, *, in_json: bool = False) -> Difference:
        known = part.unknown is not True
        nulls = in_json or (known and part.before in NO_VALUE and part.after in NO_VALUE)
        old, new = (Nothing.NEW if side is None and not nulls else side for side in part[:2])
        sign = "+" if isinstance(old, Nothing) else "-" if isinstance(new, Nothing) and known else "~"
        return Difference(
            path=path_text(path, self._clean_key),
            sign=sign,
            sensitive=part.secret,
            forces_replacement=not in_json and _overlaps(path, self._marks.forcing),
            drift=not in_json and _overlaps(path, self._marks.drifted),
            **(
                self._masked_texts(old, new, known=known)
                if part.secret
                else self._texts(path, old, new, part)
            ),
        )

    @staticmethod
    def _masked_texts(old: Any, new: Any, *, known: bool) -> dict[str, Any]:
        before, after = (None if isinstance(side, Nothing) else SENSITIVE for side in (old, new))
        if not known:
            return {"before": before, "after": KNOWN_AFTER_APPLY}
        if before and after:
            same = equal(old, new)
            return {
                "before": before,
                "after": SENSITIVE if same else SENSITIVE_CHANGED,
                "form": "value unchanged" if same else "",
            }
        return {"before": before, "after": after}

    def _texts(self, path: Path, old: Any, new: Any, part: Sides) -> dict[str, Any]:
        both = not isinstance(old, Nothing) and not isinstance(new, Nothing)
        name = next((step for step in reversed(path) if isinstance(step, str)), "")
        old = self._clean_value(name, old)
        if part.unknown is True:
            width = self._limits.width
            before = None if isinstance(old, Nothing) else cut(value_text(old), width and width // 2)
            return {"before": before, "after": KNOWN_AFTER_APPLY}
        if any_true(part.unknown):
            new = masked_value(new, (), part.unknown, unknown_as=KNOWN_AFTER_APPLY)
        new = self._clean_value(name, new)
        if not both:
            return self._one_side(old, new)
        if equal(old, new):  # What differs was redacted.
            return {"before": self._text(old), "after": SENSITIVE_CHANGED}
        return self._both_sides(old, new)

    def _clean_value(self, name: str, value: Any) -> Any:
        """A value that is no text is redacted as JSON, and is a text if what is left is none."""
        if isinstance(value, str):
            return self._clean(name, value)
        if value is None or isinstance(value, bool | Nothing):
            return value
        text = encode(value).decode()
        cleaned = self._clean(name, text)
        return value if cleaned == text else _json_document(cleaned) or cleaned

    def _text(self, value: Any) -> str | None:
        return None if isinstance(value, Nothing) else cut(value_text(value), self._limits.width)

    def _one_side(self, old: Any, new: Any) -> dict[str, Any]:
        sides = [None if isinstance(side, Nothing) else side for side in (old, new)]
        if expanded := self._expansion(*sides):
            return expanded
        width = self._limits.width
        size = max(len(side) if isinstance(side, str) else 0 for side in sides)
        form = f"{size} characters" if width is not None and size > width else ""
        return {"before": self._text(old), "after": self._text(new), "form": form}

    def _both_sides(self, old: Any, new: Any) -> dict[str, Any]:
        if expanded := self._expansion(old, new):
            return expanded
        before, after = pair_text(old, new, self._limits.width)
        if not isinstance(old, str) or not isinstance(new, str):
            return {"before": before, "after": after}
        sizes = (len(old), len(new))
        if max(sizes) <= (self._limits.width or _WIDEST):
            # A terminal may wrap the line there.
            blank = "only whitespace differs" if old.split() == new.split() else ""
            return {"before": before, "after": after, "form": blank}
        size = " → ".join(map(str, dict.fromkeys(sizes)))
        place = f", different from {common_prefix(old, new) + 1}" if self._limits.width is None else ""
        return {"before": before, "after": after, "form": f"{size} characters{place}"}

    def _expansion(self, old: Any, new: Any) -> dict[str, Any] | None:
        """A JSON document by path, a text of several lines by line; None: neither."""
        given = [side for side in (old, new) if side is not None]
        if self._marks.flat or not given or not all(isinstance(side, str) for side in given):
            return None
        sides = Sides(*(Nothing.ABSENT if side is None else _json_document(side) for side in (old, new)))
        if None not in (sides.before, sides.after) and (by_path := self._by_path(sides)):
            return by_path
        written = "JSON, only its formatting differs; " if None not in sides[:2] else ""
        counts = list(dict.fromkeys(line_count(side) for side in given))
        if max(counts) == 1:
            if not written or None in {old, new}:
                return None
            before, after = pair_text(old, new, self._limits.width)
            return {"form": written[:-2], "before": before, "after": after}
        width, most = self._limits.width, self._limits.lines
        compared = text_diff(old, new, width=width, at_most=most)
        form = f"{written}text, {' → '.join(map(str, counts))} lines"
        return {"form": form, "lines": compared.lines, "hidden": compared.hidden}

    def _by_path(self, sides: Sides) -> dict[str, Any] | None:
        """None for documents that differ only in how they are written."""
        try:
            every = list(leaves((), sides))
            shown = every[: self._limits.lines]
            parts = tuple(self.difference(path, part, in_json=True) for path, part in shown if path)
        except RecursionError:
            return None
        return {"form": "JSON", "parts": parts, "hidden": len(every) - len(parts)} if parts else None


def _json_document(text: str) -> Any:
    """The object or list that a text is as JSON; None: it is none."""
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        return read_json(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _overlaps(path: Path, others: Iterable[Path]) -> bool:
    return any(path[: len(other)] == other[: len(path)] for other in others)
