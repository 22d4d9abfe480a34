from __future__ import annotations

import json

from audit_made import ADA, act, applied

from holdfast.audit.entry import Entry, document_of
from holdfast.secrets.redact import Redactor

AT = "2026-07-25T10:00:00+00:00"


def document(entry: Entry, *secrets: str) -> dict[str, object]:
    return document_of(entry, who=ADA, at=AT, change="01CHANGE", redactor=Redactor(secrets))


def test_no_text_is_kept_with_a_secret_in_it() -> None:
    """What is hashed cannot be cleaned later: a secret in any free text is gone before."""
    entry = act("unlock", reason="password was hunter2-hunter2", details={"lock": "hunter2-hunter2"})
    assert "hunter2" not in json.dumps(document(entry, "hunter2-hunter2"))


def test_a_name_that_equals_a_secret_stays_usable() -> None:
    """Names, ids and closed words are what a reader searches by."""
    made = document(applied("hunter2-hunter2", digest="hunter2-hunter2"), "hunter2-hunter2", "applied")
    assert (made["stack"], made["digest"], made["outcome"]) == (
        "hunter2-hunter2",
        "hunter2-hunter2",
        "applied",
    )


def test_break_glass_is_always_marked() -> None:
    """An override, an unlock and a declared death cannot be recorded as something normal."""
    assert all(document(act(what))["break_glass"] is True for what in ("override", "unlock", "holder-dead"))
    assert document(applied())["break_glass"] is False
    assert document(applied(break_glass=True))["break_glass"] is True


def test_every_field_is_there() -> None:
    """Absent is null: a reader never has to ask whether a field exists."""
    assert set(document(Entry(what="plan"))) == {
        "at", "what", "stack", "run", "change", "digest", "decision", "rules", "reason", "outcome", "error",
        "break_glass", "until", "details", "who",
    }  # fmt: skip
