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
from holdfast.kernel.text import first_names
from holdfast.onboarding.terragrunt_files import (
    ALL_OUTPUTS,
    CHECKOUT,
    Config,
    OutputOf,
    absolute,
    json_text,
    lists,
)
from holdfast.onboarding.terragrunt_unit import Draft, texts
from holdfast.onboarding.translation import marked_variables

_HARMLESS: Final = re.compile(
    r"-(?:lock-timeout|lock|parallelism|compact-warnings|input|no-color|json)(?:=.*)?"
)
_SHOWN: Final = 4


def read_arguments(draft: Draft) -> None:
    """`extra_arguments` of plan and apply."""
    for title, (config, block) in draft.layers.in_terraform("extra_arguments").items():
        given = {each.name: config.value(each.expression) for each in block.body.attributes}
        if known(given.get("commands")) and not {"plan", "apply"} & set(texts(given.get("commands"))):
            continue
        unknown = next((each for each in block.body.attributes if not known(given[each.name])), None)
        if unknown is not None:
            draft.hold_back(f"`{title}`: {draft.why(config, unknown.expression)}. Write what it passes.")
            continue
        before = len(draft.files)
        _read_options(draft, title, config, given)
        env = given.get("env_vars")
        if isinstance(env, Mapping):
            draft.keys["env"] = {**draft.mapping("env"), **{name: str(value) for name, value in env.items()}}
        keys = [*(["variables_files"] if len(draft.files) > before else []), *(["env"] if env else [])]
        draft.add(config, block, title, ", ".join(keys) or "not needed")
    draft.keys["variables_files"] = [
        path if draft.code.tree.kind(path) is PathKind.FILE else {"file": path, "optional": True}
        for path in dict.fromkeys(draft.files)
    ]


def _read_options(draft: Draft, title: str, config: Config, given: Mapping[str, object]) -> None:
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


def read_inputs(draft: Draft) -> None:
    """Terragrunt passes inputs as environment variables: files win, and undeclared ones are ignored."""
    inputs = draft.layers.inputs()
    if not isinstance(inputs, Mapping) or ALL_OUTPUTS in inputs:
        draft.hold_back("Only Terragrunt can evaluate all of its inputs. Write them under `inputs`.")
        return
    variables = draft.variables
    has_code = bool(draft.code.module(draft.module).files)
    stronger = _variables_in_files(draft)
    translated: dict[str, object] = {}
    left_out = [name for name in inputs if name in stronger or (has_code and name not in variables)]
    for name, value in inputs.items():
        if name in left_out:
            continue
        if (reason := _reason(draft, name, value)) is not None:
            draft.hold_back(reason)
        else:
            translated[name] = _input(draft, value, variables.get(name))
    draft.keys["inputs"] = translated
    if (found := draft.layers.attribute("inputs")) is not None:
        draft.add(*found, "inputs", f"inputs: {first_names(list(translated), _SHOWN)}")
    certain = draft.unit.certain.inputs()
    defaults = [
        name
        for name in translated
        if isinstance(certain, Mapping)
        and known(inputs[name])
        and not known(certain.get(name))
        and not any(marked_variables(inputs[name]))
    ]
    if defaults:
        draft.add_part("get_env with a default", f"that default in inputs: {', '.join(defaults)}")
    if left_out:
        why = "a variables file sets it, or the module has no such variable"
        draft.add_part(f"inputs: {first_names(left_out, _SHOWN)}", f"left out: {why}")


def _variables_in_files(draft: Draft) -> Collection[str]:
    tree = draft.code.tree
    own = (tree.join(draft.module, name) for name in auto_loaded(tree.names(draft.module)))
    files = (draft.code.file(path) for path in (*own, *draft.files))
    return {name for file in files if file is not None for name in values(file)}


def _reason(draft: Draft, name: str, value: object) -> str | None:
    """Why an input cannot be translated."""
    reason = None
    if isinstance(value, OutputOf):
        if value.folder not in draft.names:
            where = value.folder or "another unit"
            reason = f"is an output of {where}, which is not a stack here. Write its value."
    elif not known(value):
        config, expression = draft.layers.input_expression(name) or (draft.layers.own, None)
        call = config.uncertain(expression) if expression is not None else None
        if call is not None:
            reason = (
                f"depends on {call}. Write its value{' as a secret reference' if 'sops' in call else ''}."
            )
        elif expression is not None and any(each.root == "dependency" for each in references(expression)):
            reason = "is computed from an output. Make that value an output there, and read it."
        else:
            reason = "can only be evaluated by Terragrunt. Write its value."
    elif any(CHECKOUT in text for text in strings(value)):
        reason = "contains a path of this machine. Compute it in the code, from path.module."
    elif _has_reserved_key(value):
        reason = "has a key `secret` or `output`. Put it in a variables file."
    return None if reason is None else f"`inputs.{name}` {reason}"


def _input(draft: Draft, value: object, variable: Variable | None) -> object:
    if isinstance(value, OutputOf):
        mock = {"mock": lists(value.mock)} if value.mock is not None and known(value.mock) else {}
        return {"output": f"{draft.names[value.folder or '']}.{value.output}", **mock}
    untyped = variable is not None and variable.type is None
    if untyped and value is not None and not isinstance(value, str):
        # Terraform takes an environment variable for it as text, whatever it contains.
        return json_text(lists(value))
    return lists(value)


def _has_reserved_key(value: object) -> bool:
    if isinstance(value, Mapping):
        return bool({"secret", "output"} & set(value)) or any(map(_has_reserved_key, value.values()))
    return isinstance(value, tuple) and any(map(_has_reserved_key, value))
