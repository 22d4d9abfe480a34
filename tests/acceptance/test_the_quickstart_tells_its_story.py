"""`make quickstart` is the first thing that a new user runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_step_of_the_quickstart_ends_as_it_says(quiet_path: str) -> None:
    """Without terraform on PATH, with no configuration of the user's, and with nothing left behind."""
    ran = subprocess.run(
        [sys.executable, str(ROOT / "tools/quickstart.py")],
        cwd=ROOT,
        env={"PATH": quiet_path, "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "✗ HF207" in ran.stdout
    assert "its outcome is unknown" in ran.stdout
    assert ran.stdout.count(" succeeded ") == 14
    assert "'changed in the console'" in ran.stdout
