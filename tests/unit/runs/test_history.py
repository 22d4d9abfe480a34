"""What a run's record says of it."""

from __future__ import annotations

import pytest

from holdfast.config.hooks import MOMENTS
from holdfast.kernel.errors import UsageError
from holdfast.plans.status import Status
from holdfast.plans.workdir import HookRun
from holdfast.runs.history import (
    RunDetails,
    choose_run,
    journal_document,
    log_lines,
    log_text,
    unrecorded_status,
)
from holdfast.runs.run import Run
from holdfast.store.journal import EMPTY, Journal
from holdfast.terraform.engine.worker import NOT_STARTED

AT_WORK = {"working": True, "dead": False}
DEAD = {"working": False, "dead": True}
SILENT = {"working": False, "dead": False}
STARTED: dict[str, object] = {"at": "2026-01-01T00:00:00+00:00"}


LOST = (
    (
        b'{"type":"diagnostic","@level":"error","@message":"Error: Plugin did not respond",'
        b'"diagnostic":{"severity":"error","summary":"Plugin did not respond","detail":"","address":"x.y"}}'
    ),
)


def ended(code: int, *, unsaved: bool = False, said: tuple[bytes, ...] = ()) -> Journal:
    end: dict[str, object] = {"code": code, "at": "2026-01-01T00:00:09+00:00", "unsaved": unsaved}
    return Journal(started=STARTED, lines=said, ended=end, whole=True)


CUT = Journal(started=STARTED, lines=(), ended=None, whole=False)


@pytest.mark.parametrize(
    ("holder", "journal", "status"),
    [
        (AT_WORK, EMPTY, Status.APPLYING),
        (AT_WORK, ended(0), Status.APPLYING),
        (DEAD, ended(0), Status.APPLIED),
        (SILENT, ended(0), Status.APPLIED),
        (DEAD, ended(0, unsaved=True), Status.UNKNOWN),
        (DEAD, ended(1), Status.FAILED),
        (DEAD, ended(1, unsaved=True), Status.UNKNOWN),
        (DEAD, ended(1, said=LOST), Status.UNKNOWN),
        (DEAD, ended(-9), Status.UNKNOWN),
        (DEAD, ended(NOT_STARTED), Status.FAILED),
        (DEAD, EMPTY, Status.FAILED),
        (SILENT, EMPTY, Status.UNKNOWN),
        (DEAD, CUT, Status.UNKNOWN),
        ({}, CUT, Status.UNKNOWN),
        ({}, EMPTY, Status.FAILED),
    ],
)
def test_the_status_is_what_is_proved(holder: dict[str, bool], journal: Journal, status: Status) -> None:
    """Without a record, what the journal proves counts; else the outcome is unknown."""
    assert unrecorded_status(journal, **holder) is status


def test_a_run_is_meant_by_the_beginning_of_its_id() -> None:
    """In any case of letters, as long as it means one."""
    ids = ("01ABC", "01ABD", "02")
    assert choose_run(ids, "01abc") == "01ABC"
    assert choose_run(ids, "02") == "02"
    for wanted, code in (("01A", "HF-RUN-21"), ("03", "HF-RUN-20"), ("", "HF-RUN-20")):
        with pytest.raises(UsageError) as caught:
            choose_run(ids, wanted)
        assert caught.value.problem.code == code


def test_a_journal_is_read_line_by_line() -> None:
    """Terraform's objects as objects, anything else as the text that it is."""
    lines = (b'{"@timestamp":"T1","@message":"said","type":"x"}', b"noise \xff", b'["no object"]', b'{"k":1}')
    journal = Journal(started=STARTED, lines=lines, ended=None, whole=True)
    hooks = tuple(
        HookRun(when=when, run=("make", "x"), code=0, seconds=0.5, output="a\nb") for when in MOMENTS[-2:]
    )
    details = RunDetails(run=Run(id="1", hooks=hooks), intent=None, journal=journal)
    first, _, _, *found, _, _, last = log_lines(details)
    assert (first, last) == ("hook before_apply: make x: exit 0 after 0.5 s", "hook after_apply: b")
    assert found[0] == {"@timestamp": "T1", "@message": "said", "type": "x"}
    assert [log_text(one) for one in found] == ["T1 said", "noise \ufffd", '["no object"]', '{"k": 1}']
    assert journal_document(journal) == {
        "started": "2026-01-01T00:00:00+00:00",
        "lines": 4,
        "last": "T1",
        "ended": None,
        "complete": True,
    }
