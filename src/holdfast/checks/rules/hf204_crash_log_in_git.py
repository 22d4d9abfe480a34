from __future__ import annotations

import re

from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.secrets.committed_files import Content, Suspect, in_git, name_of
from holdfast.kernel.patterns import pattern

_CRASH = pattern(r"^crash(?:\.[\w-]+)*\.log$", re.IGNORECASE)
_LEVELS = (b"[TRACE]", b"[DEBUG]")
_SPEAKER = pattern(rb"\b(?:terraform|tofu|provider\.terraform-provider)", re.IGNORECASE)


def _judge(path: str, content: Content | None) -> Suspect | None:
    name = name_of(path).lower()
    if not name.endswith((".log", ".tflog")):
        return None
    if _CRASH.match(name):
        return Suspect("a crash log")
    inside = content() or b"" if content is not None else b""
    logged = any(level in inside for level in _LEVELS) and _SPEAKER.search(inside)
    return Suspect("a Terraform debug log") if logged else None


RULE = Rule(
    id="HF204",
    title="Terraform log in Git",
    why="Crash and debug logs contain what Terraform and its providers sent and received: values of "
    "variables, requests with tokens, parts of the state.",
    fix="Run `git rm --cached`, add `crash*.log` to `.gitignore`, and rotate every secret in it.",
    severity=Severity.ERROR,
    **in_git(_judge),
    secret=True,
)
