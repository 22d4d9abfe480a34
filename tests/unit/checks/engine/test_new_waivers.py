from __future__ import annotations

from datetime import date

import pytest

from holdfast.checks.engine.new_waivers import without_new_waivers

TODAY = date(2026, 9, 2)
WAIVED = "# holdfast:ignore HF207 until=2027-01-01 reason=known"


def code(*lines: str, block: str = "a") -> bytes:
    return "\n".join((f'resource "x" "{block}" {{', *lines, "}", "")).encode()


OLD = code(f'  a = "1" {WAIVED}')


@pytest.mark.parametrize(
    "now",
    [
        OLD,
        b"# more\n\n" + OLD,
        code(f'    a = "1"   {WAIVED}', '  b = "2"'),
        OLD.replace(b"2027", b"2030"),
        OLD.replace(b"known", b"another reason"),
    ],
)
def test_what_was_waived_stays_waived(now: bytes) -> None:
    """Wherever its line is now, and whatever else the waiver says."""
    assert without_new_waivers("m/a.tf", OLD, now, today=TODAY) is None


@pytest.mark.parametrize(
    "now",
    [
        code(f'  a = "2" {WAIVED}'),
        code(f'  a = "1" {WAIVED}', block="b"),
        code(f'  a = "1" {WAIVED.replace("HF207", "HF208")}'),
        code(f"  {WAIVED}", '  a = "2"'),
        OLD + code(f'  a = "1" {WAIVED}'),
    ],
)
def test_a_waiver_for_something_else_is_new(now: bytes) -> None:
    """Another line, another block, another rule, or the same once more: it is taken out, and nothing else."""
    found = without_new_waivers("m/a.tf", OLD, now, today=TODAY)
    assert found is not None
    assert b"holdfast:ignore" not in found.content
    assert len(found.content) == len(now)
    assert without_new_waivers("m/a.tf", None, now, today=TODAY) is not None


def test_an_expired_waiver_is_not_renewed_by_the_change_that_needs_it() -> None:
    """It did not count any more."""
    old = OLD.replace(b"2027", b"2025")
    assert without_new_waivers("m/a.tf", old, OLD, today=TODAY) is not None


def test_json_has_waivers_too() -> None:
    """The property `//` of a block."""
    now = b'{"locals": {\n  "//": "holdfast:ignore HF207 until=2027-01-01 reason=x",\n  "a": "1"\n}}\n'
    assert without_new_waivers("m/a.tf.json", now, now, today=TODAY) is None
    assert without_new_waivers("m/a.tf.json", now, now.replace(b'"1"', b'"2"'), today=TODAY) is not None
