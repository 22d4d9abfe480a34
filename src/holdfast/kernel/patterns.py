"""Module-level regular expressions that are compiled on first use.

Compiling one takes as long as loading a small module, and a plan loads hundreds of which it uses few.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

__all__ = ["compile_on_use", "pattern"]

_compile = re.compile

if TYPE_CHECKING:
    from re import compile as pattern
else:

    class pattern:  # noqa: N801 - replaces `re.compile`
        """Like `re.compile`; each method becomes that of the compiled expression on first use."""

        def __init__(self, text: str | bytes, flags: int = 0) -> None:
            self._arguments = (text, flags)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            # `re` caches compiled expressions.
            method = getattr(_compile(*self._arguments), name)
            self.__dict__[name] = method
            return method


@contextlib.contextmanager
def compile_on_use() -> Iterator[None]:
    """While a library is imported: the regular expressions of its modules are compiled on first use too."""
    re.compile = pattern
    try:
        yield
    finally:
        re.compile = _compile
