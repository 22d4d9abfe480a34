"""Stacks of lab objects, and a look at the processes that run them."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path
from typing import Any

from program import Program, descendants, eventually

from provider.service import LabService


def lab_module(body: str, *, version: str = "1.0.0") -> str:
    head = f"""\
        terraform {{
          required_providers {{
            lab = {{ source = "holdfast.dev/labs/lab", version = "{version}" }}
          }}
        }}
        """
    return textwrap.dedent(head) + textwrap.dedent(body)


ONE_THEN_TWO = """
resource "lab_object" "one" {
  name = "one"
}

resource "lab_object" "two" {
  name = "two"
  body = lab_object.one.id
}
"""


def one_stack(program: Program, *, use: str, env: dict[str, str], body: str = ONE_THEN_TWO) -> None:
    """The stack `a`, run by the engine `use`."""
    program.write(
        "holdfast.yaml",
        json.dumps(
            {
                "version": 1,
                "environments": {"dev": {"match": ["dev"]}},
                "stacks": [{"name": "a", "module": "a", "environment": "dev", "env": env}],
                "engine": {"use": use},
            }
        ),
    )
    program.write("a/main.tf", lab_module(body))


def with_engine(program: Program, use: str, terraform_folder: Path) -> str:
    """Put the binary on PATH where it is asked for. Answers `use` itself."""
    if use == "binary":
        program.environment["PATH"] = f"{terraform_folder}:{program.environment['PATH']}"
    return use


def mark(program: Program) -> str:
    """A text that stands in the environment of every process that the program starts, and of no other."""
    return program.environment["HOME"]


def left_behind(program: Program) -> list[int]:
    return descendants(mark(program))


def none_left(program: Program) -> None:
    """Nothing that was started is there any more. What was killed may take a moment to go."""
    eventually(lambda: not left_behind(program), what="every process ended", seconds=20)


def warm_processes(program: Program, text: str = "") -> list[int]:
    """Warm processes at work, whose environment holds a text: a provider or a provisioner is their child.

    Beside them there may be one that only looks at the format of the code.
    """
    found = []
    for pid in left_behind(program):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            children = [one.read_text() for one in Path(f"/proc/{pid}/task").glob("*/children")]
        except OSError:
            continue
        if b"supervisor/main.py" in command and text.encode() in environment and any(children):
            found.append(pid)
    return found


def held(service: LabService, process: subprocess.Popen[str], operation: Any, count: int = 1) -> None:
    """Wait until the service holds a call, or say what the program said instead."""
    eventually(
        lambda: len(service.calls(operation)) >= count or process.poll() is not None,
        what=f"{count} {operation}",
    )
    if process.poll() is not None:
        raise AssertionError(f"it ended too early: {process.communicate()}")


def ended(process: subprocess.Popen[str], *, code: int, seconds: float = 60) -> tuple[dict[str, Any], str]:
    """The stacks of its document by name, and what it said beside that."""
    out, err = process.communicate(timeout=seconds)
    assert "Traceback" not in err, err
    assert process.returncode == code, f"exit {process.returncode}, expected {code}\n{out}\n{err}"
    return {one["name"]: one for one in json.loads(out)["stacks"]}, err


def kept_state(program: Program, stack: str) -> dict[str, Any]:
    """The state that Holdfast keeps for a stack, or an empty one where there is none yet."""
    content = program.ok("state", "pull", stack).out
    state: dict[str, Any] = json.loads(content or '{"resources": []}')
    return state


def in_state(program: Program, stack: str) -> set[str]:
    return {one["name"] for one in kept_state(program, stack)["resources"] if one["instances"]}
