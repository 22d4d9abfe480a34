from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.checks.engine.source_lines import SecretLines
from holdfast.checks.model.interface import Finding, Rule, Severity
from holdfast.kernel.errors import Place

RULE = Rule(id="HF208", title="t", why="w.", fix="f.", severity=Severity.ERROR, secret=True)
ODD = st.text(alphabet="\",'=: \\$%#/<>()[]-+.abZ0", max_size=12)
SECRETS = ODD | st.text(max_size=30).filter(lambda text: len(text.splitlines()) < 2)
FORMS = (
    'password = "{}"',
    "password = {}",
    "password = '{}'",
    'a = {{ b = "{}", c = 1 }}',
    'a = ["{}", "x"] # {}',
    "# {}",
    'a = "${{f("{}")}}"',
    'a = f("{}")',
    'x {{ y = "{}"',
    "a = <<{}",
)
MARK = "Zq9Zq9"
"""Stands in no form: where it is shown, the secret was."""


@given(SECRETS, SECRETS, st.sampled_from(FORMS), st.sampled_from(["main.tf", "a.tfvars", "p.json", ".env"]))
def test_values_are_never_shown(before: str, after: str, form: str, path: str) -> None:
    """Whatever the secret is made of: quotes, escapes, brackets, or what looks like code."""
    line = form.format(*[f"{before}{MARK}{after}"] * form.count("{}"))
    found = Finding(message="m", place=Place(file=path, line=1))
    assert MARK not in (SecretLines([(RULE, found)]).display_line(path, [line], 1) or "")
