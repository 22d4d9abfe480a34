"""The inputs of a stack: every file that its plan may depend on, existing or not.

One value answers two questions. *Work directory*: which files must be in it (`files`; all of them if
`everything`). *Selection*: does a changed path affect the stack (`affecting_change`), even a new or deleted
one. What cannot be followed makes both answers larger, never smaller: the work directory gets every file; a
change counts if it is near the code (`nearby`), or anywhere if not even that is known (`unbounded`).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache

from msgspec import Struct, field

from holdfast.config.stack_rules import DEFAULT_IGNORES
from holdfast.hcl.eval.code import LOCK_FILE, is_auto_loaded, is_code

_MOST_PATHS = 3
_MOST_ALTERNATIVES = 100


class Fileset(Struct, frozen=True, kw_only=True):
    """`fileset`: the files below a folder that match a pattern, existing or not."""

    folder: str
    pattern: re.Pattern[str] | None
    """None: the pattern is not supported, so every file below the folder counts."""

    def holds(self, path: str) -> bool:
        if self.folder != ".":
            if not path.startswith(f"{self.folder}/"):
                return False
            path = path[len(self.folder) + 1 :]
        return self.pattern is None or bool(self.pattern.fullmatch(path))


def fileset_pattern(glob: str) -> re.Pattern[str] | None:
    """`*`, `**`, `?` and `{a,b}` as in Terraform's `fileset`; None for anything else."""
    alternatives = _alternatives(glob)
    if alternatives is None or re.search(r"[\[\]\\]", glob):
        return None
    for path in alternatives:
        components = path.split("/")
        if (
            ".." in components
            or path.startswith("/")
            or any("**" in part and part != "**" for part in components)
        ):
            return None
    return re.compile("|".join(_path_pattern(posixpath.normpath(path)) for path in alternatives), re.DOTALL)


def _alternatives(glob: str) -> list[str] | None:
    """The glob without braces, once per alternative; None if there are too many or unbalanced braces."""
    waiting, done = [glob], []
    while waiting:
        text = waiting.pop()
        braces = re.search(r"\{([^{}]*)\}", text)
        if braces is None:
            done.append(text)
        else:
            before, after = text[: braces.start()], text[braces.end() :]
            waiting += (f"{before}{inside}{after}" for inside in braces[1].split(","))
        if len(waiting) + len(done) > _MOST_ALTERNATIVES:
            return None
    return None if any("{" in text or "}" in text for text in done) else done


# What is between two wildcards is searched for once, at the first place that fits (`(?>…)`): no other place
# matches more, and trying all of them would take exponential time.


def _path_pattern(glob: str) -> str:
    first, *others = (
        "/".join(map(_name_pattern, part.strip("/").split("/"))) if part.strip("/") else ""
        for part in re.split(r"(?:(?:^|(?<=/))\*\*(?:/|$))+", glob)
    )
    if not others:
        return first
    *between, last = others
    middle = "".join(f"(?>(?:[^/]*/)*?{part}/)" for part in between)
    return (f"{first}/" if first else "") + middle + (f"(?:.*/)?{last}" if last else ".*")


def _name_pattern(glob: str) -> str:
    first, *others = (re.escape(part).replace(r"\?", "[^/]") for part in re.split(r"\*+", glob))
    if not others:
        return first
    *between, last = others
    return first + "".join(f"(?>[^/]*?{part})" for part in between) + f"[^/]*{last}"


@lru_cache(maxsize=1024)
def path_glob(glob: str) -> re.Pattern[str] | None:
    """A pattern of `reads` or `ignores`: the paths that match it, and everything below them."""
    pattern = fileset_pattern(glob)
    return pattern and re.compile(f"(?:{pattern.pattern})(?:/.*)?", re.DOTALL)


class InputKind(Enum):
    """Why a path matters, as shown to users, in the order in which reasons are listed."""

    VARIABLES = "variables file {paths} changed"
    OWN = "its own code changed ({paths})"
    LOCK = "its lock file {paths} changed"
    PIN = "its version file {paths} changed"
    MODULE = "module {subject} changed ({paths})"
    READ = "reads {paths}"
    FOLDER = "reads files in {subject} ({paths})"
    NAMED = "refers to {paths}"
    LISTED = "`reads` in holdfast.yaml lists {paths}"
    NEARBY = "{subject} count ({paths})"
    EVERYTHING = "{subject}: every changed file counts ({paths})"


InputChange = tuple[InputKind, str]
"""Why a path affects a stack, and the module, the folder, or what is unclear; otherwise empty."""


class NamedPaths(Struct, frozen=True, kw_only=True):
    """Paths that strings in the code or in variables may refer to. A folder includes everything below it."""

    paths: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()


class NearbyFiles(Struct, frozen=True, kw_only=True):
    """The files of a folder, which count because the code may read files that it does not name."""

    reason: str
    folder: str
    ending: str = ""
    """How a name ends that is otherwise computed; empty if this is not known."""

    def holds(self, path: str) -> bool:
        """Terraform's own files are left out: of these it is known which ones a stack reads.

        So is documentation, unless the folder itself is named like that, or the name that the code computes.
        """
        name = path.rpartition("/")[2]
        below = path if self.folder == "." else path.removeprefix(f"{self.folder}/")
        return (
            (self.folder == "." or below != path)
            and not (is_code(name) or name.endswith((".tfvars", ".tfvars.json")) or name == LOCK_FILE)
            and (not _is_documentation(below) or bool(self.ending and name.endswith(self.ending)))
        )


