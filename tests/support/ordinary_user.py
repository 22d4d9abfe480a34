"""Programs as a user without privileges, for tests that run as root."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest
from program import ROOT

NOBODY = 65534


def python_for_everyone() -> tuple[str, str]:
    """A Python that any user may start, of this version, and where its packages are."""
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    for candidate in (os.path.realpath(sys.executable), f"/usr/bin/python3.{sys.version_info.minor}"):
        argv = [candidate, "-c", "import msgspec"]
        with contextlib.suppress(OSError):
            env = {"PYTHONPATH": packages}
            if (
                subprocess.run(
                    argv, user=NOBODY, group=NOBODY, env=env, capture_output=True, check=False
                ).returncode
                == 0
            ):
                return candidate, f"{ROOT / 'src'}:{packages}"
    pytest.skip("other users cannot start this Python")
