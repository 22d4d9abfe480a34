"""The files of a repository as one tar.gz: packed by a client, unpacked by a worker.

The same files always give the same bytes. What is unpacked comes from others: only files, folders and links
that stay inside are accepted, and no more of them than the limits say, however small the archive is.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
import zlib
from collections.abc import Container, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple

from holdfast.kernel.errors import HoldfastError, UsageError
from holdfast.system import files
from holdfast.system.repository import NOT_SOURCE

_BLOCK: Final = 512
_CHUNK: Final = 256 * 1024
_LONGEST_HEADER: Final = 16 * 1024
_LONGEST_PATH: Final = 2048
_DEEPEST: Final = 60
_SHOWN: Final = 3
_MEGABYTE: Final = 1_000_000


class Limits(NamedTuple):
    files: int = 50_000
    content: int = 256 * _MEGABYTE
    """Bytes of all files."""
    packed: int = 64 * _MEGABYTE


LIMITS: Final = Limits()


class Packed(NamedTuple):
    content: bytes
    files: int
    left_out: tuple[str, ...]
    """Links that lead out of the folder, and Holdfast's own keys."""


def all_names(root: Path) -> Iterator[str]:
    """Every file and link below a folder that can be source, relative to it."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - NOT_SOURCE)
        links = (name for name in folders if os.path.islink(f"{folder}/{name}"))  # noqa: PTH114 - many calls
        for name in (*names, *links):
            yield (Path(folder) / name).relative_to(root).as_posix()


def pack(
    root: Path,
    names: Sequence[str],
    *,
    forbidden: Container[os.stat_result] = (),
    generated: Mapping[str, bytes] = MappingProxyType({}),
    limits: Limits = LIMITS,
) -> Packed:
    """The files with these names, relative to the root, and generated ones that are not in the folder.

    A name that does not exist is left out.
    """
    sizes = {name: about for name in sorted(set(names)) if (about := _entry(root, name)) is not None}
    total = sum(about.st_size for about in sizes.values() if stat.S_ISREG(about.st_mode))
    largest = sorted(sizes, key=lambda name: -sizes[name].st_size)[:_SHOWN]
    if len(sizes) > limits.files or total > limits.content:
        raise _too_large(f"{len(sizes)} files with {total // _MEGABYTE} MB", largest, sizes, limits)
    content, left_out = _archive(root, sizes, forbidden, generated)
    if len(content) > limits.packed:
        raise _too_large(f"{len(content) // _MEGABYTE} MB, compressed", largest, sizes, limits)
    count = len(sizes) - len(left_out) + len(generated)
    return Packed(content=content, files=count, left_out=tuple(left_out))


def _archive(
    root: Path,
    entries: dict[str, os.stat_result],
    forbidden: Container[os.stat_result],
    generated: Mapping[str, bytes],
) -> tuple[bytes, list[str]]:
    import gzip  # noqa: PLC0415 - most commands pack nothing
    import tarfile  # noqa: PLC0415

    buffer, left_out = BytesIO(), []
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, about in entries.items():
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755 if about.st_mode & stat.S_IXUSR else 0o644
            if stat.S_ISLNK(about.st_mode):
                entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(root / name)  # noqa: PTH115
                if _leads_out(name, entry.linkname) or not _is_inside(root / name, root):
                    left_out.append(name)
                else:
                    archive.addfile(entry)
            elif about in forbidden:
                left_out.append(name)
            else:
                data = (root / name).read_bytes()
                entry.size = len(data)
                archive.addfile(entry, BytesIO(data))
        for name, data in generated.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, BytesIO(data))
    return buffer.getvalue(), left_out


def _entry(root: Path, name: str) -> os.stat_result | None:
    """None also for what is neither a file nor a link."""
    try:
        about = (root / name).lstat()
    except OSError:
        return None
    return about if stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode) else None


def _too_large(
    what: str, largest: Sequence[str], sizes: dict[str, os.stat_result], limits: Limits
) -> UsageError:
    shown = ", ".join(f"{name} ({sizes[name].st_size / _MEGABYTE:.1f} MB)" for name in largest)
    return UsageError(
        "HF-SRC-1",
        f"the repository is too large to upload: {what}; allowed are {limits.files} files, "
        f"{limits.content // _MEGABYTE} MB, and {limits.packed // _MEGABYTE} MB compressed",
        hint=f"The largest files: {shown}. Add what stacks do not need to .gitignore.",
    )


class _Entry(NamedTuple):
    name: str
    kind: str
    """`file`, `folder` or `link`."""
    size: int
    target: str
    executable: bool


def unpack(archive: BinaryIO, folder: Path, *, limits: Limits = LIMITS) -> None:
    """Into a new private folder, which appears complete or not at all."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    files.private_folder(temporary.parent)
    temporary.mkdir(mode=0o700)
    try:
        _Unpacking(temporary, limits).write(_Decompressed(archive, limits))
        temporary.rename(folder)
    except HoldfastError:
        raise
    except OSError as error:
        raise _refused(f"it cannot be unpacked: {error.strerror}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


class _Unpacking:
    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._content = 0
        self._entries: dict[str, str] = {}
        """The kind of each name so far, and of the folders around it."""

    def write(self, stream: _Decompressed) -> None:
        links: list[_Entry] = []
        for entry in _entries(stream):
            self._register(entry)
            path = self._folder / entry.name
            if entry.kind == "link":
                links.append(entry)
            elif entry.kind == "folder":
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            else:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                _write_file(path, stream, entry)
        for link in links:  # Last, so that nothing is written through one.
            path = self._folder / link.name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.symlink_to(link.target)
        for link in links:  # Together they may lead out where none does alone.
            if not _is_inside(self._folder / link.name, self._folder):
                raise _refused(f"the link {link.name} leads out of it")

    def _register(self, entry: _Entry) -> None:
        parts = entry.name.split("/")
        for depth in range(1, len(parts)):
            if self._entries.setdefault("/".join(parts[:depth]), "folder") != "folder":
                raise _refused(f"{entry.name} is inside of a file or a link")
        if self._entries.setdefault(entry.name, entry.kind) != entry.kind or (
            entry.kind != "folder" and (self._folder / entry.name).exists()
        ):
            raise _refused(f"it contains {entry.name} more than once")
        self._content += entry.size
        if len(self._entries) > self._limits.files or self._content > self._limits.content:
            most = f"{self._limits.files} files and {self._limits.content // _MEGABYTE} MB"
            raise _refused(f"it contains more than {most}")


def _write_file(path: Path, stream: _Decompressed, entry: _Entry) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path, flags, 0o700 if entry.executable else 0o600)
    with os.fdopen(handle, "wb") as file:
        left = entry.size
        while left:
            data = stream.read(min(left, _CHUNK))
            file.write(data)
            left -= len(data)
    stream.skip(-entry.size % _BLOCK)


