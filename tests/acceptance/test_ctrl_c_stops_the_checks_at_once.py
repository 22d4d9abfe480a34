"""Ctrl-C and SIGTERM while rules and tools are at work: the command ends at once, with all it started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from lab_stacks import none_left
from program import Program, eventually

SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
FOREVER = 100_000 + os.getpid() % 10_000
"""Seconds, and the mark of the processes of this test."""
CONFIG = (
    "version: 1\nenvironments: { dev: { match: [dev] } }\n"
    "stacks: [{ name: a, module: ., environment: dev }]\n"
)


def write_long_work(program: Program) -> None:
    """Documents with thousands of statements, which Terraform evaluates quickly and no rule does."""
    chain = "".join(f"  l{n} = concat(local.l{n - 1}, local.l{n - 1})\n" for n in range(1, 11))
    documents = "".join(f"  d{n} = {{ Statement = local.l10 }}\n" for n in range(400))
    statement = '{ Effect = "Allow", Action = "s3:Get*", Resource = "arn:aws:s3:::b/*" }'
    program.write("main.tf", f"locals {{\n  l0 = [{statement}]\n{chain}{documents}}}\n")
    program.write("holdfast.yaml", CONFIG)


def works(process: subprocess.Popen[str], seconds: float) -> bool:
    """Whether it has worked for so long, as the system counts: it is past its start then."""
    assert process.poll() is None, process.communicate()
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK") > seconds


def sleeping() -> list[str]:
    """The children of our tool."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [entry.parent.name] if entry.read_bytes() == f"sleep\0{FOREVER}\0".encode() else []
    return found


def end(process: subprocess.Popen[str], number: signal.Signals, *, within: float = 5) -> tuple[str, str]:
    """Its output after the signal. On an idle machine it takes a tenth of a second."""
    process.send_signal(number)
    started = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - started < within
    assert process.returncode == 1
    assert "Traceback" not in out + err
    return out, err


@SIGNALS
def test_check_stops_in_the_middle_of_a_rule(holdfast: Program, number: signal.Signals) -> None:
    """The document says so, with the code of everything that a user stopped."""
    write_long_work(holdfast)
    process = holdfast.start("check", "--json")
    eventually(lambda: works(process, 1), what="the rules are at work")
    out, _ = end(process, number)
    error = json.loads(out)["errors"][0]
    assert (error["code"], error["message"]) == ("HF-RUN-2", "cancelled")


def test_check_stops_a_tool_with_its_children(holdfast: Program, tmp_path: Path) -> None:
    """The tool has a session of its own, which a terminal does not reach."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "checkov").write_text(f"#!/bin/sh\nsleep {FOREVER} &\nwait\n")
    (tools / "checkov").chmod(0o755)
    holdfast.write("main.tf", 'resource "terraform_data" "a" {}\n')
    holdfast.write("holdfast.yaml", f"{CONFIG}checks: {{ tools: {{ checkov: on }} }}\n")
    path = f"{tools}{os.pathsep}{holdfast.environment['PATH']}"
    process = holdfast.start("check", env={"PATH": path})
    eventually(lambda: bool(sleeping()), what="the tool is at work")
    _, err = end(process, signal.SIGTERM)
    assert "cancelled" in err
    eventually(lambda: not sleeping(), what="the child of the tool ended")
    none_left(holdfast)


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)],
    ids=["ctrl-c", "sigterm"],
)
def test_the_checks_of_a_plan_stop(holdfast: Program, number: signal.Signals) -> None:
    """They run beside Terraform, in a thread that no signal reaches: the stack is cancelled, not fine."""
    write_long_work(holdfast)
    holdfast.write("holdfast.yaml", f"{CONFIG}guard: {{ findings: deny }}\n")
    process = holdfast.start("plan", "--json")
    eventually(lambda: works(process, 2), what="the checks are at work")
    out, _ = end(process, number, within=10)
    stack = json.loads(out)["stacks"][0]
    assert (stack["status"], stack["error"]["code"]) == ("cancelled", "HF-RUN-2")
    none_left(holdfast)
