from __future__ import annotations

import re

from holdfast.checks.model.contents import ContentKind, is_packed_plan, is_shown_plan
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.secrets.committed_files import Content, Suspect, in_git, is_source_or_document, name_of
from holdfast.kernel.patterns import pattern

_NAME = pattern(r"(?:^|[._-])tfplan(?:$|[._-])|^(?:plan|tf|terraform|tofu)\.(?:out|plan)$", re.IGNORECASE)
_PACKED = pattern(r"(?:^[^.]+|\.(?:\w*plan|out|bin|dat|zip|tmp))$", re.IGNORECASE)


def _judge(path: str, content: Content | None) -> Suspect | None:
    name = name_of(path)
    if is_source_or_document(name):
        return None
    if _NAME.search(name):
        return Suspect("a plan file")
    if content is None:
        return None
    if name.lower().endswith(".json"):
        return _shown(content() or b"")
    inside = content() or b"" if _PACKED.search(name) else b""
    return Suspect(ContentKind.PLAN.value) if is_packed_plan(inside) else None


def _shown(inside: bytes) -> Suspect | None:
    shown = is_shown_plan(inside)
    return Suspect(ContentKind.SHOWN_PLAN.value, severity=Severity.WARNING) if shown else None


RULE = Rule(
    id="HF202",
    title="Plan file in Git",
    why="A plan contains the state before and after and all variables in plain text, sensitive or not, "
    "and often the backend's settings with its password.",
    fix="Run `git rm --cached`, add `*.tfplan` and `tfplan*` to `.gitignore`, and rotate every secret in it.",
    severity=Severity.ERROR,
    **in_git(_judge, ContentKind.PLAN, ContentKind.SHOWN_PLAN),
    secret=True,
)
