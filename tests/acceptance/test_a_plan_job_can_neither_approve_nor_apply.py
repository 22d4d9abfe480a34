"""A job with only the plan key plans and reads. Whatever else it writes to the run store does not count."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path

import pytest
from msgspec import structs
from plan_job import PlanJob, opened
from program import Program

from holdfast.kernel.errors import UsageError
from holdfast.plans import saved_plan
from holdfast.secrets.keys import Key, plan_key_from

SECRET = bytes(range(32))
APPLY = {"HOLDFAST_KEY": base64.b64encode(SECRET).decode(), "HOLDFAST_PLAN_KEY": None}
CODE = 'resource "terraform_data" "it" {{\n  count = {count}\n  input = "x"\n}}\n'


@pytest.fixture
def planner(holdfast: Program) -> dict[str, str | None]:
    """A production stack of two resources whose code now wants one; the environment of a plan job."""
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { prod: { match: [prod], production: true } }
        stacks: [{ name: db, module: db, environment: prod }]
        """,
    )
    holdfast.write("db/main.tf", CODE.format(count=2))
    holdfast.ok("apply", "--yes", env=APPLY)
    holdfast.write("db/main.tf", CODE.format(count=1))
    plan_key = holdfast.ok("keys", "plan", env=APPLY).out.strip()
    assert holdfast.json("keys", "plan", env=APPLY)["plan_key"] == plan_key
    return {"HOLDFAST_KEY": None, "HOLDFAST_PLAN_KEY": plan_key}


def job_on(holdfast: Program, planner: dict[str, str | None]) -> PlanJob:
    return PlanJob(holdfast.folder / ".holdfast", str(planner["HOLDFAST_PLAN_KEY"]))


def resources(holdfast: Program) -> int:
    return len(holdfast.json("state", "list", "db", env=APPLY)["resources"])


def test_it_reads_and_plans_and_nothing_else(
    holdfast: Program, planner: dict[str, str | None], tmp_path: Path
) -> None:
    """It plans, shows states and runs, and writes bundles that it cannot open; all else names the key."""
    bundle = tmp_path / "bundle"
    run = holdfast.results("plan", "--out", str(bundle), env=planner, code=3)["db"]["run"]
    readable: tuple[tuple[str, ...], ...] = (
        ("stacks",),
        ("check",),
        ("state", "list", "db"),
        ("state", "show", "db"),
        ("state", "versions", "db"),
        ("state", "pull", "db"),
        ("runs", "list"),
        ("runs", "show", run),
        ("audit", "verify"),
    )
    for arguments in readable:
        holdfast.ok(*arguments, env=planner)
    refused: tuple[tuple[str, ...], ...] = (
        ("apply", "--yes"),
        ("apply", "--plan", str(bundle)),
        ("apply", "--plan", str(bundle), "--override", "0" * 64, "--reason", "why"),
        ("destroy", "db", "--yes-destroy", "db"),
        ("runs", "approve", run, "--reason", "why"),
        ("runs", "reject", run, "--reason", "why"),
        ("state", "rollback", "db", "1", "--yes"),
        ("keys", "plan"),
    )
    for arguments in refused:
        (error,) = holdfast.json(*arguments, env=planner, code=64)["errors"]
        assert error["code"] == "HF-KEY-10", (arguments, error)
        assert "HOLDFAST_KEY" in error["hint"]
    with pytest.raises(UsageError) as caught:
        saved_plan.load(bundle, plan_key_from(str(planner["HOLDFAST_PLAN_KEY"])))
    assert caught.value.problem.code == "HF-KEY-10"
    assert holdfast.results("apply", "--plan", str(bundle), env=APPLY, code=3)["db"]["status"] == "refused"
    override = ("--override", opened(bundle, Key.of(SECRET)).digest, "--reason", "why")
    applied = holdfast.results("apply", "--plan", str(bundle), *override, env=APPLY)["db"]
    assert applied["status"] == "applied"
    holdfast.ok("audit", "verify", env=APPLY)


