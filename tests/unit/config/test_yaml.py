"""YAML is read safely, bounded, with places, and without surprises."""

from __future__ import annotations

from typing import Any

import pytest
import yaml as pyyaml

from holdfast.config import yaml
from holdfast.config.problems import Problems
from holdfast.config.yaml import ListNode, MapNode, ScalarNode

LOADERS: tuple[Any, ...] = (pyyaml.SafeLoader, getattr(pyyaml, "CSafeLoader", pyyaml.SafeLoader))


def read(text: str, loader: Any = pyyaml.SafeLoader) -> tuple[yaml.Node | None, list[tuple[str, str]]]:
    problems = Problems()
    node = yaml.read(text, file="f", problems=problems, loader=loader)
    return node, [(problem.code, str(problem.place)) for problem in problems.sorted()]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"), ("off", "off"), ("Yes", "Yes"), ("on", "on"), ("y", "y"),
        ("true", True), ("FALSE", False), ("~", None), ("", None), ("null", None),
        ("12", 12), ("-3", -3), ("0", 0), ("0x1F", 31), ("0o17", 15), ("1.5", 1.5), ("1e3", 1000.0),
        ("012345678901", "012345678901"), ("1_000", "1_000"), ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"), (".inf", ".inf"), (".nan", ".nan"), ("1e999", "1e999"),
        ("9" * 5000, "9" * 5000),
    ],
)  # fmt: skip
def test_plain_values_follow_the_core_rules(text: str, value: object) -> None:
    """`no` is Norway, an account's id keeps its zero, and no number is too long to be read."""
    found = yaml.resolve(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("loader", LOADERS)
def test_every_key_and_value_has_its_place(loader: Any) -> None:
    """Line and column are counted from one, for keys and for values."""
    node, problems = read('a: "1"\nb:\n  - x\n  - {c: 2}\n', loader)
    assert problems == []
    assert isinstance(node, MapNode)
    a, b = node.entries
    assert isinstance(a.value, ScalarNode)
    assert (str(a.place), str(a.value.place), a.value.value) == ("f:1:1", "f:1:4", "1")
    assert isinstance(b.value, ListNode)
    inner = b.value.items[1]
    assert isinstance(inner, MapNode)
    assert str(inner.entries[0].place) == "f:4:6"


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("a: 1\nb: 2\na: 3\n", "HF-CONF-8", "f:3:1"),
        ("a: &x 1\n", "HF-CONF-10", "f:1:4"),
        ("a: !!python/object:os.system x\n", "HF-CONF-10", "f:1:4"),
        ("a: 1\n---\nb: 2\n", "HF-CONF-10", "f:2:1"),
        ("? [a]\n: 1\n", "HF-CONF-10", "f:1:3"),
        ("a: 1\n\tb: 2\n", "HF-CONF-3", "f:2:1"),
        ("a: [1, 2\n", "HF-CONF-3", "f:2:1"),
        ('a: "\\0"\n', "HF-CONF-3", "f:1:4"),
        ("a: \x00\n", "HF-CONF-3", "f:1"),
        ("a: \x01\n", "HF-CONF-3", "f:1"),
    ],
)
def test_what_is_refused(text: str, code: str, place: str, loader: Any) -> None:
    """What a configuration does not need is refused, where it stands."""
    assert read(text, loader)[1] == [(code, place)]


def test_a_repeated_key_names_both_places() -> None:
    """Of a key that is there twice, a person is told both places."""
    problems = Problems()
    yaml.read("a: 1\n  \nb: 2\na: 3\n", file="f", problems=problems)
    (problem,) = problems.sorted()
    assert "line 1, column 1" in problem.message
    assert str(problem.place) == "f:4:1"


@pytest.mark.parametrize("loader", LOADERS)
def test_an_alias_bomb_does_not_grow(loader: Any) -> None:
    """Each alias is a mistake, and none is expanded."""
    bomb = "a: &a [x, x]\n" + "".join(f"k{i}: [*a, *a]\n" for i in range(3))
    assert {code for code, _ in read(bomb, loader)[1]} == {"HF-CONF-10"}


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 5000, "a: [" + "1," * 100_001 + "]"])
def test_a_huge_document_is_refused(text: str, loader: Any) -> None:
    """Depth and number of values are bounded, and reaching a bound is a mistake, not a crash."""
    node, problems = read(text, loader)
    assert node is None
    assert [code for code, _ in problems] == ["HF-CONF-11"]


def test_a_large_file_is_refused() -> None:
    """More than 1 MB is not read at all."""
    assert read("# " + "x" * yaml.MAX_BYTES)[1] == [("HF-CONF-11", "f:1:1")]


def test_text_that_starts_with_a_placeholder_gets_its_hint() -> None:
    """The commonest trap of YAML here, an unquoted `{x}/y`, is explained."""
    problems = Problems()
    yaml.read("name: {account}/{service}\n", file="f", problems=problems)
    assert "needs quotes" in (problems.sorted()[0].hint or "")
