"""The variables of a Terragrunt unit: variables files and inputs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from typing import Final

from holdfast.hcl.eval.code import Variable, auto_loaded
from holdfast.hcl.eval.values import known, strings
from holdfast.hcl.eval.worktree import PathKind
from holdfast.hcl.nodes import references
from holdfast.hcl.reader import values
from holdfast.onboarding.translators.draft import RESERVED_KEY, has_reserved_key
from holdfast.onboarding.translators.terragrunt_files import (
    ALL_OUTPUTS,
    CHECKOUT,
    Config,
    OutputOf,
    absolute,
    json_text,
    lists,
)
from holdfast.onboarding.translators.terragrunt_unit import UnitDraft, texts

_HARMLESS: Final = re.compile(
    r"-(?:lock-timeout|lock|parallelism|compact-warnings|input|no-color|json)(?:=.*)?"
)


def read_arguments(draft: UnitDraft) -> None:
    """`extra_arguments` of plan and apply, and those of init that decide which state it is."""
    env: dict[str, object] = {}
    for title, (config, block) in draft.unit.in_terraform("extra_arguments").items():
        given = {each.name: config.value(each.expression) for each in block.body.attributes}
        commands = set(texts(given.get("commands"))) if known(given.get("commands")) else {"plan"}
        if "init" in commands and "-backend-config" in str(given.get("arguments")):
            draft.hold_back(f"`{title}` passes -backend-config. Set `backend` to where its state is.")
        if not commands & {"plan", "apply"}:
            continue
        unknown = next((each for each in block.body.attributes if not known(given[each.name])), None)
        if unknown is not None:
            draft.hold_back(f"`{title}`: {draft.why(config, unknown.expression)}. Write what it passes.")
            continue
        before = len(draft.files)
        _read_options(draft, title, config, given)
        own = given.get("env_vars")
        env |= {name: str(value) for name, value in own.items()} if isinstance(own, Mapping) else {}
        keys = [*(["variables_files"] if len(draft.files) > before else []), *(["env"] if own else [])]
        draft.add_at(config, block, title, ", ".join(keys) or "not needed")
    draft.keys["env"] = env
    draft.keys["variables_files"] = [
        path if draft.code.tree.kind(path) is PathKind.FILE else {"file": path, "optional": True}
        for path in dict.fromkeys(draft.files)
    ]


def _read_options(draft: UnitDraft, title: str, config: Config, given: Mapping[str, object]) -> None:
    required = list(texts(given.get("required_var_files")))
    for argument in texts(given.get("arguments")):
        if argument.startswith("-var-file="):
            required.append(argument.removeprefix("-var-file="))
        elif not _HARMLESS.fullmatch(argument):
            draft.hold_back(f"`{title}` passes {argument.partition('=')[0]}. Write what it is for.")
    for path in (*required, *texts(given.get("optional_var_files"))):
        places = (config.inside(path), config.inside(posixpath.join(absolute(draft.module), path)))
        existing = [place for place in places if place and draft.code.tree.kind(place) is PathKind.FILE]
        if existing or (path not in required and places[0] is not None):
            draft.files.append(existing[0] if existing else str(places[0]))
        elif path in required:
            draft.hold_back(f"The variables file {path.replace(f'{CHECKOUT}/', '')} does not exist.")


def read_inputs(draft: UnitDraft) -> None:
    """Terragrunt passes inputs as environment variables: files win, and undeclared ones are ignored."""
    inputs = draft.unit.inputs()
    if not isinstance(inputs, Mapping) or ALL_OUTPUTS in inputs:
        draft.hold_back("Only Terragrunt can evaluate all of its inputs. Write them under `inputs`.")
        return
    variables = _variables(draft)
    has_code = bool(draft.code.module(draft.module).files)
    stronger = _variables_in_files(draft)
    translated: dict[str, object] = {}
    untranslated: dict[str, list[str]] = {}
    left_out = [name for name in inputs if name in stronger or (has_code and name not in variables)]
    for name, value in inputs.items():
        if name in left_out:
            continue
        if (reason := _reason(draft, name, value)) is not None:
            untranslated.setdefault(reason, []).append(f"`inputs.{name}`")
        else:
            translated[name] = _input(draft, value, variables.get(name))
    for reason, names in untranslated.items():
        draft.hold_back(f"{', '.join(names)}{': each' if len(names) > 1 else ''} {reason}")
    if (found := draft.unit.attribute("inputs")) is not None:
        original = f"{found[0].path}:{found[1].line} inputs"
        why = "a variables file sets it, or the module has no such variable"
        draft.set_inputs(translated, original, left_out, why)


def _variables(draft: UnitDraft) -> Mapping[str, Variable]:
    """Those of the module, with the files that are generated for it."""
    files = draft.keys.get("generate")
    contents = (
        {draft.code.tree.join(draft.module, name): file["content"] for name, file in files.items()}
        if isinstance(files, Mapping)
        else {}
    )
    return draft.code.with_files(contents).module(draft.module).variables


def _variables_in_files(draft: UnitDraft) -> Collection[str]:
    tree = draft.code.tree
    own = (tree.join(draft.module, name) for name in auto_loaded(tree.names(draft.module)))
    files = (draft.code.file(path) for path in (*own, *draft.files))
    return {name for file in files if file is not None for name in values(file)}


def _reason(draft: UnitDraft, name: str, value: object) -> str | None:
    """Why an input cannot be translated."""
    if isinstance(value, OutputOf):
        where = value.folder or "another unit"
        known_unit = value.folder in draft.names
        return None if known_unit else f"is an output of {where}, which is not a stack here. Write its value."
    if not known(value):
        config, expression = draft.unit.input_expression(name) or (draft.unit.own, None)
        call = config.uncertain(expression) if expression is not None else None
        if call is not None:
            secret = " as a secret reference" if "sops" in call else ""
            return f"depends on {call}. Write its value{secret}."
        if expression is not None and any(each.root == "dependency" for each in references(expression)):
            return "is computed from an output. Make that value an output there, and read it."
        return "can only be evaluated by Terragrunt. Write its value."
    if any(CHECKOUT in text for text in strings(value)):
        return "contains a path of this machine. Compute it in the code, from path.module."
    return RESERVED_KEY if has_reserved_key(value) else None


def _input(draft: UnitDraft, value: object, variable: Variable | None) -> object:
    if isinstance(value, OutputOf):
        mock = {"mock": lists(value.mock)} if value.mock is not None and known(value.mock) else {}
        return {"output": f"{draft.names[value.folder or '']}.{value.output}", **mock}
    untyped = variable is not None and variable.type is None
    if untyped and value is not None and not isinstance(value, str):
        # Terraform takes an environment variable for it as text, whatever it contains.
        return json_text(lists(value))
    return lists(value)
