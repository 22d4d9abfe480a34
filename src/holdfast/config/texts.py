"""Texts that several keys take: names, and paths inside the repository."""

from __future__ import annotations

from typing import Final

from holdfast.config.shape import Text

NAME_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._@+-]*"
NAME_SAYS: Final = "a name of letters, digits and . _ @ + -, starting with a letter or digit"
INSIDE: Final = r"(?!/)(?!(?:.*/)?\.\.(?:/|$))[^\\\x00-\x1f]+"
INSIDE_SAYS: Final = "a path inside the repository, relative to holdfast.yaml, without `..`"

NAME: Final = Text(says=NAME_SAYS, pattern=NAME_PATTERN, most=100)
FILLED: Final = Text(fill=True)
PATH: Final = Text(says=INSIDE_SAYS, pattern=INSIDE, code="HF-CONF-16", numbers=False, fill=True, path=True)
VARIABLES_PATTERN: Final = Text(
    says=f"{INSIDE_SAYS}, that ends in `.tfvars` or `.tfvars.json`",
    pattern=rf"{INSIDE}\.tfvars(?:\.json)?",
    code="HF-CONF-16",
    numbers=False,
    path=True,
)
FOLDER_PATTERN: Final = Text(says=INSIDE_SAYS, pattern=INSIDE, code="HF-CONF-16", numbers=False, path=True)
