"""The pages of the rules are what the rules say, and there is one for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.checks.engine import catalogue, pages
from holdfast.checks.model.interface import Rule

DOCS = Path(__file__).parents[4] / "docs" / "checks"


@pytest.mark.parametrize("rule", catalogue.rules(), ids=lambda rule: rule.id)
def test_the_committed_page_matches_the_rule(rule: Rule) -> None:
    """`make docs` would change nothing."""
    assert (DOCS / f"{rule.id}.md").read_text(encoding="utf-8") == pages.rule_page(rule)


def test_the_index_has_every_rule_and_no_removed_one() -> None:
    """One page for each rule, one row for each page."""
    assert {file.stem for file in DOCS.glob("HF*.md")} == set(catalogue.ids())
    listed = (DOCS / "README.md").read_text(encoding="utf-8")
    assert listed == pages.rule_index(catalogue.rules())
    assert all(f"| [{id_}]({id_}.md) |" in listed for id_ in catalogue.ids())


def test_a_page_has_reason_fix_and_targets() -> None:
    """With both examples, and how a finding is waived, unless it is about waivers."""
    unused, expired = catalogue.rule("HF211"), catalogue.rule("HF901")
    assert unused is not None
    assert expired is not None
    page = pages.rule_page(unused)
    assert page.startswith(
        "# HF211: Secret-looking variable that is not sensitive\n\nDefault severity: **warning**"
    )
    assert "Checks: the code." in page
    assert "holdfast:ignore HF211 until=" in page
    assert "cannot be waived" in pages.rule_page(expired)
