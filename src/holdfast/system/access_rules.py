"""Which paths a confined program may use: everything but Holdfast's secrets.

Landlock only knows what is allowed, with everything below it. So a folder that contains something hidden
or read-only is not allowed as a whole, only its other entries: programs can list it, but cannot create
entries in it. Such folders are called split; they should be few.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import json_object
from holdfast.system import files
from holdfast.system.confine import ALL_RIGHTS, READ_DIR, READ_ONLY
from holdfast.system.environment import Environment

SECRET_FILES = ("key", "token", "login.json")
"""In Holdfast's home."""
_SERVER_FILES = ("", "key", "admin-token", "postgres.password")
"""In the data folder of a server: the folder, and the files in it."""
_SERVERS = "servers.json"
"""In Holdfast's home: the data folders of servers that are elsewhere."""
_USED_LATER = ("tools", "templates", "engines.json", _SERVERS)
"""In Holdfast's home: engines, results of init, known versions."""
_CODE = ("repositories", "workers")
"""In Holdfast's home: the code that a worker runs for all its changes, and copies of repositories."""
COMPARTMENTS = "compartments"
"""In Holdfast's home: work directories of runs on a server, while they run."""
_OF_OTHER_RUNS = ("work", *_CODE)
"""In Holdfast's home: what programs in a compartment do not need."""
COMPARTMENT_SCRATCH = "c"
"""In the scratch folder of a worker: the scratch folders of compartments."""
SCRATCH_PREFIX = "hf-"
SCRATCH_NAME = pattern(SCRATCH_PREFIX + r"[a-z0-9_]{8}")
"""Of scratch folders, which have a file that names their owner."""
SCRATCH_OWNER = "holdfast-owner"
_FILE_VARIABLES = ("HOLDFAST_KEY_FILE", "HOLDFAST_TOKEN_FILE")
_KERNEL = ("/proc", "/sys")
"""Root could make the kernel run a program for it by writing there."""
_DEVICES = "/dev"
_SHARED = ("/tmp", "/var/tmp")  # noqa: S108 - programs create their own files there
_MEMORY = "/dev/shm"  # noqa: S108 - Terraform's output is there during an apply


class AccessRules(NamedTuple):
    hidden: tuple[str, ...]
    read_only: tuple[str, ...]
    own: tuple[str, ...] = ()
    """Folders of one run, which are below hidden ones."""

    def rules(self) -> list[tuple[str, int]]:
        """Paths and their rights, for `create_ruleset`."""
        devices = _block_devices() if os.geteuid() == 0 else ()
        rules = _rules("/", (*self.hidden, *devices), self.read_only, ALL_RIGHTS)
        # A folder of a compartment is elsewhere while it is held: a link says where.
        return [*rules, *((os.path.realpath(path), ALL_RIGHTS) for path in self.own)]

    def split_folders(self) -> tuple[str, ...]:
        """In which programs cannot create entries; without those of the system."""
        above = {str(parent) for path in (*self.hidden, *self.read_only) for parent in Path(path).parents}
        writable = (folder for folder in above if folder != "/" and os.access(folder, os.W_OK))
        return tuple(sorted(set(writable) - set(_KERNEL)))


def secret_files(environment: Environment) -> tuple[str, ...]:
    """The files with Holdfast's key and tokens, whether they exist or not."""
    named = [Path(name).expanduser() for variable in _FILE_VARIABLES if (name := environment.get(variable))]
    if (key := environment.get("HOLDFAST_KEY") or "").startswith("age:"):
        # The identities that open the key of a server.
        named.append(Path(key.removeprefix("age:").partition(",")[0]).expanduser())
    own = (environment.home / name for name in SECRET_FILES)
    servers = (environment.home / "server", *_server_folders(environment))
    of_servers = (folder / name for folder in servers for name in _SERVER_FILES)
    # `keys rotate` leaves the old key beside the new one.
    old = (file for folder in (environment.home, *servers) for file in _old_keys(folder))
    return tuple(_real([*named, *own, *of_servers, *old]))


def _old_keys(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in os.listdir(folder) if name.startswith("key.")]  # noqa: PTH208 - names are enough
    except OSError:
        return []


