"""A new version of a blueprint for the devices that exist: in waves, until too many fail.

What is done is what the server says: a device that has the version is skipped, so a rollout that stopped is
continued by starting it again.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.fleet.server_fleet import Document, ServerFleet, Submitted, exit_of, is_ended
from holdfast.kernel.errors import Busy, Exit, HoldfastError, Refused, UsageError, most_severe
from holdfast.system import clock

_AT_ONCE: Final = 50
"""Events of a wave that are open: what is not submitted can still be stopped."""
_LOOK: Final = 2.0
"""Seconds between looks at the events of a wave, unless the oldest ends before."""
_NEWEST: Final = 200
_BUSY_PAUSE: Final = 5.0
_TOO_MANY: Final = frozenset({"HF-EVENT-6", "HF-SRV-17"})
"""Events that wait, or requests."""
_MOST_KEYS: Final = 1000
_PERCENT: Final = 100


class Waves(Struct, frozen=True, kw_only=True):
    """After each wave, how many of all devices have the version: numbers, or percent."""

    text: str
    steps: tuple[tuple[int, bool], ...]
    """Each with whether it is percent."""

    def ends(self, devices: int) -> tuple[int, ...]:
        """Growing numbers of devices; the last is all of them."""
        counts = [
            math.ceil(number * devices / _PERCENT) if percent else number for number, percent in self.steps
        ]
        ends: list[int] = []
        for count in (*(min(count, devices) for count in counts), devices):
            if count > (ends[-1] if ends else 0):
                ends.append(count)
        return tuple(ends)


def waves_from(text: str) -> Waves:
    steps = []
    for part in text.split(","):
        word = part.strip()
        number = word.removesuffix("%")
        percent = number != word
        if not (number.isascii() and number.isdigit()) or not 1 <= int(number) <= (
            _PERCENT if percent else 10**9
        ):
            hint = "Write numbers of devices or percentages, such as --waves 1,10%,100%."
            raise UsageError("HF-USE-49", f"--waves {text}: {word or 'an empty part'} is neither", hint=hint)
        steps.append((int(number), percent))
    return Waves(text=text, steps=tuple(steps))


class RolloutPlan(Struct, frozen=True, kw_only=True):
    blueprint: Document
    total: int
    """Devices that the version is for."""
    pending: tuple[Document, ...]
    """Those that have another version."""
    skipped: tuple[Document, ...]
    """Incomplete ones: an update could create again what was being deleted."""
    waves: tuple[tuple[Document, ...], ...]

    @property
    def done(self) -> int:
        return self.total - len(self.pending)


def plan_rollout(blueprint: Document, devices: Iterable[Document], waves: Waves) -> RolloutPlan:
    """A rollout that is continued begins with the wave in which it stopped."""
    known = tuple(devices)
    present = [device for device in known if device["status"] == "present"]
    pending = [device for device in present if device["blueprint_digest"] != blueprint["digest"]]
    done, parts, begin = len(present) - len(pending), [], 0
    for end in waves.ends(len(present)):
        if end - done > begin:
            parts.append(tuple(pending[begin : end - done]))
            begin = end - done
    return RolloutPlan(
        blueprint=blueprint,
        total=len(present),
        pending=tuple(pending),
        skipped=tuple(device for device in known if device["status"] == "incomplete"),
        waves=tuple(parts),
    )


class DeviceResult(Struct, frozen=True, kw_only=True):
    resource_id: str
    before: str | None
    """The version that it had."""
    status: str
    """Of its event; `refused`: the server did not accept it; `gone`: it was deleted meanwhile."""
    event: str | None = None
    error: Mapping[str, Any] | None = None

    @property
    def exit(self) -> Exit:
        if self.status in {"refused", "gone"}:
            return Exit.REFUSED if self.status == "refused" else Exit.DONE
        return exit_of({"status": self.status})

    @property
    def failed(self) -> bool:
        return self.exit not in {Exit.DONE, Exit.WAITING}


class Wave(Struct, frozen=True, kw_only=True):
    results: tuple[DeviceResult, ...]
    left: int = 0
    """Devices that got no event, because too many failed before."""

    @property
    def failures(self) -> int:
        return sum(result.failed for result in self.results)

    @property
    def waiting(self) -> int:
        return sum(result.exit is Exit.WAITING for result in self.results)

    @property
    def exit(self) -> Exit:
        return most_severe([result.exit for result in self.results])


class Rollout:
    def __init__(self, fleet: ServerFleet, blueprint: Document, *, seconds: float, reason: str) -> None:
        """`seconds`: how long the events of a wave may take."""
        self._fleet = fleet
        self._blueprint = blueprint
        self._seconds = seconds
        self._reason = reason

    def run(
        self, devices: Sequence[Document], *, most_failures: int, tell: Callable[[DeviceResult], None]
    ) -> Wave:
        """The devices of one wave. No more are begun once more than `most_failures` failed."""
        waiting, open_ = deque(devices), deque[tuple[Document, Document]]()
        results: list[DeviceResult] = []
        end = clock.monotonic() + self._seconds

        def add(result: DeviceResult) -> None:
            results.append(result)
            tell(result)

        while waiting or open_:
            late = clock.monotonic() >= end
            if late or sum(result.failed for result in results) > most_failures:
                break
            while waiting and len(open_) < _AT_ONCE:
                device = waiting.popleft()
                event = self._submit(device)
                if isinstance(event, DeviceResult):
                    add(event)
                    break
                open_.append((device, event))
            for device, event in self._look(open_):
                add(_result(device, event))
        # What was begun goes on, whatever follows; it is waited for.
        while open_ and clock.monotonic() < end:
            for device, event in self._look(open_):
                add(_result(device, event))
        for device, event in open_:
            add(_result(device, event))
        return Wave(results=tuple(results), left=len(waiting))

    def _submit(self, device: Document) -> Document | DeviceResult:
        request = {
            "blueprint": self._blueprint["name"],
            "action": "update",
            "resource_id": device["resource_id"],
            "reason": self._reason,
        }
        for number in range(_MOST_KEYS):
            key = rollout_key(self._blueprint["digest"], device, number)
            try:
                submitted = self._submit_once(request, key)
            except HoldfastError as error:
                if not isinstance(error, Refused | UsageError):
                    raise
                return _refused(device, error)
            # One that ended belongs to a rollout before this one.
            if not submitted.replayed or not is_ended(submitted.event) or _still_open(submitted.event):
                return submitted.event
        raise Busy("HF-EVENT-17", f"{device['resource_id']}: the rollout was repeated too often this week")

    def _submit_once(self, request: Mapping[str, object], key: str) -> Submitted:
        while True:
            try:
                return self._fleet.submit(request, key)
            except Busy as error:
                if error.problem.code not in _TOO_MANY:
                    raise
                clock.pause(_BUSY_PAUSE)

    def _look(self, open_: deque[tuple[Document, Document]]) -> Iterator[tuple[Document, Document]]:
        """Those that have ended, which are no longer open then."""
        if not open_:
            return
        first, event = open_.popleft()
        open_.append((first, self._fleet.event(event["id"], wait=_LOOK)))
        known = {open_[-1][1]["id"]: open_[-1][1]}
        if len(open_) > 1:
            newest = self._fleet.events(limit=_NEWEST, blueprint=self._blueprint["name"])
            known = {**{event["id"]: event for event in newest}, **known}
        for _ in range(len(open_)):
            device, before = open_.popleft()
            event = known.get(before["id"], before)
            if is_ended(event):
                yield device, event
            else:
                open_.append((device, event))


def rollout_key(digest: str, device: Mapping[str, Any], number: int) -> str:
    """The same one for the same version and device, so that no rollout does what another does."""
    text = f"{digest} {device['blueprint']}/{device['resource_id']} {number}"
    return f"rollout-{hashlib.sha256(text.encode()).hexdigest()}"


def _still_open(event: Mapping[str, Any]) -> bool:
    """A person must decide about it; a new event would wait behind it."""
    return event["status"] in {"waiting", "unknown"}


def _refused(device: Document, error: HoldfastError) -> DeviceResult:
    gone = error.problem.code == "HF-EVENT-5"
    messages = "; ".join(problem.message for problem in error.problems)
    document = {"code": error.problem.code, "message": messages, "hint": error.problems[-1].hint}
    return DeviceResult(
        resource_id=device["resource_id"],
        before=device["blueprint_version"],
        status="gone" if gone else "refused",
        error=None if gone else document,
    )


def _result(device: Document, event: Document) -> DeviceResult:
    return DeviceResult(
        resource_id=device["resource_id"],
        before=device["blueprint_version"],
        status=event["status"],
        event=event["id"],
        error=event["error"],
    )
