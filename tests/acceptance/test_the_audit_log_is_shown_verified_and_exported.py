from __future__ import annotations

import base64
import hashlib
import itertools
import json
from pathlib import Path

import pytest
from audit_made import act, applied
from program import Program

from holdfast.audit.actor import GITHUB_ACTIONS, Actor
from holdfast.audit.log import Audit
from holdfast.secrets.keys import Key
from holdfast.secrets.redact import Redactor
from holdfast.store.place import FolderBlobs
from holdfast.store.run_store import RunStore

SECRET = b"an audit key of the tests, 32 by"
JOB = Actor(
    kind=GITHUB_ACTIONS,
    name="ada",
    host="runner",
    verified=False,
    because="the variables of the job say so",
    claims={"actor": "ada", "repository": "acme/infra", "run_number": "411"},
)


@pytest.fixture
def recorded(holdfast: Program) -> Program:
    """A repository whose record has three acts, one of them with a secret in its reason."""
    holdfast.write("holdfast.yaml", "version: 1\nstacks: []\n")
    holdfast.environment["HOLDFAST_KEY"] = base64.b64encode(SECRET).decode()
    store = RunStore(FolderBlobs(holdfast.folder / ".holdfast"), lambda: Key.of(SECRET))
    audit = Audit(store, JOB, redactor=Redactor(["hunter2-hunter2"]), change="01CHANGE")
    audit.record(applied("net", run="01RUN", digest="d" * 64, decision="allow"))
    audit.record_all([act("unlock", "net", reason="it said hunter2-hunter2"), applied("dns")])
    return holdfast


def pieces(program: Program) -> list[Path]:
    return sorted((program.folder / ".holdfast/audit/lines").iterdir())


def test_who_did_what_is_shown_newest_first(recorded: Program) -> None:
    """With the outcome, the reason, whether it is verified, and what broke the glass; never a secret."""
    shown = recorded.ok("audit", "show")
    lines = [line.split() for line in shown.out.splitlines() if " by " in line]
    assert [(line[0], *line[3:5]) for line in lines] == [
        ("3", "apply", "dns:"),
        ("2", "unlock", "net:"),
        ("1", "apply", "net:"),
    ]
    assert "ada (ci:acme/infra#411), unverified" in shown.out
    assert [("BREAK" in line) for line in lines] == [False, True, False]
    assert "hunter2" not in shown.out
    document = recorded.json("audit", "show", "--stack", "net", "--since", "2020-01-01", "--limit", "1")
    (entry,) = document["entries"]
    assert (entry["seq"], entry["what"], entry["break_glass"]) == (2, "unlock", True)
    assert entry["who"]["claims"]["repository"] == "acme/infra"
    assert "HF-AUDIT-6" in recorded.ok("audit", "show", "--since", "yesterday", code=64).err


def test_a_record_that_was_touched_is_told_with_its_place(recorded: Program) -> None:
    """Exit 0 for a whole one; 6 for one that a person must look at."""
    whole = recorded.json("audit", "verify")
    assert (whole["intact"], whole["lines"], whole["breaks"]) == (True, 3, [])
    exported = recorded.ok("audit", "export").out.encode().splitlines()
    assert whole["last"] == {"seq": 3, "hash": hashlib.sha256(exported[-1]).hexdigest()}
    pieces(recorded)[1].write_bytes(b"something else")
    assert "cannot read entry 2" in recorded.ok("audit", "show").err
    pieces(recorded)[0].unlink()
    broken = recorded.ok("audit", "verify", code=6)
    assert "HF-AUDIT-1  entry 1 is missing" in broken.err
    assert "HF-AUDIT-1  entry 2 cannot be decrypted" in broken.err


def test_an_export_can_be_checked_without_holdfast(recorded: Program, tmp_path: Path) -> None:
    """Each line names the SHA-256 of the one before; the file is its owner's only."""
    out = tmp_path / "audit.jsonl"
    assert recorded.json("audit", "export", "--out", str(out))["count"] == 3
    lines = out.read_bytes().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2, 3]
    for before, line in itertools.pairwise(lines):
        assert json.loads(line)["before"] == hashlib.sha256(before).hexdigest()
    assert out.stat().st_mode & 0o777 == 0o600
    assert "HF-AUDIT-7" in recorded.ok("audit", "export", "--format", "xml", code=64).err
