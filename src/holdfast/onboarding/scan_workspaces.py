"""Finds the names of workspaces: in code, in scripts, and in Terraform's own record."""

from __future__ import annotations

import re
from typing import Final

AS_VARIABLES_FILE: Final = "$"
"""Among the names in a script: one variable of the script names the workspace and the variables file."""

_READ: Final = re.compile(r"^(?!\s*(?:#|//)).*\bterraform\.workspace\b", re.MULTILINE)
_DEFAULT: Final = re.compile(
    r"terraform\.workspace\s*[!=]=\s*\"default\"|\"default\"\s*[!=]=\s*terraform\.workspace\b"
)
"""Code that only compares with the default workspace is meant for it."""
_ALIAS: Final = re.compile(r"^\s*(\w+)\s*=\s*terraform\.workspace\s*$", re.MULTILINE)
_OBJECT_KEY: Final = re.compile(r"(?:^|[{,])\s*\"?([\w-]+)\"?\s*[=:](?!=)", re.MULTILINE)
_VARIABLE: Final = r"\$\{\{[^}]*\}\}|\$[({][^)}]*[)}]|\$\w+"
_SELECTED: Final = re.compile(
    r"(?:\bworkspace[\"',\s]+(?:select|new)\b(?:[\"',\s]+-[\w=-]+)*[\"', \t]+"
    r"|\bTF_WORKSPACE\b[\"']?\s*[:=]\s*[\"']?)"
    rf"({_VARIABLE}|\w[\w.-]*)(?![\w$.{{(-])"
)
_VARIABLES_FILE: Final = re.compile(rf"-var-file[=\s\"',]+(?:[^\s\"']*[/.])?({_VARIABLE})(?=[/.])")


def reads_workspace(text: str) -> bool:
    """Whether the code reads `terraform.workspace`."""
    return "terraform.workspace" in text and _READ.search(_DEFAULT.sub("", text)) is not None


def names_in_code(text: str) -> frozenset[str]:
    """What the code compares `terraform.workspace` with, and the keys of objects if it is an index."""
    if "terraform.workspace" not in text:
        return frozenset()
    aliases = "".join(rf"|local\.{name}\b" for name in _ALIAS.findall(text))
    read = rf"(?:terraform\.workspace{aliases})"
    compared = re.findall(rf"{read}\s*[!=]=\s*\"([^\"$]+)\"|\"([^\"$]+)\"\s*[!=]=\s*{read}", text)
    indexed = re.search(rf"\[\s*{read}\s*\]|\blookup\([^\n]*,\s*{read}", text)
    keys = _OBJECT_KEY.findall(text) if indexed else ()
    return frozenset((*keys, *(name for pair in compared for name in pair if name)))


def names_in_script(text: str) -> tuple[str, ...]:
    """The workspaces that a script selects, as far as it names them."""
    names = dict.fromkeys(match.group(1) for match in _SELECTED.finditer(text))
    if any(match.group(1) in names for match in _VARIABLES_FILE.finditer(text)):
        return (AS_VARIABLES_FILE,)
    return tuple(names)
