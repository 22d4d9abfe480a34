"""The table of dangerous actions, and the page that lists it."""

from __future__ import annotations

import pytest

from holdfast.checks.engine.catalogue import rule
from holdfast.checks.engine.pages import rule_page
from holdfast.checks.iam.danger import ESCALATING, REVEALING


@pytest.mark.parametrize("action", [*ESCALATING, *REVEALING])
def test_the_page_lists_every_dangerous_action(action: str) -> None:
    """With its consequence, as the finding says it."""
    consequence = {**ESCALATING, **REVEALING}[action]
    hf505 = rule("HF505")
    assert hf505 is not None
    assert f"- `{action}`: {consequence}\n" in rule_page(hf505)
