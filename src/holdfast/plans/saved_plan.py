"""Saved plans: a folder (the bundle) with the plan of each stack, to be applied later, exactly as planned.

    DIR/<stack>/summary.json    readable: names, counts, digest; its hash is in digest.sealed
    DIR/<stack>/digest.sealed   what the plan is, what it was made from, where it belongs
    DIR/<stack>/plan.sealed     Terraform's plan file
    DIR/<stack>/lock.sealed     the dependency lock file, if there is one
    DIR/<stack>/made.sealed     files that the plan created next to the code, if any
    DIR/<stack>/base.sealed     the rules of the base that the plan is judged by too, if they differ
    DIR/change.json             readable: the selected stacks and their results
    DIR/change.sealed           which saved plans belong together, and the hash of change.json

Sealed files are encrypted for the apply key, bound to stack, run and file name: a changed byte, an exchanged
or missing file and an edited summary are refused. A job with the plan key can write them, but not open them.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import MsgspecError, Struct, convert, field, msgpack, to_builtins
from msgspec.structs import asdict

from holdfast.kernel.errors import Refused, UsageError
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.status import Status
from holdfast.secrets.encryption import Damaged, WrongKey, seal, sealed_key_id, unseal
from holdfast.secrets.keys import Key
from holdfast.system import files
from holdfast.terraform.argv import PlanOptions

SUMMARY = "summary.json"
DIGEST = "digest.sealed"
CHANGE = "change.json"
CHANGE_SEALED = "change.sealed"
_FORMAT = 3


class DigestParts(Struct, frozen=True, kw_only=True):
    """What a plan digest covers. An approval is for one digest: if any part changes, the digest does."""

    plan: str
    """SHA-256 of the plan file."""
    lineage: str
    serial: int
    lock: str | None
    """SHA-256 of the lock file the plan was made with."""
    inputs: str
    """Of every file and value that the stack reads, variables included."""
    made: str
    """A unique id: two plans of the same second can have the same bytes."""
    policy: str
    """Of the guard policy and the rules, built-in and configured."""
    files: dict[str, str] = {}
    """Hashes of the files that the plan created beside the code; the apply gets them too."""
    destination: dict[str, str] = {}
    """Where it applies and with what: see `plans.environment.destination`."""
    modules: dict[str, str] = {}
    """Hashes of the downloaded modules."""
    reads: dict[str, dict[str, str]] = {}
    """By stack that it depends on: a keyed hash of each output that it reads. Only for a saved plan."""

    def digest(self) -> str:
        return hashlib.sha256(canonical(asdict(self))).hexdigest()


def canonical(document: object) -> bytes:
    """The same text for the same value, for digests."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class StateIdentity(Struct, frozen=True, kw_only=True):
    """A state's identity at one moment."""

    lineage: str
    serial: int


class SavedPlan(MaskedStruct, frozen=True, kw_only=True):
    """The verified content of a saved plan."""

    stack: str
    run: str
    change: str
    """The change that planned it."""
    digest: str
    parts: DigestParts
    store: str
    engine: dict[str, str]
    """`product` and `version`; a plan can be applied only with the same."""
    module: str
    place: str
    workspace: str
    dependencies: dict[str, StateIdentity]
    """The states of the stacks that it depends on, when it was planned."""
    plans: dict[str, str]
    """Digests of the saved plans of these stacks in the same bundle."""
    selection: tuple[str, ...]
    created: str
    environment: str | None
    production: bool
    changes: bool
    """Whether the plan has changes."""
    ephemeral: bool
    destroy: bool
    targeted: bool
    options: PlanOptions
    """What the user planned with, values of variables included."""
    mocks: Mapping[str, Any] = field(default_factory=dict)
    """Variables that had a mock value, because an output that they read did not exist yet."""
    plan: bytes
    lock: bytes | None = None
    made: bytes | None = None
    base: bytes | None = None


_FILES = {"plan": "plan.sealed", "lock": "lock.sealed", "made": "made.sealed", "base": "base.sealed"}
_NAMES = (SUMMARY, DIGEST, *_FILES.values())


