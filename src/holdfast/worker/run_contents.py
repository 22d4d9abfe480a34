"""What is beside the rows of a change, encrypted: options, saved plans, results, findings and reports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.kernel.errors import Problem
from holdfast.notify.report import ChangeReport
from holdfast.plans import saved_plan
from holdfast.plans.result import StackResult, result_on_server
from holdfast.plans.saved_plan import SavedPlan
from holdfast.plans.status import Status
from holdfast.runs.document import error_document, result_document
from holdfast.secrets.keys import Key
from holdfast.secrets.redact import Redactor, clean_document
from holdfast.store.blobs import EncryptedBlobs
from holdfast.store.server_runs.contents import (
    ChangeOptions,
    RunEnd,
    RunLog,
    checks_name,
    plan_name,
    read_checks,
    read_options,
    report_name,
    result_name,
)
from holdfast.store.server_runs.phases import Operation, RunPhase
from holdfast.store.server_runs.rows import Change, Run
from holdfast.terraform.argv import PlanOptions, VariableOption

_BATCH_BYTES: Final = 4 << 20
_BATCH_RUNS: Final = 200


class RunContents:
    def __init__(self, blobs: EncryptedBlobs) -> None:
        self.blobs = blobs

    def decisions(self, change: Change) -> ChangeOptions:
        return read_options(self.blobs, change.id)

    def options(self, change: Change) -> PlanOptions:
        options = read_options(self.blobs, change.id)
        return PlanOptions(
            destroy=options.destroy or change.operation is Operation.DESTROY,
            targets=options.target,
            replace=options.replace,
            refresh_only=options.refresh_only,
            variables=tuple(
                VariableOption(name, value if isinstance(value, str) else json.dumps(value))
                for name, value in options.variables.items()
            ),
        )

    def save_plan(self, run: str, folder: Path) -> None:
        for name, content in plan_contents(run, folder).items():
            self.blobs.write(name, content)

    def read_plan(self, run: str, digest: str | None, folder: Path, key: Key) -> SavedPlan | None:
        """None also if it is not the plan of the run's row: a worker that lost the run may write late."""
        blob = self.blobs.read(plan_name(run))
        if blob is None:
            return None
        plan = saved_plan.read_packed(blob.data, folder, key)
        return plan if plan.digest == digest else None

    def remove_plan(self, run: str) -> None:
        self.blobs.remove(plan_name(run))

    def log_outcome(self, run: Run, status: Status, lines: Iterable[str]) -> None:
        """Of an apply that went on without its worker. `lines`: of its journal; new ones are added."""
        log = RunLog(self.blobs, run.id)
        known = {text for _, text in log.lines()}
        text = f"{run.stack}: the apply went on without its worker, and is {status} now"
        log.add(*(line for line in lines if line not in known), text)

    def save_error(self, run: str, error: Problem) -> None:
        """Of a run whose worker is gone, with the plan that it may have shown before; also in its log."""
        blob = self.blobs.read(result_name(run))
        shown = msgspec.json.decode(blob.data, type=dict[str, object]) if blob is not None else {}
        document = error_document(error)
        result = {**shown, "error": document, "errors": [document]}
        self.blobs.write(result_name(run), msgspec.json.encode(result))
        RunLog(self.blobs, run).add(f"{error.code} {error.message}", *([error.hint] if error.hint else []))

    def read_checks(self, change: str) -> dict[str, Any] | None:
        return read_checks(self.blobs, change)

    def save_checks(self, change: str, document: Mapping[str, object]) -> None:
        self.blobs.write(checks_name(change), msgspec.json.encode(document))

    def read_report(self, change: str) -> ChangeReport | None:
        blob = self.blobs.read(report_name(change))
        return msgspec.json.decode(blob.data, type=ChangeReport) if blob is not None else None

    def save_report(self, change: str, report: ChangeReport) -> None:
        self.blobs.write(report_name(change), msgspec.json.encode(report))


def plan_contents(run: str, folder: Path) -> dict[str, bytes]:
    """The files of a saved plan, which are sealed, by the name under which they are stored."""
    return {plan_name(run): saved_plan.pack(folder)}


def run_end(
    run: str,
    result: StackResult,
    redactor: Redactor,
    *,
    waits: bool,
    plan: Path | None,
    timings: Mapping[str, int] | None = None,
) -> RunEnd:
    """`plan`: the folder of its saved plan, if it has one. `timings`: of the phases, in milliseconds."""
    document = clean_document(redactor, result_document(result_on_server(result)))
    if timings is not None:
        document = {**document, "timings": dict(timings)}
    plans = plan_contents(run, plan) if plan is not None and plan.is_dir() else {}
    return RunEnd(
        run=run,
        phase=RunPhase.WAITING if waits else RunPhase.DONE,
        status=result.status.value,
        digest=result.digest,
        contents={result_name(run): msgspec.json.encode(document), **plans},
    )


def batches(ends: Iterable[RunEnd]) -> Iterator[list[RunEnd]]:
    """What is written in one transaction: not everything of a large change has to be in memory at once."""
    batch: list[RunEnd] = []
    size = 0
    for end in ends:
        batch.append(end)
        size += sum(map(len, end.contents.values()))
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_RUNS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
