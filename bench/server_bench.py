"""The server beside a local state, a folder as run store, and a server that only stores bytes."""

from __future__ import annotations

import base64
import functools
import hashlib
import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from holdfast.database.postgres import Cluster

if TYPE_CHECKING:
    from bench import Bench, Work

HOLDFAST = Path(sys.executable).with_name("holdfast")
BARE = Path(__file__).resolve().with_name("bare_server.py")
CONNECTIONS = 10
"""To PostgreSQL: as many as `holdfast serve` opens."""
SENDERS, REQUESTS = 4, 20
"""Of large states: clients at once, and requests of each."""
HUNDRED = 'resource "terraform_data" "d" {\n  count = 100\n  input = "resource-${count.index}"\n}\n'


class Running(NamedTuple):
    url: str
    token: str
    pid: int
    seconds: float
    """From its start until it was ready."""


@contextmanager
def running(bench: Bench, data: Path, words: list[str] | None = None) -> Iterator[Running]:
    """`holdfast serve`, or another server that prints its address when it is ready."""
    words = words or [str(HOLDFAST), "serve", "--listen", "127.0.0.1:0", "--data", str(data)]
    environment = {**bench.environment, "HOLDFAST_HOME": str(bench.place / "server-home")}
    with data.with_suffix(".log").open("a") as log:
        began = time.perf_counter()
        process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            seconds = time.perf_counter() - began
            if "ready" not in line:
                sys.exit(f"{' '.join(words)} did not start: {Path(log.name).read_text()}")
            yield Running(line.split()[-1], (data / "admin-token").read_text().strip(), process.pid, seconds)
        finally:
            process.terminate()
            process.wait(60)


class Client:
    """One connection and one state. Every answer but 200 is an error."""

    def __init__(self, server: Running, name: str) -> None:
        self.connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=120)
        self._fields = {"Authorization": f"Bearer {server.token}"}
        self._name = name

    def lock(self, method: str = "LOCK") -> None:
        self.send(method, body=json.dumps({"ID": self._name, "Operation": "OperationTypeApply"}).encode())

    def write(self, content: bytes) -> None:
        md5 = base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
        self.send("POST", query=f"?ID={self._name}", body=content, md5=md5)

    def send(self, method: str, *, query: str = "", body: bytes | None = None, md5: str = "") -> bytes:
        fields = {**self._fields, **({"Content-MD5": md5} if md5 else {})}
        self.connection.request(method, f"/state/{self._name}{query}", body, fields)
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status != http.client.OK:
            raise AssertionError(f"{method} {self._name}: {answer.status} {content[:500]!r}")
        return content


def terraform_apply(bench: Bench, program: str) -> tuple[float, float]:
    """Seconds of `terraform apply`: with the state on the server, and in a local file."""
    with running(bench, bench.place / "apply") as server:

        def prepare(backend: str) -> Work:
            code = f"terraform {{\n  backend {backend} {{}}\n}}\n{HUNDRED}"
            folder = bench.fresh("stack", lambda folder: write(folder / "main.tf", code))
            addresses = ("TF_HTTP_ADDRESS", "TF_HTTP_LOCK_ADDRESS", "TF_HTTP_UNLOCK_ADDRESS")
            variables: dict[str, Any] = dict.fromkeys(addresses, f"{server.url}/state/{folder.name}")
            variables |= {"TF_HTTP_USERNAME": "bench", "TF_HTTP_PASSWORD": server.token}
            bench.run([program, "init", "-input=false"], folder, **variables)
            return lambda: bench.run([program, "apply", "-input=false", "-auto-approve"], folder, **variables)

        return bench.side_by_side(lambda: prepare('"http"'), lambda: prepare('"local"'))


def holdfast_apply(bench: Bench) -> tuple[float, float]:
    """Seconds of `holdfast apply`: with the server as run store, and with a folder."""
    with running(bench, bench.place / "store") as server:
        variables = {"HOLDFAST_HOME": str(bench.place / "home"), "HOLDFAST_URL": server.url}

        def prepare(store: str) -> Work:
            """A store without runs: a new folder, or a new tenant."""
            folder = bench.fresh("stack", lambda folder: write(folder / "stacks/a/main.tf", HUNDRED))
            text = f"environments: {{ dev: {{ match: [dev] }} }}\nstore: {store}\n"
            text += 'stacks: [{ folder: "stacks/{name}", environment: dev }]\n'
            write(folder / "holdfast.yaml", f"version: 1\n{text}")
            create = [str(HOLDFAST), "token", "create", "--role", "operator", "--tenant", folder.name]
            admin = {**bench.environment, **variables, "HOLDFAST_TOKEN": server.token}
            token = subprocess.run(create, env=admin, capture_output=True, text=True, check=True).stdout
            own: dict[str, Any] = {**variables, "HOLDFAST_TOKEN": token.strip()}
            return lambda: bench.run([str(HOLDFAST), "apply", "--yes", "--quiet"], folder, **own)

        ours, theirs = (functools.partial(prepare, store) for store in (server.url, ".holdfast"))
        for first in (ours, theirs):
            first()()
        return bench.side_by_side(ours, theirs)


