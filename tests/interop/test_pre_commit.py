"""The hook, by the real pre-commit, where it is: installed from this tree as a user's pre-commit does it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import other_tools
import pytest

TREE = Path(__file__).parents[2]
NEEDED = ("src", "pyproject.toml", "README.md", "LICENSE", "NOTICE", ".pre-commit-hooks.yaml")
CONFIG = """version: 1
stacks:
  - { name: a, module: module, environment: dev, variables_files: [a.tfvars] }
environments: { dev: { match: [dev] } }
checks:
  rules: { "HF*": off, HF703: error, "HF9*": error }
"""


class Repository:
    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        folder.mkdir()
        self.folder = folder
        self._environment = environment
        self.git("init", "-q", "-b", "main")

    def write(self, file: str, text: str) -> None:
        (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / file).write_text(text)
        self.git("add", file)

    def git(self, *arguments: str, code: int = 0) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
        return self.run("git", *who, *arguments, code=code)

    def run(self, *argv: str, code: int = 0) -> str:
        ran = subprocess.run(
            argv,
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert ran.returncode == code, ran.stdout
        return ran.stdout


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "PRE_COMMIT_HOME": str(tmp_path / "pre-commit"), "GIT_CONFIG_GLOBAL": os.devnull}


def test_a_commit_is_stopped_where_something_is_wrong(tmp_path: Path, environment: dict[str, str]) -> None:
    """Stopped by what is wrong, let through when that is mended, and stopped by what goes away."""
    pre_commit = str(other_tools.real("pre-commit"))
    ours = Repository(tmp_path / "holdfast", environment)
    for name in NEEDED:
        copy = shutil.copytree if (TREE / name).is_dir() else shutil.copy
        copy(TREE / name, ours.folder / name)
    ours.git("add", "--all")
    ours.git("commit", "-q", "-m", "all")
    ours.run(pre_commit, "validate-manifest", ".pre-commit-hooks.yaml")

    user = Repository(tmp_path / "user", environment)
    revision = ours.git("rev-parse", "HEAD").strip()
    hook = f"repos:\n- repo: {ours.folder}\n  rev: {revision}\n  hooks:\n  - id: holdfast-check\n"
    user.write(".pre-commit-config.yaml", hook)
    user.write("holdfast.yaml", CONFIG)
    user.write("module/variables.tf", 'variable "x" {\n  type = string\n}\n')
    user.write("module/main.tf", 'output "x" {\n  value = "x"\n}\n')
    user.write("a.tfvars", 'x = "a"\ny = "typo"\n')
    user.run(pre_commit, "install")

    stopped = user.git("commit", "-m", "wrong", code=1)
    assert "exit code: 3" in stopped
    assert "HF703" in stopped
    assert "Traceback" not in stopped

    user.write("a.tfvars", 'x = "a"\n')
    assert "Passed" in user.git("commit", "-m", "right")
    assert not user.git("status", "--porcelain")

    user.git("rm", "-q", "module/variables.tf")
    assert "HF703" in user.git("commit", "-m", "gone", code=1)
