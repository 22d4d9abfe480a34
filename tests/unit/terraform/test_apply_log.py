"""What the log of an apply shows: what started, how it ended, and which provider crashed."""

from __future__ import annotations

import json

import pytest
from recovery_made import complete, created, deleted, diagnosed, errored, line, provisioning, start

from holdfast.terraform.apply_log import Label, OperationStatus, parse_apply_log

A, B, C = "lab_object.a", "lab_object.b", "lab_object.c"


def said(severity: str, summary: str, *, address: str | None = None) -> bytes:
    found = {"severity": severity, "summary": summary, "detail": "", "address": address}
    return json.dumps({"type": "diagnostic", "@message": summary, "diagnostic": found}).encode()


def summed_up(operation: str) -> bytes:
    changes = {"add": 1, "change": 0, "remove": 0, "operation": operation}
    return json.dumps({"type": "change_summary", "@message": "…", "changes": changes}).encode()


@pytest.mark.parametrize(
    ("summary", "detail"),
    [
        ("Plugin did not respond", "The plugin encountered an error"),
        ("Request cancelled", "The plugin.(*GRPCProvider).ApplyResourceChange request was cancelled."),
        ("Provider error", "rpc error: code = Unavailable desc = error reading from server: EOF"),
        ("Provider error", "rpc error: code = Canceled desc = context canceled"),
        ("Provider error", "rpc error: code = Unknown desc = transport is closing"),
    ],
)
def test_a_provider_crash_is_recognised_by_its_message(summary: str, detail: str) -> None:
    """The outcome of what it was doing is unknown."""
    assert parse_apply_log([diagnosed(A, summary, detail)]).died == {A}
    assert parse_apply_log([diagnosed(A, "Quota exceeded", "no more objects")]).died == frozenset()


def test_a_crash_without_an_address_may_concern_anything_incomplete() -> None:
    """What was open or failed may exist; what is complete is certain."""
    lines = [
        *created(A, "a-1"),
        start(B, "create"),
        start(C, "create"),
        errored(C, "create"),
        said("error", "Plugin did not respond"),
    ]
    assert parse_apply_log(lines).died == {B, C}
    assert parse_apply_log([*lines[:-1], said("error", "No more disk")]).died == frozenset()


def test_a_warning_is_no_failure() -> None:
    """Whatever it says: nothing failed, no provider died, and the engine is not at its end."""
    heard = parse_apply_log([start(A, "create"), said("warning", "Plugin did not respond", address=A)])
    assert (heard.died, heard.ended) == (frozenset(), False)


@pytest.mark.parametrize(("operation", "ended"), [("plan", False), ("apply", True), ("destroy", True)])
def test_the_summary_of_an_apply_is_its_end(operation: str, *, ended: bool) -> None:
    """An apply says the summary of its plan first: that one ends nothing."""
    assert parse_apply_log([summed_up(operation)]).ended is ended


def test_an_operation_keeps_the_name_it_was_begun_with() -> None:
    """The end of a deletion names no instance."""
    (one,) = parse_apply_log(deleted(A, "a-1")).operations[A]
    assert (one.end, one.label) == (OperationStatus.COMPLETE, Label(key="id", value="a-1"))


def test_an_end_with_an_id_belongs_to_that_resource() -> None:
    """Two instances of one address are being deleted: the other one is still open."""
    lines = [start(A, "delete", "a-1"), start(A, "delete", "a-2"), complete(A, "delete", "a-2")]
    assert [one.end for one in parse_apply_log(lines).operations[A]] == [
        OperationStatus.OPEN,
        OperationStatus.COMPLETE,
    ]


def test_an_end_without_a_start_has_no_start_time() -> None:
    """No time is made up for it."""
    (one,) = parse_apply_log([complete(A, "create", "a-1", at="14:00")]).operations[A]
    assert (one.end, one.began, one.ended) == (OperationStatus.COMPLETE, None, "14:00")


def test_progress_is_of_the_operation_that_is_open() -> None:
    """It begins another one only where none is open."""
    heard = parse_apply_log(
        [start(A, "create"), line("apply_progress", A, "create"), line("apply_progress", B, "create")]
    )
    assert [len(heard.operations[one]) for one in (A, B)] == [1, 1]


def test_a_provisioner_belongs_to_the_resource_being_created() -> None:
    """One that runs before an old resource is deleted proves nothing about the new one, which is complete."""
    assert parse_apply_log([start(A, "create"), provisioning(A)]).provisioned == {A}
    replaced = [*created(A, "a-2"), start(A, "delete", "a-1"), provisioning(A)]
    assert parse_apply_log(replaced).provisioned == frozenset()


def test_only_the_last_line_is_cut() -> None:
    """Half a line in the middle is not truncated output: other lines follow it."""
    half = start(A, "create")[:20]
    assert parse_apply_log([*created(B, "b-1"), half]).cut
    assert not parse_apply_log([half, *created(B, "b-1")]).cut
