"""Terraform and OpenTofu programs that Holdfast keeps: verified before they are ever started, side by side.

They lie in `HOLDFAST_HOME/tools/<product>/<version>/<product>`, where engines are looked for.
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

from holdfast.kernel.errors import HoldfastError, Refused, UsageError
from holdfast.kernel.values import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    product: Product
    version: str
    path: Path
    size: int


def installed_tools(home: Path) -> tuple[Tool, ...]:
    """By product, the newest first."""
    found = [
        Tool(product=product, version=program.parent.name, path=program, size=program.stat().st_size)
        for product in Product
        for program in (home / "tools").glob(f"{product.value}/*/{product.value}")
    ]
    found.sort(key=lambda tool: _order(tool.version), reverse=True)
    return tuple(sorted(found, key=lambda tool: tool.product.value))


def _order(version: str) -> Version:
    """A folder that a person made may have any name: it comes last."""
    try:
        return Version.parse(version)
    except HoldfastError:
        return Version.parse("0.0.0")


def remove_tool(home: Path, name: str, version: str) -> Tool:
    tool = next(
        (one for one in installed_tools(home) if (one.product.value, one.version) == (name, version)), None
    )
    if tool is None:
        there = ", ".join(f"{one.product.value} {one.version}" for one in installed_tools(home))
        raise UsageError(
            "HF-TOOL-6",
            f"there is no {name} {version} among the tools",
            hint=f"There are: {there}." if there else "There are none yet: holdfast tools add FILE.",
        )
    shutil.rmtree(tool.path.parent)
    return tool


def add_tool(home: Path, file: Path, *, given_sum: str | None, ask_version: AskVersion) -> tuple[Tool, bool]:
    """Verify, then ask it for its version, then put it in its place. False when it was there already."""
    expected = _expected_sum(file, given_sum)
    with _staging(home) as staging:
        archive = staging / "given"
        if not hmac.compare_digest(_copy(file, archive), expected):
            raise Refused(
                "HF-TOOL-2",
                f"{file} is not the file that the checksum is of",
                hint="It was changed or cut short, or the sum is of another file. Fetch both again.",
            )
        product, program = _program(file, archive, staging)
        program.chmod(_PRIVATE_PROGRAM)
        version = ask_version(program)
        if version is None:
            raise Refused(
                "HF-TOOL-3",
                f"{file} does not answer as {product.value} does",
                hint="It may be for another system. It must answer `version -json`.",
            )
        if Version.parse(version) < MINIMUM[product]:
            raise Refused(
                "HF-TOOL-7",
                f"{product.value} {version} is older than {MINIMUM[product]}, the oldest that is supported",
                hint="Add a newer one.",
            )
        return _place(home, product, version, program)


def _expected_sum(file: Path, given: str | None) -> str:
    if given is not None:
        if not _SUM.fullmatch(given.strip()):
            raise UsageError(
                "HF-TOOL-8", "--sha256 is not a SHA-256 sum", hint="It has 64 digits of 0-9 and a-f."
            )
        return given.strip().lower()
    for sums in _files_of_sums(file):
        for line in files.read_text(sums, limit=1_000_000).splitlines():
            found = _LINE.fullmatch(line.strip())
            if found is not None and found[2] == file.name:
                return found[1].lower()
    raise Refused(
        "HF-TOOL-1",
        f"nothing says which content {file} should have",
        hint="Give --sha256 SUM, or put the vendor's SHA256SUMS file beside it.",
    )


def _files_of_sums(file: Path) -> list[Path]:
    """`terraform_1.9.8_SHA256SUMS` for `terraform_1.9.8_linux_amd64.zip`, then plain `SHA256SUMS`."""
    vendor = "_".join(file.name.split("_")[:2])
    places = (file.with_name(f"{vendor}_SHA256SUMS"), file.with_name("SHA256SUMS"))
    return [place for place in places if place.is_file()]


@contextlib.contextmanager
def _staging(home: Path) -> Iterator[Path]:
    folder = files.private_folder(home / "tools" / f"{_STAGING}{clock.random_token(6)}")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(file: Path, target: Path) -> str:
    """What is verified is our own copy, so that nobody changes it afterwards."""
    if not file.is_file():
        raise UsageError("HF-TOOL-9", f"{file} is not a file", hint="Name a program or the vendor's zip.")
    with file.open("rb") as source:
        return _write(source, target, what=str(file))


def _write(source: IO[bytes], target: Path, *, what: str) -> str:
    digest, size = hashlib.sha256(), 0
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, files.PRIVATE_FILE)
    with os.fdopen(handle, "wb") as out:
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            if size > _LARGEST:
                raise _strange(what, f"it is larger than {_LARGEST} bytes")
            digest.update(chunk)
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def _program(file: Path, archive: Path, staging: Path) -> tuple[Product, Path]:
    if zipfile.is_zipfile(archive):
        return _unpacked(file, archive, staging)
    product = next((one for one in Product if file.name.startswith(one.value)), None)
    if product is None:
        raise UsageError(
            "HF-TOOL-9",
            f"{file}: its name does not say whether it is terraform or tofu",
            hint="Name it as the vendor does: terraform or tofu at the beginning.",
        )
    return product, archive.rename(_room(staging) / product.value)


def _unpacked(file: Path, archive: Path, staging: Path) -> tuple[Product, Path]:
    """Only the program is read from it; licence and notes beside it are left alone."""
    try:
        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
            if any("/" in one.filename or "\\" in one.filename for one in members):
                raise _strange(str(file), "it holds folders")
            programs = [one for one in members if one.filename in set(Product)]
            if len(programs) != 1:
                raise _strange(str(file), "it does not hold one program named terraform or tofu")
            member = programs[0]
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG) or member.file_size > _LARGEST:
                raise _strange(str(file), f"its {member.filename} is not a file or too large")
            target = _room(staging) / member.filename
            with opened.open(member) as source:
                _write(source, target, what=str(file))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise _strange(str(file), str(error)) from None
    return Product(member.filename), target


def _room(staging: Path) -> Path:
    return files.private_folder(staging / "program")


def _strange(file: str, why: str) -> Refused:
    return Refused("HF-TOOL-4", f"{file} is not as the vendor makes it: {why}", hint="Fetch it again.")


def _place(home: Path, product: Product, version: str, program: Path) -> tuple[Tool, bool]:
    folder = files.private_folder(home / "tools" / product.value) / version
    size = program.stat().st_size
    tool = Tool(product=product, version=version, path=folder / product.value, size=size)
    new = not tool.path.exists()
    if new:
        # An empty folder of that name gives way to the rename; a full one would not.
        program.parent.rename(folder)
        files.flush_folder(folder.parent)
    elif _sum_of(tool.path) != _sum_of(program):
        raise Refused(
            "HF-TOOL-5",
            f"{product.value} {version} is there already, with another content",
            hint=f"If this one is right: holdfast tools remove {product.value} {version}, and add it again.",
        )
    return tool, new


def _sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