class _Decompressed:
    """Reads exactly what is asked for, and never more than the limits allow in all."""

    def __init__(self, archive: BinaryIO, limits: Limits) -> None:
        self._archive = archive
        self._left = limits.content + limits.files * 4 * _BLOCK
        self._decompressor = zlib.decompressobj(wbits=31)
        self._buffer = b""

    def read(self, size: int) -> bytes:
        pieces: list[bytes] = []
        while size:
            if not self._buffer:
                self._fill()
            piece, self._buffer = self._buffer[:size], self._buffer[size:]
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def skip(self, size: int) -> None:
        self.read(size)

    def _fill(self) -> None:
        while not self._buffer:
            compressed = self._decompressor.unconsumed_tail or self._archive.read(_CHUNK)
            if not compressed or self._decompressor.eof:
                raise _refused("it is incomplete")
            try:
                self._buffer = self._decompressor.decompress(compressed, _CHUNK)
            except zlib.error:
                raise _refused("it is not a tar.gz file") from None
        self._left -= len(self._buffer)
        if self._left < 0:
            raise _refused("its content is larger than allowed")


def _entries(stream: _Decompressed) -> Iterator[_Entry]:
    """Each header is followed by its content, which the caller reads for a file."""
    extended: dict[str, str] = {}
    while (header := stream.read(_BLOCK)).strip(b"\0"):
        kind, size = _checked(header), _number(header[124:136])
        match kind:
            case "x" | "g" | "L" | "K":
                if size > _LONGEST_HEADER:
                    raise _refused("it has a header that is too long")
                content = stream.read(size)
                stream.skip(-size % _BLOCK)
                if kind == "x":
                    extended |= _records(content)
                elif kind != "g":
                    extended["path" if kind == "L" else "linkpath"] = _text(content)
            case "0" | "\0" | "5" | "2":
                entry = _entry_of(header, kind, size, extended)
                extended = {}
                if entry is not None:
                    yield entry
            case "1":
                raise _refused("it contains a hard link; pack with tar --hard-dereference")
            case _:
                raise _refused("it contains something other than files, folders and links")


