"""Small repositories whose stacks need no provider, and ways to start the program that few tests need."""

from __future__ import annotations

import ctypes
import os
import pty
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence

from program import Program

MODULE = """
variable "x" {
  default = "1"
}
resource "terraform_data" "it" {
  input = var.x
}
output "x" {
  value = terraform_data.it.output
}
"""


def stacks(program: Program, *names: str, environment: str = "dev", more: str = "") -> None:
    """One module, one variables file for each name, one kind of environment."""
    program.write(
        "holdfast.yaml",
        f"""
        version: 1
        environments: {{ dev: {{ match: [dev] }} }}
        stacks:
          - variables: vars/{{name}}.tfvars
            module: module
            name: "{{name}}"
            environment: {environment}
        """,
    )
    if more:
        with (program.folder / "holdfast.yaml").open("a") as file:
            file.write(more)
    program.write("module/main.tf", MODULE)
    for name in names:
        program.write(f"vars/{name}.tfvars", f'x = "{name}"\n')


def on_a_terminal(
    program: Program,
    arguments: Sequence[str],
    *,
    answers: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> tuple[int, str, list[str]]:
    """Run with a terminal. Each answer is typed when a question stands on the screen.

    Gives the exit code, all that was shown, and what stood on the screen at each question.
    """
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover - the program takes this process over
        try:
            os.chdir(program.folder)
            environment = {**program.environment, "TERM": "xterm", **(env or {})}
            os.execve(sys.executable, [sys.executable, "-m", "holdfast", *arguments], environment)  # noqa: S606 - a terminal needs a fork of our own
        finally:
            os._exit(127)
    shown, asked, left = b"", [], list(answers)
    seen = 0
    end = time.monotonic() + 120
    while time.monotonic() < end:
        ready, _, _ = select.select([terminal], [], [], 1)
        if not ready:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
        if b"[y/N]" in shown[seen:] and left:
            asked.append(shown.decode(errors="replace"))
            seen = len(shown)
            os.write(terminal, left.pop(0).encode() + b"\n")
    else:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.decode(errors="replace"), asked


_DROP_BOUND_CAPABILITY = 24
_MAY_READ_ALL = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def obey_permissions() -> None:
    """Called in a child before it starts a program: then root, too, may read only what modes allow."""
    library = ctypes.CDLL(None)
    for capability in _MAY_READ_ALL:
        library.prctl(_DROP_BOUND_CAPABILITY, capability, 0, 0, 0)