def test_what_it_forges_does_not_count(
    holdfast: Program, planner: dict[str, str | None], tmp_path: Path
) -> None:
    """An override, a used mark, a state, a record of one or a claim that it writes is an error, exit 6."""
    bundle = tmp_path / "bundle"
    run = holdfast.results("plan", "--out", str(bundle), env=planner, code=3)["db"]["run"]
    job, digest = job_on(holdfast, planner), opened(bundle, Key.of(SECRET)).digest
    override: dict[str, object] = {
        "version": 1,
        "kind": "override",
        "digest": digest,
        "stack": "db",
        "run": run,
        "who": {"kind": "person", "name": "ada"},
        "reason": "let it through",
        "at": "2026-01-01T00:00:00+00:00",
    }
    head, _, state = job.read("states/db/0000000001").partition(b"\n")
    emptied = json.dumps({**json.loads(state), "serial": 9, "resources": []}).encode()
    forged: dict[str, bytes | dict[str, object]] = {
        f"approvals/{digest}/01J": override,
        f"used/{digest}": {"run": run, "stack": "db", "who": "ada", "at": ""},
        "states/db/0000000002": head + b"\n" + emptied,
        "records/db": {"place": "none", "lineage": "", "serial": 0, "resources": 0, "seen": ""},
        "claims/db": {"stack": "db", "run": run, "intent": {}},
        "errored/db/unsaved": emptied,
    }
    for number, (name, content) in enumerate(forged.items()):
        path = job.store / name
        before = path.read_bytes() if path.exists() else None
        job.forge(name, content, own_signature=number % 2 == 0)
        answer = holdfast.run("apply", "--plan", str(bundle), "--json", env=APPLY)
        assert (answer.code, "HF-KEY-11" in answer.out) == (6, True), (name, answer.text)
        path.unlink() if before is None else path.write_bytes(before)
    assert resources(holdfast) == 2
    job.forge(
        "runs/01JZZZZZZZZZZZZZZZZZZZZZZZ/outcome", {"version": 1, "operation": "apply", "status": "applied"}
    )
    listed = holdfast.json("runs", "list", env=APPLY)["runs"]
    assert {each["status"] for each in listed if each["id"].startswith("01JZZ")} == {"unknown"}


def test_a_bundle_is_believed_only_as_far_as_its_plan_file(
    holdfast: Program, planner: dict[str, str | None], tmp_path: Path
) -> None:
    """Not recorded, made from other code, or said to be something else: apply reads the plan file itself."""
    honest, evil, out = tmp_path / "honest", tmp_path / "evil", tmp_path / "out"
    holdfast.ok("plan", "--out", str(honest), env=planner, code=3)
    job, key = job_on(holdfast, planner), Key.of(SECRET)
    plan = opened(honest, key)
    reviewed = (holdfast.folder / "db/main.tf").read_text()
    holdfast.write("db/main.tf", CODE.format(count=2) + 'resource "terraform_data" "backdoor" {}\n')
    holdfast.ok("plan", "--out", str(evil), env=planner)
    holdfast.write("db/main.tf", reviewed)
    other = opened(evil, key)

    def refused(expected: str) -> None:
        result = holdfast.results("apply", "--plan", str(out), env=APPLY, code=3)["db"]
        assert result["error"]["code"] == expected, result["error"]

    parts = structs.replace(plan.parts, plan=other.parts.plan, made="01J")
    claims_to_be_reviewed = structs.replace(plan, parts=parts, plan=other.plan, made=other.made)
    job.save(out, claims_to_be_reviewed, record=False)
    refused("HF-BUND-20")
    job.save(out, claims_to_be_reviewed)
    refused("HF-BUND-21")
    unchanged = structs.replace(plan.parts, made="01K")
    job.save(out, structs.replace(plan, parts=unchanged, changes=False, production=False))
    refused("HF-GUARD-1")
    assert resources(holdfast) == 2


