"""`holdfast completion`: the scripts in real shells, where these are installed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from program import Program
from small import stacks

BASH = """
eval "$(holdfast completion bash)"
COMP_WORDS=(holdfast {words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_holdfast_completion holdfast
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
compdef() {{ :; }}
eval "$(holdfast completion zsh)"
compadd() {{ print -l -- "${{completions[@]}}"; }}
_describe() {{ print -l -- "${{completions_with_descriptions[@]%%:*}}"; }}
words=(holdfast {words}); CURRENT=${{#words}}
_holdfast_completion
"""
FISH = """
holdfast completion fish | source
complete -C"holdfast {words}" | string split -f1 \\t
"""
QUIET = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}


@pytest.mark.parametrize(("shell", "script"), [("bash", BASH), ("zsh", ZSH), ("fish", FISH)])
def test_commands_and_stacks(holdfast: Program, tmp_path: Path, shell: str, script: str) -> None:
    """Commands, options and names of stacks; nothing at all where there is no repository."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    stacks(holdfast, "alpha", "alpine", "beta")
    program = tmp_path / "bin/holdfast"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    environment = {**holdfast.environment, "PATH": f"{program.parent}:{os.environ['PATH']}"}

    def completed(words: str, folder: Path = holdfast.folder) -> list[str]:
        done = subprocess.run(
            [shell, *QUIET[shell], "-c", script.format(words=words)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.stdout.split()

    assert completed("grap") == ["graph"]
    assert completed("plan al") == ["alpha", "alpine"]
    assert completed("state list be") == ["beta"]
    assert completed("plan alpha --detailed") == ["--detailed-exitcode"]
    assert completed("plan al", tmp_path) == []
