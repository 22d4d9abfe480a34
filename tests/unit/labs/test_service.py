"""The lab service as a value: what it counts, and what it does when nobody waits for an answer any more."""

from __future__ import annotations

import threading

import pytest

from provider.service import Answer, Fault, LabService
from workbench import eventually


class Caller:
    """One call in a thread of its own."""

    def __init__(self, lab: LabService, *, gone: bool) -> None:
        self.answers: list[Answer] = []

        def call() -> None:
            self.answers.append(
                lab.answer("create", object_id=None, name="one", values={"name": "one"}, gone=lambda: gone)
            )

        self.thread = threading.Thread(target=call)
        self.thread.start()


@pytest.mark.parametrize(("fragile", "gone", "made"), [(False, True, 1), (True, False, 1), (True, True, 0)])
def test_a_held_call_is_done_after_the_release_or_never(*, fragile: bool, gone: bool, made: int) -> None:
    """Only a fragile call whose caller is gone does nothing; it is known to be held, and not to be done."""
    lab = LabService()
    lab.misbehave(Fault(operation="create", what="hold", before=True, fragile=fragile))
    caller = Caller(lab, gone=gone)
    eventually(lambda: lab.held("create", "one"), what="the call is held")
    assert not lab.calls("create")[0].worked
    assert lab.objects() == {}
    lab.release()
    caller.thread.join()
    assert not lab.held("create")
    assert len(lab.objects()) == len(lab.made().get("one", ())) == made
    assert lab.calls("create")[0].worked == bool(made)
    lab._server.server_close()


def test_a_call_held_after_its_work_says_so() -> None:
    """The object is there while the answer waits."""
    lab = LabService()
    lab.misbehave(Fault(operation="create", what="hold"))
    caller = Caller(lab, gone=True)
    eventually(lambda: lab.held("create"), what="the call is held")
    assert lab.calls("create")[0].worked
    assert len(lab.objects()) == 1
    lab.release()
    caller.thread.join()
    lab._server.server_close()


def test_what_was_ever_made_is_counted() -> None:
    """By name and in order, of objects that are gone too, until it is forgotten."""
    lab = LabService()
    ids = []
    for _ in range(2):
        _, made = lab.answer("create", object_id=None, name="one", values={"name": "one"})
        ids.append(made["id"])
    lab.answer("delete", object_id=ids[0], name=None, values={})
    lab.put("behind-their-back", {"name": "one"})
    assert lab.made() == {"one": ids}
    lab.forget_made()
    assert lab.made() == {}
    lab._server.server_close()
