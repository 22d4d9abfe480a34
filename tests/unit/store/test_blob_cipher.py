"""Who can write what in a run store, and what is believed when it is read."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from ciphers import CIPHER, KEY, STORE
from memory_blobs import MemoryBlobs
from plan_job import forged_blob

from holdfast.kernel.errors import UnknownOutcome, UsageError
from holdfast.secrets.encryption import Damaged
from holdfast.secrets.keys import Key
from holdfast.secrets.signing import BadSignature, Signer, Verifier
from holdfast.store.blob_cipher import BlobCipher, needs_signature
from holdfast.store.run_store import RunStore
from holdfast.supervisor.request import StateWriter, supervision_request

PLANNER = BlobCipher.of(STORE, KEY.without_private())
SIGNED = (
    "states/a/0000000001",
    "approvals/d/01J",
    "used/d",
    "records/a",
    "claims/a",
    "leases/lanes/x",
    "new/a",
)
FREE = ("audit/lines/000000000001", "authors/d", "planning/a/01J", "runs/r/outcome")


def run_cipher(*scopes: str) -> BlobCipher:
    """What a process that hosts Terraform has."""
    return BlobCipher.from_document(json.loads(json.dumps(CIPHER.grant(read=(), write=scopes))))


@pytest.mark.parametrize("name", SIGNED)
def test_a_plan_job_reads_everything_and_signs_nothing(name: str) -> None:
    """What counts only if signed is read with the plan key, and cannot be written with it."""
    assert needs_signature(name)
    assert PLANNER.decrypt(name, CIPHER.encrypt(name, b"x"), what=name) == (b"x", True)
    with pytest.raises(UsageError) as caught:
        PLANNER.encrypt(name, b"x")
    assert caught.value.problem.code == "HF-KEY-10"


@pytest.mark.parametrize("name", FREE)
def test_what_a_plan_job_must_write_is_known_to_be_unsigned(name: str) -> None:
    """The reader sees the difference."""
    assert not needs_signature(name)
    assert CIPHER.decrypt(name, PLANNER.encrypt(name, b"x"), what=name) == (b"x", False)
    assert PLANNER.decrypt(name, CIPHER.encrypt(name, b"x"), what=name) == (b"x", True)


def test_a_blob_belongs_to_its_store_and_name() -> None:
    """The same key does not open it in another store, nor under another name of the same scope."""
    encrypted = CIPHER.encrypt("states/a/0000000001", b"x")
    for store, name in ((f"{STORE}2", "states/a/0000000001"), (STORE, "states/a/0000000002")):
        with pytest.raises(Damaged):
            BlobCipher.of(store, KEY).decrypt(name, encrypted, what=name)


def test_a_run_writes_its_own_scopes_and_no_others() -> None:
    """Its signature counts for its state and its run; it has no keys for anything else."""
    run = run_cipher("states/a", "runs/r1")
    for name in ("states/a/0000000002", "runs/r1/heartbeat"):
        assert CIPHER.decrypt(name, run.encrypt(name, b"x"), what=name) == (b"x", True)
    for name in ("states/ab/0000000001", "states/b/0000000001", "runs/r2/heartbeat", "approvals/d/01J"):
        with pytest.raises(UsageError):
            run.encrypt(name, b"x")
    signer = run.signer
    assert signer is not None
    with pytest.raises(BadSignature):
        CIPHER.verifier.open("approvals/d/01J", signer.sign("approvals/d/01J", b"x"))
    with pytest.raises(ValueError, match="passed on"):
        signer.grant("approvals")


@pytest.mark.parametrize("at", [0, 20, 40, 70, 120, 160, -1])
def test_a_changed_grant_counts_for_nothing(at: int) -> None:
    """One byte of its key, scopes, proof, signature or data is another."""
    signer = run_cipher("states/a").signer
    assert signer is not None
    content = bytearray(signer.sign("states/a/1", b"data"))
    assert CIPHER.verifier.open("states/a/1", bytes(content)) == (b"data", True)
    content[at] ^= 3
    with pytest.raises(BadSignature):
        CIPHER.verifier.open("states/a/1", bytes(content))


def test_a_grant_of_another_store_or_key_counts_for_nothing() -> None:
    other = Key.of(b"o" * 32)
    assert other.private is not None
    for signer in (Signer("another", b"s" * 32), Signer(STORE, other.private.sign)):
        grant = signer.grant("states/a")
        forged = Signer(STORE, grant.secret, proof=grant.proof).sign("states/a/1", b"x")
        with pytest.raises(BadSignature):
            Verifier(STORE, KEY.public.sign).open("states/a/1", forged)


@pytest.mark.parametrize("content", [b"", b"\3x", b"\1", b"\1" + bytes(63), b"\2", b"\2" + bytes(200)])
def test_what_is_no_signature_is_refused(content: bytes) -> None:
    with pytest.raises(BadSignature):
        CIPHER.verifier.open("states/a/1", content)


def test_the_process_that_hosts_terraform_never_gets_the_keys_of_the_store() -> None:
    """It is sent neither the read key nor a private half, and can open nothing of another stack."""
    store = RunStore(MemoryBlobs(), lambda: KEY)
    store.blobs.description = lambda: {"kind": "memory"}  # type: ignore[attr-defined]
    writer = StateWriter(run="r1", why="apply", journal="r1")
    request = asyncio.run(supervision_request(store, "a", "ada", writer, managed=True))
    assert request is not None
    sent = json.dumps(request)
    private = KEY.private
    assert private is not None
    for secret in (KEY.read, b"k" * 32, private.seal, private.sign):
        assert base64.b64encode(secret).decode() not in sent
    theirs = BlobCipher.from_document(request["keys"])  # type: ignore[arg-type]
    for name in ("states/b/0000000001", "runs/r2/outcome", "approvals/d/01J", "audit/head"):
        encrypted = store.cipher.encrypt(name, b"x")
        with pytest.raises(UsageError):
            theirs.decrypt(name, encrypted, what=name)
    reading = asyncio.run(supervision_request(store, "a", "ada", None, managed=True))
    assert reading is not None
    assert BlobCipher.from_document(reading["keys"]).signer is None  # type: ignore[arg-type]


def test_an_unsigned_blob_is_an_error_and_never_absent() -> None:
    """Whatever reads it: exit 6, with what to do."""
    encrypted = forged_blob(PLANNER, "used/d", b"{}")
    with pytest.raises(UnknownOutcome) as caught:
        CIPHER.decrypt("used/d", encrypted, what="used/d")
    assert caught.value.problem.code == "HF-KEY-11"
    assert caught.value.problem.hint
