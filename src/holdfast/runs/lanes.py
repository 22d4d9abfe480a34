"""Concurrency lanes: one change at a time per lane, held from its first plan to its end.

The holder is the process of the change. If it is killed, its Terraform may continue, and the lane stays busy
until that ends too. On another machine no death can be proved: only a person can declare it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

from msgspec import structs

from holdfast.kernel.errors import Busy, HoldfastError
from holdfast.kernel.text import plural
from holdfast.plans.context import Control, Identity
from holdfast.plans.events import Note
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.runs import audit_trail
from holdfast.runs.claims import POLL_SECONDS, SILENT_SECONDS, Claim, all_claims, is_working
from holdfast.stacks.stack import Stack
from holdfast.store.blobs import decode_name, encode_name
from holdfast.store.leases import HeldByOther, Holder, Lease, LeaseLost
from holdfast.store.run_store import RunStore
from holdfast.system import clock, process_table
from holdfast.system.process_table import Liveness

BEAT_SECONDS = 10.0
LANE_WAIT = "waiting: "
"""Begins the note of a change that waits for a lane."""
_FOLDER = "leases/lanes"
_MINUTE, _HOUR = 60, 3600


@contextlib.asynccontextmanager
async def hold_lanes(
    store: RunStore,
    control: Control,
    identity: Identity,
    stacks: Iterable[Stack],
    *,
    operation: str = "apply",
    beat: float = BEAT_SECONDS,
) -> AsyncIterator[HeldLanes]:
    """Hold all lanes of these stacks, or raise `Busy` with the holder. Waits as long as the caller allows."""
    wanted = tuple(stacks)
    lanes = HeldLanes(store, control, _holder(identity, f"{operation} of {plural(len(wanted), 'stack')}"))
    heartbeat = asyncio.create_task(lanes.keep(beat))
    try:
        end = clock.monotonic() + control.wait
        # Every change takes lanes in the same order, so that no two wait for each other.
        for lane in sorted({stack.lane for stack in wanted}):
            await lanes.take(lane, end)
        yield lanes
    finally:
        heartbeat.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await heartbeat
        await lanes.release()


class HeldLanes:
    """The lanes of this change. `keep` sends the heartbeat; losing a lane stops the change."""

    def __init__(self, store: RunStore, control: Control, holder: Holder) -> None:
        self._store = store
        self._control = control
        self._holder = holder
        self._leases: dict[str, Lease] = {}
        self.lost: LeaseLost | None = None

    async def take(self, lane: str, end: float) -> None:
        _ = self._store.key  # Loaded here, because it may print a message.
        self._store.machines.record()
        silence = _Silence()
        reported = ""
        while True:
            got = await asyncio.to_thread(
                self._store.leases.take,
                _name(lane),
                self._holder,
                spare=self._is_still_running,
                from_same_change=self._store.fenced,
            )
            if isinstance(got, Lease):
                self._leases[lane] = got
                return
            if clock.monotonic() >= end or self._control.stop.level or silence.too_long(got):
                raise lane_busy(self._store, lane, got)
            if reported != got.holder.change:
                reported = got.holder.change
                self._control.tell(Note(stack=None, text=f"{LANE_WAIT}{_holder_text(lane, got)}"))
            await asyncio.sleep(POLL_SECONDS)

    async def keep(self, beat: float) -> None:
        """The heartbeat. A lane is lost to another holder, not to a store that does not respond."""
        while True:
            await asyncio.sleep(beat)
            for lane, lease in list(self._leases.items()):
                try:
                    self._leases[lane] = await asyncio.to_thread(self._store.leases.renew, lease)
                except LeaseLost as error:
                    self._leases.pop(lane)
                    self._stop(error)
                except (HoldfastError, OSError):
                    continue

    async def release(self) -> None:
        """A lane that cannot be released is free once this process is proved or declared dead."""
        for lane, lease in self._leases.items():
            try:
                await asyncio.to_thread(self._store.leases.release, lease)
            except (HoldfastError, OSError) as error:
                why = error.problem.message if isinstance(error, HoldfastError) else str(error)
                self._control.tell(Note(stack=None, text=f"lane `{lane}` could not be released: {why}"))

    def explain_cancelled(self, results: tuple[StackResult, ...]) -> tuple[StackResult, ...]:
        """Results that were cancelled because a lane was lost get that as their error."""
        if self.lost is None:
            return results
        error = self.lost.problem
        return tuple(
            structs.replace(result, error=error, problems=(error,))
            if result.status is Status.CANCELLED
            else result
            for result in results
        )

    def _stop(self, error: LeaseLost) -> None:
        self.lost = error
        self._control.tell(Note(stack=None, text=f"stopping: {error.problem.message}"))
        if not self._control.stop.level:
            self._control.stop.ask()

    def _is_still_running(self, dead: HeldByOther) -> bool:
        return bool(_at_work(self._store, dead.holder.change))


class _Silence:
    """Measured with this machine's clock since the last new heartbeat: other clocks may be wrong."""

    def __init__(self) -> None:
        self._beat = ""
        self._since = clock.monotonic()

    def too_long(self, now: HeldByOther) -> bool:
        if now.life is not Liveness.UNKNOWN or now.beat != self._beat:
            self._beat, self._since = now.beat, clock.monotonic()
        return clock.monotonic() - self._since > SILENT_SECONDS


