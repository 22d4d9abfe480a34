"""Where providers in a compartment open their sockets.

Landlock does not limit who connects to a socket, and /proc/net/unix shows the paths of all. Whoever connects
to a provider without plugin TLS can use it with its credentials. So these providers get a folder as a
descriptor of their engine: what /proc then shows is a path that leads elsewhere in every other process. Its
real path has several random parts, all made at once, so that no one can watch them appear.

The supervisor loads this module, so imports are few.
"""

from __future__ import annotations

import os
import shutil

VARIABLE = "PLUGIN_UNIX_SOCKET_DIR"
NUMBER = 200
"""The descriptor."""
FOLDER = f"/proc/self/fd/{NUMBER}"
_PARTS = 4


def open_folder() -> None:
    """If this engine is in a compartment. Its providers and programs inherit the descriptor."""
    if os.environ.get(VARIABLE) != FOLDER:
        return
    parts = "/".join(os.urandom(12).hex() for _ in range(_PARTS))
    path = f"{_own_folder()}/{parts}"
    os.makedirs(path, 0o700)  # noqa: PTH103 - pathlib is not imported here
    opened = os.open(path, os.O_PATH | os.O_DIRECTORY)
    os.dup2(opened, NUMBER, inheritable=True)
    os.close(opened)


def is_private(path: str) -> bool:
    """Whether a provider opened its socket there."""
    return os.environ.get(VARIABLE) != FOLDER or path.startswith(f"{FOLDER}/")


def remove_folder() -> None:
    if os.environ.get(VARIABLE) == FOLDER:
        shutil.rmtree(_own_folder(), ignore_errors=True)


def inherited() -> tuple[int, ...]:
    """For programs that are started with Python."""
    return (NUMBER,) if os.environ.get(VARIABLE) == FOLDER else ()


def _own_folder() -> str:
    return f"{os.environ['TMPDIR']}/s{os.getpid()}"
