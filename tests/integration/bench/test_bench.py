"""The benchmark works, and claims nothing that it did not measure. Its figures are judged by people."""

from __future__ import annotations

import re
import subprocess
import sys

from program import ROOT


def bench(*arguments: str, path: str) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "bench.py", *arguments, "--rounds", "1"],
        env={"PATH": path, "HOME": "/nonexistent", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_figure_is_a_ratio_with_its_seconds(quiet_path: str) -> None:
    """One row, measured side by side."""
    said = bench("version", path=quiet_path)
    assert re.search(r"--version.*: \d+\.\d\d \(\d+\.\d\d s against \d+\.\d\d s; bar ≤ 5\)", said)


def test_what_is_not_on_the_machine_is_not_measured(quiet_path: str) -> None:
    """Without a terraform program and without a mirror there is nothing to compare with, and it says so."""
    said = bench("data", "providers", "second-plan", path=quiet_path)
    assert said.count("not measured") == 3
