"""The page of the documents and the documents name the same fields."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.checks.tools.rego import policy_tests
from holdfast.cli.commands import policy

PAGE = Path(__file__).parents[2] / "docs/json.md"


def fields_under(heading: str) -> set[str]:
    block = PAGE.read_text().split(f"\n## `{heading}`\n")[1].split("```")[1]
    return set(re.findall(r'"(\w+)"', block))


def test_every_field_of_tests_of_policies_is_on_the_page() -> None:
    """And no other."""
    one = policy_tests.PolicyTest(
        package="main", name="test_a", file=None, outcome=policy_tests.Outcome.PASSED
    )
    assert fields_under("policy test") == {
        *("version", "evaluator", "tests", "summary"),
        *policy._document(one),
        *(outcome.value for outcome in policy_tests.Outcome),
    }
