"""The one place that reads the environment of the program."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from holdfast.kernel.values import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the program was started with, read once and handed on as a value."""

    variables: Mapping[str, str] = field(repr=False)

    def get(self, name: str) -> str | None:
        """An empty variable counts as unset: that is how CI systems unset them."""
        return self.variables.get(name) or None

    @property
    def ci(self) -> bool:
        return self.variables.get("CI", "").strip().lower() not in {"", "0", "false"}

    @property
    def home(self) -> Path:
        """The data directory of this user: the key, the tools, the work directories."""
        if named := self.get("HOLDFAST_HOME"):
            return Path(named).expanduser().absolute()
        user = Path(self.get("HOME") or "~").expanduser()
        if sys.platform == "darwin":
            return user / "Library" / "Application Support" / "holdfast"
        if data := self.get("XDG_DATA_HOME"):
            return Path(data) / "holdfast"
        return user / ".local" / "share" / "holdfast"

    @property
    def host(self) -> str:
        return os.uname().nodename

    @property
    def path(self) -> tuple[Path, ...]:
        return tuple(Path(part) for part in self.variables.get("PATH", "").split(os.pathsep) if part)


def read() -> Environment:
    return Environment(variables=MappingProxyType(dict(os.environ)))
