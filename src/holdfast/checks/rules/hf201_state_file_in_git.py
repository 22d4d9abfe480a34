from __future__ import annotations

import re

from holdfast.checks.model.contents import ContentKind, is_state
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.secrets.committed_files import Content, Suspect, in_git, is_source_or_document, name_of
from holdfast.kernel.patterns import pattern

_NAME = pattern(r"\.tfstate(?:$|[^A-Za-z])", re.IGNORECASE)
_OTHER_NAMES = pattern(r"^[^.]+$|\.(?:json|bak|backup|old|orig|save|state|txt)$", re.IGNORECASE)
_ELSEWHERE = pattern(r"(?:^|/)\.terra(?:form|grunt-cache)/")


def _judge(path: str, content: Content | None) -> Suspect | None:
    name = name_of(path)
    if _ELSEWHERE.search(path) or is_source_or_document(name):
        return None
    if _NAME.search(name):
        return Suspect("a state file")
    if content is None or not _OTHER_NAMES.search(name):
        return None
    return Suspect(ContentKind.STATE.value) if is_state(content() or b"") else None


RULE = Rule(
    id="HF201",
    title="State file in Git",
    why="A state contains every password and key of its resources in plain text, and every clone keeps "
    "it forever. Two people who each commit their own state overwrite each other's infrastructure.",
    fix="Move the state to a backend (`holdfast state` helps), run `git rm --cached`, add `*.tfstate*` "
    "to `.gitignore`, and rotate every secret in it.",
    severity=Severity.ERROR,
    **in_git(_judge, ContentKind.STATE),
    secret=True,
)
