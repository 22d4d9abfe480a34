from __future__ import annotations

from holdfast.terraform.diagnostics import LockInfo, parse_lock_info

TEXT = """Error message: HTTP remote state already locked: ID=9db590f1-5c1a
Lock Info:
  ID:        9db590f1-b6fe-c5f2-2678-8804f089deba
  Path:
  Operation: OperationTypeApply
  Who:       ci@runner-7
  Version:   1.15.5
  Created:   2026-11-16 01:33:31.303525 +0000 UTC
  Info:
"""


def test_the_lock_holder_is_parsed_from_the_error() -> None:
    """Who holds a lock, since when, doing what: however the words are broken into lines."""
    expected = LockInfo(
        id="9db590f1-b6fe-c5f2-2678-8804f089deba",
        who="ci@runner-7",
        created="2026-11-16 01:33:31",
        operation="apply",
    )
    assert parse_lock_info(TEXT) == expected
    assert parse_lock_info(" ".join(TEXT.split())) == expected
    assert str(expected) == (
        "ci@runner-7 since 2026-11-16 01:33:31 UTC (apply), lock 9db590f1-b6fe-c5f2-2678-8804f089deba"
    )


def test_other_texts_name_no_holder() -> None:
    """A lock whose holder cannot be read is never released by a guess."""
    assert parse_lock_info("state is locked") is None
    assert parse_lock_info("Lock Info:\n  ID: \n  Who: x\n") is None