def record_server_folder(environment: Environment, folder: Path) -> None:
    """A data folder outside of Holdfast's home, so that code in a plan cannot read its secrets."""
    known = _server_folders(environment)
    if folder in (environment.home / "server", *known):
        return
    folders = [str(path) for path in (*known, folder) if path == folder or path.exists()]
    files.private_folder(environment.home)
    files.write(environment.home / _SERVERS, json.dumps({"version": 1, "folders": folders}) + "\n")


def _server_folders(environment: Environment) -> tuple[Path, ...]:
    content = files.content_of(environment.home / _SERVERS)
    folders = json_object(content).get("folders") if content is not None else None
    return tuple(map(Path, folders)) if isinstance(folders, list) else ()


class ForbiddenFiles:
    """Files that Holdfast must not read for a stack: its own keys, and what the kernel shows of processes.

    They are known by what they are, not by name: a link can have any name.
    """

    def __init__(self, environment: Environment) -> None:
        known = [_stat(path) for path in secret_files(environment)]
        self._files = {(about.st_dev, about.st_ino) for about in known if about is not None}
        processes = _stat(_KERNEL[0])
        self._processes = processes.st_dev if processes is not None else None

    def __contains__(self, about: object) -> bool:
        if not isinstance(about, os.stat_result):
            return False
        return about.st_dev == self._processes or (about.st_dev, about.st_ino) in self._files


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - many calls
    except OSError:
        return None


def access_rules(
    environment: Environment,
    *,
    store: Path | None = None,
    writes: Path | None = None,
    fetches_code: bool = False,
    own: Sequence[Path] = (),
) -> AccessRules:
    """`store` is the folder of the run store, `writes` the folder of a local state that Terraform writes.

    `fetches_code`: for the programs that bring the code of changes to a worker. `own`: the folders of a
    compartment, of which the last one is for temporary files. Then all that belongs to other runs is hidden,
    also in places where every program can write.

    A file that does not exist is hidden only if Holdfast may create it meanwhile: its folder is not split for
    nothing.
    """
    creates_key = not (environment.get("HOLDFAST_KEY") or environment.get("HOLDFAST_KEY_FILE"))
    own_key = os.path.realpath(environment.home / SECRET_FILES[0])
    secrets = tuple(
        path
        for path in secret_files(environment)
        if os.path.lexists(path) or (creates_key and path == own_key)
    )
    home = environment.get("HOME")
    whole = tuple(_real(Path(path) for path in (home, *_SHARED) if path))
    state = next(iter(_real([writes] if writes is not None else [])), "")

    def holds_state(path: str) -> bool:
        """Whether Terraform may have to create the state's folder, or one above it, beside the path."""
        return bool(state) and _is_below(f"{state}/", os.path.dirname(path))  # noqa: PTH120 - paths are text here

    # What later runs start or believe; the home is split for its key anyway.
    used = (os.path.realpath(environment.home / name) for name in _USED_LATER)
    own_key_hidden, servers = own_key in secrets, os.path.realpath(environment.home / _SERVERS)
    # What one change could write there, another would run.
    code = () if fetches_code else (os.path.realpath(environment.home / name) for name in _CODE)
    others = _of_other_runs(environment, own) if own else _compartments(environment)
    return AccessRules(
        hidden=(
            *secrets,
            *(path for path in _hidden_store(store, secrets, whole) if not holds_state(path)),
            *others,
        ),
        read_only=(
            *_KERNEL,
            *(folder for folder in _program_folders() if not holds_state(folder)),
            *(path for path in used if (own_key_hidden or path == servers) and os.path.lexists(path)),
            *filter(os.path.lexists, code),
        ),
        own=tuple(f"{os.path.realpath(path.parent)}/{path.name}" for path in own),
    )


def _compartments(environment: Environment) -> Iterator[str]:
    """Of workers on this machine."""
    running = os.path.realpath(environment.home / COMPARTMENTS)
    if os.path.lexists(running):
        yield running
        for folder in dict.fromkeys((*_SHARED, tempfile.gettempdir())):
            yield from glob.glob(f"{os.path.realpath(folder)}/{SCRATCH_PREFIX}*/{COMPARTMENT_SCRATCH}")  # noqa: PTH207 - paths are text here


