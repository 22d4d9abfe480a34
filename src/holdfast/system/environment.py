"""The one place that reads the environment of the program."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from holdfast.kernel.secret import masked_repr


class Environment(NamedTuple):
    """What the program was started with, read once and handed on as a value."""

    variables: Mapping[str, str]

    def __repr__(self) -> str:
        return masked_repr(self)

    def get(self, name: str) -> str | None:
        """An empty variable counts as unset: that is how CI systems unset them."""
        return self.variables.get(name) or None

    @property
    def ci(self) -> bool:
        return self.variables.get("CI", "").strip().lower() not in {"", "0", "false"}

    @property
    def home(self) -> Path:
        """The data directory of this user: the key, the tools, the work directories."""
        return _home(self.get("HOLDFAST_HOME"), self.get("HOME"), self.get("XDG_DATA_HOME"))

    @property
    def user(self) -> str:
        """Who the operating system says runs this. A variable says what anybody set it to: a second best."""
        import pwd  # noqa: PLC0415 - asked once for a command

        try:
            return pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            return self.get("USER") or self.get("LOGNAME") or str(os.getuid())

    @property
    def host(self) -> str:
        return os.uname().nodename

    @property
    def path(self) -> tuple[Path, ...]:
        return tuple(Path(part) for part in self.variables.get("PATH", "").split(os.pathsep) if part)


@functools.lru_cache(maxsize=8)
def _home(named: str | None, user_home: str | None, data: str | None) -> Path:
    """Asked for very often in every command."""
    if named:
        return Path(named).expanduser().absolute()
    user = Path(user_home or "~").expanduser()
    if sys.platform == "darwin":
        return user / "Library" / "Application Support" / "holdfast"
    return Path(data) / "holdfast" if data else user / ".local" / "share" / "holdfast"


def read() -> Environment:
    return Environment(variables=MappingProxyType(dict(os.environ)))
