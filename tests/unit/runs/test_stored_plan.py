"""The plan that is stored with a run: without secrets, bounded, and of an apply only with the apply key."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from ciphers import KEY, STORE, identify
from memory_blobs import MemoryBlobs
from plan_documents import change, plan
from plan_job import forged_blob

from holdfast.kernel.errors import HoldfastError
from holdfast.plans.status import Status
from holdfast.runs import stored_plan
from holdfast.runs.run import Run
from holdfast.runs.stored_plan import read_stored_plan, write_plan
from holdfast.secrets.redact import Redactor
from holdfast.store.blob_cipher import BlobCipher
from holdfast.store.run_store import RunStore
from holdfast.terraform.plan.diff import EVERYTHING, differences


def opened() -> tuple[MemoryBlobs, RunStore]:
    blobs = MemoryBlobs()
    identify(blobs)
    return blobs, RunStore(blobs, lambda: KEY)


def run(operation: str) -> Run:
    return Run(id="R", stack="a", operation=operation, status=Status.PLANNED)


def updated(address: str, before: Any, after: Any, **masks: Any) -> dict[str, Any]:
    document = change(address, "update", after=after)
    document["change"] |= {"before": before, **masks}
    return document


def test_a_stored_plan_shows_the_same_differences_without_the_secrets() -> None:
    """Sensitive values are not stored at all, nor what the redactor knows; that they change is."""
    _, store = opened()
    made = plan(
        [
            updated(
                "x.a", {"p": "hunter2", "n": 1.10}, {"p": "hunter3", "n": 2}, after_sensitive={"p": True}
            ),
            updated("x.b", {"p": "hunter4"}, {"p": "hunter4"}, after_sensitive={"p": True}),
            updated("x.c", {"text": "is hunter5"}, {"text": "is hunter6"}),
        ],
        variables={"v": {"value": "hunter7"}},
    )
    redactor = Redactor(["hunter5", "hunter6"])
    write_plan(store, "R", made, redactor)
    blob = store.runs.read_blob("R", "plan")
    assert blob is not None
    assert b"hunter" not in zlib.decompress(blob.data)
    stored = read_stored_plan(store, run("plan")).plan
    for before, after in zip(made.changes, stored.changes, strict=True):
        shown = differences(before, clean=redactor.clean_field, limits=EVERYTHING).shown
        again = differences(after, clean=redactor.clean_field, limits=EVERYTHING).shown
        assert [(each.path, each.sign, each.sensitive) for each in again] == [
            (each.path, each.sign, each.sensitive) for each in shown
        ]
    (number,) = (
        each for each in differences(stored.changes[0], clean=redactor.clean_field).shown if each.path == "n"
    )
    assert (number.before, number.after) == ("1.1", "2")


def test_a_plan_that_is_too_large_says_how_much_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What destroys is kept first."""
    monkeypatch.setattr(stored_plan, "_MOST", 2000)
    _, store = opened()
    created = [change(f"x.new{number}", "create", after={"a": "x" * 300}) for number in range(10)]
    write_plan(store, "R", plan([*created, change("x.gone", "delete")]), Redactor())
    stored = read_stored_plan(store, run("plan"))
    assert stored.plan.changes[0].address == "x.gone"
    assert stored.left_out + len(stored.plan.changes) == 11
    assert stored.left_out > 0


def test_a_plan_without_changes_is_not_stored() -> None:
    """And the error says what to do."""
    _, store = opened()
    write_plan(store, "R", plan([change("x.a", "no-op")], applyable=False), Redactor())
    with pytest.raises(HoldfastError) as raised:
        read_stored_plan(store, run("plan"))
    assert raised.value.problem.code == "HF-RUN-22"
    assert "holdfast plan a --full" in str(raised.value.problem.hint)


def test_a_plan_job_cannot_say_what_an_apply_did() -> None:
    """It may store the plan of its own run; that of an apply counts only with a signature."""
    blobs, store = opened()
    write_plan(store, "R", plan([change("x.a", "create", after={})]), Redactor())
    assert read_stored_plan(store, run("apply")).plan.changes
    blob = store.runs.read_blob("R", "plan")
    assert blob is not None
    blobs.write("runs/R/plan", forged_blob(BlobCipher.of(STORE, KEY), "runs/R/plan", blob.data))
    assert read_stored_plan(store, run("plan")).plan.changes
    with pytest.raises(HoldfastError) as raised:
        read_stored_plan(store, run("apply"))
    assert raised.value.problem.code == "HF-RUN-23"
