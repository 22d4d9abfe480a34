"""Terraform's diagnostics, in the `-json` stream and in `validate -json`, and the lock holder in them."""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import EngineError, Place
from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import without_controls
from holdfast.kernel.values import MaskedStruct

_VALIDATE_FORMATS = ("0.1", "1.0")
_LOCK = pattern(
    r"\bID:\s+(?P<id>\S+).*?\bOperation:\s+(?P<operation>\S*).*?\bWho:\s+(?P<who>\S+).*?"
    r"\bCreated:\s+(?P<created>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)",
    re.DOTALL,
)
_PREFIX = "OperationType"


class _Position(Struct, frozen=True):
    line: int | None = None
    column: int | None = None


class _Range(Struct, frozen=True):
    filename: str = ""
    start: _Position = _Position()


class Diagnostic(MaskedStruct, frozen=True, kw_only=True):
    """One error or warning of the engine. It may contain secrets: redact it before it is shown."""

    severity: str = "error"
    """`error` or `warning`."""
    summary: str = ""
    detail: str = ""
    address: str | None = None
    range: _Range | None = None

    def __post_init__(self) -> None:
        """Providers colour their errors, as if each were read on a terminal."""
        for name, text in (("summary", self.summary), ("detail", self.detail)):
            if not text.isprintable():
                msgspec.structs.force_setattr(self, name, without_controls(text))

    @property
    def is_error(self) -> bool:
        """Everything but a warning counts as an error."""
        return self.severity != "warning"

    @property
    def place(self) -> Place | None:
        if self.range is None or not self.range.filename:
            return None
        start = self.range.start
        return Place(file=self.range.filename, line=start.line, column=start.column)


class Validation(Struct, frozen=True, kw_only=True):
    """The result of `validate`. A valid configuration can still have warnings."""

    valid: bool
    format_version: str = "0.1"
    diagnostics: tuple[Diagnostic, ...] = ()


def read_validation(data: bytes) -> Validation:
    """Read the document that `validate -json` prints."""
    try:
        document = msgspec.json.decode(data, type=Validation)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EngineError(
            "HF-PLAN-3",
            f"Holdfast cannot read the output of `validate -json`: {error}",
            hint="Run `validate -json` with the same engine and check its output.",
        ) from None
    if document.format_version not in _VALIDATE_FORMATS:
        raise EngineError(
            "HF-PLAN-4",
            f"`validate -json` prints format {document.format_version},"
            " which this version of Holdfast does not support",
            hint=f"Supported: {', '.join(_VALIDATE_FORMATS)}. Upgrade Holdfast.",
        )
    return document


class LockInfo(Struct, frozen=True, kw_only=True):
    """The holder of a state lock, parsed from an error text.

    Terraform names the holder only in prose. It is shown, and the id is passed back to Terraform, which
    compares it with the lock itself; no other decision depends on it.
    """

    id: str
    who: str
    created: str
    """In UTC, to the second."""
    operation: str

    def __str__(self) -> str:
        doing = f" ({self.operation})" if self.operation else ""
        return f"{self.who} since {self.created} UTC{doing}, lock {self.id}"


def parse_lock_info(text: str) -> LockInfo | None:
    match = _LOCK.search(text)
    if match is None:
        return None
    operation = match["operation"].removeprefix(_PREFIX).lower()
    return LockInfo(id=match["id"], who=match["who"], created=match["created"], operation=operation)
