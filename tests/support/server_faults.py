"""Kills during runs on the server: what is submitted and killed, drawn from a seed, and how it is played.

Each stack has two lab objects, which every apply replaces: their names contain the number of its change. So
the lab knows which changes were applied, how often, and in which order.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import random
import tarfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab_stacks import lab_module
from program import eventually
from server_fleet import Fleet, Victim

from holdfast.database.database import Database
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Role
from holdfast.identity.token_rows import TokenRows
from holdfast.kernel.errors import HoldfastError
from provider.service import Fault, LabService

TENANTS = ("default", "acme")
CHAIN = ("net", "app", "web")
STACKS = ("a", "b", "vault", *CHAIN)
_MODULE = """
variable "place" {}
variable "generation" {}
resource "lab_object" "first" {
  name    = "${var.place}-${var.generation}-first"
  replace = var.generation
}
resource "lab_object" "second" {
  name    = "${var.place}-${var.generation}-second"
  body    = lab_object.first.id
  replace = var.generation
}
"""
_WEIGHTS = {Victim.TERRAFORM: 2, Victim.WORKER: 3, Victim.MACHINE: 3, Victim.STOPPED: 2, Victim.ALL: 0.5}


# What happens, in its order


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    tenant: str
    stacks: tuple[str, ...]
    operation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """`call`: when a call to the lab begins, then so many seconds later."""

    victim: Victim
    choice: float
    call: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Approve:
    """All plans that wait."""


@dataclass(frozen=True, slots=True)
class Cancel:
    choice: float


Step = Submit | Kill | Approve | Cancel


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    steps: tuple[Step, ...]
    slow: tuple[Fault, ...] = ()
    """How slow the lab is: its calls last longer than a kill takes."""
    workers: int = 3
    machines: int = 2

    def __str__(self) -> str:
        return self.name


def drawn(seed: int, runs: int) -> Scenario:
    """The same seed gives the same steps; when exactly each one hits depends on the machine."""
    dice = random.Random(seed)  # noqa: S311 - kills, not keys
    steps: list[Step] = []
    submitted = 0
    while submitted < runs:
        for _ in range(dice.randint(1, 4)):
            submit = _drawn_submit(dice)
            submitted += len(submit.stacks)
            steps.append(submit)
        steps.append(_drawn_kill(dice))
        if dice.random() < 0.25:
            steps.append(Cancel(dice.random()) if dice.random() < 0.4 else Approve())
    slow = [
        Fault(
            operation=kind,
            what="delay",
            count=None,
            seconds=dice.choice((0.1, 0.4)),
            before=dice.random() < 0.5,
        )
        for kind in ("create", "delete")
    ]
    return Scenario(name=f"server-{seed}", steps=tuple(steps), slow=tuple(slow))


def _drawn_submit(dice: random.Random) -> Submit:
    tenant = dice.choice(TENANTS)
    kind = dice.choices(("apply", "plan", "destroy", "chain"), (55, 15, 10, 20))[0]
    if kind == "chain":
        return Submit(tenant=tenant, stacks=CHAIN, operation="apply")
    return Submit(tenant=tenant, stacks=(dice.choice(STACKS[:-2]),), operation=kind)


def _drawn_kill(dice: random.Random) -> Kill:
    victims = list(Victim)
    return Kill(
        victim=dice.choices(victims, [_WEIGHTS.get(victim, 1) for victim in victims])[0],
        choice=dice.random(),
        call=dice.random() < 0.7,
        seconds=dice.uniform(0, 0.6) if dice.random() < 0.7 else dice.uniform(0, 3),
    )


def _chosen() -> Scenario:
    def kill(victim: Victim) -> Kill:
        return Kill(victim=victim, choice=0.0, call=True, seconds=0.05)

    def apply(tenant: str, *stacks: str) -> Submit:
        return Submit(tenant=tenant, stacks=stacks, operation="apply")

    return Scenario(
        name="server-chosen",
        steps=(
            *(apply("default", "net", "app"), kill(Victim.WORKERS)),
            *(apply("default", "a"), kill(Victim.STOPPED), kill(Victim.POSTGRES)),
            *(apply("default", "a"), kill(Victim.MACHINE), kill(Victim.SERVER)),
        ),
        slow=(Fault(operation="create", what="delay", count=None, seconds=0.3),),
        workers=2,
        machines=1,
    )


CHOSEN = (_chosen(),)
"""Those of every test run."""


# Playing it


class Client:
    """The API, as one person of a tenant uses it. What gets no answer is asked again."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token

    def send(
        self,
        method: str,
        path: str,
        document: object = None,
        *,
        body: bytes | None = None,
        once: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """The status and the document. With `once`, 0 if there was no answer: it may have been done."""
        data = json.dumps(document).encode() if document is not None else body
        kind = "application/json" if body is None else "application/gzip"
        fields = {"authorization": f"Bearer {self._token}", "content-type": kind, **(headers or {})}
        end = time.monotonic() + 90
        while True:
            with (
                contextlib.suppress(OSError, http.client.HTTPException, ValueError),
                contextlib.closing(
                    http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
                ) as connection,
            ):
                connection.request(method, path, data, fields)
                with connection.getresponse() as answer:
                    content = json.loads(answer.read())
                if answer.status < 500:
                    return answer.status, content
            if once:
                return 0, None
            assert time.monotonic() < end, f"no answer to {method} {path}"
            time.sleep(0.1)


@dataclass(slots=True)
class Played:
    """What was done and seen."""

    kills: list[tuple[Victim, bool]] = field(default_factory=list)
    acknowledged: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Changes that the server accepted: their tenant and number."""
    statuses: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    reconciled: int = 0
    lines: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """For the table, which another process prints."""
        kills = Counter(f"{victim} {'hit' if hit else 'missed'}" for victim, hit in self.kills)
        counted = {"kills": kills, "statuses": self.statuses, "codes": self.codes}
        return {**{name: dict(counts) for name, counts in counted.items()}, "reconciled": self.reconciled}


class World:
    def __init__(self, fleet: Fleet, database: Database, lab: LabService) -> None:
        self.fleet = fleet
        self.database = database
        self.lab = lab
        self.played = Played()
        self.clients = {tenant: self._client(tenant, "ann", Role.OPERATOR) for tenant in TENANTS}
        self.approvers = {tenant: self._client(tenant, "bob", Role.APPROVER) for tenant in TENANTS}
        self.decided: set[str] = set()
        """Changes with an approval: a person decides when they are applied."""
        self.used: dict[str, set[str]] = {}
        """Stacks by tenant."""
        self._number = 0
        self._began = time.monotonic()

    def _client(self, tenant: str, name: str, role: Role) -> Client:
        person = Principal(id="", name=name, kind="token", role=role, tenant=tenant)
        return Client(self.fleet.port, TokenRows(self.database).create(person, created_by="tests").text)

    def note(self, text: str) -> None:
        self.played.lines.append(f"{time.monotonic() - self._began:7.2f} {text}")

    def play(self, scenario: Scenario) -> None:
        for fault in scenario.slow:
            self.lab.misbehave(fault)
        for step in scenario.steps:
            match step:
                case Submit():
                    self.submit(step.tenant, step.stacks, step.operation)
                case Kill():
                    self._kill(step)
                case Approve():
                    self.approve_all()
                case Cancel(choice=choice):
                    self._cancel(choice)
        self.lab.behave()

    def submit(self, tenant: str, stacks: tuple[str, ...], operation: str) -> str | None:
        self._number += 1
        self.used.setdefault(tenant, set()).update(stacks)
        client = self.clients[tenant]
        _, upload = client.send("POST", "/api/v1/uploads", body=self._code(tenant))
        order = {
            "stacks": stacks,
            "operation": operation,
            "source": {"upload": upload["id"]},
            "variables": {"generation": f"{self._number:04d}"},
        }
        status, document = client.send("POST", "/api/v1/changes", order, once=True)
        self.note(f"{operation} {self._number} of {tenant} {','.join(stacks)}: {status}")
        if status != 202:
            assert status == 0, document
            return None
        self.played.acknowledged[document["id"]] = (tenant, self._number)
        return str(document["id"])

    def _code(self, tenant: str) -> bytes:
        stacks = [
            {
                "name": name,
                "module": "module",
                "environment": {"vault": "prod", "a": "dev", "b": "test"}.get(name, "stage"),
                "env": {"LAB_URL": self.lab.url, "TF_VAR_place": f"{tenant}-{name}"},
                **({"depends_on": [CHAIN[CHAIN.index(name) - 1]]} if name in CHAIN[1:] else {}),
            }
            for name in STACKS
        ]
        document = {
            "version": 1,
            "environments": {name: {"match": [name]} for name in ("dev", "test", "stage")},
            "guard": {
                "deletions": {"per_change": 100, "per_stack": 100},
                "environments": {
                    "prod": {"approvals": 1, "deletions": {"per_stack": 100}, "destroy": "approve"}
                },
            },
            "engine": {"use": "embedded" if tenant == "default" else "binary"},
            "stacks": stacks,
        }
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for name, text in (
                ("holdfast.yaml", json.dumps(document)),
                ("module/main.tf", lab_module(_MODULE)),
            ):
                about = tarfile.TarInfo(name)
                about.size = len(text.encode())
                archive.addfile(about, io.BytesIO(text.encode()))
        return buffer.getvalue()

    def _kill(self, kill: Kill) -> None:
        if kill.call:
            before = len(self.lab.calls())
            with contextlib.suppress(AssertionError):
                eventually(lambda: len(self.lab.calls()) > before, what="a call", seconds=6)
        time.sleep(kill.seconds)  # A random time is the point of it.
        hit = self.fleet.kill(kill.victim, kill.choice, self.database)
        self.note(f"kill {kill.victim}: {'hit' if hit else 'missed'}")
        self.played.kills.append((kill.victim, hit))

    def approve_all(self) -> int:
        approved = 0
        for tenant, client in self.approvers.items():
            for run in self.runs(tenant, "phase=waiting"):
                # A plan that the guard refuses, such as one whose resources are gone, needs more.
                action = "override" if run["status"] == "refused" else "approve"
                order = {"digest": run["digest"], "reason": "tests"}
                status, _ = client.send("POST", f"/api/v1/runs/{run['id']}/{action}", order, once=True)
                approved += status == 200
                self.decided.add(run["change"])
                self.note(f"{action} {run['stack']} of {tenant}: {status}")
        return approved

    def _cancel(self, choice: float) -> None:
        if self.played.acknowledged:
            change, (tenant, number) = sorted(self.played.acknowledged.items())[
                int(choice * len(self.played.acknowledged))
            ]
            status, _ = self.clients[tenant].send("POST", f"/api/v1/changes/{change}/cancel", {}, once=True)
            self.note(f"cancel {number}: {status}")

    def runs(self, tenant: str, query: str = "") -> list[dict[str, Any]]:
        """All of them, newest first."""
        return list(self._pages(tenant, query))

    def _pages(self, tenant: str, query: str) -> Iterator[dict[str, Any]]:
        cursor = ""
        while True:
            _, page = self.clients[tenant].send("GET", f"/api/v1/runs?limit=200&{query}{cursor}")
            yield from page["runs"]
            if page["next"] is None:
                return
            cursor = f"&cursor={page['next']}"

    def at_rest(self) -> bool:
        """Nothing is left that a worker could do."""
        with contextlib.suppress(HoldfastError), self.database.transaction() as connection:
            statement = "select count(*) from changes where phase in ('queued', 'running')"
            return connection.execute(statement).fetchone() == (0,)
        return False
