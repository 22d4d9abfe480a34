"""What may come back, and as what."""

from __future__ import annotations

import json

import pytest

from holdfast.kernel.errors import Exit, HoldfastError
from holdfast.states.rollback import CurrentState, content_to_restore
from holdfast.states.versions import LoadedVersion, VersionInfo


def state(serial: int, lineage: str = "line") -> bytes:
    return json.dumps({"version": 4, "serial": serial, "lineage": lineage, "resources": [], "x": 1}).encode()


def goal(serial: int, lineage: str = "line", content: bytes | None = None) -> LoadedVersion:
    entry = VersionInfo(name="3", serial=serial, lineage=lineage, resources=0)
    return LoadedVersion(entry=entry, content=content if content is not None else state(serial, lineage))


@pytest.mark.parametrize(("now", "then", "serial"), [(9, 4, 10), (9, 12, 13)])
def test_old_content_comes_back_with_a_greater_serial(now: int, then: int, serial: int) -> None:
    """Greater than what is there and than what it was; everything else is as it was."""
    content, known = content_to_restore("a", CurrentState(lineage="line", serial=now), goal(then))
    assert json.loads(content) == {**json.loads(state(then)), "serial": serial}
    assert (known.serial, known.lineage) == (serial, "line")


def test_a_lost_state_comes_back_too() -> None:
    """Even with the serial it had: nothing is there that it could be."""
    content, _ = content_to_restore("a", CurrentState(lineage="line", serial=4, lost=True), goal(4))
    assert json.loads(content)["serial"] == 5


ENVELOPE = b'{"serial":2,"lineage":"line","encrypted_data":"x"}'


@pytest.mark.parametrize(
    ("now", "then", "code", "exit_"),
    [
        (CurrentState(lineage="other", serial=9), goal(4), "HF-STATE-25", Exit.REFUSED),
        (CurrentState(lineage="other", serial=9, lost=True), goal(4), "HF-STATE-25", Exit.REFUSED),
        (
            CurrentState(lineage="line", serial=9),
            goal(2, content=ENVELOPE),
            "HF-STATE-26",
            Exit.REFUSED,
        ),
        (CurrentState(lineage="line", serial=9, encrypted=True), goal(4), "HF-STATE-26", Exit.REFUSED),
        (CurrentState(lineage="line", serial=4), goal(4), "HF-STATE-27", Exit.USAGE),
        (CurrentState(lineage="line", serial=9), goal(4, content=b"x"), "HF-STATE-24", Exit.FAILED),
    ],
)
def test_what_may_not_come_back_is_refused(
    now: CurrentState, then: LoadedVersion, code: str, exit_: Exit
) -> None:
    """Another lineage, an encrypted state, what is there already."""
    with pytest.raises(HoldfastError) as caught:
        content_to_restore("a", now, then)
    assert (caught.value.problem.code, caught.value.exit) == (code, exit_)
