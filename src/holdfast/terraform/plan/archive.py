"""What a plan file says about itself: how it was planned, and from which code.

A plan file is a ZIP archive: `tfplan` (protocol buffers), two states and the configuration it was made from.
A bundle could claim anything about its plan; Terraform applies what is in this file. The numbers are those of
`planfile.proto`, the same in Terraform and OpenTofu.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.hcl.eval.code import code_names
from holdfast.kernel.values import MaskedStruct

_TARGETS = (5, 6)
"""`-target`, and `-exclude` of OpenTofu."""
_MODE = 17
_DESTROY = 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ROOT = ""
_MANIFEST = "tfconfig/modules.json"


class PlanArchive(MaskedStruct, frozen=True, kw_only=True):
    destroy: bool
    targeted: bool
    modules: Mapping[str, str]
    """The folder of each module, relative to the root module."""
    code: Mapping[str, Mapping[str, bytes]]
    """The files of each module."""


class InvalidPlanFile(Exception):  # noqa: N818 - names what it is
    """Not a plan file, or one that two programs could read differently."""


def is_encrypted(plan: bytes) -> bool:
    """By OpenTofu: a JSON document then, of which nothing can be read. No document can be an archive, too."""
    try:
        return plan.startswith(b"{") and "encrypted_data" in json.loads(plan)
    except ValueError:
        return False


def read_archive(plan: bytes) -> PlanArchive:
    try:
        with zipfile.ZipFile(io.BytesIO(plan)) as archive:
            names = archive.namelist()
            if len(set(names)) != len(names):
                raise InvalidPlanFile("it contains a file twice")
            fields = tuple(_fields(archive.read("tfplan")))
            modules = {module["Key"]: module["Dir"] for module in json.loads(archive.read(_MANIFEST))}
            code = {key: _files(archive, key) for key in modules}
    except (zipfile.BadZipFile, LookupError, ValueError, TypeError) as error:
        raise InvalidPlanFile(f"it is not a plan file: {error}") from None
    return PlanArchive(
        destroy=(_MODE, _DESTROY) in fields,
        targeted=any(number in _TARGETS for number, _ in fields),
        modules=modules,
        code=code,
    )


def different_code(archive: PlanArchive, root: Path, *, tofu: bool) -> str | None:
    """The first module or file in which the code of the plan differs from that of a work directory.

    `tofu`: OpenTofu applies it, which does not read the same files as Terraform.
    """
    folders = {_ROOT: ".", **_modules_in(root)}
    for key, folder in archive.modules.items():
        if folders.get(key) != folder:
            return f"module {key or 'root'}"
        files = archive.code[key]
        names = (file.name for file in (root / folder).iterdir() if file.is_file())
        present = code_names(names, tofu=tofu)
        for name in sorted(present | files.keys()):
            if name not in present or (root / folder / name).read_bytes() != files.get(name):
                return f"{folder}/{name}"
    return None


def _modules_in(root: Path) -> dict[str, str]:
    """The folders that init recorded."""
    file = root / ".terraform/modules/modules.json"
    if not file.exists():
        return {}
    return {module["Key"]: module["Dir"] for module in json.loads(file.read_bytes())["Modules"]}


def _files(archive: zipfile.ZipFile, key: str) -> dict[str, bytes]:
    start = f"tfconfig/m-{key}/"
    return {name[len(start) :]: archive.read(name) for name in archive.namelist() if name.startswith(start)}


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of the outermost message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        match tag & 7:
            case kind if kind == _VARINT:
                value: int | bytes
                value, at = _varint(message, at)
            case kind if kind == _BYTES:
                size, at = _varint(message, at)
                value, at = message[at : at + size], at + size
            case kind if kind in {_FIXED64, _FIXED32}:
                size = 8 if kind == _FIXED64 else 4
                value, at = message[at : at + size], at + size
            case _:
                raise ValueError("not a plan")
        yield tag >> 3, value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the highest bit says that more follows
            return value, at
