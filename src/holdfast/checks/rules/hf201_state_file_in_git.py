"""HF201: a state file in Git."""

from __future__ import annotations

import re

from holdfast.checks.interface import Rule, Severity
from holdfast.checks.kept_files import Content, Suspect, history, is_written, name_of, tree

_NAME = re.compile(r"\.tfstate(?:$|[^A-Za-z])", re.IGNORECASE)
_OTHER_NAMES = (".json", ".bak", ".backup", ".old", ".txt")
_INSIDE = (b'"lineage"', b'"serial"', b'"terraform_version"')
_ELSEWHERE = re.compile(r"(?:^|/)\.terra(?:form|grunt-cache)/")


def _judge(path: str, content: Content | None) -> Suspect | None:
    name = name_of(path)
    if _ELSEWHERE.search(path) or is_written(name):
        return None
    if _NAME.search(name):
        return Suspect("a state file")
    if content is None or not name.lower().endswith(_OTHER_NAMES):
        return None
    inside = content() or b""
    return Suspect("a state under another name") if all(mark in inside for mark in _INSIDE) else None


RULE = Rule(
    id="HF201",
    title="A state file in Git",
    why="A state holds every password and key of its resources in clear, and a clone keeps it for ever. Two "
    "people who each commit their own state overwrite each other's infrastructure.",
    fix="Move the state to a backend (`holdfast state` helps), run `git rm --cached`, add `*.tfstate*` to "
    "`.gitignore`, and change every secret it holds.",
    severity=Severity.ERROR,
    repository=tree(_judge),
    history=history(_judge),
    more="Found by name (`*.tfstate`, `*.tfstate.backup`, `errored.tfstate`, lock files), and by content in "
    "JSON and backup files under other names. With `--history` only names are known. What lies below "
    "`.terraform/` is HF203's.",
)
