"""Commands in comments: `holdfast plan`, `holdfast apply [STACK…]`, `holdfast help`. Pure."""

from __future__ import annotations

import re
from typing import Final

from holdfast.notify.webhooks.interface import Command

HELP: Final = """\
| comment | what it does |
|---|---|
| `holdfast plan` | plan the stacks that this pull request affects |
| `holdfast apply` | apply the plans shown above, all of them |
| `holdfast apply STACK…` | apply only the plans of these stacks |
| `holdfast help` | show this list |
"""
_LINE: Final = re.compile(r"[/@]?holdfast[ \t]+(plan|apply|help)((?:[ \t]+[^\s`]+)*)[ \t]*\Z", re.IGNORECASE)
_LONGEST: Final = 2000


def parse_command(text: str) -> Command | None:
    """Of the first line, which must be nothing else: a comment that mentions Holdfast is not a command."""
    line = text.strip()[:_LONGEST].split("\n", 1)[0].strip().strip("`")
    match = _LINE.match(line)
    if match is None:
        return None
    name, arguments = match[1].lower(), tuple(match[2].split())
    # `holdfast plan looks good to me` is a sentence; stacks are checked by name.
    return Command(name=name, arguments=arguments) if name == "apply" or not arguments else None
