"""Every rule of the catalogue: its own examples, its words, its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkouts import check, of

from holdfast.checks.engine import catalogue
from holdfast.checks.engine.pages import rule_details
from holdfast.checks.model.interface import Rule, Severity

RULES = catalogue.rules()
WITH_CODE = [rule for rule in RULES if rule_details(rule).bad]


@pytest.mark.parametrize("rule", WITH_CODE, ids=lambda rule: rule.id)
def test_the_bad_example_is_found(rule: Rule) -> None:
    """What a rule's page shows as wrong is wrong by that rule, with a place."""
    found = of(check(rule, {"main.tf": rule_details(rule).bad}), rule)
    assert found
    assert all(one.file == "main.tf" and one.line for one in found)


@pytest.mark.parametrize("rule", WITH_CODE, ids=lambda rule: rule.id)
def test_the_good_example_is_not(rule: Rule) -> None:
    """What a rule's page shows as right is right by that rule."""
    assert rule_details(rule).good
    assert of(check(rule, {"main.tf": rule_details(rule).good}), rule) == []


@pytest.mark.parametrize("rule", WITH_CODE, ids=lambda rule: rule.id)
def test_a_waiver_on_the_line_applies(rule: Rule) -> None:
    """The first finding of the bad example can be waived where it stands."""
    first = of(check(rule, {"main.tf": rule_details(rule).bad}), rule)[0]
    lines = rule_details(rule).bad.splitlines()
    lines.insert((first.line or 1) - 1, f"# holdfast:ignore {rule.id} until=2027-01-01 reason=a test")
    again = of(check(rule, {"main.tf": "\n".join(lines) + "\n"}), rule)
    assert again[0].waived


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_texts_of_a_rule_are_sentences(rule: Rule) -> None:
    """Title, why and how to fix are sentences; a title has no full stop."""
    assert rule.title
    assert not rule.title.endswith(".")
    assert rule_details(rule).why.endswith((".", "?"))
    assert rule.fix.endswith((".", "`."))
    assert rule.severity in Severity


def test_the_catalogue_names_every_file() -> None:
    """A file in `rules/` that the catalogue does not name would never be asked."""
    folder = Path(catalogue.__file__).parents[1] / "rules"
    files = {f"{file.parent.name}.{file.stem}" for file in folder.glob("*/hf*.py")}
    assert files == set(catalogue.RULES.values())
    assert [rule.id for rule in RULES] == list(catalogue.RULES)


def test_ids_are_in_order_and_unique() -> None:
    """The list reads in the order of ids."""
    assert list(catalogue.ids()) == sorted(set(catalogue.ids()))


def test_one_rule_is_found_by_its_id() -> None:
    """However the letters are written; a beginning of an id is none."""
    found = catalogue.rule("hf703")
    assert found is not None
    assert found.id == "HF703"
    assert catalogue.rule("HF70") is None
