"""HF203: Terraform's working folder in Git."""

from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.secrets.committed_files import Content, Suspect, history, tree

_FOLDERS = (".terraform", ".terragrunt-cache")


def _judge(path: str, _content: Content | None) -> Suspect | None:
    if ".terra" not in path:
        return None
    parts = path.split("/")
    for at, part in enumerate(parts[:-1]):
        if part in _FOLDERS:
            return Suspect("a working folder of Terraform", folder="/".join(parts[: at + 1]))
    return None


RULE = Rule(
    id="HF203",
    title="Terraform's working folder in Git",
    why="`.terraform/` holds the settings of the backend, with passwords if they were given, copies of "
    "modules, and providers that run on one kind of machine only. From Git it is taken for what was checked "
    "and locked.",
    fix="Run `git rm -r --cached` on it and add `.terraform/` to `.gitignore`. `.terraform.lock.hcl` beside "
    "it belongs in Git.",
    severity=Severity.ERROR,
    repository=tree(_judge),
    of_git=True,
    history=history(_judge),
)
