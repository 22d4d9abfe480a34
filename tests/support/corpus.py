"""Small repositories that copy real layouts, and what the program says about each of them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from click.testing import CliRunner, Result

from holdfast.cli.app import run

FOLDER: Final = Path(__file__).parents[1] / "corpus"
NAMES: Final = tuple(sorted(folder.name for folder in FOLDER.iterdir() if (folder / "repo").is_dir()))
UPDATE: Final = "UPDATE_CORPUS" in os.environ

_TIME: Final = re.compile(r"\b\d+(?:\.\d+)? m?s\b")


class _Command:
    """`holdfast` behind the interface of a Click command, so that CliRunner captures what it prints."""

    name = "holdfast"

    def main(self, args: list[str], **_: object) -> int:
        return run(args)


def lay(name: str, root: Path) -> None:
    shutil.copytree(FOLDER / name / "repo", root, symlinks=True)


def changes(name: str) -> list[list[str]]:
    """The options of each change: paragraphs of `change` name files, `change/` is a second tree."""
    change = FOLDER / name / "change"
    if change.is_dir():
        return [["--since", "HEAD"]]
    paragraphs = change.read_text().strip().split("\n\n") if change.is_file() else []
    return [[word for path in lines.split("\n") for word in ("--changed", path)] for lines in paragraphs]


def lay_change(name: str, root: Path) -> None:
    """Lay the second tree over the first; `deleted` beside it names what it removes."""
    change = FOLDER / name / "change"
    if change.is_dir():
        shutil.copytree(change, root, symlinks=True, dirs_exist_ok=True)
    deleted = FOLDER / name / "deleted"
    for path in deleted.read_text().split("\n") if deleted.is_file() else ():
        if path:
            (root / path).unlink()


def commands(name: str) -> list[list[str]]:
    """Further commands of a repository, one per line of `commands`, without `holdfast`."""
    file = FOLDER / name / "commands"
    return [shlex.split(line) for line in file.read_text().splitlines()] if file.is_file() else []


def output(*arguments: str) -> str:
    """What a user sees: the command, what it prints and its exit code. Durations are left out."""
    done = _invoke(arguments)
    return _shown(arguments, _TIME.sub("… s", done.output), done)


def findings(*arguments: str) -> str:
    """The findings of `check`, one per line: the layout of its own output is not what the corpus is for."""
    done = _invoke((*arguments, "--json"))
    text = "".join(
        f"{finding['severity']:<7} {finding['rule']} {_place(finding)}  {finding['message']}\n"
        for finding in json.loads(done.stdout)["findings"]
    )
    return _shown(arguments, text, done)


def _place(finding: Mapping[str, object]) -> str:
    return ":".join(str(part) for part in (finding["file"], finding["line"]) if part is not None)


def _invoke(arguments: tuple[str, ...]) -> Result:
    done = CliRunner().invoke(_Command(), list(arguments), standalone_mode=False)  # type: ignore[arg-type] # it has main
    if done.exception is not None:
        raise done.exception
    return done


def _shown(arguments: tuple[str, ...], text: str, done: Result) -> str:
    lines = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    ended = f"exit {done.return_value}\n" if done.return_value else ""
    return f"$ holdfast {shlex.join(arguments)}\n{lines}{ended}"


def expected(name: str, file: str, actual: str) -> str:
    """The expected text of a file; with UPDATE_CORPUS=1 it becomes the actual text."""
    path = FOLDER / name / "expected" / file
    if UPDATE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(actual)
    return path.read_text() if path.is_file() else ""
