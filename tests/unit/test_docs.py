"""If a user can see it, it is documented."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_CODE = re.compile(r"\bHF-[A-Z]+-[0-9]+\b")
_ROW = re.compile(r"^\| (HF-[A-Z]+-[0-9]+) \| (.+?) \|(.*)\|$", re.MULTILINE)


def in_source() -> set[str]:
    return {
        code
        for file in (ROOT / "src").rglob("*.py")
        for code in _CODE.findall(file.read_text(encoding="utf-8"))
    }


def documented() -> list[str]:
    return [code for code, _, _ in _ROW.findall((ROOT / "docs/errors.md").read_text(encoding="utf-8"))]


def test_every_code_is_explained() -> None:
    """A code that the program can show stands on the page of errors."""
    assert sorted(in_source() - set(documented())) == []


def test_no_code_is_explained_that_is_no_more() -> None:
    """The page of errors lists nothing that the program cannot show."""
    assert sorted(set(documented()) - in_source()) == []


def test_each_code_is_explained_once() -> None:
    """One code, one row, in the order of its group."""
    found = documented()
    assert len(found) == len(set(found))
    groups: dict[str, list[int]] = {}
    for code in found:
        _, group, number = code.split("-")
        groups.setdefault(group, []).append(int(number))
    assert all(numbers == sorted(numbers) for numbers in groups.values())
