"""A removed audit log, head or end of the log is reported by the next command and by `audit verify`."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from program import Program


@pytest.fixture
def applied(holdfast: Program) -> Program:
    """Two applies; everything of the audit log after the first one is set aside as `old`."""
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: { match: [dev] } }
        stacks: [{ name: a, module: a, environment: dev }]
        engine: { use: embedded }
        """,
    )
    holdfast.write("a/main.tf", 'resource "terraform_data" "it" { input = 1 }\n')
    holdfast.ok("apply", "--yes")
    for name in ("audit", "anchors"):
        shutil.copytree(holdfast.folder / ".holdfast" / name, holdfast.folder / "old" / name)
    holdfast.write("a/main.tf", 'resource "terraform_data" "it" { input = 2 }\n')
    holdfast.ok("apply", "--yes")
    return holdfast


def test_the_next_command_reports_what_is_missing_until_a_person_accepts_it(applied: Program) -> None:
    """All of the log, its head, its lines, or everything newer: exit 6, and nothing is planned or applied."""
    store, old = applied.folder / ".holdfast", applied.folder / "old"
    shutil.copytree(store, applied.folder / "kept")

    def restore() -> None:
        shutil.rmtree(store)
        shutil.copytree(applied.folder / "kept", store)

    def remove(*names: str) -> None:
        for name in names:
            shutil.rmtree(store / name) if (store / name).is_dir() else (store / name).unlink()

    def cut_back(*names: str) -> None:
        remove(*names)
        for name in names:
            shutil.copytree(old / name, store / name)

    attacks: tuple[Callable[[], None], ...] = (
        lambda: remove("audit"),
        lambda: remove("audit", "anchors"),
        lambda: remove("audit/head"),
        lambda: remove("audit/lines"),
        lambda: cut_back("audit"),
    )
    applied.ok("audit", "verify")
    for what, attack in enumerate(attacks):
        attack()
        for command in (("plan",), ("apply", "--yes"), ("state", "rollback", "a", "1", "--yes")):
            ran = applied.ok(*command, code=6)
            assert "HF-AUDIT-8" in ran.text, what
        assert "HF-AUDIT-1" in applied.ok("audit", "verify", code=6).text, what
        restore()
    cut_back("audit", "anchors")
    assert "the record of run" in applied.ok("audit", "verify", code=6).text
    restore()
    remove("audit")
    assert "HF-USE-25" in applied.ok("audit", "accept-loss", code=64).text
    assert "continues" in applied.ok("audit", "accept-loss", "--reason", "the disk broke").text
    applied.ok("apply", "--yes")
    (entry,) = [one for one in applied.json("audit", "show")["entries"] if one["what"] == "accept-loss"]
    assert (entry["reason"], entry["break_glass"]) == ("the disk broke", True)
    assert "entries 1 to 4 are missing" in applied.ok("audit", "verify", code=6).text
    assert "HF-AUDIT-9" in applied.ok("audit", "accept-loss", "--reason", "again", code=64).text
