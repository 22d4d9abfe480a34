"""Where kills are played, and the table of how they came out (`make test-faults`)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults_table import Row, table
from server_faults_table import server_table


@pytest.fixture
def scratch(workplace: Path) -> Iterator[Path]:
    """The program's own folder for temporary files, to be searched afterwards; short, for sockets."""
    folder = Path(tempfile.mkdtemp(dir=workplace, prefix="t"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Only where somebody asked for many; a word for each violation says how to see it again."""
    _server_summary(terminalreporter)
    for report in terminalreporter.stats.get("passed", ()):
        if os.environ.get("FLEET_FAULTS") and (lines := dict(report.user_properties).get("events")):
            terminalreporter.section("kills while events of devices are run")
            for line in lines:
                terminalreporter.write_line(line)
    if not (os.environ.get("FAULTS") or os.environ.get("SCENARIO")):
        return
    rows = [
        row
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, ())
        if (row := _row(report, failed=outcome == "failed")) is not None
    ]
    if not rows:
        return
    terminalreporter.section("kills")
    for line in table(rows):
        terminalreporter.write_line(line)
    for row in rows:
        if row.violation is not None:
            terminalreporter.write_line(f"{row.violation}\n  again: make test-faults SCENARIO={row.scenario}")
    if seed := os.environ.get("SEED"):
        engines = f' ENGINES="{names}"' if (names := os.environ.get("ENGINES")) else ""
        terminalreporter.write_line(
            f"all of it again: make test-faults SEED={seed} FAULTS={len(rows)}{engines}"
        )


def _server_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not int(os.environ.get("SERVER_FAULTS") or 0):
        return
    told = [
        {**dict(report.user_properties), "failed": outcome == "failed"}
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, ())
        if report.when == "call" and "server" in dict(report.user_properties)
    ]
    failed = [one for one in told if one["failed"]]
    if told:
        terminalreporter.section("kills of runs on the server")
    for line in server_table([one["server"] for one in told], len(failed)) if told else ():
        terminalreporter.write_line(line)
    for one in failed:
        seed = str(one["scenario"]).rpartition("-")[2]
        again = f"again: make test-faults FAULTS=0 SERVER_FAULTS=1 FLEET_FAULTS=0 SEED={seed}"
        terminalreporter.write_line(f"{one.get('violation', 'it failed')}\n  {again}")


def _row(report: pytest.TestReport, *, failed: bool) -> Row | None:
    told = dict(report.user_properties)
    if "scenario" not in told or "server" in told or (report.when != "call" and not failed):
        return None
    return Row(
        scenario=str(told["scenario"]),
        killed=bool(told.get("killed")),
        reconciled=bool(told.get("reconciled")),
        violation=str(told.get("violation", report.longreprtext.splitlines()[-1])) if failed else None,
    )
