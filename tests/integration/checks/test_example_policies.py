"""The policy documents of the examples, as they are on disk."""

from __future__ import annotations

from pathlib import Path

from checkouts import checkout

from holdfast.checks.iam.collect import policies_of_variables
from holdfast.checks.iam.grammar import grammar_issues
from holdfast.checks.iam.policy_types import PolicyKind as Kind


def test_the_policies_of_the_example_are_found_and_right() -> None:
    """One trust policy beside each role of the example."""
    root = Path(__file__).parents[3] / "examples" / "accounts"
    files = {
        path.relative_to(root).as_posix(): path.read_text()
        for path in root.rglob("*")
        if path.suffix in (".tf", ".tfvars", ".json", ".yaml") and ".holdfast" not in path.parts
    }
    made = checkout(files)
    found = {one.file: one for file in made.variables_files for one in policies_of_variables(file).policies}
    assert len(found) == 4
    for one in found.values():
        assert one.kind is Kind.TRUST
        assert list(grammar_issues(one.document, one.kind, one.text)) == []
