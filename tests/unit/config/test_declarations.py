"""One declaration gives the value, its default, the schema and the path of a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest

from config_documents import schema_of
from holdfast.config import yaml
from holdfast.config.declarations import ListOf, Section, key, walk
from holdfast.config.problems import Problems
from holdfast.config.reader import Reader, build
from holdfast.config.shapes import Duration, Integer, Text


class Base(Section, frozen=True, kw_only=True):
    groups: ClassVar[Mapping[str, str]] = {"limits": "Limits."}

    age: float = key(Duration(), "An age.", default="90s", path="limits.age")
    words: tuple[str, ...] = key(ListOf(Text()), "Some [words](words.md).")
    count: int | None = key(Integer(0, 9), "A count.", implied=3)


class Derived(Base, frozen=True, kw_only=True):
    count: int | None = None
    label: str = key(Text(), "A label.", required=True)


def read(text: str) -> tuple[object, list[str]]:
    problems = Problems()
    node = yaml.read(text, file="f", problems=problems)
    assert node is not None
    at = Reader(whole=Derived, problems=problems).read(Derived, node)
    return (None if problems else build(Derived, at)), [problem.code for problem in problems.sorted()]


def test_a_key_reaches_its_field() -> None:
    """A key of a group is a field of the section around it; what is absent has its default."""
    assert read("label: x\nlimits: { age: 2m }\n") == (Derived(label="x", age=120.0), [])
    assert read("label: x\n") == (Derived(label="x", age=90.0, words=()), [])


def test_a_derived_section_can_drop_a_key() -> None:
    """A field that is declared again without `key` is no key any more."""
    assert [path for path, _ in walk(Base)] == ["limits", "limits.age", "words", "count"]
    assert [path for path, _ in walk(Derived)] == ["limits", "limits.age", "words", "label"]
    assert read("count: 1\n") == (None, ["HF-CONF-4", "HF-CONF-5"])


def test_the_schema_says_the_same() -> None:
    """Defaults are as the file writes them, and descriptions have no links."""
    schema = schema_of(Derived)
    assert schema["required"] == ["label"]
    assert schema["properties"]["limits"]["properties"]["age"]["default"] == "90s"
    assert schema["properties"]["words"]["description"] == "Some words."
    assert schema_of(Base)["properties"]["count"]["default"] == 3


def test_a_field_cannot_hide_a_part_of_its_section() -> None:
    """Such a key needs a field of another name, and its `path`."""
    with pytest.raises(TypeError, match="give `path`"):

        class Wrong(Section, frozen=True, kw_only=True):
            check: str = key(Text(), "Hides the hook.")  # type: ignore[assignment]
