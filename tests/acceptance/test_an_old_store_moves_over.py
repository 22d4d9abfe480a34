"""A repository from before states were encrypted: the next command moves everything, and nobody notices."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from old_store import ID, identity
from program import Program
from small import MODULE

STATE = ".holdfast/state/vars/deep/one/terraform.tfstate"


@pytest.fixture
def old(holdfast: Program) -> Program:
    """One stack that was applied: its state lies in clear, where Holdfast once kept it.

    Terraform's own local backend writes it, and then the code names none.
    """
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: { match: [dev] } }
        stacks: [{ variables: "vars/{place}/{name}.tfvars", module: module, environment: dev }]
        """,
    )
    holdfast.write("module/main.tf", MODULE)
    here = 'terraform {\n  backend "local" {\n    path = "here.tfstate"\n  }\n}\n'
    holdfast.write("module/backend.tf", here)
    for name in ("canary-before", "canary-now"):
        holdfast.write("vars/deep/one.tfvars", f'x = "{name}"\n')
        holdfast.ok("apply", "--yes")
    written = next(file for file in holdfast.folder.rglob("here.tfstate") if ".holdfast" not in file.parts)
    shutil.rmtree(holdfast.folder / ".holdfast")
    (holdfast.folder / "module/backend.tf").unlink()
    identity(holdfast.folder / ".holdfast")
    kept = holdfast.folder / STATE
    kept.parent.mkdir(parents=True)
    written.rename(kept)
    written.with_name(f"{written.name}.backup").rename(kept.with_name("terraform.tfstate.backup"))
    return holdfast


def in_clear(program: Program, text: str) -> list[Path]:
    """Files of the store that show it."""
    files = [file for file in (program.folder / ".holdfast").rglob("*") if file.is_file()]
    return [file for file in files if text.encode() in file.read_bytes()]


def test_an_old_state_moves_over_without_a_change(old: Program) -> None:
    """Plan has nothing to do, the state is the same to the byte, and nothing of it is left in clear."""
    content = (old.folder / STATE).read_bytes()
    assert b"canary-now" in content
    assert in_clear(old, "canary")
    assert old.results("plan")["vars/deep/one"]["status"] == "unchanged"
    assert in_clear(old, "canary") == []
    assert not (old.folder / STATE).exists()
    assert old.ok("state", "pull", "vars/deep/one").out.encode() == content
    assert json.loads((old.folder / ".holdfast/store.json").read_text())["id"] == ID
    old.write("vars/deep/one.tfvars", 'x = "next"\n')
    assert old.results("apply", "--yes")["vars/deep/one"]["status"] == "applied"
    assert json.loads(old.ok("state", "pull", "vars/deep/one").out)["serial"] > json.loads(content)["serial"]
    # What Terraform had kept as a backup of its state is the first version of it.
    assert len(old.json("state", "versions", "vars/deep/one")["versions"]) == 3


@pytest.mark.parametrize(
    "content", [b"", pytest.param(b'{"version": 4, "serial"', marks=pytest.mark.long)], ids=["empty", "cut"]
)
def test_a_damaged_old_state_is_never_new(old: Program, content: bytes) -> None:
    """A crash left it empty or cut: that is said with exit 6, every time, and the file stays as it is."""
    (old.folder / STATE).write_bytes(content)
    for command in (("plan",), ("apply", "--yes")):
        ran = old.run(*command, "--json")
        assert ran.code == 6, ran.text
        assert json.loads(ran.out)["stacks"][0]["error"]["code"] == "HF-STATE-3"
    assert (old.folder / STATE).read_bytes() == content
