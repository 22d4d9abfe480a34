"""The journal of a run: Terraform's output, on disk before it goes anywhere else.

A file of frames, each encrypted on its own and bound to its store, run and position. It is append-only, and a
crash can cut it anywhere: the frames before the cut are valid, the rest is unknown. Each frame is signed
together with all frames before it, so that the signature of the last one proves the whole.

The supervisor of Terraform writes it, so the imports are few.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from holdfast.kernel.secret import masked_repr
from holdfast.secrets.encryption import apply_key_needed, wrong_key
from holdfast.secrets.keys import derive
from holdfast.secrets.signing import SIGNATURE_SIZE, BadSignature
from holdfast.store.blob_cipher import BlobCipher, unverified

_MAGIC = b"HFJRNL2\n"
_KEY_ID = 8
_SALT = 16
_PROOF_LENGTH = 2
_NONCE = 12
_HEAD = len(_MAGIC) + _KEY_ID + _SALT + _PROOF_LENGTH
"""The proof of the signer's grant follows."""
_LENGTH = 4

STARTED = b"S"
LINES = b"L"
ENDED = b"E"


class FrameEncoder:
    """Makes the bytes of a journal: its head, then its frames."""

    def __init__(self, cipher: BlobCipher, run: str) -> None:
        cipher = cipher.of_journal(run)
        if cipher.signer is None:
            raise apply_key_needed("writing a journal")
        salt = os.urandom(_SALT)
        self._signer = cipher.signer
        self._aead = _aead(cipher, run, salt)
        self._store = cipher.store
        self._run = run
        self._count = 0
        proof = self._signer.proof
        length = len(proof).to_bytes(_PROOF_LENGTH, "big")
        self._head = b"".join((_MAGIC, bytes.fromhex(cipher.key_id), salt, length, proof))
        self._chain = _start(self._head)

    def frame(self, kind: bytes, data: bytes) -> bytes:
        """With the head in front of the first one."""
        nonce = os.urandom(_NONCE)
        self._chain = _link(self._chain, kind + data)
        signature = self._signer.signature(_name(self._run), self._chain)
        context = _context(self._store, self._run, self._count)
        body = nonce + self._aead.encrypt(nonce, signature + kind + data, context)
        frame = len(body).to_bytes(_LENGTH, "big") + body
        self._count += 1
        return frame if self._count > 1 else self._head + frame


