"""The page about retries shows the tables as they are."""

from __future__ import annotations

from pathlib import Path

from holdfast.terraform.tables.transient import TransientRow, shipped_refused, shipped_table

PAGE = Path(__file__).parent.parent.parent / "docs/retries.md"


def rows_under(heading: str) -> list[list[str]]:
    """The cells of the table of one section."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.replace(r"\|", "\0").strip("|").split("|")] for line in lines[1:]]


def said(row: TransientRow) -> str:
    return " and ".join(f"`{pattern}`".replace("|", "\0") for pattern in row.all)


def test_every_transient_row_is_on_the_page() -> None:
    """What is tried again, where, and why, is what the program does, row by row."""
    order = ("init", "plan", "show")
    assert rows_under("Transient errors") == [
        [f"`{row.id}`", ", ".join(one for one in order if one in row.phases), said(row), row.why]
        for row in shipped_table().transient
    ]


def test_every_permanent_row_is_on_the_page() -> None:
    """What is never tried again is what the program never tries again."""
    rows = shipped_table().permanent
    assert rows_under("Permanent errors") == [[f"`{row.id}`", said(row), row.why] for row in rows]


def test_every_refused_create_is_on_the_page() -> None:
    """A create is taken for refused only by a row that everybody can read."""
    rows = shipped_refused()
    assert rows_under("Refused creates") == [[f"`{row.provider}`", row.text, row.why] for row in rows]
