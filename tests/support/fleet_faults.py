"""Events of devices, drawn from a seed, sent while workers and the database are killed; and what must hold.

Every event replaces the lab object of its device by one whose name has the number of the event. So the lab
knows which events were done, and how often.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from blueprints_made import make_blueprint
from lab_stacks import lab_module
from program import eventually
from server_faults import Client
from server_fleet import Fleet, Victim

from holdfast.database.database import Database
from provider.service import LabService

_CODE = """
variable "device" {
  type = string
}
variable "number" {
  type = number
}
resource "lab_object" "site" {
  name    = "${var.device}-${var.number}"
  body    = var.device
  replace = tostring(var.number)
}
output "id" {
  value = lab_object.site.id
}
"""
_SETTINGS = """
name: site
version: 1.0.0
outputs: [id]
deletion: allow
environment: dev
retries: {{ attempts: 5, wait: 1s }}
guard: {{ deletions: {{ per_change: 100, per_stack: 100 }} }}
env: {{ LAB_URL: "{url}" }}
"""
_DONE = frozenset({"succeeded", "superseded"})


def make_site(folder: Path, lab: LabService) -> Path:
    make_blueprint(folder / "site", settings=_SETTINGS.format(url=lab.url), code=lab_module(_CODE))
    return folder


class Sent(NamedTuple):
    device: str
    number: int
    action: str

    @property
    def key(self) -> str:
        return f"event-{self.number}"

    @property
    def body(self) -> dict[str, Any]:
        payload = {"device": self.device, "number": self.number}
        event = {"blueprint": "site", "action": self.action, "resource_id": self.device}
        return event if self.action == "delete" else {**event, "payload": payload}


def drawn(dice: random.Random, count: int, devices: int) -> list[Sent]:
    """Those of a device make sense in their order."""
    exists: set[str] = set()
    events = []
    for number in range(count):
        device = f"d{number if number < devices else dice.randrange(devices)}"
        change = "delete" if dice.random() < 0.1 else "update"
        action = change if device in exists else "create"
        (exists.discard if action == "delete" else exists.add)(device)
        events.append(Sent(device, number, action))
    return events


class FleetWorld:
    def __init__(self, fleet: Fleet, database: Database, lab: LabService, client: Client, seed: int) -> None:
        self.fleet, self.database, self.lab, self.client = fleet, database, lab, client
        self.dice = random.Random(seed)  # noqa: S311 - kills, not keys
        self.accepted: dict[int, str] = {}
        """The ids of events, by number."""
        self.kills: list[tuple[Victim, bool]] = []
        self.reconciled = 0

    def play(self, events: list[Sent], kills: dict[int, Victim]) -> None:
        """`kills`: after how many events, what dies. What gets no answer is sent again."""
        for place, event in enumerate(events):
            self.send(event)
            if self.dice.random() < 0.3:  # Once more, or one from before: late, and after newer ones.
                self.send(events[self.dice.randint(max(0, place - 10), place)])
            if place in kills:
                self._kill(kills[place])

    def send(self, event: Sent) -> None:
        headers = {"idempotency-key": event.key}

        def accepted() -> bool:
            status, document = self.client.send("POST", "/api/v1/events", event.body, headers=headers)
            assert status in (200, 202, 429), (event, document)
            if status == 429:
                return False
            known = self.accepted.setdefault(event.number, document["id"])
            assert known == document["id"], f"{event} was accepted twice"
            return True

        eventually(accepted, what=f"{event} is accepted", seconds=120)

    def _kill(self, victim: Victim) -> None:
        """While the lab does something, so that an apply is in progress."""
        before = len(self.lab.calls())
        eventually(lambda: len(self.lab.calls()) > before or self._rests(), what="a call", seconds=120)
        self.kills.append((victim, self.fleet.kill(victim, self.dice.random(), self.database)))

    def _events(self, query: str) -> Iterator[dict[str, Any]]:
        cursor = ""
        while True:
            _, page = self.client.send("GET", f"/api/v1/events?limit=200&{query}{cursor}")
            yield from page["events"]
            if page["next"] is None:
                return
            cursor = f"&cursor={page['next']}"

    def _rests(self) -> bool:
        return not any(any(self._events(f"status={status}")) for status in ("queued", "running"))

    def settle(self, seconds: float) -> None:
        """Everything is over; what is unknown is reconciled, as a person would."""

        def over() -> bool:
            for event in self._events("status=unknown"):
                order = {"reason": "tests"}
                status, _ = self.client.send("POST", f"/api/v1/runs/{event['run']}/reconcile", order)
                self.reconciled += status == 202
            return self._rests() and not any(self._events("status=unknown"))

        eventually(over, what="every event is over", seconds=seconds)

    def summary(self) -> list[str]:
        """What happened, for people."""
        statuses = Counter(event["status"] for event in self._events(""))
        victims = Counter(victim.name.lower() for victim, hit in self.kills if hit)
        return [
            f"events: {sum(statuses.values())} accepted, "
            + ", ".join(f"{number} {status}" for status, number in sorted(statuses.items())),
            f"kills: {victims.total()} of {len(self.kills)} hit something, "
            + ", ".join(f"{number} {victim}" for victim, number in sorted(victims.items())),
            f"unknown outcomes that were reconciled: {self.reconciled}",
            "lost, done twice, out of order: 0",
        ]

    def check(self, events: list[Sent]) -> None:
        found = {event["id"]: event for event in self._events("")}
        assert found.keys() == set(self.accepted.values()), "events were lost, or made of duplicates"
        last = {event.device: event for event in events}
        by_device: dict[str, list[str]] = defaultdict(list)
        for item in self.lab.objects().values():
            by_device[item["body"]].append(item["name"])
        for device, event in last.items():
            document = found[self.accepted[event.number]]
            assert document["status"] == "succeeded", document
            expected = [] if event.action == "delete" else [f"{device}-{event.number}"]
            assert by_device.pop(device, []) == expected
        assert not by_device
        undone = {event["id"]: event for event in found.values() if event["status"] not in _DONE}
        assert not undone, undone
        twice = {name: ids for name, ids in self.lab.made().items() if len(ids) > 1}
        assert not twice, f"made twice: {twice}"
        deleted = [call.id for call in self.lab.calls("delete") if call.worked and call.status == 200]
        assert len(deleted) == len(set(deleted)), "deleted twice"
        superseded = {number for number, id_ in self.accepted.items() if found[id_]["status"] == "superseded"}
        made = {int(name.rpartition("-")[2]) for name in self.lab.made()}
        assert not superseded & made, "done, though a later update took its place"