def _of_other_runs(environment: Environment, own: Sequence[Path]) -> Iterator[str]:
    """Their work directories, code and scratch folders, and Terraform's output in memory.

    Nothing can be created where all programs write: what a run leaves there, another one could read.
    """
    yield from (os.path.realpath(environment.home / name) for name in (COMPARTMENTS, *_OF_OTHER_RUNS))
    scratch = os.path.realpath(own[-1].parents[1])
    yield scratch
    yield _MEMORY
    for folder in dict.fromkeys((*_SHARED, os.path.dirname(scratch))):  # noqa: PTH120 - as above
        real = os.path.realpath(folder)
        yield f"{real}/{SCRATCH_PREFIX}"
        with contextlib.suppress(OSError), os.scandir(real) as entries:
            yield from (entry.path for entry in entries if _is_scratch(entry))


def _is_scratch(entry: os.DirEntry[str]) -> bool:
    named = SCRATCH_NAME.fullmatch(entry.name) is not None
    return named and os.path.exists(f"{entry.path}/{SCRATCH_OWNER}")  # noqa: PTH110 - paths are text here


def _hidden_store(store: Path | None, secrets: Sequence[str], whole: Sequence[str]) -> Iterator[str]:
    """Its content is encrypted, so it is hidden only where no folder of `whole` has to be split for it."""
    for path in _real([store] if store is not None else []):
        if not any(
            _is_below(path, folder) and not any(_is_below(secret, folder) for secret in secrets)
            for folder in whole
        ):
            yield path


def _program_folders() -> Iterator[str]:
    """Where Holdfast's own code is, which it loads as it is needed: a program could change it before."""
    folders = [*sys.path, *([sys.prefix] if sys.prefix != sys.base_prefix else [])]
    real = sorted({os.path.realpath(folder) for folder in folders if Path(folder).is_absolute()})
    kept: list[str] = []
    for folder in real:
        writable = Path(folder).is_dir() and os.access(folder, os.W_OK)
        if writable and not any(_is_below(folder, above) for above in kept):
            kept.append(folder)
            yield folder


def _rules(
    folder: str, hidden: Sequence[str], read_only: Sequence[str], rights: int
) -> Iterator[tuple[str, int]]:
    """Of a folder with something hidden or read-only below it, and of its entries."""
    yield folder, READ_DIR
    try:
        with os.scandir(folder) as entries:
            # What a link points to has rules of its own.
            names = [entry.name for entry in entries if not entry.is_symlink()]
    except OSError:
        names = list({_next_name(path, folder) for path in (*hidden, *read_only) if _is_below(path, folder)})
    for name in names:
        path = f"{folder.rstrip('/')}/{name}"
        if path in hidden:
            continue
        own = READ_ONLY if path in read_only else rights
        below_hidden = [other for other in hidden if _is_below(other, path)]
        below_read_only = (
            [other for other in read_only if _is_below(other, path)] if own == ALL_RIGHTS else []
        )
        if below_hidden or below_read_only:
            yield from _rules(path, below_hidden, below_read_only, own)
        else:
            yield path, own


def _next_name(path: str, folder: str) -> str:
    return path[len(folder.rstrip("/")) + 1 :].partition("/")[0]


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def _real(paths: Iterable[Path]) -> Iterator[str]:
    """Each folder is resolved once: this runs for every stack."""
    folders: dict[str, str] = {}
    real: dict[str, None] = {}
    for path in map(os.path.abspath, paths):
        folder, _, name = path.rpartition("/")
        if folder not in folders:
            folders[folder] = os.path.realpath(folder or "/").rstrip("/")
        resolved = f"{folders[folder]}/{name}"
        real[os.path.realpath(resolved) if os.path.islink(resolved) else resolved] = None  # noqa: PTH114 - strings
    yield from real


def _block_devices() -> tuple[str, ...]:
    """Root could read a file from the disk itself."""
    try:
        with os.scandir(_DEVICES) as entries:
            return tuple(
                entry.path
                for entry in entries
                if not entry.is_symlink() and stat.S_ISBLK(entry.stat(follow_symlinks=False).st_mode)
            )
    except OSError:
        return ()
