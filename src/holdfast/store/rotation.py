"""Encrypts and signs everything in a run store again, with another key.

    announce    `store.json` names the next key: from now on every other command is refused
    begin       no run is active: a later one would see the announcement
    encrypt     each blob is replaced on its own, under the condition that it did not change
    finish      `store.json` names the new key, and the old one as retired

It may be interrupted anywhere and repeated: a blob that has the new key already is left alone. What cannot be
read with the old key stays as it is and is listed: it was not readable before either.

Once it is finished, a signature of the old key proves nothing: a repetition converts only what counts without
one, such as the record of a plan that ran meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import NamedTuple, TypeVar

from holdfast.kernel.errors import Busy, UnknownOutcome
from holdfast.secrets.encryption import MAGIC, Damaged, WrongKey, key_id_of
from holdfast.secrets.keys import Key
from holdfast.store.blob_cipher import BlobCipher, needs_signature
from holdfast.store.blobs import BlobStore, to_json
from holdfast.store.journal import encode_journal, key_of_journal, read_journal
from holdfast.store.place import FolderBlobs
from holdfast.store.run_records import journal_name
from holdfast.store.run_store import IDENTITY, StoreIdentity, read_identity
from holdfast.system import clock

_PARALLEL = 16
_JOURNAL = "/journal-"
_UNREADABLE = (Damaged, WrongKey, UnknownOutcome)
_T = TypeVar("_T")


class Rotated(NamedTuple):
    replaced: int
    unreadable: tuple[str, ...]
    """Names of blobs that the old key does not open, or whose signature does not count."""


def announce(blobs: BlobStore, identity: StoreIdentity, new: str) -> StoreIdentity:
    """Stop other commands."""
    return _write(blobs, identity, {**identity.document, "next_key": new})


def begin(blobs: BlobStore, identity: StoreIdentity) -> StoreIdentity:
    """No run is active; from now on blobs are replaced."""
    return _write(blobs, identity, {**identity.document, "replacing": True})


def withdraw(blobs: BlobStore, identity: StoreIdentity) -> None:
    """Nothing was replaced yet."""
    _write(blobs, identity, _settled(identity))


def _settled(identity: StoreIdentity) -> dict[str, object]:
    return {name: value for name, value in identity.document.items() if name not in {"next_key", "replacing"}}


def finish(blobs: BlobStore, identity: StoreIdentity, old: str, new: str) -> StoreIdentity:
    """From now on the store belongs to the new key, and refuses the old one."""
    document = _settled(identity)
    retired = [*dict.fromkeys((*identity.retired, old))]
    return _write(
        blobs, identity, {**document, "key": new, "retired": retired, "rotated": clock.now().isoformat()}
    )


def _write(blobs: BlobStore, identity: StoreIdentity, document: dict[str, object]) -> StoreIdentity:
    if blobs.replace(IDENTITY, to_json(document) + b"\n", tag=identity.tag) is None:
        raise Busy(
            "HF-KEY-13",
            f"another command changes the key of the run store {blobs.shown}",
            hint="Wait until it is finished, then run `holdfast keys rotate` again.",
        )
    written = read_identity(blobs)
    return written if written is not None else identity


def replace_all(
    blobs: BlobStore, store: str, old: Key, new: Key, *, retired: bool = False, parallel: int = _PARALLEL
) -> Rotated:
    """Until nothing is left that has the old key: a command that started before may still have written.

    `retired`: the old key is retired already, so that its signatures do not count.
    """
    before, after = BlobCipher.of(store, old), BlobCipher.of(store, new)
    replaced = 0
    while True:
        unreadable: list[str] = []
        passed = 0
        for names, outcome in _each(
            blobs, lambda names: _replace(blobs, names, before, after, retired=retired), parallel
        ):
            if outcome is None:
                unreadable += names
            else:
                passed += outcome
        replaced += passed
        if not passed:
            return Rotated(replaced, tuple(unreadable))


def count_keys(blobs: BlobStore) -> dict[str, int]:
    """How many blobs each key has encrypted; under an empty id, those that no key has."""

    def keys_of(names: tuple[str, ...]) -> list[str | None]:
        first = blobs.read(names[0])
        whole = first is not None and not first.data.startswith(MAGIC)
        others = [] if whole else [blobs.read(name) for name in names[1:]]
        pairs = zip(names, [first, *others], strict=False)
        return [_key_of(name, blob.data) for name, blob in pairs if blob is not None]

    return Counter(key for _, keys in _each(blobs, keys_of) for key in keys if key is not None)


def _each(
    blobs: BlobStore, work: Callable[[tuple[str, ...]], _T], parallel: int = _PARALLEL
) -> Iterator[tuple[tuple[str, ...], _T]]:
    """For each blob, and for the pieces of each journal together; several at a time in a remote store."""
    groups = tuple(_groups(blobs.names("")))
    if parallel == 1 or isinstance(blobs, FolderBlobs):
        yield from ((names, work(names)) for names in groups)
        return
    with ThreadPoolExecutor(parallel) as pool:
        yield from zip(groups, pool.map(work, groups), strict=True)


def _groups(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    every = tuple(names)
    # Another store below this prefix has its own key.
    others = tuple(name.removesuffix(IDENTITY) for name in every if name.endswith(f"/{IDENTITY}"))
    ours = (name for name in every if name != IDENTITY and not name.startswith(others or ("//",)))
    for _, pieces in groupby(ours, lambda name: name.partition(_JOURNAL)[0] if _in_journal(name) else name):
        yield tuple(pieces)


def _in_journal(name: str) -> bool:
    """A stack may be called `journal-x` too."""
    return name.startswith("runs/") and _JOURNAL in name


def _key_of(name: str, data: bytes) -> str | None:
    if _in_journal(name) and not data.startswith(MAGIC):
        return key_of_journal(data) if data else None
    try:
        return key_id_of(data)
    except Damaged:
        return ""


def _replace(
    blobs: BlobStore, names: tuple[str, ...], before: BlobCipher, after: BlobCipher, *, retired: bool
) -> int | None:
    """How many were replaced; None if the old key cannot read it. A fault of the store is raised.

    On a server, each piece of a journal is a blob like any other, around what its client encrypted.
    """
    first = blobs.read(names[0]) if _in_journal(names[0]) else None
    if first is not None and not first.data.startswith(MAGIC):
        return _replace_journal(blobs, names, before, after, retired=retired)
    replaced = [_replace_blob(blobs, name, before, after, retired=retired) for name in names]
    return None if None in replaced else sum(filter(None, replaced))


def _replace_blob(
    blobs: BlobStore, name: str, before: BlobCipher, after: BlobCipher, *, retired: bool
) -> int | None:
    while (blob := blobs.read(name)) is not None:
        if _key_of(name, blob.data) == after.key_id:
            return 0
        if retired and needs_signature(name):
            return None
        try:
            data, signed = before.decrypt(name, blob.data, what=name)
        except _UNREADABLE:
            return None
        sign = signed and not retired
        if blobs.replace(name, after.encrypt(name, data, sign=sign), tag=blob.tag) is not None:
            return 1
    return 0


def _replace_journal(
    blobs: BlobStore, names: tuple[str, ...], before: BlobCipher, after: BlobCipher, *, retired: bool
) -> int | None:
    """One whole journal instead of its pieces, which are removed after it was written."""
    run = names[0].split("/")[1]
    whole = journal_name(run, 0)
    pieces = [blob for name in names if (blob := blobs.read(name)) is not None]
    if not pieces or not pieces[0].data:
        return 0
    key, replaced = key_of_journal(pieces[0].data), 0
    if key != after.key_id:
        if retired:
            return None
        there = names[0] == whole
        try:
            content = pieces[0].data if there else b"".join(piece.data for piece in pieces)
            journal = read_journal(before, run, content)
        except _UNREADABLE:
            return None
        if key is None:
            return None
        new = encode_journal(after, run, journal)
        blobs.replace(whole, new, tag=pieces[0].tag) if there else blobs.create(whole, new)
        replaced = 1
    elif names[0] != whole:
        return 0  # A run that started with the new key.
    for name in names:
        if name != whole:
            blobs.remove(name)
    return replaced
