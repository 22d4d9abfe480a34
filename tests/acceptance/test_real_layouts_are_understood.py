"""Every repository in `tests/corpus` gets the expected configuration, selection and findings.

`UPDATE_CORPUS=1` rewrites the expected files: read the difference before you commit it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import corpus


@pytest.mark.parametrize("name", corpus.NAMES)
def test_a_repository(name: str, tmp_path: Path, quiet_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `init` writes and says, what `stacks` selects for a change, and what `check` reports."""
    root = tmp_path / name
    corpus.lay(name, root)
    for variable in ("CI", "GITHUB_ACTIONS", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", quiet_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(root)
    _git("init", "--quiet")
    _git("add", "--all", "--force")
    written = {}
    if not Path("holdfast.yaml").exists():
        written["init.txt"] = corpus.output("init")
        written["holdfast.yaml"] = Path("holdfast.yaml").read_text()
    _git("add", "--all", "--force")
    _git("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "--message", "one")
    corpus.lay_change(name, root)
    commands = [["stacks"], *(["stacks", *change] for change in corpus.changes(name))]
    written["stacks.txt"] = "\n".join(corpus.output(*command) for command in commands)
    written["check.txt"] = corpus.findings("check")
    if further := corpus.commands(name):
        written["commands.txt"] = "\n".join(corpus.output(*command) for command in further)
    for file, text in written.items():
        assert text == corpus.expected(name, file, text), f"see tests/corpus/{name}/expected/{file}"


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, capture_output=True)
