"""`fileset`: a folder and a pattern. A file that does not exist yet may match it too."""

from __future__ import annotations

import posixpath
import re

from msgspec import Struct

_WILD = {
    "**/": "(?:.*/)?",
    "**": ".*",
    "*": "[^/]*",
    "?": "[^/]",
    "{": "(?:",
    "}": ")",
    ",": "|",
}


class Fileset(Struct, frozen=True, kw_only=True):
    """The files below a folder that match a pattern, now and later."""

    folder: str
    pattern: re.Pattern[str] | None
    """None: the pattern is not followed, every file below the folder counts."""

    def holds(self, path: str) -> bool:
        if self.folder != ".":
            if not path.startswith(f"{self.folder}/"):
                return False
            path = path[len(self.folder) + 1 :]
        return self.pattern is None or bool(self.pattern.fullmatch(path))


def fileset_pattern(glob: str) -> re.Pattern[str] | None:
    """`*`, `**`, `?` and `{a,b}` as Terraform's `fileset` means them; None for anything beyond that."""
    if re.search(r"[\[\]\\]", glob) or glob.startswith("/"):
        return None
    components = glob.split("/")
    if ".." in components or any("**" in part and part != "**" for part in components):
        return None
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|[{},]|[^*?{},]+", posixpath.normpath(glob))
    if tokens.count("{") != tokens.count("}") or ("," in tokens and "{" not in tokens):
        return None
    try:
        return re.compile("".join(_WILD.get(token) or re.escape(token) for token in tokens), re.DOTALL)
    except re.error:
        return None
