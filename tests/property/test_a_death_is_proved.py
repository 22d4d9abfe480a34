"""No input but a proved death gives DEAD: whatever is recorded of a process, and wherever it is looked at."""

from __future__ import annotations

import os
import subprocess

from hypothesis import given
from hypothesis import strategies as st

from holdfast.runs.claims import HolderLiveness
from holdfast.system import process_table
from holdfast.system.process_table import Liveness, ProcessId

WHOLE = "pid:[4026531836]"


def gone() -> int:
    """The pid of a process that has ended and was waited for."""
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


GONE = gone()
PROCESSES = st.builds(
    ProcessId,
    host=st.sampled_from(["", "h", "i"]),
    boot=st.sampled_from(["", "b1", "b2"]),
    pid=st.sampled_from([-1, 0, os.getpid(), GONE]),
    started=st.just(""),
    machine=st.sampled_from(["", "m", "n"]),
    space=st.sampled_from(["", WHOLE, "pid:[1]"]),
)


@given(of=PROCESSES, here=PROCESSES, one_machine=st.booleans())
def test_dead_is_proved(of: ProcessId, here: ProcessId, *, one_machine: bool) -> None:
    """Dead: the kernel that ran the process says so, or that kernel itself is gone from its only machine."""
    life = process_table.liveness(of, here=here, one_machine=lambda: one_machine)
    same_names = (of.host, of.machine) == (here.host, here.machine) and of.pid > 0
    same_kernel = same_names and of.boot == here.boot != "" and of.space == here.space
    restarted = (
        same_names
        and one_machine
        and of.machine != ""
        and "" not in (of.boot, here.boot)
        and of.boot != here.boot
        and of.space == here.space == WHOLE
    )
    if life is Liveness.DEAD:
        assert (same_kernel and of.pid == GONE) or restarted
    if life is Liveness.ALIVE:
        assert same_kernel
        assert of.pid == os.getpid()


@given(
    caller=st.sampled_from(Liveness),
    supervisor=st.none() | st.sampled_from(Liveness),
    heartbeat=st.none() | st.sampled_from(["1970-01-01T00:00:00+00:00", "nonsense"]),
)
def test_a_missing_heartbeat_proves_nothing(
    caller: Liveness, supervisor: Liveness | None, heartbeat: str | None
) -> None:
    """Every process of a run must be proved dead, however long it has been silent."""
    holder = HolderLiveness(caller=caller, supervisor=supervisor, heartbeat=heartbeat)
    silent = HolderLiveness(caller=caller, supervisor=supervisor, heartbeat=None)
    assert holder.proved_dead == silent.proved_dead
    assert holder.proved_dead == (caller is Liveness.DEAD and supervisor in (None, Liveness.DEAD))
