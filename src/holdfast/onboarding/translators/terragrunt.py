"""Translates the units of a Terragrunt repository to entries.

What only Terragrunt knows is never guessed: the unit is held back, with what to write.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.hcl.eval.code import Code, auto_loaded, is_code
from holdfast.kernel.text import first_names, plural
from holdfast.onboarding.starter_entries import unused_name, valid_name
from holdfast.onboarding.translators.terragrunt_files import CHECKOUT, UNIT_FILES
from holdfast.onboarding.translators.terragrunt_inputs import read_arguments, read_inputs
from holdfast.onboarding.translators.terragrunt_stacks import GENERATED, find_units
from holdfast.onboarding.translators.terragrunt_state import read_backend, read_generated
from holdfast.onboarding.translators.terragrunt_unit import Unit, UnitDraft, texts
from holdfast.onboarding.translators.translation import TranslatedStack, Translation, stacks_read
from holdfast.stacks.listing import ROOT

_SETTINGS: Final = {
    "iam_role": "set `credentials` to the role",
    "terraform_binary": "set `engine`, for example to `{ use: tofu }`",
    "prevent_destroy": "write `guard.protect` for its resources",
}
"""Attributes of a unit that are not translated, with what to write."""


def translate_terragrunt(code: Code, paths: Iterable[str]) -> Translation:
    """`paths`: the files of the repository. Never raises because of their content."""
    found = find_units(code, paths)
    all_units = [unit for place in found.places if (unit := Unit(code, place)).is_unit]
    units = [unit for unit in all_units if not unit.is_excluded]
    names = _names([unit.folder for unit in units])
    stacks = tuple(_stack(UnitDraft(unit, names)) for unit in units)
    notes: list[str] = []
    if excluded := [unit.folder for unit in all_units if unit.is_excluded]:
        notes.append(f"{first_names(excluded, 3)}: excluded in Terragrunt, so not a stack.")
    if found.unknown:
        notes.append(f"{first_names(found.unknown, 3)}: only Terragrunt can find the unit; write its entry.")
    return Translation(
        tool="Terragrunt",
        found=f"Terragrunt with {plural(len(all_units), 'unit')}",
        stacks=stacks,
        notes=tuple(notes),
        folders=tuple({stack.module for stack in stacks} | {unit.source_folder for unit in all_units}),
    )


def _names(folders: Sequence[str]) -> dict[str, str]:
    """The name of each unit's stack: its folder, without the folders that all units share."""
    above = [posixpath.dirname(folder) or ROOT for folder in folders]
    common = posixpath.commonpath(above) if above else ROOT
    names: dict[str, str] = {}
    used: set[str] = set()
    for folder in folders:
        path = posixpath.relpath(folder, common or ROOT).replace(f"{GENERATED}/", "")
        names[folder] = unused_name(valid_name(path), used)
        used.add(names[folder])
    return names


def _stack(draft: UnitDraft) -> TranslatedStack:
    for config in draft.unit.configs:
        if config.body is None:
            draft.hold_back("An included file does not exist, or only Terragrunt can find it.")
        for problem in config.problems:
            draft.hold_back(f"{problem.place}: {problem.message}.")
    _read_module(draft)
    read_generated(draft)
    read_backend(draft)
    read_arguments(draft)
    read_inputs(draft)
    depends_on = _read_dependencies(draft)
    _read_hooks(draft)
    _read_settings(draft)
    for variable in sorted({*draft.unit.own.place.shared.defaults}):
        draft.hold_back(f'It uses the default of get_env("{variable}"). Check what depends on it.')
    return draft.stack(draft.unit.place.original, draft.names[draft.unit.folder], depends_on)


def _read_module(draft: UnitDraft) -> None:
    tree, unit = draft.code.tree, draft.unit.source_folder
    found = draft.unit.source()
    if found is None:
        draft.add(f"the code in {unit}", f"module: {unit}")
        return
    config, attribute = found
    text = config.value(attribute.expression)
    if not isinstance(text, str):
        draft.hold_back(f"`terraform.source`: {draft.why(config, attribute.expression)}. Set `module`.")
        return
    path = text.partition("?")[0]
    inside = config.inside(re.sub(r"(?<!:)/+", "/", path))
    if not path.startswith((".", "/")) and (inside is None or not tree.is_folder(inside)):
        draft.module = f"modules/{_module_name(path)}"
        shown = re.sub(r"//[^/@\s]*:[^/@\s]*@", "//", text)  # Without a user and password.
        draft.hold_back(f"Its code is not in this repository ({shown}). Copy that version to {draft.module}.")
    elif inside is None or not draft.code.module(inside).files:
        draft.hold_back(f"`terraform.source` ({text.replace(CHECKOUT, '')}) has no code. Set `module`.")
    else:
        draft.module = inside
    draft.add_at(config, attribute, "terraform.source", f"module: {draft.module}")
    if draft.module != unit:
        if beside := [name for name in tree.names(unit) if is_code(name)]:
            draft.hold_back(f"{beside[0]} is beside {UNIT_FILES[0]}. Move it to the code in {draft.module}.")
        draft.files += [tree.join(unit, name) for name in auto_loaded(tree.names(unit))]


def _module_name(source: str) -> str:
    """Of a module elsewhere: `aks` for `tfr:///Azure/aks/azurerm`, `vpc` for `git::…/modules.git//vpc`."""
    path = source.rstrip("/").removesuffix(".git")
    if path.startswith("tfr://") and "//" not in path.removeprefix("tfr://"):
        path = posixpath.dirname(path)  # The last part is the provider.
    return valid_name(posixpath.basename(path)).lower()


def _read_dependencies(draft: UnitDraft) -> tuple[str, ...]:
    """Units that are applied first, without those whose outputs are inputs."""
    used = stacks_read(draft.keys.get("inputs"))
    folders: list[object] = []
    for label, (config, block) in draft.unit.labelled("dependency").items():
        attributes = draft.unit.dependency(label)
        if attributes.get("enabled") is False:
            continue
        folders.append(attributes.get("folder"))
        name = draft.names.get(str(attributes.get("folder")))
        if attributes.get("skip_outputs") is True and name in used:
            draft.hold_back(
                f'dependency "{label}" has skip_outputs: its inputs are mocks. Write their values.'
            )
        draft.add_at(
            config, block, f'dependency "{label}"', "inputs: output" if name in used else "depends_on"
        )
    for config, block in draft.unit.blocks("dependencies"):
        folders += [config.inside(path) for path in texts(config.attribute_value("paths", block))]
        draft.add_at(config, block, "dependencies", "depends_on")
    names = (draft.names[folder] for folder in folders if isinstance(folder, str) and folder in draft.names)
    return tuple(name for name in dict.fromkeys(names) if name not in used)


def _read_hooks(draft: UnitDraft) -> None:
    for title, (config, block) in draft.unit.in_terraform("before_hook", "after_hook").items():
        commands = texts(config.attribute_value("commands", block))
        if not commands or {"plan", "apply", "destroy"} & set(commands):
            draft.hold_back(f"`{title}`: write it as one of `hooks`, if it is needed.")


def _read_settings(draft: UnitDraft) -> None:
    for name, step in _SETTINGS.items():
        if draft.unit.value(name) not in (None, False):
            draft.hold_back(f"`{name}`: {step}.")
    version = draft.unit.value("terraform_version_constraint")
    if isinstance(version, str):
        draft.keys["engine"] = {"version": version}
