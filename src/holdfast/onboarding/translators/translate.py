"""Finds the tool that a repository is written for, and translates its files."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from holdfast.hcl.eval.code import Code
from holdfast.onboarding.translators.atmos import translate_atmos
from holdfast.onboarding.translators.atmos_files import CONFIG_FILES
from holdfast.onboarding.translators.terragrunt import translate_terragrunt
from holdfast.onboarding.translators.translation import Translation, complete

_TRANSLATORS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Code, Sequence[str]], Translation]]]] = {
    "atmos": (CONFIG_FILES, translate_atmos),
    "terragrunt": (("terragrunt.hcl", "terragrunt.hcl.json", "terragrunt.stack.hcl"), translate_terragrunt),
}
"""By tool: the names of its files, and how they are translated."""


def translate(code: Code, paths: Sequence[str], *, tool: str | None) -> Translation | None:
    """The first tool of which there are files, or the given one; None if there are none."""
    names = {posixpath.basename(path) for path in paths}
    for name, (files, translator) in _TRANSLATORS.items():
        if (tool is None or tool == name) and names.intersection(files):
            return complete(translator(code, paths), code)
    return None
