from __future__ import annotations

import posixpath
from collections.abc import Iterator

from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import Module
from holdfast.hcl.eval.code import is_override, read_by_tofu
from holdfast.hcl.nodes import Block, File


def _check(module: Module) -> Iterator[Finding]:
    for files in _read_together(module.files):
        blocks = [block for file in files for block in _backends(file)]
        for other in blocks[1:]:
            message = f"{_header(other)} is a second backend: {_header(blocks[0])} is at {blocks[0].place}"
            yield finding(other, message)


def _read_together(files: tuple[File, ...]) -> Iterator[list[File]]:
    """Files that may have one backend together: all but the override files, and each override file alone."""
    own = read_by_tofu(files)
    yield [file for file in own if not _is_override(file)]
    yield from ([file] for file in own if _is_override(file))


def _is_override(file: File) -> bool:
    return is_override(posixpath.basename(file.path))


def _backends(file: File) -> Iterator[Block]:
    for block in file.body.blocks_of("terraform"):
        yield from block.body.blocks_of("backend", "cloud")


def _header(block: Block) -> str:
    return " ".join((f"`{block.type}", *(f'"{label}"' for label in block.labels))) + "`"


RULE = Rule(
    id="HF128",
    title="Two backends in one module",
    fix="Remove one of them: the one that `.terraform/terraform.tfstate` of the last run does not name.",
    severity=Severity.WARNING,
    source=_check,
)