def _entry_of(header: bytes, kind: str, size: int, extended: dict[str, str]) -> _Entry | None:
    """None: the folder itself."""
    name, target = _text(header[:100]), _text(header[157:257])
    if header[257:263] == b"ustar\0" and (prefix := _text(header[345:500])):
        name = f"{prefix}/{name}"
    name, target = extended.get("path", name), extended.get("linkpath", target)
    if not extended.get("size", "0").isdecimal():
        raise _refused("it has a header that is not valid")
    is_file = kind in {"0", "\0"} and not name.endswith("/")
    size = int(extended.get("size", size)) if is_file else 0
    clean = posixpath.normpath(name.removeprefix("./")) if name else ""
    if clean == "." and not is_file:
        return None
    _require_inside(name, clean)
    if kind == "2" and _leads_out(clean, target):
        raise _refused(f"the link {clean} leads out of it")
    kind_name = "file" if is_file else "link" if kind == "2" else "folder"
    executable = bool(_number(header[100:108]) & stat.S_IXUSR)
    return _Entry(name=clean, kind=kind_name, size=size, target=target, executable=executable)


def _require_inside(name: str, clean: str) -> None:
    """Without `.git` too: one that others wrote could make Git run their programs."""
    parts = name.rstrip("/").split("/")
    if not clean or clean.startswith("/") or ".." in parts or "\0" in name:
        raise _refused(f"the path {name[:100]!r} leads out of it, or is empty")
    if len(name) > _LONGEST_PATH or len(parts) > _DEEPEST:
        raise _refused("it contains a path that is too long")
    if unwanted := NOT_SOURCE.intersection(part.lower() for part in parts):
        raise _refused(f"it contains {min(unwanted)}, which is not part of the code")


def _leads_out(name: str, target: str) -> bool:
    """By its text alone. An absolute target is out, wherever the folder is."""
    where = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return not target or "\0" in target or where.startswith("/") or where.split("/", 1)[0] == ".."


def _is_inside(link: Path, folder: Path) -> bool:
    top, real = os.path.realpath(folder), os.path.realpath(link)
    return real == top or real.startswith(f"{top}/")


def _checked(header: bytes) -> str:
    """The type of an entry whose checksum is right."""
    total = sum(header) - sum(header[148:156]) + 8 * ord(" ")
    if total != _number(header[148:156]):
        raise _refused("it is not a tar.gz file, or damaged")
    return chr(header[156])


def _number(data: bytes) -> int:
    """Octal, or base 256 for large ones."""
    if data[0] & 0x80:
        return int.from_bytes(bytes((data[0] & 0x7F,)) + data[1:], "big")
    try:
        return int(data.rstrip(b" \0").lstrip() or b"0", 8)
    except ValueError:
        raise _refused("it is not a tar.gz file, or damaged") from None


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode(errors="surrogateescape")


def _records(content: bytes) -> dict[str, str]:
    """`LENGTH KEY=VALUE` and a line break, as often as they fit."""
    found: dict[str, str] = {}
    while content:
        length, _, _ = content.partition(b" ")
        if not length.isdigit() or not len(length) < int(length[:9]) <= len(content):
            raise _refused("it has a header that is not valid")
        record, content = content[len(length) + 1 : int(length) - 1], content[int(length) :]
        key, _, value = record.partition(b"=")
        found[key.decode(errors="replace")] = value.decode(errors="surrogateescape")
    return found


def _refused(why: str) -> UsageError:
    return UsageError(
        "HF-SRC-2",
        f"the uploaded archive was refused: {why}",
        hint="Upload with `holdfast plan --server URL`, or a tar.gz with files, folders and links inside.",
    )
