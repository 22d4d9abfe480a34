"""Writes generated files, without replacing anything that a person wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.kernel.errors import Refused, UsageError
from holdfast.kernel.text import first_names
from holdfast.scaffold.generated_file import FileStatus, GeneratedFile, is_generated, marked, status_of
from holdfast.system import files

_READABLE: Final = 0o644
_NAMED: Final = 5
_KEPT: Final = (FileStatus.EDITED, FileStatus.FOREIGN)


class Comparison(Struct, frozen=True, kw_only=True):
    """What writing would do, by path."""

    folder: Path
    wanted: Mapping[str, str]
    statuses: Mapping[str, FileStatus]

    @property
    def is_current(self) -> bool:
        return set(self.statuses.values()) <= {FileStatus.UNCHANGED}


def compare(
    folder: Path, generated: Sequence[GeneratedFile], command: str, *, family: str = ""
) -> Comparison:
    """`family`: the glob of files that all come from this command, so that obsolete ones are found."""
    wanted = {file.path: marked(file.text, command) for file in generated}
    statuses = {path: status_of(_text(folder / path), text) for path, text in wanted.items()}
    for path in sorted(folder.glob(family)) if family else ():
        name, text = path.relative_to(folder).as_posix(), _text(path)
        if name not in wanted and text is not None and is_generated(text):
            statuses[name] = FileStatus.OBSOLETE
    return Comparison(folder=folder, wanted=wanted, statuses=statuses)


def write(comparison: Comparison, *, force: bool) -> None:
    """All of them or none. Raises Refused if a person's work would be lost."""
    kept = [path for path, status in comparison.statuses.items() if status in _KEPT]
    if kept and not force:
        raise Refused(
            "HF-SCAF-1",
            f"{first_names(kept, _NAMED)} in {comparison.folder} would be overwritten: not as generated",
            hint="Move your changes elsewhere, or replace the files with --force.",
        )
    for path, text in comparison.wanted.items():
        if comparison.statuses[path] is FileStatus.UNCHANGED:
            continue
        place = comparison.folder / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            files.write(place, text, mode=_READABLE)
        except OSError as error:
            raise UsageError(
                "HF-SCAF-2", f"{place} cannot be written: {error.strerror}", hint="Check its folder."
            ) from None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        return ""  # Something is there, and it is not ours.
