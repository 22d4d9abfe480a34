"""What Terraform marks as sensitive, wherever it does so: for the redactor, never to show.

`plan.values` reads plans. This module reads states, outputs and variables that the code declares sensitive:
those are known before there is a plan, and a plan may fail and quote them. `without_marked` masks a document
of Terraform by its marks, however short a value is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from holdfast.hcl.eval.code import Code, auto_loaded
from holdfast.hcl.nodes import Block
from holdfast.hcl.reader import constant, values
from holdfast.terraform.plan.values import marked_texts, part_of_mask, texts
from holdfast.terraform.statefile.model import (
    DECODE_ERRORS,
    EmptyState,
    StateFile,
    StateOutput,
    read_outputs,
)

_DECODER = msgspec.json.Decoder()
_MARKS = (
    ("before", "before_sensitive"),
    ("after", "after_sensitive"),
    ("values", "sensitive_values"),
    ("config_values", "config_sensitive"),
)
"""Pairs of a value and its mask in Terraform's documents."""

_DYNAMIC = frozenset({"value", "type"})
"""How a state writes a dynamic value, such as the `input` of a `terraform_data`; paths skip it."""


def sensitive_in_state(file: StateFile) -> frozenset[str]:
    """Sensitive outputs, and attributes by their paths; also of a state that is otherwise unreadable."""
    if isinstance(file, EmptyState):
        return frozenset()
    secrets = set(_of_outputs(file.outputs or ()))
    for resource in file.resources or ():
        if resource.sensitive_paths:
            attributes = resource.read()
            for path in resource.sensitive_paths:
                secrets.update(texts(_at(attributes, path)))
    return frozenset(secrets)


def sensitive_in_outputs(raw: bytes) -> frozenset[str]:
    """In the output of `output -json`; nothing where it cannot be read."""
    return frozenset(_of_outputs(read_outputs(raw)))


def sensitive_in_shown(raw: bytes) -> frozenset[str]:
    """In the output of `show -json` for a state or a plan, which knows the provider's schema too."""
    try:
        document = _DECODER.decode(raw)
    except DECODE_ERRORS:
        return frozenset()
    return frozenset(_of_marks(document))


def declared_sensitive(code: Code, module: str) -> dict[str, Block]:
    """The blocks of the root module's sensitive variables, by name."""
    return {
        block.labels[0]: block
        for block in code.module(module).blocks("variable")
        if block.labels
        and (mark := block.body.attribute("sensitive"))
        and constant(mark.expression) is not False
    }


def sensitive_variables(
    code: Code, module: str, files: Iterable[str], assigned: Mapping[str, object]
) -> frozenset[str]:
    """Values of the root module's variables that are declared sensitive: defaults, files, `assigned` ones.

    `assigned` are those of the configuration and the environment, by name and as plain text. Which of several
    values wins does not matter: none of them may be shown.
    """
    declared = declared_sensitive(code, module)
    if not declared:
        return frozenset()
    secrets = {text for name in declared for text in texts(assigned.get(name))}
    for block in declared.values():
        default = block.body.attribute("default")
        secrets.update(texts(constant(default.expression)) if default is not None else ())
    own = [code.tree.join(module, name) for name in auto_loaded(code.tree.names(module))]
    for file in filter(None, map(code.file, (*own, *files))):
        secrets.update(
            text for name, value in values(file).items() if name in declared for text in texts(value)
        )
    return frozenset(secrets)


def without_marked(document: Any, mask: str) -> Any:
    """A document of `show -json` or `output -json` with every sensitive value masked, however short."""
    if isinstance(document, list):
        return [without_marked(item, mask) for item in document]
    if not isinstance(document, dict):
        return document
    result = {key: without_marked(item, mask) for key, item in document.items()}
    for value, marks in _MARKS:
        if value in result and document.get(marks) not in (None, False, {}, []):
            result[value] = _hidden(result[value], document[marks], mask)
    if document.get("sensitive") is True and result.get("value") is not None:
        result["value"] = mask
    for name in _secret_names(document):
        variable = result["variables"].get(name)
        if isinstance(variable, dict) and variable.get("value") is not None:
            result["variables"][name] = {**variable, "value": mask}
    return result


def _secret_names(document: Mapping[str, Any]) -> Iterator[str]:
    """A plan marks its variables in the configuration, not beside their values."""
    root = (document.get("configuration") or {}).get("root_module") or {}
    if isinstance(document.get("variables"), dict):
        for name, variable in (root.get("variables") or {}).items():
            if variable.get("sensitive"):
                yield name


def _hidden(value: Any, marks: Any, mask: str) -> Any:
    if marks is True:
        return None if value is None else mask
    if isinstance(value, dict):
        return {key: _hidden(part, part_of_mask(marks, key), mask) for key, part in value.items()}
    if isinstance(value, list):
        return [_hidden(part, part_of_mask(marks, at), mask) for at, part in enumerate(value)]
    return value


def _of_marks(document: Any) -> Iterator[str]:
    if isinstance(document, list):
        for item in document:
            yield from _of_marks(item)
    elif isinstance(document, dict):
        for value, marks in _MARKS:
            if value in document and document.get(marks):
                yield from marked_texts(document[value], document[marks])
        if document.get("sensitive") is True:
            yield from texts(document.get("value"))
        for name in _secret_names(document):
            yield from texts((document["variables"].get(name) or {}).get("value"))
        for item in document.values():
            yield from _of_marks(item)


def _of_outputs(outputs: Iterable[StateOutput]) -> Iterator[str]:
    for output in outputs:
        if output.sensitive:
            yield from texts(output.read())


def _at(value: Any, path: Any) -> Any:
    """The value at a path. An unknown step returns everything below it."""
    for step in path if isinstance(path, list) else ():
        key = step.get("value") if isinstance(step, dict) else None
        if isinstance(key, dict):
            key = key.get("value")
        if isinstance(value, dict) and value.keys() == _DYNAMIC and key not in value:
            value = value["value"]
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            break
    return value
