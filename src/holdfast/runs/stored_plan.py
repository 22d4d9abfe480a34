"""The plan of a run, without secrets, in the run store: `holdfast runs show RUN --plan` shows it later."""

from __future__ import annotations

import zlib

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import Failed, UsageError
from holdfast.runs.run import Run
from holdfast.secrets.redact import TERRAFORM, Redactor, clean_document
from holdfast.store.blob_cipher import PLAN
from holdfast.store.run_store import RunStore
from holdfast.terraform.plan.masked_plan import MaskedPlan, masked_plan
from holdfast.terraform.plan.model import Plan, read_plan
from holdfast.terraform.plan.value_text import encode, read_json

_MOST = 2_000_000
"""Bytes, before compression."""


class _Document(Struct, frozen=True, kw_only=True):
    version: int
    plan: msgspec.Raw
    left_out: int


def write_plan(
    store: RunStore, run: str, plan: Plan | None, redactor: Redactor, *, durable: bool = False
) -> None:
    """Nothing is stored for a plan without changes."""
    if plan is None or not plan.has_changes:
        return
    masked = masked_plan(plan, redactor.clean_field, _MOST)
    document = clean_document(redactor, read_json(msgspec.json.encode(masked.plan)), TERRAFORM)
    stored = _Document(version=1, plan=msgspec.Raw(encode(document)), left_out=masked.left_out)
    store.runs.write(run, PLAN, zlib.compress(msgspec.json.encode(stored)), durable=durable)


def read_stored_plan(store: RunStore, run: Run) -> MaskedPlan:
    """Of an apply, only one that the apply key signed counts."""
    blob = store.runs.read_blob(run.id, PLAN)
    if blob is None:
        raise UsageError(
            "HF-RUN-22",
            f"the run store has no plan of run {run.id}",
            hint="Only plans with changes are stored. Plan the stack again to see its changes now:"
            f" holdfast plan {run.stack or 'STACK'} --full",
        )
    if run.operation != "plan" and not blob.signed:
        raise Failed(
            "HF-RUN-23",
            f"the stored plan of run {run.id} is not signed by the apply key, so it does not count",
            hint="Find out which job wrote it: only the apply itself may.",
        )
    document = msgspec.json.decode(zlib.decompress(blob.data), type=_Document)
    return MaskedPlan(plan=read_plan(bytes(document.plan)), left_out=document.left_out)
