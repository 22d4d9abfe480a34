"""A folder with the versions of states that can be read without the server.

manifest.json                          what there is, with serial, lineage and digest; written last
states/0001-network%2Fprod/3.tfstate   one version; with the suffix `.encrypted` unless exported as plain text
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import UsageError
from holdfast.secrets.encryption import Damaged, decrypt, encrypt
from holdfast.secrets.keys import CipherKey, Key
from holdfast.states.server_states import ServerState, ServerVersion
from holdfast.store.blobs import encode_name
from holdfast.system import clock, files

MANIFEST = "manifest.json"
_FORMAT = 1
_NAME_LENGTH = 80


class ExportedVersion(Struct, frozen=True, kw_only=True):
    number: int
    serial: int
    lineage: str
    digest: str
    """SHA-256 of the state."""
    resources: int | None
    written: str | None
    who: str | None
    why: str | None
    file: str | None
    """Relative to the folder; null: its content was purged."""


class ExportedState(Struct, frozen=True, kw_only=True):
    name: str
    versions: tuple[ExportedVersion, ...]
    """Oldest first."""


class Export(Struct, frozen=True, kw_only=True):
    version: int = _FORMAT
    server: str
    exported: str
    key: str | None
    """The id of the key that it is encrypted with; null: plain text."""
    states: tuple[ExportedState, ...]


def write_export(
    folder: Path, server: str, states: Iterable[ServerState], key: Key | None, *, current_only: bool = False
) -> Export:
    """Every version as a file of its own, 0600. Without a key they are plain text."""
    if folder.exists() and any(folder.iterdir()):
        raise UsageError("HF-STATE-61", f"{folder} is not empty", hint="Name a new folder.")
    exported = []
    for index, state in enumerate(states, 1):
        home = f"states/{index:04d}-{encode_name(state.name)[:_NAME_LENGTH]}"
        entries = [entry for entry in reversed(state.entries) if entry.current or not current_only]
        versions = tuple(_write(folder, home, state, entry, key) for entry in entries)
        exported.append(ExportedState(name=state.name, versions=versions))
    export = Export(
        server=server,
        exported=clock.now().isoformat(),
        key=key.id if key is not None else None,
        states=tuple(exported),
    )
    files.private_folder(folder)
    files.write(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(export)) + b"\n")
    return export


def _write(
    folder: Path, home: str, state: ServerState, entry: ServerVersion, key: Key | None
) -> ExportedVersion:
    file = None
    if entry.purged is None:
        file = f"{home}/{entry.number}.tfstate{'.encrypted' if key is not None else ''}"
        content = state.load(entry.name).content
        if key is not None:
            content = encrypt(_cipher_key(key), content, context=_context(state.name, entry.number))
        files.private_folder(folder / home)
        files.write(folder / file, content)
    same = ("number", "serial", "lineage", "digest", "resources", "who", "why")
    return ExportedVersion(**{name: getattr(entry, name) for name in same}, written=entry.at, file=file)


def read_export(folder: Path) -> Export:
    content = files.content_of(folder / MANIFEST)
    try:
        if content is not None:
            export = msgspec.json.decode(content, type=Export)
            if export.version == _FORMAT:
                return export
    except msgspec.MsgspecError:
        pass
    raise UsageError(
        "HF-STATE-62",
        f"{folder} is not a complete export of states: "
        + (f"it has no {MANIFEST}" if content is None else f"its {MANIFEST} is not valid"),
        hint="Write one with: holdfast state export DIR",
    )


def read_version(
    folder: Path, export: Export, state: ExportedState, version: ExportedVersion, key: Callable[[], Key]
) -> bytes:
    """Its content, which must have the digest of the manifest."""
    what = f"version {version.number} of {state.name} in {folder}"
    file = (folder / (version.file or "")).resolve()
    content = files.content_of(file) if version.file and file.is_relative_to(folder.resolve()) else None
    if content is None:
        purged = "its content was purged" if version.file is None else f"{version.file} is missing"
        raise UsageError("HF-STATE-62", f"cannot read {what}: {purged}", hint="Export the states again.")
    if export.key is not None:
        try:
            content = decrypt(_cipher_key(key()), content, context=_context(state.name, version.number))
        except Damaged:
            content = b""
    if digest_of(content) != version.digest:
        raise UsageError(
            "HF-STATE-62",
            f"{what} is not what was exported: its digest differs from the manifest",
            hint="Copy the folder again, or export the states again.",
        )
    return content


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _cipher_key(key: Key) -> CipherKey:
    return key.scope_key("state-export")


def _context(state: str, number: int) -> str:
    return f"exported state\0{state}\0{number}"
