from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.secrets.committed_files import Content, Suspect, in_git

_FOLDERS = (".terraform", ".terragrunt-cache")


def _judge(path: str, _content: Content | None) -> Suspect | None:
    if ".terra" not in path:
        return None
    parts = path.split("/")
    for at, part in enumerate(parts[:-1]):
        if part in _FOLDERS:
            return Suspect("a working directory of Terraform", folder="/".join(parts[: at + 1]))
    return None


RULE = Rule(
    id="HF203",
    title="Terraform's working directory in Git",
    why="`.terraform/` contains the backend's settings, including passwords if they were set, copies of "
    "modules, and providers for one platform. Once committed it looks as if it had been reviewed and locked.",
    fix="Run `git rm -r --cached` on it and add `.terraform/` to `.gitignore`. `.terraform.lock.hcl` "
    "next to it belongs in Git.",
    severity=Severity.ERROR,
    **in_git(_judge),
)
