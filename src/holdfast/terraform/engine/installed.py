"""Terraform and OpenTofu programs that `holdfast tools` installs: verified before they are started.

They are in `HOLDFAST_HOME/tools/<product>/<version>/<product>`, where discovery searches for engines.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from msgspec import Struct

from holdfast.kernel.errors import HoldfastError, Refused, UsageError
from holdfast.system import clock, files
from holdfast.terraform.engine.discovery import MINIMUM
from holdfast.terraform.engine.interface import Product
from holdfast.terraform.versions import Version

_LARGEST = 1_000_000_000
_CHUNK = 1 << 20
_SUM = re.compile(r"[0-9a-fA-F]{64}")
_LINE = re.compile(r"([0-9a-fA-F]{64})[ \t]+\*?(\S+)")
_PRIVATE_PROGRAM = 0o700
_STAGING = ".new-"

AskVersion = Callable[[Path], str | None]


class Tool(Struct, frozen=True, kw_only=True):
    product: Product
    version: str
    path: Path
    size: int


def installed_tools(home: Path) -> tuple[Tool, ...]:
    """By product, newest first."""
    tools = [
        Tool(product=product, version=program.parent.name, path=program, size=program.stat().st_size)
        for product in Product
        for program in (home / "tools").glob(f"{product.value}/*/{product.value}")
    ]
    tools.sort(key=lambda tool: _order(tool.version), reverse=True)
    return tuple(sorted(tools, key=lambda tool: tool.product.value))


def _order(version: str) -> Version:
    """A folder created by hand may have any name: it comes last."""
    try:
        return Version.parse(version)
    except HoldfastError:
        return Version.parse("0.0.0")


def remove_tool(home: Path, name: str, version: str) -> Tool:
    tools = {(tool.product.value, tool.version): tool for tool in installed_tools(home)}
    tool = tools.get((name, version))
    if tool is None:
        installed = ", ".join(map(" ".join, tools))
        raise UsageError(
            "HF-TOOL-6",
            f"{name} {version} is not installed",
            hint=f"Installed: {installed}."
            if installed
            else "No binaries are installed. Add one: holdfast tools add FILE",
        )
    shutil.rmtree(tool.path.parent)
    return tool


def add_tool(home: Path, file: Path, *, checksum: str | None, ask_version: AskVersion) -> tuple[Tool, bool]:
    """Verify, query the version, install. False when it was installed already."""
    if not file.is_file():
        raise UsageError("HF-TOOL-9", f"{file} is not a file", hint="Pass a binary or the vendor's zip file.")
    expected = _expected_sum(file, checksum)
    with _staging(home) as staging:
        archive = staging / "download"
        if not hmac.compare_digest(_copy(file, archive), expected):
            raise Refused(
                "HF-TOOL-2",
                f"{file} does not match its checksum",
                hint="The file is damaged, or the checksum belongs to another file. Download both again.",
            )
        product, program = _program(file, archive, staging)
        program.chmod(_PRIVATE_PROGRAM)
        version = ask_version(program)
        if version is None:
            raise Refused(
                "HF-TOOL-3",
                f"{file} does not run as {product.value}",
                hint="It may be built for another system. `version -json` must succeed.",
            )
        if Version.parse(version) < MINIMUM[product]:
            raise Refused(
                "HF-TOOL-7",
                f"{product.value} {version} is older than {MINIMUM[product]}, the oldest supported version",
                hint="Add a newer version.",
            )
        return _install(home, product, version, program)


def _expected_sum(file: Path, checksum: str | None) -> str:
    if checksum is not None:
        if not _SUM.fullmatch(checksum.strip()):
            raise UsageError(
                "HF-TOOL-8",
                "--sha256 is not a SHA-256 checksum",
                hint="A checksum has 64 digits of 0-9 and a-f.",
            )
        return checksum.strip().lower()
    # `terraform_1.9.8_SHA256SUMS` for `terraform_1.9.8_linux_amd64.zip`, then plain `SHA256SUMS`.
    vendor = "_".join(file.name.split("_")[:2])
    places = (file.with_name(f"{vendor}_SHA256SUMS"), file.with_name("SHA256SUMS"))
    for sums in filter(Path.is_file, places):
        for line in files.read_text(sums, limit=1_000_000).splitlines():
            match = _LINE.fullmatch(line.strip())
            if match is not None and match[2] == file.name:
                return match[1].lower()
    raise Refused(
        "HF-TOOL-1",
        f"there is no checksum for {file}",
        hint="Pass --sha256 SUM, or put the vendor's SHA256SUMS file next to it.",
    )


@contextlib.contextmanager
def _staging(home: Path) -> Iterator[Path]:
    folder = files.private_folder(home / "tools" / f"{_STAGING}{clock.random_token(6)}")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(file: Path, target: Path) -> str:
    """Verify a copy of our own, so that it cannot change afterwards."""
    with file.open("rb") as source:
        return _write(source, target, what=str(file))


def _write(source: IO[bytes], target: Path, *, what: str) -> str:
    digest, size = hashlib.sha256(), 0
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, files.PRIVATE_FILE)
    with os.fdopen(handle, "wb") as out:
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            if size > _LARGEST:
                raise _malformed(what, f"it is larger than {_LARGEST} bytes")
            digest.update(chunk)
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def _program(file: Path, archive: Path, staging: Path) -> tuple[Product, Path]:
    if zipfile.is_zipfile(archive):
        return _unpack(file, archive, staging)
    product = next((product for product in Product if file.name.startswith(product.value)), None)
    if product is None:
        raise UsageError(
            "HF-TOOL-9",
            f"{file}: cannot tell from its name whether it is terraform or tofu",
            hint="Rename it as the vendor does: the name starts with terraform or tofu.",
        )
    return product, archive.rename(files.private_folder(staging / "program") / product.value)


def _unpack(file: Path, archive: Path, staging: Path) -> tuple[Product, Path]:
    """Only the program is extracted, not the licence and notes."""
    try:
        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
            if any("/" in member.filename or "\\" in member.filename for member in members):
                raise _malformed(str(file), "it contains folders")
            programs = [member for member in members if member.filename in set(Product)]
            if len(programs) != 1:
                raise _malformed(str(file), "it does not contain exactly one binary named terraform or tofu")
            member = programs[0]
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG) or member.file_size > _LARGEST:
                raise _malformed(str(file), f"its {member.filename} is not a file or is too large")
            target = files.private_folder(staging / "program") / member.filename
            with opened.open(member) as source:
                _write(source, target, what=str(file))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise _malformed(str(file), str(error)) from None
    return Product(member.filename), target


def _malformed(file: str, why: str) -> Refused:
    return Refused("HF-TOOL-4", f"{file} is not a vendor release: {why}", hint="Download it again.")


def _install(home: Path, product: Product, version: str, program: Path) -> tuple[Tool, bool]:
    folder = files.private_folder(home / "tools" / product.value) / version
    size = program.stat().st_size
    tool = Tool(product=product, version=version, path=folder / product.value, size=size)
    new = not tool.path.exists()
    if new:
        # rename() replaces an empty folder of that name, and fails on one with content.
        program.parent.rename(folder)
        files.flush_folder(folder.parent)
    elif _checksum(tool.path) != _checksum(program):
        raise Refused(
            "HF-TOOL-5",
            f"{product.value} {version} is already installed with different content",
            hint=f"To replace it: holdfast tools remove {product.value} {version}, then add it again.",
        )
    return tool, new


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
