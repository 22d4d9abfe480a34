"""What decides a stack: every file that its plan may depend on, there now or not.

Two questions are answered from one value. *Layout*: which files must stand in the work directory
(`files`; all of them when `everything`). *Selection*: does a changed path touch the stack (`touched`),
even a path that is new or gone. What cannot be followed makes both answers larger, never smaller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType

from msgspec import Struct, field

from holdfast.hcl.eval.code import LOCK_FILE, is_auto_loaded, is_code
from holdfast.stacks.reads.fileset import Fileset


class Kind(Enum):
    """How a path comes to matter; the order is that in which reasons are told."""

    VARIABLES = "variables"
    OWN = "own"
    LOCK = "lock"
    PIN = "pin"
    MODULE = "module"
    READ = "read"
    FOLDER = "folder"
    NAMED = "named"
    EVERYTHING = "everything"


class Touch(Struct, frozen=True, kw_only=True):
    """Why one path touches a stack: `subject` is the module, the folder, or the words for `EVERYTHING`."""

    kind: Kind
    subject: str
    path: str

    @property
    def reason(self) -> str:
        return reason_text(self.kind, self.subject, (self.path,))


class Names(Struct, frozen=True, kw_only=True):
    """Paths that strings of the code or of variables may mean. A folder stands for all that is below it."""

    paths: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()


class Reach(Struct, frozen=True, kw_only=True):
    """Every path is relative to the root and uses `/`."""

    module: str
    files: frozenset[str]
    """What is there and decides the stack. A file behind a link stands here under both its paths."""
    variables_files: frozenset[str]
    modules: Mapping[str, str]
    """Folders of the root module and of every local module, by their real path too, each with its name."""
    pins: frozenset[str]
    """Where a version file would count."""
    reads: frozenset[str]
    """Files that functions read, there or not."""
    filesets: tuple[Fileset, ...]
    names: tuple[Names, ...]
    outside: tuple[str, ...]
    """What is read from outside the root, in words with the place: no change of the repository shows it."""
    beyond: tuple[str, ...]
    """Those of them that a relative path names: from a work directory it would lead elsewhere."""
    reasons: tuple[str, ...]
    """Why every file counts, in words with the place; empty when all could be followed."""
    tofu: tuple[str, ...] = ()
    """Why OpenTofu must run this, from any module of it."""
    above: frozenset[str] = field(default_factory=frozenset)
    """Folders on the way to anything here: a change *of* one is a link or a submodule that changed."""

    @property
    def everything(self) -> bool:
        return bool(self.reasons)


def affecting_change(reach: Reach, path: str) -> Touch | None:
    """Whether a changed path (changed, new, or gone) touches the stack, and why."""
    return next(_touches(reach, path), None)


def _touches(reach: Reach, path: str) -> Iterator[Touch]:
    folder, _, name = path.rpartition("/")
    module = reach.modules.get(folder or ".")
    own = module == reach.module
    if path in reach.variables_files:
        yield Touch(kind=Kind.VARIABLES, subject=path, path=path)
    if own and name == LOCK_FILE:
        yield Touch(kind=Kind.LOCK, subject=path, path=path)
    if own and (is_code(name) or is_auto_loaded(name)):
        yield Touch(kind=Kind.OWN, subject=path, path=path)
    if path in reach.pins:
        yield Touch(kind=Kind.PIN, subject=path, path=path)
    if module is not None and not own and is_code(name):
        yield Touch(kind=Kind.MODULE, subject=module, path=path)
    if path in reach.reads or path in reach.above:
        yield Touch(kind=Kind.READ, subject=path, path=path)
    for fileset in reach.filesets:
        if fileset.holds(path):
            yield Touch(kind=Kind.FOLDER, subject=fileset.folder, path=path)
    yield from _named(reach, path)
    if reach.reasons:
        yield Touch(kind=Kind.EVERYTHING, subject=reach.reasons[0], path=path)


def _named(reach: Reach, path: str) -> Iterator[Touch]:
    if path in reach.files or any(path in names.paths for names in reach.names):
        yield Touch(kind=Kind.NAMED, subject=path, path=path)
    for folder in ancestors(path):
        if any(folder in names.folders for names in reach.names):
            yield Touch(kind=Kind.FOLDER, subject=folder, path=path)


def ancestors(path: str) -> Iterator[str]:
    """The folders above a path, nearest first, without the root."""
    folder = path.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


_MOST_PATHS = 3

_WORDS: Mapping[Kind, str] = MappingProxyType(
    {
        Kind.VARIABLES: "variables file {paths} changed",
        Kind.OWN: "its own code changed ({paths})",
        Kind.LOCK: "its lock file {paths} changed",
        Kind.PIN: "its version file {paths} changed",
        Kind.MODULE: "module {subject} changed ({paths})",
        Kind.READ: "reads {paths}",
        Kind.FOLDER: "reads files of {subject} ({paths})",
        Kind.NAMED: "names {paths}",
        Kind.EVERYTHING: "{subject}: every file counts ({paths})",
    }
)


def reason_text(kind: Kind, subject: str, paths: Iterable[str]) -> str:
    """A reason for people; of many paths only the first are named."""
    listed = sorted(paths)
    shown = ", ".join(listed[:_MOST_PATHS])
    if len(listed) > _MOST_PATHS:
        shown += f" and {len(listed) - _MOST_PATHS} more"
    return _WORDS[kind].format(subject=subject, paths=shown)
