"""The machine and its user as the kernel knows them: variables of the environment have no influence."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_LOGIN = Path("/proc/self/loginuid")
_USER_MAP = Path("/proc/self/uid_map")
_NO_LOGIN = 2**32 - 1
_LENGTH = 16


@functools.cache
def machine() -> str:
    """A digest: the id itself is confidential (machine-id(5)). Without one, the name of the host counts."""
    known = next((text for path in _MACHINE_IDS if (text := _text(path))), None)
    identity = known or f"host {os.uname().nodename}"
    return hashlib.sha256(f"holdfast machine {identity}".encode()).hexdigest()[:_LENGTH]


def user_id() -> int:
    """The user who logged in, also after `sudo` and `su`; else the user of the process."""
    login = _text(_LOGIN)
    number = int(login) if login.isdigit() else _NO_LOGIN
    return outer_user(_text(_USER_MAP), os.getuid() if number == _NO_LOGIN else number)


def outer_user(user_map: str, user: int) -> int:
    """The user outside this user namespace, in which anyone may call themselves root. Pure."""
    for line in user_map.splitlines():
        inside, outside, size = map(int, line.split())
        if inside <= user < inside + size:
            return outside + user - inside
    return user


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
