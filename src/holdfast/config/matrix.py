"""`matrix` of an entry: placeholders and their values. Every combination of them is a stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from holdfast.config.declarations import BAD, At, ListOf, Names, ScalarOrMapping, Section, key
from holdfast.config.problems import Problems, did_you_mean, listed
from holdfast.config.shapes import Text, path_text

EXCLUDE: Final = "exclude"
_PLACEHOLDER: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_EXPECTED: Final = "the name of a placeholder (letters, digits and _, not starting with a digit)"
_VALUE: Final = Text(flags=True)


class MatrixSource(Section, frozen=True, kw_only=True):
    """Where the values of a matrix placeholder come from: exactly one of these keys."""

    schema_rules: ClassVar[Mapping[str, Any]] = {"minProperties": 1, "maxProperties": 1}

    folders: str | None = key(
        path_text(), "A pattern of folders: their names, or what its placeholder matches."
    )
    files: str | None = key(
        path_text(),
        "A pattern of files: their names up to the first dot, or what its placeholder matches.",
    )
    file: str | None = key(path_text(), "A YAML or JSON file that contains a list of the values.")

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        if len(section.value) != 1:
            problems.add(
                "HF-CONF-5",
                f"{section.where} needs one of `folders`, `files` and `file`",
                place=section.place,
            )


MatrixAxis = MatrixSource | tuple[str | Mapping[str, str], ...]
MATRIX: Final = Names(
    ScalarOrMapping(
        scalar=ListOf(ScalarOrMapping(scalar=_VALUE, mapping=Names(_VALUE, _PLACEHOLDER, _EXPECTED))),
        mapping=MatrixSource,
    ),
    _PLACEHOLDER,
    _EXPECTED,
)


def check_matrix(section: At, problems: Problems) -> None:
    """Of an entry by name."""
    at = section.value["matrix"]
    if at.value is BAD:
        return
    axes = [axis for axis in at.value if axis != EXCLUDE]
    for axis, values in at.value.items():
        _check_axis(axis, values, axes, problems)
    missing = next((axis for axis in axes if f"{{{axis}}}" not in section.get("name", "")), None)
    if missing is not None:
        problems.add(
            "HF-CONF-17",
            f"the name of {section.where} needs {{{missing}}}: every combination of its matrix is a stack",
            place=section.value["name"].place,
            hint=f'Write it as name: "{"/".join(f"{{{axis}}}" for axis in axes)}/…".',
        )


def _check_axis(axis: str, at: At, axes: list[str], problems: Problems) -> None:
    """A list of texts, or of mappings for `exclude`."""
    excluding = axis == EXCLUDE
    if at.value is BAD or (isinstance(at.value, Mapping) and not excluding):
        return
    items = at.value if isinstance(at.value, tuple) else ()
    wrong = next((item for item in items if isinstance(item.value, Mapping) != excluding), None)
    if wrong is not None or not items:
        what = "mappings of placeholders to values" if excluding else "texts"
        problems.add(
            "HF-CONF-6", f"{at.where} must be a list of {what}, not empty", place=(wrong or at).place
        )
    for item in items if excluding and wrong is None else ():
        if unknown := next((name for name in item.value if name not in axes), None):
            problems.add(
                "HF-CONF-9",
                f"{item.where} names {unknown}, which is not in the matrix",
                place=item.place,
                hint=did_you_mean(unknown, axes) or f"The matrix has {listed(axes)}.",
            )
