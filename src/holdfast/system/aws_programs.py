"""Runs a small AWS program with the caller's variables, in a process of its own.

Every way to get AWS credentials reads the environment and the files of its process, some of them repeatedly.
This process may belong to a stack's environment instead of the caller's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from holdfast.system import processes


def run_program(
    program: Path,
    variables: Mapping[str, str],
    *,
    folder: Path,
    seconds: float,
    extra: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
) -> processes.Finished:
    """`program` gets the import paths as its argument and prints JSON."""
    environment = {name: value for name, value in variables.items() if value} | dict(extra or {})
    if region := environment.get("AWS_REGION"):
        # botocore reads only the older name.
        environment["AWS_DEFAULT_REGION"] = region
    return processes.run(
        (sys.executable, "-I", "-S", str(program), os.pathsep.join(filter(None, sys.path))),
        folder=folder,
        environment=environment,
        seconds=seconds,
        stdin=stdin,
        # It runs no code of a change, and may need a credential program of the user that confinement breaks.
        confined=False,
    )
