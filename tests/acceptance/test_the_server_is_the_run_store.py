"""`store: https://…`: several people with tokens and without a key share what the server stores."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_stacks import held, lab_module, left_behind, none_left
from program import Program
from server_made import MadeServer, made_server

from holdfast.database.database import Database
from holdfast.identity.roles import Role
from provider.service import Fault, LabService

CANARY = "canary-4711"


@pytest.fixture
def server(database: Database) -> Iterator[MadeServer]:
    with made_server(database) as made:
        yield made


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


def configure(program: Program, store: str, **more: object) -> None:
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "stacks": [{"name": "a", "module": "a", "environment": "dev"}],
        "engine": {"use": "embedded"},
        "store": store,
    }
    program.write("holdfast.yaml", json.dumps({**document, **more}))
    program.environment["HOLDFAST_URL"] = store


def body(value: str) -> str:
    return f"""
        resource "terraform_data" "it" {{
          input = "{value}"
        }}
        variable "password" {{
          default   = "{CANARY}"
          sensitive = true
        }}
        output "password" {{
          value     = var.password
          sensitive = true
        }}
        """


def person(first: Program, name: str, token: str, *, folder: Path | None = None) -> Program:
    """Somebody else with a clone and a home of their own."""
    place = first.folder.parent / name
    shutil.copytree(folder or first.folder, place / "repo")
    program = Program(
        place / "repo", home=place / "home", path=first.environment["PATH"], user_home=place / "user"
    )
    program.environment = {
        **first.environment,
        "HOME": str(place / "user"),
        "HOLDFAST_HOME": str(place / "home"),
        "HOLDFAST_TOKEN": token,
    }
    return program


def output_is_shown(run: str, *, to: Program, not_to: Program) -> None:
    """What Terraform printed is for those who may read states."""
    assert "terraform_data.it" in to.ok("runs", "log", run).out
    assert "may contain secrets" in not_to.ok("runs", "log", run, code=3).err


def test_names_of_devices_are_refused(holdfast: Program, server: MadeServer) -> None:
    """Before anything runs: only events change devices."""
    stacks = [{"name": "fleet/default/site/a", "module": "a", "environment": "dev"}]
    configure(holdfast, server.url, stacks=stacks)
    holdfast.write("a/main.tf", body("1"))
    holdfast.environment["HOLDFAST_TOKEN"] = server.token(Role.ADMIN)
    for command in (("plan",), ("apply", "--yes")):
        refused = holdfast.ok(*command, code=3).err
        assert "HF-EVENT-13" in refused
        assert "Give the stack another name." in refused


def test_people_plan_approve_and_apply_without_a_key(holdfast: Program, server: MadeServer) -> None:
    """Who they are comes from their tokens: nobody approves their own plan, whatever their variables say."""
    approvals = {"guard": {"approvals": {"count": 1}}}
    configure(holdfast, server.url, **approvals)
    holdfast.write("a/main.tf", body("1"))
    tokens = {
        role: server.token(role, name=role.value) for role in (Role.OPERATOR, Role.PLANNER, Role.VIEWER)
    }
    ada = person(holdfast, "ada", server.token(Role.OPERATOR, name="ada"))
    bob = person(holdfast, "bob", server.token(Role.APPROVER, name="bob"))
    missing = ada.ok("plan", env={"HOLDFAST_TOKEN": None}, code=64).err
    assert "HF-SRV-7" in missing
    assert "holdfast login" in missing

    planned = ada.results("plan", "--out", "bundle", code=5)["a"]
    run = planned["run"]
    waiting = ada.results("apply", "--plan", "bundle", code=5)["a"]
    assert waiting["status"] == "waiting"
    own = {"HOLDFAST_TOKEN": server.token(Role.APPROVER, name="ada"), "USER": "bob"}
    assert "HF-APPR-3" in ada.ok("runs", "approve", run, "--reason", "mine", env=own, code=3).err
    refused = ada.ok("runs", "approve", run, "--reason", "mine", code=3).err
    assert "HF-TOK-2" in refused or "HF-APPR-3" in refused
    assert "terraform_data.it" in bob.ok("runs", "show", run, "--plan").out
    bob.ok("runs", "approve", run, "--reason", "looks right")
    assert ada.results("apply", "--plan", "bundle")["a"]["status"] == "applied"
    assert ada.results("apply", "--plan", "bundle")["a"]["notes"] == ["already applied"]
    assert bob.folder.parent.joinpath("home", "key").exists() is False
    assert not (ada.home / "key").exists()
    assert not (ada.folder / ".holdfast").exists()

    # Somebody else sees the same, as far as their role goes.
    carl = person(ada, "carl", tokens[Role.PLANNER])
    assert carl.results("plan")["a"]["status"] == "unchanged"
    carl.write("a/main.tf", body("2"))
    carl.results("plan", "--out", "other", code=5)
    assert "role planner" in carl.ok("apply", "--yes", code=3).err
    shutil.copytree(carl.folder / "other", bob.folder / "other")
    bob.ok("runs", "approve", "--bundle", "other", "--reason", "looks right too")
    dora = person(carl, "dora", tokens[Role.OPERATOR])
    assert dora.results("apply", "--plan", "other")["a"]["status"] == "applied"
    listed = bob.json("runs", "list")["runs"]
    assert {each["who"].split("@")[0] for each in listed} == {"ada", "operator", "planner"}
    applied = [each["id"] for each in listed if each["operation"] == "apply"]
    output_is_shown(applied[0], to=carl, not_to=bob)
    assert "applied" in bob.ok("runs", "show", applied[0]).out
    assert len(dora.json("state", "versions", "a")["versions"]) == 2

    log = bob.json("audit", "show")["entries"]
    assert {entry["who"]["name"] for entry in log if entry["what"] == "approve"} == {"bob"}
    assert all(entry["who"]["verified"] for entry in log)
    bob.ok("audit", "verify")
    assert "HF-STORE-24" in bob.ok("audit", "show", env={"HOLDFAST_TOKEN": tokens[Role.VIEWER]}, code=3).err
    assert "HF-STORE-27" in ada.ok("keys", "status", code=64).err
    with server.database.transaction() as connection:
        rows = connection.execute(
            "select data from blobs union all select data from state_versions"
        ).fetchall()
    assert not [data for (data,) in rows if data is not None and CANARY.encode() in bytes(data)]
    assert CANARY not in json.dumps(server.log.lines, default=str)


def test_what_ci_owns_is_applied_with_a_token_of_ci(holdfast: Program, server: MadeServer) -> None:
    """The variable CI proves nothing here."""
    stacks = [{"name": "a", "module": "a", "environment": "dev", "target": "aws"}]
    configure(holdfast, server.url, targets={"aws": {"owner": "ci"}}, stacks=stacks)
    holdfast.write("a/main.tf", body("1"))
    for role, code in ((Role.OPERATOR, 3), (Role.CI, 0)):
        env = {"HOLDFAST_TOKEN": server.token(role), "CI": "true"}
        ran = holdfast.ok("apply", "--yes", env=env, code=code)
        assert ("HF-OWN-1" in ran.text) == (role is Role.OPERATOR)
    assert (
        holdfast.results("plan", env={"HOLDFAST_TOKEN": server.token(Role.PLANNER)})["a"]["status"]
        == "unchanged"
    )


def test_a_killed_apply_is_known_to_others(
    with_lab: Program, server: MadeServer, service: LabService
) -> None:
    """While it runs, the stack is busy, also for plain Terraform; after kill -9 another person reconciles."""
    stacks = [{"name": "a", "module": "a", "environment": "dev", "env": {"LAB_URL": service.url}}]
    configure(with_lab, server.url, stacks=stacks)
    objects = 'resource "lab_object" "one" {\n  name = "one"\n}\nresource "lab_object" "two" {\n'
    with_lab.write("a/main.tf", lab_module(objects + '  name = "two"\n  body = lab_object.one.id\n}\n'))
    token = server.token(Role.OPERATOR, name="bob")
    one = person(with_lab, "one", server.token(Role.OPERATOR, name="ada"))
    two = person(with_lab, "two", token)
    service.misbehave(Fault(operation="create", what="hold", name="two"))
    process = one.start("apply", "--yes", "--json")
    held(service, process, "create", 2)
    environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in left_behind(one)]
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left_behind(one)]
    mine = one.environment["HOLDFAST_TOKEN"].encode()
    assert not [text for text in commands if b"hf_" in text]
    assert not [text for text in environments if mine in text]  # The program removes it from its own.
    busy = two.ok("apply", "--yes", code=4).err
    assert "ada" in busy
    locked = server.send("LOCK", "/state/a", body=b'{"ID":"tf"}', token=token)
    assert (locked.status, b"Holdfast run" in locked.body) == (423, True)
    for pid in left_behind(one):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)
    service.release()
    none_left(one)
    unknown = two.results("plan", code=6)["a"]
    run = unknown["error"]["hint"].split("runs reconcile ")[1].split()[0]
    (lost,) = service.made()["two"]
    # Of another person, and its last heartbeat was just now.
    assert "HF-LOCK-8" in two.ok("runs", "reconcile", run, "--yes", code=4).err
    with server.database.transaction() as connection:
        connection.execute("update state_locks set expires = clock_timestamp()")
    done = two.json("runs", "reconcile", run, "--yes", "--import", f"lab_object.two={lost}")
    assert {each["address"] for each in done["imported"]} == {"lab_object.one", "lab_object.two"}
    assert two.results("plan")["a"]["status"] == "unchanged"
    assert {name: len(ids) for name, ids in service.made().items()} == {"one": 1, "two": 1}
    assert server.send("LOCK", "/state/a", body=b'{"ID":"tf"}', token=token).status == 200
    two.write("a/main.tf", two.folder.joinpath("a/main.tf").read_text().replace('"two"\n', '"three"\n'))
    assert "locked by" in two.ok("apply", "--yes", code=4).text
    none_left(two)


@pytest.mark.long
def test_the_server_is_lost_and_restored(holdfast: Program, tmp_path: Path) -> None:
    """Backup, loss of the data folder, restore: a plan shows no changes, and the audit log is whole."""
    data, backup = tmp_path / "data", tmp_path / "backup"
    with serve(holdfast, data) as (process, url):
        configure(holdfast, url)
        holdfast.write("a/main.tf", body("1"))
        holdfast.environment["HOLDFAST_TOKEN"] = (data / "admin-token").read_text().strip()
        holdfast.ok("apply", "--yes")
        holdfast.write("a/main.tf", body("2"))
        holdfast.ok("apply", "--yes")
        assert "restored version 1" in holdfast.ok("state", "rollback", "a", "1", "--yes").text
        holdfast.write("a/main.tf", body("1"))
        assert holdfast.results("plan")["a"]["status"] == "unchanged"
        holdfast.ok("db", "backup", str(backup), "--data", str(data))
        kept = (data / "key").read_bytes()
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 0
    shutil.rmtree(data)
    data.mkdir(mode=0o700)
    (data / "key").write_bytes(kept)
    (data / "key").chmod(0o600)
    holdfast.ok("db", "restore", str(backup), "--data", str(data))
    with serve(holdfast, data) as (_, url):
        configure(holdfast, url)
        assert holdfast.results("plan")["a"]["status"] == "unchanged"
        holdfast.ok("audit", "verify")


@contextlib.contextmanager
def serve(program: Program, data: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    log = data.with_suffix(".log")
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "serve", "--listen", "127.0.0.1:0", "--data", str(data)],
            env=program.environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Holdfast is ready at "), log.read_text()
        yield process, line.split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=60)