def prepare_folder(out: Path) -> None:
    """The folder must be empty: two changes must not mix."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(
            "HF-BUND-1",
            f"{out} is not an empty folder",
            hint=f"Give --out a new folder, so that no other plan is mixed in: --out {_unused_path(out)}",
        )
    files.private_folder(out)


def _unused_path(out: Path) -> Path:
    names = (out.with_name(f"{out.name}-{number}") for number in itertools.count(2))
    return next(name for name in names if not name.exists())


def write(out: Path, bundle: SavedPlan, summary: dict[str, object], key: Key) -> Path:
    folder = files.private_folder(out / bundle.stack)
    readable = (
        json.dumps({"version": _FORMAT, "run": bundle.run, "key": key.id, **summary}, indent=2, default=str)
        + "\n"
    ).encode()
    contents = {name: getattr(bundle, name) for name in _FILES}
    document = {
        **{name: value for name, value in to_builtins(bundle).items() if name not in _FILES},
        "version": _FORMAT,
        "summary": sha256(readable),
        "contents": {name: sha256(data) if data is not None else None for name, data in contents.items()},
    }
    for name, data in contents.items():
        if data is not None:
            files.write(
                folder / _FILES[name], seal(key, data, context=_context(bundle.run, bundle.stack, name))
            )
    sealed = seal(key, canonical(document), context=_context(bundle.run, bundle.stack, "digest"))
    files.write(folder / DIGEST, sealed)
    files.write(folder / SUMMARY, readable)
    return folder


def _context(run: str, stack: str, name: str) -> str:
    return f"bundle\0{run}\0{stack}\0{name}"


def write_change(
    out: Path, change: str, *, statuses: dict[str, str], digests: dict[str, str], key: Key
) -> None:
    """Written last: lists the saved plans, so that none can be removed, added or exchanged."""
    stacks = [{"name": name, "status": status} for name, status in statuses.items()]
    readable = (
        json.dumps({"version": _FORMAT, "change": change, "key": key.id, "stacks": stacks}, indent=2) + "\n"
    ).encode()
    document = {"version": _FORMAT, "summary": sha256(readable), "digests": digests}
    files.write(out / CHANGE_SEALED, seal(key, canonical(document), context=_change_context(change)))
    files.write(out / CHANGE, readable)


def _change_context(change: str) -> str:
    return f"change\0{change}"


def load(folder: Path, key: Key) -> tuple[SavedPlan, ...]:
    """All saved plans of a bundle, or the one of a stack's folder in it."""
    with _well_formed(folder):
        if _any_of(folder, (CHANGE, CHANGE_SEALED)):
            return _load_change(folder, key)
        require_bundle(folder)
        return (read(folder, key),)


@contextlib.contextmanager
def _well_formed(folder: Path) -> Iterator[None]:
    """Sealed files have the content that a plan job gave them: with the plan key, that is anything."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError, MsgspecError) as error:
        raise _changed(folder, f"a sealed file has no valid content ({error})") from None


def require_bundle(folder: Path) -> None:
    """There is a bundle, or one stack of it."""
    if _any_of(folder, (CHANGE, CHANGE_SEALED, *_NAMES)):
        return
    if folder.is_dir() and _folders_below(folder):
        raise _changed(folder, f"{CHANGE} is missing, so other files of the bundle may be missing too")
    raise UsageError(
        "HF-BUND-2", f"there is no bundle at {folder}", hint="Make one with: holdfast plan --out DIR"
    )


class BundledChange(Struct, frozen=True, kw_only=True):
    """What a bundle says about its change."""

    id: str | None = None
    statuses: dict[str, Status] = {}
    """Of every stack, when the bundle was made."""
    digests: dict[str, str] = {}
    """Of its saved plans, by stack."""

    @property
    def without_plan(self) -> dict[str, Status]:
        return {name: status for name, status in self.statuses.items() if name not in self.digests}


def read_change(folder: Path, key: Key) -> BundledChange:
    """A stack's own folder says nothing about the others."""
    if not _any_of(folder, (CHANGE, CHANGE_SEALED)):
        return BundledChange()
    with _well_formed(folder):
        readable, digests = _open_change(folder, key)
        document = json.loads(readable)
        statuses = {stack["name"]: Status(stack["status"]) for stack in document["stacks"]}
        return BundledChange(id=str(document["change"]), statuses=statuses, digests=digests)


