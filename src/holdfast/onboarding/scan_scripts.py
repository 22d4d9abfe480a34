"""Backend settings that scripts and pipelines hand to `terraform init`: where a state really is today."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from holdfast.kernel.errors import Place

LARGEST: Final = 512 * 1024

_SCRIPT: Final = re.compile(
    r"(?:^|/)(?:[^/]+\.(?:sh|bash|mk|ps1)|[Gg]?[Mm]akefile|Jenkinsfile[^/]*|[Jj]ustfile"
    r"|(?:Taskfile|azure-pipelines[^/]*|bitbucket-pipelines|buildspec[^/]*|cloudbuild[^/]*"
    r"|atlantis|\.gitlab-ci)\.ya?ml)$|^\.(?:github/workflows|circleci)/[^/]+\.ya?ml$"
)
_OPTION: Final = re.compile(
    r"-backend-config(?:=|\s+)[\"']?((?:\$\{\{[^}]*\}\}|[^\s\"'\\])+[\"']?[^\s\"'\\]*)"
)
_WRITTEN: Final = re.compile(
    r"\bbackend\s*\\?[\"'](?:azurerm|consul|cos|gcs|http|kubernetes|oci|oss|pg|remote|s3)\\?[\"']\s*\{"
)
_PAIR: Final = re.compile(r"([a-z_]+)=[\"']?(.+?)[\"']?$")
_VARIABLE: Final = re.compile(
    r"\$\{\{\s*(?:[\w-]+\.)*([\w-]+)\s*\}\}|\$\{(\w+)\}|\$\((\w+)\)|\$(\w+)|%(\w+)%|\{\{\s*\.?(\w+)\s*\}\}"
)
_SAME: Final = {"env": "environment", "aws_region": "region", "location": "region", "stage": "environment"}


class BackendConfigOption(Struct, frozen=True, kw_only=True):
    """One `-backend-config` of a script: a setting, or a file when `setting` is None."""

    path: str
    line: int
    setting: str | None
    value: str


def is_script(path: str) -> bool:
    return bool(_SCRIPT.search(path))


def backend_config_options(text: str, path: str) -> tuple[BackendConfigOption, ...]:
    found: list[BackendConfigOption] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith(("#", "//")):
            continue
        for option in _OPTION.finditer(line):
            pair = _PAIR.fullmatch(option.group(1))
            found.append(
                BackendConfigOption(
                    path=path,
                    line=number,
                    setting=pair.group(1) if pair else None,
                    value=pair.group(2) if pair else option.group(1),
                )
            )
    return tuple(found)


def generated_backend(text: str, path: str) -> Place | None:
    """Where a script writes a backend block into the code: then the code alone does not tell the place."""
    found = _WRITTEN.search(text)
    return Place(file=path, line=text.count("\n", 0, found.start()) + 1) if found else None


def as_template(value: str, placeholders: Iterable[str]) -> str | None:
    """The value with a script's variables as placeholders; None when one of them is not known here."""
    known = set(placeholders)
    text = ""
    end = 0
    for found in _VARIABLE.finditer(value):
        word = next(group for group in found.groups() if group).lower().replace("-", "_")
        word = word.removeprefix("tf_var_")
        name = word if word in known else _SAME.get(word)
        if name is None or name not in known:
            return None
        text += f"{_braces(value[end : found.start()])}{{{name}}}"
        end = found.end()
    rest = value[end:]
    return None if "$" in rest or "`" in value else text + _braces(rest)


def _braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def consistent_settings(passed: Iterable[BackendConfigOption]) -> Mapping[str, BackendConfigOption] | None:
    """Settings by name; None when scripts do not agree, or hand over whole files."""
    found: dict[str, BackendConfigOption] = {}
    for one in passed:
        if one.setting is None or found.setdefault(one.setting, one).value != one.value:
            return None
    return found
