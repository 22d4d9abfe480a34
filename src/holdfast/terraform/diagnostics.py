"""Diagnostics as Terraform gives them: in the `-json` stream, and all at once in `validate -json`."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import EngineError, Place
from holdfast.kernel.values import MaskedStruct

_VALIDATE_FORMATS = ("0.1", "1.0")


class Diagnostic(MaskedStruct, frozen=True, kw_only=True):
    """One finding of the engine. Its texts may hold secrets: they pass the redactor before they are shown."""

    severity: str
    """`error` or `warning`."""
    summary: str
    detail: str = ""
    address: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    snippet: str | None = None
    """The code it is about, as it stands in the file."""
    context: str | None = None
    """The block around that code: `resource "aws_instance" "web"`."""
    values: tuple[str, ...] = ()
    """What the expressions in the code were at that moment: `var.size is 3`."""

    @property
    def is_error(self) -> bool:
        """What is not called a warning counts as an error."""
        return self.severity != "warning"

    @property
    def place(self) -> Place | None:
        return Place(file=self.file, line=self.line, column=self.column) if self.file is not None else None


class Validation(Struct, frozen=True, kw_only=True):
    """What `validate` found. A configuration can be valid and still have warnings."""

    valid: bool
    diagnostics: tuple[Diagnostic, ...]


class _Position(msgspec.Struct, frozen=True):
    line: int | None = None
    column: int | None = None


class _Range(msgspec.Struct, frozen=True):
    filename: str = ""
    start: _Position = _Position()
    end: _Position = _Position()


class _Value(msgspec.Struct, frozen=True):
    traversal: str = ""
    statement: str = ""


class _Snippet(msgspec.Struct, frozen=True):
    context: str | None = None
    code: str = ""
    values: list[_Value] | None = None


class WireDiagnostic(msgspec.Struct, frozen=True):
    severity: str = "error"
    summary: str = ""
    detail: str = ""
    address: str | None = None
    range: _Range | None = None
    snippet: _Snippet | None = None


class _Validation(msgspec.Struct, frozen=True):
    valid: bool
    format_version: str = "0.1"
    diagnostics: list[WireDiagnostic] | None = None


_VALIDATION = msgspec.json.Decoder(_Validation)


def diagnostic(found: WireDiagnostic) -> Diagnostic:
    place = found.range or _Range()
    snippet = found.snippet or _Snippet()
    return Diagnostic(
        severity=found.severity,
        summary=found.summary,
        detail=found.detail,
        address=found.address or None,
        file=place.filename or None,
        line=place.start.line,
        column=place.start.column,
        end_line=place.end.line,
        snippet=snippet.code or None,
        context=snippet.context,
        values=tuple(f"{value.traversal} {value.statement}" for value in snippet.values or ()),
    )


def read_validation(data: bytes) -> Validation:
    """Read the one document that `validate -json` prints."""
    try:
        found = _VALIDATION.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EngineError(
            "HF-PLAN-3",
            f"the answer of `validate -json` cannot be read: {error}",
            hint="Run `validate` with the same engine by hand to see what it prints.",
        ) from None
    if found.format_version not in _VALIDATE_FORMATS:
        raise EngineError(
            "HF-PLAN-4",
            f"`validate -json` answers in format {found.format_version},"
            " which this version of Holdfast does not know",
            hint=f"Known formats: {', '.join(_VALIDATE_FORMATS)}. Use a newer Holdfast.",
        )
    return Validation(
        valid=found.valid, diagnostics=tuple(diagnostic(each) for each in found.diagnostics or ())
    )
