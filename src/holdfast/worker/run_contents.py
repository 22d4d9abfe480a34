"""What a worker stores beside rows, encrypted: saved plans and results; findings and reports of changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.notify.report import ChangeReport
from holdfast.plans import saved_plan
from holdfast.plans.saved_plan import SavedPlan
from holdfast.secrets.keys import Key
from holdfast.store.blobs import EncryptedBlobs
from holdfast.store.server_runs.contents import (
    checks_name,
    plan_name,
    read_checks,
    report_name,
    result_name,
)
from holdfast.system import files


class RunContents:
    def __init__(self, blobs: EncryptedBlobs) -> None:
        self.blobs = blobs

    def save_plan(self, run: str, folder: Path) -> None:
        """The files of a saved plan, which are sealed."""
        content = {file.name: file.read_bytes() for file in folder.iterdir()}
        self.blobs.write(plan_name(run), msgspec.msgpack.encode(content))

    def read_plan(self, run: str, digest: str | None, folder: Path, key: Key) -> SavedPlan | None:
        """None also if it is not the plan of the run's row: a worker that lost the run may write late."""
        blob = self.blobs.read(plan_name(run))
        if blob is None:
            return None
        files.private_folder(folder)
        for name, content in msgspec.msgpack.decode(blob.data, type=dict[str, bytes]).items():
            files.write(folder / Path(name).name, content, durable=False)
        plan = saved_plan.read(folder, key)
        return plan if plan.digest == digest else None

    def remove_plan(self, run: str) -> None:
        self.blobs.remove(plan_name(run))

    def save_result(self, run: str, document: Mapping[str, object]) -> None:
        self.blobs.write(result_name(run), msgspec.json.encode(document))

    def read_checks(self, change: str) -> dict[str, Any] | None:
        return read_checks(self.blobs, change)

    def save_checks(self, change: str, document: Mapping[str, object]) -> None:
        self.blobs.write(checks_name(change), msgspec.json.encode(document))

    def read_report(self, change: str) -> ChangeReport | None:
        blob = self.blobs.read(report_name(change))
        return msgspec.json.decode(blob.data, type=ChangeReport) if blob is not None else None

    def save_report(self, change: str, report: ChangeReport) -> None:
        self.blobs.write(report_name(change), msgspec.json.encode(report))
