"""A malicious plan job: it has the plan key, may write any file of the run store, and can read the code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from holdfast.plans import saved_plan
from holdfast.plans.saved_plan import SavedPlan
from holdfast.secrets.encryption import encrypt
from holdfast.secrets.keys import Key, plan_key_from
from holdfast.secrets.signing import Signer, unsigned
from holdfast.store.approvals import Approvals
from holdfast.store.blob_cipher import BlobCipher, scope_of
from holdfast.store.blobs import EncryptedBlobs
from holdfast.store.place import FolderBlobs


def forged_blob(cipher: BlobCipher, name: str, data: bytes, *, own_signature: bool = False) -> bytes:
    """Encrypted as the program does it, and not signed by the apply key."""
    signed = Signer(cipher.store, bytes(32)).sign(name, data) if own_signature else unsigned(data)
    return encrypt(cipher.scope_key(scope_of(name)), signed, context=f"store\0{cipher.store}\0{name}")


class PlanJob:
    def __init__(self, store: Path, plan_key: str) -> None:
        self.key = plan_key_from(plan_key)
        self.store = store
        self.id = json.loads((store / "store.json").read_text())["id"]
        self.cipher = BlobCipher.of(self.id, self.key)
        self.encrypted = EncryptedBlobs(FolderBlobs(store), lambda: self.cipher)

    def forge(self, name: str, data: bytes | Mapping[str, object], *, own_signature: bool = False) -> Path:
        """Write a blob that the program itself would not let it write."""
        content = data if isinstance(data, bytes) else json.dumps(data).encode()
        path = self.store / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(forged_blob(self.cipher, name, content, own_signature=own_signature))
        return path

    def read(self, name: str) -> bytes:
        blob = self.encrypted.read(name)
        assert blob is not None
        return blob.data

    def save(self, out: Path, plan: SavedPlan, *, record: bool = True) -> None:
        """A bundle with whatever it wants to say about the plan."""
        shutil.rmtree(out, ignore_errors=True)
        saved_plan.prepare_folder(out)
        plan = structs.replace(plan, digest=plan.parts.digest())
        saved_plan.write(out, plan, {"stack": plan.stack, "digest": plan.digest}, self.key)
        saved_plan.write_change(
            *(out, plan.change),
            statuses={plan.stack: "planned"},
            digests={plan.stack: plan.digest},
            key=self.key,
        )
        if record:
            Approvals(self.encrypted).record_author(plan.digest, {}, stack=plan.stack, run=plan.run)


def opened(out: Path, key: Key) -> SavedPlan:
    """What the job knew when it wrote the bundle: it cannot open it, but it planned it."""
    (plan,) = saved_plan.load(out, key)
    return plan