class OutsideRead(Struct, frozen=True, kw_only=True):
    """A file outside the root that is read by an absolute path or one that starts with `~`."""

    path: str
    pattern: str | None = None
    """Of `fileset`: the path is then a folder."""
    kubeconfig: bool = False
    """Named by a provider: only the clusters in it count, because the rest is credentials."""


class StackInputs(Struct, frozen=True, kw_only=True):
    """Every path is relative to the root and uses `/`."""

    module: str
    files: frozenset[str]
    """The existing input files. A file behind a link is listed under both paths."""
    variables_files: frozenset[str]
    modules: Mapping[str, str]
    """Folders of the root module and of every local module, also by real path, with the name as written."""
    pins: frozenset[str]
    """Where a version file would apply."""
    reads: frozenset[str]
    """Files that functions read, existing or not."""
    filesets: tuple[Fileset, ...]
    names: tuple[NamedPaths, ...]
    outside: tuple[str, ...]
    """Sentences with file and line: reads from outside the root, which no change in the repository shows."""
    outside_reads: frozenset[OutsideRead]
    broken: tuple[str, ...]
    """Sentences about paths that fail in a work directory: relative ones outside the root, dead links."""
    reasons: tuple[str, ...]
    """Why the work directory needs every file, with file and line; empty if everything could be followed."""
    unbounded: tuple[str, ...] = ()
    """Those of `reasons` for which every changed file counts."""
    nearby: tuple[NearbyFiles, ...] = ()
    listed: tuple[re.Pattern[str], ...] = ()
    """`reads` of the configuration."""
    ignored: tuple[re.Pattern[str], ...] = ()
    """`ignores` of the configuration: these never count."""
    tofu: tuple[str, ...] = ()
    """Why only OpenTofu can run this, from any of its modules."""
    above: frozenset[str] = field(default_factory=frozenset)
    """Folders above any input: if one itself changed, it is a link or a submodule."""

    @property
    def everything(self) -> bool:
        return bool(self.reasons)


def affecting_change(inputs: StackInputs, path: str, *, with_ignored: bool = False) -> InputChange | None:
    """Why a changed, new or deleted path affects the stack; None if it does not, or if it is ignored."""
    if not with_ignored and any(glob.fullmatch(path) for glob in inputs.ignored):
        return None
    return next(_known_changes(inputs, path), None) or next(_unclear_changes(inputs, path), None)


@lru_cache(maxsize=8192)
def _is_documentation(path: str) -> bool:
    return any(glob.fullmatch(path) for glob in map(path_glob, DEFAULT_IGNORES) if glob)


def _unclear_changes(inputs: StackInputs, path: str) -> Iterator[InputChange]:
    for near in inputs.nearby:
        if near.holds(path):
            where = "all files" if near.folder == "." else f"files in {near.folder}"
            yield InputKind.NEARBY, f"{near.reason}: {where}"
    if inputs.unbounded and (is_code(path.rpartition("/")[2]) or not _is_documentation(path)):
        yield InputKind.EVERYTHING, inputs.unbounded[0]


def _known_changes(inputs: StackInputs, path: str) -> Iterator[InputChange]:
    folder, _, name = path.rpartition("/")
    module = inputs.modules.get(folder or ".")
    own = module == inputs.module
    if path in inputs.variables_files:
        yield InputKind.VARIABLES, ""
    if own and name == LOCK_FILE:
        yield InputKind.LOCK, ""
    if own and (is_code(name) or is_auto_loaded(name)):
        yield InputKind.OWN, ""
    if path in inputs.pins:
        yield InputKind.PIN, ""
    if module is not None and not own and is_code(name):
        yield InputKind.MODULE, module
    if path in inputs.reads or path in inputs.above:
        yield InputKind.READ, ""
    yield from ((InputKind.FOLDER, fileset.folder) for fileset in inputs.filesets if fileset.holds(path))
    if any(glob.fullmatch(path) for glob in inputs.listed):
        yield InputKind.LISTED, ""
    yield from _named(inputs, path)


def _named(inputs: StackInputs, path: str) -> Iterator[InputChange]:
    if path in inputs.files or any(path in names.paths for names in inputs.names):
        yield InputKind.NAMED, ""
    for above in ancestors(path):
        if any(above in names.folders for names in inputs.names):
            yield InputKind.FOLDER, above


def ancestors(path: str) -> Iterator[str]:
    """The folders above a path, nearest first, without the root."""
    folder = path.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def reason_text(kind: InputKind, subject: str, paths: Iterable[str]) -> str:
    """The reason as shown to users; of many paths only the first are listed."""
    listed = sorted(paths)
    shown = ", ".join(listed[:_MOST_PATHS])
    if len(listed) > _MOST_PATHS:
        shown += f" and {len(listed) - _MOST_PATHS} more"
    return kind.value.format(subject=subject, paths=shown)