def holders(store: RunStore) -> dict[str, str]:
    """The change that holds each lane, for lanes that are held."""
    held = {lane: store.leases.look(_name(lane)) for lane in _lanes(store)}
    return {lane: now.holder.change for lane, now in held.items() if now is not None}


def declare_dead(store: RunStore, identity: Identity, change: str, reason: str) -> tuple[str, ...]:
    """Free the lanes of a change that a person declares dead; returns them. A live change keeps its lanes."""
    audit_trail.record_holder_dead(identity.audit, None, change, reason)
    leases = store.leases
    freed = []
    for lane in _lanes(store):
        now = leases.look(_name(lane))
        if now is None or now.holder.change != change:
            continue
        ours = _holder(identity, f"freeing it from change {change}")
        declared = f"{identity.who}: {reason}"
        got = leases.take_over(_name(lane), ours, number=now.number, declared=declared)
        if isinstance(got, Lease):
            leases.release(got)
            freed.append(lane)
        elif got.holder.change == change:
            raise lane_busy(store, lane, got)
    return tuple(freed)


def release_lanes_of(store: RunStore, change: str) -> None:
    """Of a change on the server that is done, or lost by its worker: none of its runs is at work any more."""
    for lane in _lanes(store):
        now = store.leases.look(_name(lane))
        if now is not None and now.holder.change == change:
            ours = structs.replace(now.holder, process=process_table.this_process())
            got = store.leases.take(_name(lane), ours, from_same_change=True)
            if isinstance(got, Lease):
                store.leases.release(got)


def lane_busy(store: RunStore, lane: str, now: HeldByOther) -> Busy:
    hint = "Wait for it with --wait 30m, or plan again later."
    if now.life is Liveness.UNKNOWN and clock.seconds_since(now.beat) > SILENT_SECONDS:
        claims = _claims(store, now.holder.change)
        named = claims[0].run if claims else now.holder.change
        hint = f"If its machine is gone: holdfast runs reconcile {named} --holder-dead --reason TEXT"
    return Busy("HF-LOCK-4", _holder_text(lane, now, _at_work(store, now.holder.change)), hint=hint)


def _holder_text(lane: str, now: HeldByOther, at_work: tuple[Claim, ...] = ()) -> str:
    holder = now.holder
    life = f"last heartbeat {_duration(clock.seconds_since(now.beat))} ago"
    if now.life is Liveness.DEAD:
        life = "its Holdfast process is gone, but Terraform is still running"
    elif now.life is Liveness.UNKNOWN:
        life = f"last heartbeat {_duration(clock.seconds_since(now.beat))} ago on {holder.process.host}"
    runs = "".join(f"; stack {claim.stack}, run {claim.run}" for claim in at_work)
    return (
        f"lane `{lane}` is held by change {holder.change} ({holder.who}, {holder.what}, "
        f"for {_duration(clock.seconds_since(holder.since))}, {life}{runs})"
    )


def _duration(seconds: float) -> str:
    whole = max(0, round(seconds)) if seconds != float("inf") else 0
    if whole < _MINUTE:
        return f"{whole} s"
    return (
        f"{whole // _MINUTE} min" if whole < _HOUR else f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    )


def _claims(store: RunStore, change: str) -> tuple[Claim, ...]:
    return tuple(claim for claim in all_claims(store) if claim.intent.change == change)


def _at_work(store: RunStore, change: str) -> tuple[Claim, ...]:
    return tuple(claim for claim in _claims(store, change) if is_working(store, claim))


def _holder(identity: Identity, what: str) -> Holder:
    return Holder(
        change=identity.change,
        who=identity.who,
        what=what,
        process=process_table.this_process(),
        since=clock.now().isoformat(),
    )


def _lanes(store: RunStore) -> tuple[str, ...]:
    names = store.encrypted.names(_FOLDER)
    return tuple(decode_name(name.rpartition("/")[2]) for name in names)


def _name(lane: str) -> str:
    return f"lanes/{encode_name(lane)}"