class JournalWriter:
    """Every `append` is on disk when it returns. `on_write` gets the bytes, to ship them elsewhere.

    The file gets its name with the first frame, unless the name exists: whoever creates it first
    (`RunRecords.prevent_start`) decides whether this run starts. A failed write is the last one.
    """

    def __init__(
        self, path: str, cipher: BlobCipher, run: str, *, on_write: Callable[[bytes], None] | None = None
    ) -> None:
        self._frames = FrameEncoder(cipher, run)
        self._on_write = on_write
        self._path = path
        folder, name = os.path.split(path)
        # Blob stores ignore names that start with a dot.
        self._temporary: str | None = os.path.join(folder, f".{name}.{os.urandom(4).hex()}")  # noqa: PTH118 - as below
        self._broken: str | None = None
        self._file = os.open(
            self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
        )

    def append(self, kind: bytes, data: bytes) -> None:
        if self._broken is not None:
            # Frames after a partial one could never be read.
            raise OSError(errno.EIO, f"an earlier write failed: {self._broken}", self._path)
        try:
            self._write(self._frames.frame(kind, data))
        except BaseException as error:
            self._broken = str(error)
            raise

    def _write(self, data: bytes) -> None:
        """A partial write is an error; readers never take it for a frame."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        os.fdatasync(self._file) if hasattr(os, "fdatasync") else os.fsync(self._file)
        if self._temporary is not None:
            self._rename(self._temporary)
        if self._on_write is not None:
            self._on_write(data)

    def _rename(self, temporary: str) -> None:
        os.link(temporary, self._path)
        os.unlink(temporary)  # noqa: PTH108 - pathlib is not imported here
        self._temporary = None
        folder = os.open(os.path.dirname(self._path) or ".", os.O_RDONLY)  # noqa: PTH120 - as above
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        os.close(self._file)
        if self._temporary is not None:
            os.unlink(self._temporary)  # noqa: PTH108 - as above


class Journal(NamedTuple):
    """The readable part of a journal."""

    started: dict[str, object] | None
    """The supervisor. None: Terraform was never started."""
    lines: tuple[bytes, ...]
    ended: dict[str, object] | None
    """The exit record. None: the supervisor did not see Terraform exit."""
    whole: bool
    """Whether nothing was cut off or damaged."""

    def __repr__(self) -> str:
        return masked_repr(self)


EMPTY = Journal(started=None, lines=(), ended=None, whole=True)


def encode_journal(cipher: BlobCipher, run: str, journal: Journal) -> bytes:
    """The bytes of a journal that says the same, for another key."""
    frames = FrameEncoder(cipher, run)
    parts = []
    if journal.started is not None:
        parts.append(frames.frame(STARTED, json.dumps(journal.started).encode()))
    parts.append(frames.frame(LINES, b"\n".join(journal.lines)))
    if journal.ended is not None:
        parts.append(frames.frame(ENDED, json.dumps(journal.ended).encode()))
    # Half a frame: this one was cut too.
    return b"".join((*parts, b"" if journal.whole else b"\0"))


def key_of_journal(content: bytes) -> str | None:
    """The id of its key; None for one without a head."""
    if len(content) < _HEAD or not content.startswith(_MAGIC):
        return None
    return content[len(_MAGIC) :][:_KEY_ID].hex()


def read_journal(cipher: BlobCipher, run: str, content: bytes) -> Journal:
    """Everything before the cut. Another key or signer is an error, never an empty journal."""
    if not content:
        return EMPTY
    head_size = _HEAD + int.from_bytes(content[_HEAD - _PROOF_LENGTH : _HEAD], "big")
    if len(content) < head_size or not content.startswith(_MAGIC):
        return Journal(started=None, lines=(), ended=None, whole=False)
    cipher = cipher.of_journal(run)
    key_id = key_of_journal(content)
    if key_id is not None and key_id != cipher.key_id:
        raise wrong_key(f"the journal of run {run}", key_id, cipher.key_id)
    head = content[:head_size]
    aead = _aead(cipher, run, head[len(_MAGIC) + _KEY_ID :][:_SALT])
    started: dict[str, object] | None = None
    ended: dict[str, object] | None = None
    lines: list[bytes] = []
    whole = True
    chain, signature = _start(head), b""
    for number, body in enumerate(_bodies(content, head_size)):
        plain = _decrypt(aead, body, _context(cipher.store, run, number))
        if plain is None:
            whole = False
            break
        signature, frame = plain[:SIGNATURE_SIZE], plain[SIGNATURE_SIZE:]
        chain = _link(chain, frame)
        kind, data = frame[:1], frame[1:]
        if kind == STARTED:
            started = json.loads(data)
        elif kind == ENDED:
            ended = json.loads(data)
        else:
            lines += data.split(b"\n")
    if signature:
        try:
            cipher.verifier.verify(_name(run), chain, proof=head[_HEAD:], signature=signature)
        except BadSignature:
            raise unverified(f"the journal of run {run}") from None
    return Journal(started=started, lines=tuple(line for line in lines if line), ended=ended, whole=whole)


def _decrypt(aead: AESGCM, body: bytes | None, context: bytes) -> bytes | None:
    try:
        return aead.decrypt(body[:_NONCE], body[_NONCE:], context) if body else None
    except (InvalidTag, ValueError):
        return None


def _bodies(content: bytes, at: int) -> Iterator[bytes | None]:
    """The body of each frame; None for a partial one."""
    while at < len(content):
        size = int.from_bytes(content[at : at + _LENGTH], "big")
        body = content[at + _LENGTH : at + _LENGTH + size]
        yield body if size > _NONCE and len(body) == size else None
        at += _LENGTH + size


def _aead(cipher: BlobCipher, run: str, salt: bytes) -> AESGCM:
    return AESGCM(derive(cipher.scope_key(f"runs/{run}").secret, purpose=b"journal", salt=salt))


def _name(run: str) -> str:
    """What the signatures are for."""
    return f"runs/{run}/journal"


def _start(head: bytes) -> bytes:
    return hashlib.sha256(head).digest()


def _link(chain: bytes, frame: bytes) -> bytes:
    return hashlib.sha256(chain + frame).digest()


def _context(store: str, run: str, number: int) -> bytes:
    return f"journal\0{store}\0{run}\0{number}".encode()