@functools.cache
def large_states(bench: Bench) -> dict[str, tuple[float, float]]:
    """Requests in a second with states of 1 MB, of the server and of the bare one, by method."""
    data, rates = bench.place / "states", dict[tuple[str, str], list[float]]()
    bare_words = [sys.executable, str(BARE), str(data), str(CONNECTIONS)]
    with running(bench, data) as ours, running(bench, data, bare_words) as bare:
        sides = {
            name: [Client(server, f"large{number}") for number in range(SENDERS)]
            for name, server in (("bare", bare), ("ours", ours))
        }
        for client in sides["ours"]:
            client.lock()
            client.connection.close()
        for turn in range(bench.rounds + 1):
            contents = [state(turn * REQUESTS + number, 1_000_000) for number in range(1, REQUESTS + 1)]
            for side, clients in sides.items():
                for method in ("POST", "GET"):
                    seconds = at_once([functools.partial(repeat, one, method, contents) for one in clients])
                    rates.setdefault((method, side), []).append(SENDERS * REQUESTS / seconds)
    # The first turn is a rehearsal.
    medians = {key: statistics.median(values[1:]) for key, values in rates.items()}
    return {method: (medians[method, "ours"], medians[method, "bare"]) for method in ("GET", "POST")}


def repeat(client: Client, method: str, contents: list[bytes]) -> None:
    for content in contents:
        client.write(content) if method == "POST" else client.send("GET")
    client.connection.close()  # Otherwise the server does, while the client waits for its turn.


def many_clients(bench: Bench, clients: int = 50, times: int = 10) -> float:
    """Each locks, writes, reads and unlocks a state of its own, again and again; requests in a second."""

    def work(client: Client) -> None:
        for serial in range(1, times + 1):
            content = state(serial, 10_000)
            client.lock()
            client.write(content)
            if client.send("GET") != content:
                raise AssertionError("what was read is not what was written")
            client.lock("UNLOCK")

    with running(bench, bench.place / "clients") as server:
        every = [Client(server, f"client{number}") for number in range(clients)]
        return 4 * clients * times / at_once([functools.partial(work, client) for client in every])


def idle(bench: Bench) -> tuple[float, float, float, float]:
    """Seconds until it is ready, in a new data folder and later; MB of the server and of PostgreSQL."""
    data, figures = bench.place / "idle", []
    for _ in range(bench.rounds + 1):
        with running(bench, data) as server:
            time.sleep(2)  # For its first upkeep.
            postgres = str(Cluster(data).running_pid())
            children = Path(f"/proc/{postgres}/task/{postgres}/children").read_text().split()
            database = sum(map(memory, (postgres, *children)))
            figures.append((server.seconds, memory(str(server.pid)), database))
    later, own, database = (statistics.median(column) for column in zip(*figures[1:], strict=True))
    return figures[0][0], later, own, database


def memory(pid: str) -> float:
    """PSS in MB: what processes share is divided among them."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def at_once(works: list[Callable[[], None]]) -> float:
    """Each in a thread of its own; the seconds until all are done. An error of one is raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        began = time.perf_counter()
        for future in [pool.submit(work) for work in works]:
            future.result()
        return time.perf_counter() - began


@functools.cache
def state(serial: int, size: int) -> bytes:
    """As Terraform writes it, of about this size."""

    def resource(number: int) -> dict[str, object]:
        digest = hashlib.sha256(f"{serial} {number}".encode()).hexdigest()
        attributes = {
            "id": f"i-{digest[:16]}",
            "arn": f"arn:aws:ec2:eu-central-1:123456789012:instance/i-{digest[:16]}",
            "ami": f"ami-{digest[16:32]}",
            "instance_type": "t3.large",
            "private_ip": f"10.0.{number // 256 % 256}.{number % 256}",
            "tags": {"Name": f"node-{number}", "team": "platform", "environment": "dev"},
            "vpc_security_group_ids": [f"sg-{digest[32:48]}", f"sg-{digest[48:]}"],
        }
        head = {"mode": "managed", "type": "aws_instance", "name": f"node_{number}"}
        provider = 'provider["registry.terraform.io/hashicorp/aws"]'
        instances = [{"schema_version": 1, "attributes": attributes, "sensitive_attributes": []}]
        return {**head, "provider": provider, "instances": instances}

    document = {"version": 4, "terraform_version": "1.11.4", "serial": serial, "lineage": "3f1c2a9e"}
    resources = [resource(number) for number in range(size // 839)]
    return json.dumps({**document, "outputs": {}, "resources": resources}, indent=2).encode()


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