def test_a_used_plan_stays_used(holdfast: Program, planner: dict[str, str | None], tmp_path: Path) -> None:
    """A mark that was replaced is an error; where it was removed, Terraform finds the plan stale."""
    bundle = tmp_path / "bundle"
    holdfast.ok("plan", "--out", str(bundle), env=planner, code=3)
    job, digest = job_on(holdfast, planner), opened(bundle, Key.of(SECRET)).digest
    override = ("--override", digest, "--reason", "why")
    assert holdfast.results("apply", "--plan", str(bundle), *override, env=APPLY)["db"]["status"] == "applied"
    job.forge(f"used/{digest}", {})
    holdfast.ok("apply", "--plan", str(bundle), env=APPLY, code=6)
    (job.store / f"used/{digest}").unlink()
    result = holdfast.results("apply", "--plan", str(bundle), env=APPLY, code=3)["db"]
    assert result["error"]["code"] == "HF-BUND-11"


def test_a_state_of_another_store_is_refused(holdfast: Program, planner: dict[str, str | None]) -> None:
    """The same key, the same stack, a valid signature: a copied blob is unreadable, never a state."""
    elsewhere = holdfast.folder / ".holdfast"
    moved = elsewhere.rename(holdfast.folder / "elsewhere")
    holdfast.write("db/main.tf", CODE.format(count=3))
    holdfast.ok("apply", "--yes", env=APPLY)
    shutil.copy(moved / "states/db/0000000001", elsewhere / "states/db/0000000002")
    result = holdfast.results("plan", env=APPLY, code=6)["db"]
    assert result["error"]["code"] == "HF-STORE-2"
    assert "copied from another store" in result["error"]["message"]
    assert holdfast.results("plan", env=planner, code=6)["db"]["status"] == "unknown"


def archive(name: str, text: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as files:
        member = tarfile.TarInfo(name)
        member.size = len(text)
        files.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def test_a_bundle_brings_no_other_version_of_a_reviewed_file(
    holdfast: Program, planner: dict[str, str | None], tmp_path: Path
) -> None:
    """Neither under the digest that was approved, nor under one of its own. Invalid content is an error."""
    code = (
        'resource "terraform_data" "new" {\n  provisioner "local-exec" {\n    command = "sh run.sh"\n  }\n}\n'
    )
    holdfast.write("db/main.tf", CODE.format(count=2) + code)
    holdfast.write("db/run.sh", "exit 0\n")
    out, marker = tmp_path / "out", tmp_path / "marks/ran"
    marker.parent.mkdir()
    holdfast.ok("plan", "--out", str(out), env=planner, code=5)
    job, plan = job_on(holdfast, planner), opened(out, Key.of(SECRET))
    evil = f"echo x > {marker}\n"
    brought = structs.replace(plan, made=archive("db/run.sh", evil))
    job.save(out, brought)
    result = holdfast.results("apply", "--plan", str(out), env=APPLY, code=3)["db"]
    assert result["error"]["code"] == "HF-BUND-3"
    files = {"db/run.sh": hashlib.sha256(evil.encode()).hexdigest()}
    job.save(out, structs.replace(brought, parts=structs.replace(plan.parts, files=files)))
    result = holdfast.results("apply", "--plan", str(out), env=APPLY, code=3)["db"]
    assert result["error"]["code"] == "HF-BUND-22"
    assert not marker.exists()

    for digests, statuses in (({"/db": plan.digest}, {}), ({}, {"db": "no status"}), ([1], {})):
        job.save(out, plan)
        saved_plan.write_change(out, plan.change, statuses=statuses, digests=digests, key=job.key)  # type: ignore[arg-type]
        (error,) = holdfast.json("apply", "--plan", str(out), env=APPLY, code=3)["errors"]
        assert error["code"] == "HF-BUND-3", error
