"""The only module that reads the environment of the program."""

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
    """The variables of the program, read once and passed on as a value."""

    variables: Mapping[str, str]

    def __repr__(self) -> str:
        return masked_repr(self)

    def get(self, name: str) -> str | None:
        """An empty variable counts as unset, because CI systems unset them that way."""
        return self.variables.get(name) or None

    @property
    def ci(self) -> bool:
        return self.variables.get("CI", "").strip().lower() not in {"", "0", "false"}

    @property
    def home(self) -> Path:
        """The data directory of this user: key, tools, work directories."""
        return _home(self.get("HOLDFAST_HOME"), self.get("HOME"), self.get("XDG_DATA_HOME"))

    @property
    def secret_variables(self) -> tuple[str, ...]:
        """The names of those that hold a key, a token or a password of Holdfast itself."""
        return tuple(
            name
            for name in self.variables
            if name.startswith("HOLDFAST_") and name.endswith(("KEY", "TOKEN", "DATABASE_URL"))
        )

    @property
    def user(self) -> str:
        """The user of the operating system; variables, which anyone can set, are only a fallback."""
        import pwd  # noqa: PLC0415 - once per command

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
    if named:
        return Path(named).expanduser().absolute()
    user = Path(user_home or "~").expanduser()
    if sys.platform == "darwin":
        return user / "Library" / "Application Support" / "holdfast"
    return Path(data) / "holdfast" if data else user / ".local" / "share" / "holdfast"


def read() -> Environment:
    return Environment(variables=MappingProxyType(dict(os.environ)))
