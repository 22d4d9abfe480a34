"""A bundle with every file it can have, written without Terraform."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

from holdfast.plans import saved_plan as bundles
from holdfast.plans.saved_plan import DigestParts, SavedPlan, StateIdentity, sha256
from holdfast.secrets.keys import Key
from holdfast.system import clock
from holdfast.terraform.argv import PlanOptions, VariableOption

KEY = Key.of(bytes(range(32)))
CHANGE = "01JD7Q0000000000000000CHAN"
OTHER_KEY = Key.of(bytes(range(1, 33)))


def bundle(
    stack: str, *, run: str = "run-1", plan: bytes = b"the plan file", whole: bool = True
) -> SavedPlan:
    parts = DigestParts(
        plan=sha256(plan), lineage="l", serial=7, lock=sha256(b"lock"), inputs="i", made="m", policy="p"
    )
    return SavedPlan(
        stack=stack,
        run=run,
        change=CHANGE,
        digest=parts.digest(),
        parts=parts,
        store="store-1",
        engine={"product": "terraform", "version": "1.15.5"},
        module="module",
        place="kept",
        workspace="default",
        dependencies={"network": StateIdentity(lineage="n", serial=3)},
        plans={},
        selection=(stack,),
        created="2026-01-01T00:00:00+00:00",
        environment="dev",
        production=False,
        changes=True,
        ephemeral=False,
        destroy=False,
        targeted=False,
        options=PlanOptions(targets=("a.b",), variables=(VariableOption("size", "3"),)),
        plan=plan,
        lock=b"lock" if whole else None,
        made=b"an archive" if whole else None,
    )


def written(out: Path, *made: SavedPlan, key: Key = KEY) -> Path:
    """What `plan --out` leaves behind for these."""
    bundles.prepare_folder(out)
    for one in made:
        bundles.write(out, one, {"stack": one.stack, "digest": one.digest}, key)
    bundles.write_change(
        out,
        clock.new_id(),
        statuses={one.stack: "planned" for one in made},
        digests={one.stack: one.digest for one in made},
        key=key,
    )
    return out


def plan_archive(files: dict[str, bytes], *, fields: bytes = b"", folder: str = ".") -> bytes:
    """A plan file as far as Holdfast reads it: `tfplan` with these fields, made from these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("tfplan", fields)
        archive.writestr("tfconfig/modules.json", json.dumps([{"Key": "", "Dir": folder}]))
        for name, content in files.items():
            archive.writestr(f"tfconfig/m-/{name}", content)
    return buffer.getvalue()
