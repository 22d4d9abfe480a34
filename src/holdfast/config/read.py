"""Finds and reads holdfast.yaml; a file with any mistake is refused as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from holdfast.config import yaml
from holdfast.config.declarations import BAD
from holdfast.config.defaults import with_file_env
from holdfast.config.problems import Problems
from holdfast.config.reader import Reader, build_fields
from holdfast.config.settings import Config
from holdfast.config.stack_entries import check_entries
from holdfast.kernel.errors import ConfigError, Place, Problem, UsageError

FILE_NAME: Final = "holdfast.yaml"


def find(start: Path, *, elsewhere: str = "") -> Path:
    """The nearest holdfast.yaml, in this folder or one above it. `elsewhere` is added to the hint."""
    start = start.absolute()
    for folder in (start, *start.parents):
        file = folder / FILE_NAME
        if file.is_file():
            return file
    other = next((folder for folder in (start, *start.parents) if (folder / "holdfast.yml").is_file()), None)
    raise UsageError(
        "HF-CONF-1",
        f"there is no {FILE_NAME} in {start} or in a folder above it",
        hint=f"Rename {other / 'holdfast.yml'} to {FILE_NAME}."
        if other
        else f"Create one with `holdfast init`, or name it with --config.{elsewhere}",
    )


def load(file: Path) -> Config:
    """Raises ConfigError with every mistake, in the order of the file."""
    path = file.absolute()
    content = read_content(path)
    return parse(decode(content, file=path.name), file=path.name, root=path.parent, path=path)


def read_content(path: Path) -> bytes:
    """A little more than the largest file, so that a larger one is noticed."""
    try:
        with path.open("rb") as handle:
            return handle.read(yaml.MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, f"cannot be read: {error.strerror or error}") from None


def decode(content: bytes, *, file: str) -> str:
    """The text of a configuration that was read as bytes, from disk or from Git."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if len(content) > yaml.MAX_BYTES and error.start > yaml.MAX_BYTES - 4:
            return content[: error.start].decode("utf-8-sig") + "…"
        line = content.count(b"\n", 0, error.start) + 1
        problem = Problem(
            code="HF-CONF-22",
            message=f"{file} is not UTF-8 (byte {error.start})",
            hint="Save the file as UTF-8.",
            place=Place(file=file, line=line),
        )
        raise ConfigError((problem,)) from None


def _unreadable(path: Path, what: str) -> ConfigError:
    return ConfigError(
        (
            Problem(
                code="HF-CONF-2",
                message=f"{path} {what}",
                hint="Check that the file exists and that you may read it.",
                place=Place(file=path.name),
            ),
        )
    )


def parse(text: str, *, file: str, root: Path, path: Path) -> Config:
    """The configuration in this text. Pure: the file may be one that no longer exists."""
    problems = Problems()
    node = yaml.read(text, file=file, problems=problems)
    if node is None or isinstance(node, yaml.BrokenNode):
        raise ConfigError(problems.sorted())
    if isinstance(node, yaml.ScalarNode) and node.value is None and not problems:
        problems.add("HF-CONF-3", f"{file} is empty", place=node.place, hint="Start with `version: 1`.")
        raise ConfigError(problems.sorted())
    return _built(node, problems=problems, root=root, path=path)


def parse_node(node: yaml.Node, *, root: Path, path: Path) -> Config:
    """The configuration that consists of these nodes, which another file may have supplied."""
    return _built(node, problems=Problems(), root=root, path=path)


def _built(node: yaml.Node, *, problems: Problems, root: Path, path: Path) -> Config:
    reader = Reader(whole=Config, problems=problems)
    top = reader.read(Config, node)
    if top.value is not BAD:
        check_entries(top, reader.fillable, problems=problems)
    problems.raise_any()
    return Config.from_keys({"file": path, "root": root, **build_fields(Config, with_file_env(top))})
