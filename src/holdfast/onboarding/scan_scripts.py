"""Finds the backend settings that scripts and pipelines pass to `terraform init`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from holdfast.config.placeholders import escape
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
_BACKEND_BLOCK: Final = re.compile(
    r"\bbackend\s*\\?[\"'](?:azurerm|consul|cos|gcs|http|kubernetes|oci|oss|pg|remote|s3)\\?[\"']\s*\{"
)
_PAIR: Final = re.compile(r"([a-z_]+)=[\"']?(.+?)[\"']?$")
_VARIABLE: Final = re.compile(
    r"\$\{\{\s*(?:[\w-]+\.)*([\w-]+)\s*\}\}|\$\{(\w+)\}|\$\((\w+)\)|\$(\w+)|%(\w+)%|\{\{\s*\.?(\w+)\s*\}\}"
)
_SAME: Final = {"env": "environment", "aws_region": "region", "location": "region", "stage": "environment"}


class BackendConfigOption(Struct, frozen=True, kw_only=True):
    """One `-backend-config` option in a script: a setting, or a file if `setting` is None."""

    path: str
    line: int
    setting: str | None
    value: str


def is_script(path: str) -> bool:
    return bool(_SCRIPT.search(path))


def backend_config_options(text: str, path: str) -> tuple[BackendConfigOption, ...]:
    options: list[BackendConfigOption] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith(("#", "//")):
            continue
        for match in _OPTION.finditer(line):
            pair = _PAIR.fullmatch(match.group(1))
            options.append(
                BackendConfigOption(
                    path=path,
                    line=number,
                    setting=pair.group(1) if pair else None,
                    value=pair.group(2) if pair else match.group(1),
                )
            )
    return tuple(options)


def generated_backend(text: str, path: str) -> Place | None:
    """Where a script writes a backend block: then the code alone does not show the state's location."""
    match = _BACKEND_BLOCK.search(text)
    return Place(file=path, line=text.count("\n", 0, match.start()) + 1) if match else None


def as_template(value: str, placeholders: Iterable[str]) -> str | None:
    """The value with a script's variables as placeholders; None if one of them is unknown."""
    known = set(placeholders)
    text = ""
    end = 0
    for match in _VARIABLE.finditer(value):
        word = next(group for group in match.groups() if group).lower().replace("-", "_")
        word = word.removeprefix("tf_var_")
        name = word if word in known else _SAME.get(word)
        if name is None or name not in known:
            return None
        text += f"{escape(value[end : match.start()])}{{{name}}}"
        end = match.end()
    rest = value[end:]
    return None if "$" in rest or "`" in value else text + escape(rest)


def consistent_settings(
    options: Iterable[BackendConfigOption],
) -> Mapping[str, BackendConfigOption] | None:
    """Settings by name; None if scripts disagree or pass whole files."""
    settings: dict[str, BackendConfigOption] = {}
    for option in options:
        if option.setting is None or settings.setdefault(option.setting, option).value != option.value:
            return None
    return settings
