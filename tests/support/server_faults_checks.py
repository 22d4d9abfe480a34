"""What must hold after kills of runs on the server. Whatever breaks a promise is a `Violation`."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from program import eventually
from server_faults import TENANTS, World

from holdfast.audit.reader import verify
from holdfast.runs import lanes
from holdfast.runs.claims import all_claims
from holdfast.secrets.keys import Key
from holdfast.server.audit_log import TenantStores
from holdfast.store.run_store import RunStore
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.versions import StateInfo, StateVersions

_REST_SECONDS = 240.0
_FINAL = {
    "applied",
    "planned",
    "unchanged",
    "failed",
    "cancelled",
    "refused",
    "blocked",
    "unknown",
    "waiting",
    "busy",
}


class Violation(AssertionError):  # noqa: N818 - what it is called
    """A promise was broken."""

    def __init__(self, what: str, world: World) -> None:
        complaints = [
            f"--- {process.name}, started {process.starts} times\n{_errors(process.complained())}"
            for process in (world.fleet.server, *world.fleet.workers)
        ]
        super().__init__("\n".join([what, *world.played.lines, *complaints]))
        self.what = what


def _errors(log: str) -> str:
    return "\n".join([line for line in log.splitlines() if '"level": "info"' not in line][-20:])


class Checks:
    def __init__(self, world: World, key: Key) -> None:
        self._world = world
        stores = TenantStores(world.database, key)
        self._stores: dict[str, RunStore] = {tenant: stores.of(tenant) for tenant in TENANTS}
        self._errors: dict[str, dict[str, Any]] = {}
        self._decided: dict[str, dict[str, Any]] = {}
        self._versions = StateVersions(StateRows(world.database, StateCipher([key])))

    def require(self, true: object, what: str) -> None:
        if not true:
            raise Violation(what, self._world)

    def settle(self) -> None:
        """Everything ends or waits; what waits is approved, what is unknown is reconciled, and it goes on."""
        world = self._world
        self._rest()
        while world.approve_all():
            self._rest()
        self._count()
        self._reconcile()
        for tenant, stacks in world.used.items():
            change = world.submit(tenant, tuple(sorted(stacks)), "apply")
            self.require(change is not None, "the server does not answer")
        self._rest()
        while world.approve_all():
            self._rest()
        for tenant in world.used:
            last = {run["stack"]: run["status"] for run in reversed(world.runs(tenant))}
            self.require(set(last.values()) == {"applied"}, f"in the end {tenant} is {last}")

    def _rest(self) -> None:
        world = self._world
        try:
            eventually(world.at_rest, what="rest", seconds=_REST_SECONDS)
        except AssertionError:
            with world.database.transaction() as connection:
                rows = connection.execute(
                    "select r.stack, r.phase, c.number, c.phase, c.worker, c.fence, now() - c.beat, w.phase"
                    " from runs r join changes c on c.id = r.change left join workers w on w.id = c.worker"
                    " where r.phase in ('queued', 'planning', 'applying') order by r.number"
                ).fetchall()
            held = [
                (lane, now) for store in self._stores.values() for lane, now in lanes.holders(store).items()
            ]
            claims = [
                (claim.stack, claim.run) for store in self._stores.values() for claim in all_claims(store)
            ]
            raise Violation(f"runs are stuck: {rows}; lanes {held}; claims {claims}", world) from None

    def _count(self) -> None:
        """How the runs ended that were submitted while there were kills."""
        world = self._world
        for tenant in TENANTS:
            for run in world.runs(tenant):
                status = run["status"] if run["phase"] != "waiting" else "waiting"
                world.played.statuses[status] += 1
                self.require(status in _FINAL, f"{run['stack']} of {tenant} is {run['phase']} {status}")
                if status in {"failed", "busy", "refused", "blocked"}:
                    _, shown = world.clients[tenant].send("GET", f"/api/v1/runs/{run['id']}")
                    error = shown["run"]["error"] or {"code": f"none ({status})", "message": ""}
                    world.played.codes[error["code"]] += 1
                    world.note(
                        f"{run['id']} {run['stack']} of {tenant} {status}: {error['code']} {error['message']}"
                    )
                    self.require(error["code"] != "HF-BUG-1", f"a bug: {error['message']}")

    # What is unknown is reconciled, as a person does it: the provider says what exists.

    def _reconcile(self) -> None:
        for tenant, store in self._stores.items():
            for _ in range(8):
                claims = all_claims(store)
                if not claims:
                    break
                rows = {run["id"]: run for run in self._world.runs(tenant)}
                for claim in claims:
                    row = rows.get(claim.run)
                    self.require(row is not None, f"a claim of {claim.stack} is left by {claim.run}")
                    assert row is not None
                    self.require(
                        row["status"] == "unknown", f"{claim.stack} is claimed by a run that is {row}"
                    )
                    self._reconcile_run(tenant, row)
            self.require(not all_claims(store), f"{tenant} could not be reconciled")

    def _reconcile_run(self, tenant: str, run: dict[str, Any]) -> None:
        world, decisions = self._world, self._decisions(tenant, run)
        status, new = world.clients[tenant].send(
            "POST", f"/api/v1/runs/{run['id']}/reconcile", {"reason": "killed", **decisions}
        )
        self.require(status == 202, f"reconcile is refused: {new}")
        self._rest()
        _, shown = world.clients[tenant].send("GET", f"/api/v1/runs/{new['id']}")
        result = shown["run"]
        world.note(f"reconcile {run['stack']} of {tenant} {decisions}: {result['status']} {result['error']}")
        world.played.reconciled += result["status"] != "unknown"
        self._errors[run["id"]] = result["error"] or {"code": None}

    def _decisions(self, tenant: str, run: dict[str, Any]) -> dict[str, Any]:
        """What the last error asked for: the provider says what exists, and the processes are dead."""
        error = self._errors.get(run["id"])
        if error is None:
            return {}
        decisions = self._decided.setdefault(run["id"], {})
        if error["code"] in {"HF-LOCK-3", "HF-LOCK-8"}:
            decisions["holder_dead"] = True
        if error["code"] == "HF-REC-11":
            recorded = set(self._recorded(tenant))
            there = self._world.lab.objects().items()
            for address in error["message"].rpartition(": ")[2].split(", "):
                name = f"-{address.rpartition('.')[2]}"
                place = f"{tenant}-{run['stack']}-"
                new = [
                    id_
                    for id_, values in there
                    if id_ not in recorded
                    and values["name"].startswith(place)
                    and values["name"].endswith(name)
                ]
                if new:
                    decisions.setdefault("imports", {})[address] = new[-1]
                else:
                    decisions.setdefault("recreate", []).append(address)
        return decisions

    # What must hold

    def check(self) -> None:
        self._check_lab()
        for tenant, store in self._stores.items():
            self.require(not all_claims(store), f"claims of {tenant} are left")
            self.require(not lanes.holders(store), f"lanes of {tenant} are held: {lanes.holders(store)}")
            verdict = verify(store)
            self.require(not verdict.breaks, f"the audit log of {tenant} is broken: {verdict.breaks}")
            self._check_versions(tenant)
        with self._world.database.transaction() as connection:
            present = {id_ for (id_,) in connection.execute("select id from changes").fetchall()}
            running = connection.execute("select count(*) from changes where phase <> 'done'").fetchone()
        missing = set(self._world.played.acknowledged) - present
        self.require(not missing, f"accepted changes are gone: {missing}")
        self.require(running == (0,), "changes are not done")
        for process in (self._world.fleet.server, *self._world.fleet.workers):
            for sign in ("Traceback", "HF-BUG-1"):
                self.require(sign not in process.complained(), f"{process.name} logged {sign}")

    def _check_lab(self) -> None:
        lab = self._world.lab
        twice = {name: ids for name, ids in lab.made().items() if len(ids) > 1}
        self.require(not twice, f"made twice: {twice}")
        changes = self._world.played.acknowledged
        decided = {f"{changes[id_][1]:04d}" for id_ in self._world.decided if id_ in changes}
        order: dict[str, list[str]] = defaultdict(list)
        for call in lab.calls("create"):
            if call.worked and call.name is not None:
                place, generation, _ = call.name.rsplit("-", 2)
                if generation not in decided:
                    order[place].append(generation)
        for place, generations in order.items():
            self.require(
                generations == sorted(generations), f"{place} was applied in the order {generations}"
            )
        known = Counter(id_ for tenant in TENANTS for id_ in self._recorded(tenant))
        there = set(lab.objects())
        self.require(
            set(known) == there, f"unrecorded {there - set(known)}, only recorded {set(known) - there}"
        )

    def _recorded(self, tenant: str) -> Iterator[str]:
        for info in self._written(tenant):
            content = json.loads(
                self._versions.content(tenant, info.id, info.version) or b'{"resources": []}'
            )
            for resource in content["resources"]:
                for instance in resource["instances"]:
                    yield instance["attributes"]["id"]

    def _written(self, tenant: str) -> list[StateInfo]:
        return [info for info in self._versions.states(tenant) if info.version > 0]

    def _check_versions(self, tenant: str) -> None:
        """Each state has one lineage, and its serial only grows; no version is missing or locked."""
        for info in self._written(tenant):
            self.require(
                info.locked_by is None, f"the state {info.name} of {tenant} is locked by {info.locked_by}"
            )
            versions = list(reversed(self._versions.list(tenant, info.id, limit=100_000)))
            numbers, serials = [one.number for one in versions], [one.serial for one in versions]
            self.require(
                numbers == list(range(numbers[0], numbers[0] + len(numbers))),
                f"{info.name} has versions {numbers}",
            )
            self.require(serials == sorted(set(serials)), f"{info.name} has the serials {serials}")
            self.require(len({one.lineage for one in versions}) == 1, f"{info.name} has several lineages")
