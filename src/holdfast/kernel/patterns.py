"""Regular expressions of modules: compiled when they are first used, and most never are.

To compile one takes as long as to load a small module, and hundreds stand in the modules that a plan loads.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

__all__ = ["pattern"]

if TYPE_CHECKING:
    from re import compile as pattern
else:

    class pattern:  # noqa: N801 - stands in for `re.compile`
        """As `re.compile`: each method is the compiled expression's own from its first use on."""

        def __init__(self, text: str | bytes, flags: int = 0) -> None:
            self._said = (text, flags)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            # Compiled once however many methods are used: `re` keeps what it has compiled.
            found = getattr(re.compile(*self._said), name)
            self.__dict__[name] = found
            return found
