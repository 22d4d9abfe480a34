"""A run store in S3: another machine knows what this one did, also when this one is gone in the middle."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flaky_s3 import Deaf, Fails, FlakyS3, LateAnswer, LostAnswer, Twice
from flaky_s3 import Fault as S3Fault
from lab_stacks import ended, held, lab_module, left_behind, none_left
from msgspec import structs
from program import Program, eventually

from holdfast.runs.intent import Intent
from holdfast.secrets.keys import Key
from holdfast.store.place import open_blobs
from holdfast.store.run_records import StoredClaim
from holdfast.store.run_store import RunStore
from provider.service import Fault, LabService

KEY = base64.b64encode(bytes(range(32))).decode()
BODY = """
resource "lab_object" "one" {
  name = "one"
}

resource "lab_object" "two" {
  name = "two"
  body = lab_object.one.id
}
"""


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


@pytest.fixture(scope="module")
def s3() -> Iterator[FlakyS3]:
    with FlakyS3() as running:
        running.make_bucket("acme")
        yield running


class Machines:
    """Clones of one repository, each with a home of its own; the store is all they share."""

    def __init__(self, first: Program, s3: FlakyS3, service: LabService, prefix: str) -> None:
        self._first = first
        self.place = f"s3://acme/{prefix}"
        self._count = 0
        first.environment |= {
            **{name: value for name, value in s3.variables.items() if name.startswith("AWS_")},
            "CI": "true",
            "HOLDFAST_KEY": KEY,
        }
        document = {
            "version": 1,
            "environments": {"dev": {"match": ["dev"]}},
            "stacks": [{"name": "a", "module": "a", "environment": "dev", "env": {"LAB_URL": service.url}}],
            "engine": {"use": "embedded"},
            "store": self.place,
        }
        first.write("holdfast.yaml", json.dumps(document))
        first.write("a/main.tf", lab_module(BODY))

    def another(self) -> Program:
        self._count += 1
        folder = self._first.folder.parent / f"machine-{self._count}"
        shutil.copytree(self._first.folder, folder / "repo")
        program = Program(
            folder / "repo",
            home=folder / "home",
            path=self._first.environment["PATH"],
            user_home=folder / "user",
        )
        known = self._first.home / "engines.json"
        if known.exists():
            program.home.mkdir(mode=0o700)
            shutil.copy(known, program.home)
        program.environment = {
            **self._first.environment,
            "HOME": str(folder / "user"),
            "HOLDFAST_HOME": str(folder / "home"),
        }
        return program


@pytest.fixture
def machines(with_lab: Program, s3: FlakyS3, service: LabService, tmp_path: Path) -> Iterator[Machines]:
    yield Machines(with_lab, s3, service, tmp_path.name)
    s3.calm()


@pytest.mark.long
def test_another_machine_sees_states_and_used_plans(machines: Machines) -> None:
    """What one machine applied, the other plans as unchanged; a plan that one applied, the other does not."""
    one, two = machines.another(), machines.another()
    one.ok("plan", "--out", "bundle")
    shutil.copytree(one.folder / "bundle", two.folder / "bundle")
    assert one.results("apply", "--plan", "bundle")["a"]["status"] == "applied"
    assert two.results("apply", "--plan", "bundle")["a"]["notes"] == ["already applied"]
    assert two.results("plan")["a"]["status"] == "unchanged"
    assert {each["name"] for each in json.loads(two.ok("state", "pull", "a").out)["resources"]} == {
        "one",
        "two",
    }
    assert not (two.folder / ".holdfast").exists()


def stored(machines: Machines, s3: FlakyS3) -> RunStore:
    """The store as a third machine would read it."""
    key = Key.of(base64.b64decode(KEY))
    return RunStore(open_blobs(machines.place, Path("/"), s3.variables), lambda: key)


def only_run(store: RunStore) -> str:
    (claim,) = store.claims.all()
    return claim.run


def made(service: LabService) -> dict[str, int]:
    return {name: len(ids) for name, ids in service.made().items()}


def throw_away(machine: Program) -> None:
    """Every process at once, and then the disk."""
    for pid in left_behind(machine):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    none_left(machine)
    shutil.rmtree(machine.folder.parent)


LANE = "leases/lanes/env%3Adev"


def out_of_sight(store: RunStore, run: str) -> None:
    """What was on this machine was on another one, and was last heard of a while ago."""
    (claim,) = store.claims.all()
    store.claims.release(claim.stack, claim.run)
    intent = Intent.from_document(claim.intent)
    moved = structs.replace(intent, process=intent.process._replace(host="runner-7", machine="another"))
    store.claims.take(StoredClaim(claim.stack, claim.run, moved.document()))
    lease = store.encrypted.read(LANE)
    assert lease is not None
    record: dict[str, Any] = lease.document()
    record["holder"]["process"] = elsewhere(record["holder"]["process"])
    store.encrypted.write(LANE, json.dumps(record).encode())
    store.runs.write(run, "heartbeat", b"2026-01-02T14:02:00+00:00")


def elsewhere(process: Any) -> dict[str, object]:
    return {**process, "host": "runner-7", "machine": "another"}


@pytest.mark.long
def test_a_runner_thrown_away_in_the_middle_is_recovered_by_another(
    machines: Machines, s3: FlakyS3, service: LabService
) -> None:
    """What it made is known from the journal in S3: nothing is lost, and nothing is made twice."""
    one, two = machines.another(), machines.another()
    service.misbehave(Fault(operation="create", what="hold", name="two"))
    process = one.start("apply", "--yes", "--json")
    held(service, process, "create", 2)
    store = stored(machines, s3)
    run = only_run(store)
    # It is there long before Terraform would save anything.
    eventually(
        lambda: any(b'"apply_complete"' in line for line in store.runs.journal(run).lines),
        what="the journal is in S3",
        seconds=10,
    )
    eventually(lambda: store.runs.read(run, "heartbeat") is not None, what="a heartbeat")
    throw_away(one)
    process.communicate(timeout=60)
    service.release()
    assert store.states.numbers("a") == ()
    out_of_sight(store, run)
    unknown = two.results("plan", code=6)["a"]
    assert unknown["status"] == "unknown"
    assert f"runs reconcile {run}" in unknown["error"]["hint"]
    (lost,) = service.made()["two"]
    reconcile = ("runs", "reconcile", run, "--yes", "--import", f"lab_object.two={lost}")
    (unsure,) = two.json(*reconcile, code=4)["errors"]
    assert unsure["code"] == "HF-LOCK-3"
    done = two.json(*reconcile, "--holder-dead", "--reason", "the runner was thrown away")
    assert {each["address"] for each in done["imported"]} == {"lab_object.one", "lab_object.two"}
    assert two.results("plan")["a"]["status"] == "unchanged"
    assert made(service) == {"one": 1, "two": 1}
    assert store.claims.all() == ()
    none_left(two)


FAULTS: dict[str, tuple[S3Fault, str | None, str, int]] = {
    "the answer to the claim is lost": (LostAnswer(), "PUT", "/claims/", 1),
    "the claim comes late": (LateAnswer(seconds=1.0), None, "/claims/", 1),
    "the answer to the used mark is lost": (LostAnswer(), "PUT", "/used/", 1),
    "the answer to the state is lost": (LostAnswer(), "PUT", "/states/", 1),
    "the state is saved twice": (Twice(), "PUT", "/states/", 1),
    "the answer to the journal is lost": (LostAnswer(), "PUT", "/journal-", 2),
    "the answer to the outcome is lost": (LostAnswer(), "PUT", "/outcome", 1),
    "the answer to the lane is lost": (LostAnswer(), "PUT", "/leases/", 2),
}


@pytest.mark.long
def test_an_answer_that_is_lost_or_late_costs_nothing(
    machines: Machines, s3: FlakyS3, service: LabService
) -> None:
    """Wherever it happens in an apply, and all at once: exit 0, everything made once, the state whole."""
    one = machines.another()
    for fault, method, path, times in FAULTS.values():
        s3.disturb(fault, method=method, path=path, times=times)
    assert one.results("apply", "--yes")["a"]["status"] == "applied"
    s3.calm()
    assert made(service) == {"one": 1, "two": 1}
    assert one.results("plan")["a"]["status"] == "unchanged"
    store = stored(machines, s3)
    assert store.claims.all() == ()
    (run,) = [each for each in store.runs.ids() if store.runs.journal(each).ended is not None]
    assert (store.runs.outcome(run) or {})["status"] == "applied"


@pytest.mark.long
def test_what_s3_does_not_take_is_not_called_done(
    machines: Machines, s3: FlakyS3, service: LabService
) -> None:
    """Without a claim nothing is begun; an end that is not recorded is unknown until proved."""
    one = machines.another()
    s3.disturb(Fails(), method="PUT", path="/claims/")
    assert one.results("apply", "--yes", code=1)["a"]["error"]["code"] == "HF-STORE-5"
    assert made(service) == {}
    s3.calm()
    s3.disturb(Fails(), method="PUT", path="/outcome")
    assert one.results("apply", "--yes", code=6)["a"]["error"]["code"] == "HF-RUN-11"
    s3.calm()
    assert machines.another().results("plan")["a"]["status"] == "unchanged"
    assert made(service) == {"one": 1, "two": 1}


@pytest.mark.long
def test_s3_that_is_gone_from_the_first_change_on_loses_nothing(
    machines: Machines, s3: FlakyS3, service: LabService
) -> None:
    """Nobody answers while Terraform works and saves: what was heard stays here and arrives in the end."""
    one = machines.another()
    service.misbehave(Fault(operation="create", what="hold", name="one"))
    process = one.start("apply", "--yes", "--json")
    held(service, process, "create")
    with s3.refusing():
        service.release()
        eventually(lambda: any(one.home.rglob("errored.tfstate")), what="Terraform gives up saving")
    results, _ = ended(process, code=6)
    assert results["a"]["error"]["code"] == "HF-STATE-5"
    (claim,) = stored(machines, s3).claims.all()
    one.ok("runs", "reconcile", claim.run, "--yes")
    assert one.results("plan")["a"]["status"] == "unchanged"
    assert made(service) == {"one": 1, "two": 1}


@pytest.mark.long
def test_another_key_is_refused_by_name_and_a_deaf_store_at_all(
    machines: Machines, s3: FlakyS3, service: LabService
) -> None:
    """What cannot be read is never taken for absent; what ignores conditions cannot be a store."""
    one = machines.another()
    s3.disturb(Deaf())
    (deaf,) = one.json("plan", code=64)["errors"]
    assert deaf["code"] == "HF-STORE-8"
    s3.calm()
    one.ok("plan")
    other = base64.b64encode(bytes(32)).decode()
    for arguments in (("plan",), ("runs", "list")):
        (error,) = one.json(*arguments, code=64, env={"HOLDFAST_KEY": other})["errors"]
        assert error["code"] == "HF-STORE-3"
        assert all(Key.of(base64.b64decode(key)).id in error["message"] for key in (KEY, other))
    assert made(service) == {}
