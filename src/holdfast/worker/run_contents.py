"""What a worker stores of a run beside its row: its saved plan and its result, encrypted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.plans import saved_plan
from holdfast.plans.saved_plan import SavedPlan
from holdfast.secrets.keys import Key
from holdfast.store.blobs import EncryptedBlobs
from holdfast.store.server_runs.contents import plan_name, result_name
from holdfast.system import files


class RunContents:
    def __init__(self, blobs: EncryptedBlobs) -> None:
        self.blobs = blobs

    def save_plan(self, run: str, folder: Path) -> None:
        """The files of a saved plan, which are sealed."""
        content = {file.name: file.read_bytes() for file in folder.iterdir()}
        self.blobs.write(plan_name(run), msgspec.msgpack.encode(content))

    def read_plan(self, run: str, folder: Path, key: Key) -> SavedPlan | None:
        blob = self.blobs.read(plan_name(run))
        if blob is None:
            return None
        files.private_folder(folder)
        for name, content in msgspec.msgpack.decode(blob.data, type=dict[str, bytes]).items():
            files.write(folder / Path(name).name, content, durable=False)
        return saved_plan.read(folder, key)

    def remove_plan(self, run: str) -> None:
        self.blobs.remove(plan_name(run))

    def save_result(self, run: str, document: Mapping[str, object]) -> None:
        self.blobs.write(result_name(run), msgspec.json.encode(document))
