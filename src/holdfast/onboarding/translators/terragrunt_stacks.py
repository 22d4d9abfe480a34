"""Finds the units of a Terragrunt repository, also those that `terragrunt.stack.hcl` files generate."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from holdfast.hcl.eval.code import Code
from holdfast.onboarding.translators.terragrunt_files import UNIT_FILES, Config, Place
from holdfast.stacks.listing import ROOT, join_path

STACK_FILE = "terragrunt.stack.hcl"
GENERATED = ".terragrunt-stack"
_DEEPEST = 10


class UnitPlace(Struct, frozen=True, kw_only=True):
    path: str
    """Its file, or the template that it is generated from."""
    folder: str
    """Where Terragrunt runs it; a generated unit need not exist there."""
    original: str
    values: object = field(default_factory=dict)


class FoundUnits(Struct, frozen=True, kw_only=True):
    places: tuple[UnitPlace, ...]
    unknown: tuple[str, ...]
    """Units of stack files that only Terragrunt can find."""


def find_units(code: Code, paths: Iterable[str]) -> FoundUnits:
    """A file that a stack file is generated from is a template, not a unit or stack itself."""
    files = list(paths)
    templates: set[str] = set()
    unknown: dict[str, list[str]] = {}
    generated: dict[str, list[UnitPlace]] = {}
    for path in files:
        if posixpath.basename(path) == STACK_FILE:
            unknown[path] = []
            place = UnitPlace(path=path, folder=posixpath.dirname(path) or ROOT, original=path)
            generated[path] = list(_expand(code, place, templates, unknown[path], _DEEPEST))
    plain = (
        UnitPlace(path=path, folder=posixpath.dirname(path) or ROOT, original=path)
        for path in files
        if posixpath.basename(path) in UNIT_FILES and path not in templates
    )
    live = [path for path in generated if path not in templates]
    return FoundUnits(
        places=(*plain, *(place for path in live for place in generated[path])),
        unknown=tuple(text for path in live for text in unknown[path]),
    )


def _expand(
    code: Code, stack: UnitPlace, templates: set[str], unknown: list[str], left: int
) -> Iterator[UnitPlace]:
    place = Place(unit=stack.folder, folder=stack.folder, values=stack.values)
    config = Config(code, stack.path, place)
    for block in config.blocks("unit", "stack"):
        source, path, values, flat = (
            config.attribute_value(name, block)
            for name in ("source", "path", "values", "no_dot_terragrunt_stack")
        )
        inside = config.inside(source) if isinstance(source, str) else None
        name = STACK_FILE if block.type == "stack" else UNIT_FILES[0]
        template = join_path(inside or "", name)
        templates.add(template)
        unclear = code.content(template) is None or place.shared.defaults or not left
        if unclear or not isinstance(path, str):
            unknown.append(f"{stack.path}:{block.line}")
            continue
        folder = posixpath.normpath(posixpath.join(stack.folder, "" if flat is True else GENERATED, path))
        values = {} if values is None else values
        inner = UnitPlace(path=template, folder=folder, original=stack.original, values=values)
        if block.type == "unit":
            yield inner
        else:
            yield from _expand(code, inner, templates, unknown, left - 1)