def _open_change(folder: Path, key: Key) -> tuple[bytes, dict[str, str]]:
    """The verified content of `change.json`, and the digests of the saved plans."""
    readable, (change,) = _readable(folder, CHANGE, ("change",))
    document = json.loads(_open(folder, CHANGE_SEALED, key, _change_context(change)))
    if document["summary"] != sha256(readable):
        raise _changed(folder, f"{CHANGE} was edited")
    return readable, document["digests"]


def _load_change(folder: Path, key: Key) -> tuple[SavedPlan, ...]:
    _, digests = _open_change(folder, key)
    expected, there = {folder / name for name in digests}, _folders_below(folder)
    if missing := sorted(expected - there):
        raise _changed(folder, f"the saved plan {missing[0].relative_to(folder)} is missing")
    if added := sorted(there - expected):
        raise _changed(folder, f"the saved plan {added[0].relative_to(folder)} is not part of this bundle")
    plans = tuple(read(folder / name, key) for name in digests)
    for bundle, (name, digest) in zip(plans, digests.items(), strict=True):
        if (bundle.stack, bundle.digest) != (name, digest):
            raise _changed(folder, f"the saved plan {name} is from another bundle")
    return plans


def _any_of(folder: Path, names: Iterable[str]) -> bool:
    return any(os.path.lexists(folder / name) for name in names)


def _folders_below(folder: Path) -> set[Path]:
    """Folders with any file of a saved plan."""
    return {file.parent for name in _NAMES for file in folder.rglob(name)} - {folder}


def _readable(folder: Path, name: str, keys: tuple[str, ...]) -> tuple[bytes, tuple[str, ...]]:
    """A readable file, and the values in it that its sealed counterpart is bound to."""
    try:
        content = (folder / name).read_bytes()
        document = json.loads(content)
        values = tuple(str(document[key]) for key in keys)
        "".join(values).encode()
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise _changed(folder, f"{name} cannot be read") from None
    return content, values


def pack(folder: Path) -> bytes:
    """The files of a saved plan, which are sealed, as one."""
    return msgpack.encode({file.name: file.read_bytes() for file in folder.iterdir()})


def read_packed(content: bytes, folder: Path, key: Key) -> SavedPlan:
    """Unpacked in `folder`."""
    files.private_folder(folder)
    for name, data in msgpack.decode(content, type=dict[str, bytes]).items():
        files.write(folder / Path(name).name, data, durable=False)
    return read(folder, key)


def read(folder: Path, key: Key) -> SavedPlan:
    """A saved plan; refused if a byte of any file changed."""
    readable, (run, stack) = _readable(folder, SUMMARY, ("run", "stack"))
    document = json.loads(_open(folder, DIGEST, key, _context(run, stack, "digest")))
    if document.get("version") != _FORMAT:
        raise _changed(folder, f"unknown format {document.get('version') or '(none)'}")
    if document["summary"] != sha256(readable):
        raise _changed(folder, f"{SUMMARY} was edited")
    contents: dict[str, bytes | None] = {}
    for name, expected in document["contents"].items():
        contents[name] = None
        if expected is not None:
            data = _open(folder, _FILES[name], key, _context(run, stack, name))
            if sha256(data) != expected:
                raise _changed(folder, f"{_FILES[name]} was replaced")
            contents[name] = data
    parts = DigestParts(**document["parts"])
    plan = contents["plan"]
    if plan is None or sha256(plan) != parts.plan or parts.digest() != document["digest"]:
        raise _changed(folder, "the digest does not match the plan")
    return convert({**document, **contents}, SavedPlan, builtin_types=(bytes,))


def _open(folder: Path, name: str, key: Key, context: str) -> bytes:
    try:
        sealed = (folder / name).read_bytes()
    except OSError as error:
        raise _changed(folder, f"{name} cannot be read ({error.strerror})") from None
    try:
        return unseal(key, sealed, context=context)
    except WrongKey:
        raise Refused(
            "HF-BUND-10",
            f"{folder}: {name} was encrypted with key {sealed_key_id(sealed)}; the current key is {key.id}",
            hint="Set HOLDFAST_KEY to the key of the plan, or restore its key file from the backup.",
        ) from None
    except Damaged:
        raise _changed(folder, f"{name} was changed, truncated or replaced") from None


def _changed(folder: Path, what: str) -> Refused:
    return Refused("HF-BUND-3", f"{folder}: {what}", hint="Make a new plan: holdfast plan --out DIR")
