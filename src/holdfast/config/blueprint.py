"""The keys of blueprint.yaml, and the holdfast.yaml that a device of the blueprint is run with.

Keys that holdfast.yaml has too are not copied: their nodes move into the generated file, so that every
mistake in them has its place in blueprint.yaml.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from holdfast.config import yaml
from holdfast.config.declarations import At, ListOf, Names, ScalarOrMapping, Section, key
from holdfast.config.engine import TERRAFORM_PARALLELISM, EngineLimits
from holdfast.config.problems import Problems
from holdfast.config.read import FILE_NAME as GENERATED_FILE
from holdfast.config.read import decode, parse_node, read_content
from holdfast.config.reader import Reader, build_fields
from holdfast.config.secret_refs import Value
from holdfast.config.settings import Config
from holdfast.config.shapes import (
    FILLED,
    LABEL,
    NAME,
    AnyValue,
    Choice,
    Duration,
    Flag,
    Integer,
    Text,
    Verbatim,
    path_text,
)
from holdfast.config.stack_rules import StackRule
from holdfast.kernel.errors import ConfigError, Place

FILE_NAME: Final = "blueprint.yaml"
DEVICE: Final = "device"
"""The name of the only stack of a blueprint."""
_IDENTIFIER: Final = r"[A-Za-z_][A-Za-z0-9_-]*"
_PATH: Final = "a path inside the folder of the blueprint, without `..`"
_OF_STACK: Final = ("credentials", "env", "pass_env", "hooks", "generate", "reads")
_OF_FILE: Final = ("guard", "checks", "redaction")
_MOVED: Final = {"labels": "worker", "inputs": "variables"}
"""By their names here: as an entry of `stacks` has them."""


class BlueprintEngine(EngineLimits, frozen=True, kw_only=True):
    parallelism: int | None = TERRAFORM_PARALLELISM


class RetryRule(Section, frozen=True, kw_only=True):
    attempts: int = key(Integer(0, 100), "How often a failed event is tried again, 0 to 100.", default=0)
    wait: float = key(Duration(0, 86400.0), "How long to wait before each further attempt.", default="30s")


class BlueprintSettings(Section, frozen=True, kw_only=True):
    folder: Path
    configuration: str
    """The text of the generated holdfast.yaml."""
    written: At
    name: str = key(NAME, "The name that events use.", required=True)
    version: str = key(
        Text("a version such as `1.0.0`", r"[0-9A-Za-z][0-9A-Za-z.+_-]*", max_length=100),
        "The version. Change it with every change of the blueprint.",
        required=True,
    )
    description: str | None = key(Text(max_length=2000), "What a device of it is.")
    module: str = key(path_text(_PATH), "The folder of the root module.", default=".")
    payload: str | Mapping[str, Any] | None = key(
        ScalarOrMapping(scalar=path_text(_PATH), mapping=Verbatim()),
        "A JSON Schema (draft 2020-12) of payloads, or the path of its file.",
        default=None,
        default_doc="[derived](blueprints.md#the-derived-schema) from the `variable` blocks",
    )
    inputs: Mapping[str, Value] = key(
        Names(AnyValue(null=True), _IDENTIFIER, "the name of a Terraform variable"),
        "A mapping of variables to values or secret references. The payload cannot set these variables.",
    )
    outputs: tuple[str, ...] = key(
        ListOf(Text("the name of an output", _IDENTIFIER)), "Outputs that the client gets."
    )
    deletion: str = key(
        Choice(("allow", "approve", "deny")),
        "Whether an event may delete a device: at once, after an approval, or never.",
        default="approve",
    )
    vanished: str = key(
        Choice(("recreate", "report")),
        "What happens if a device no longer exists, though no event deleted it.",
        default="report",
    )
    retries: RetryRule = key(RetryRule, "What happens after a failed attempt.")
    concurrency: int | None = key(
        Integer(1, 10_000),
        "How many events run at the same time with one set of credentials: those of `account`.",
        default=None,
        default_doc="no limit",
    )
    account: str | None = key(
        FILLED,
        "The account whose credentials the devices use. Blueprints with the same account share the limit "
        "of `concurrency`.",
        default_doc="each blueprint has its own",
    )
    region: str | None = key(FILLED, "The region of its devices.")
    environment: str | None = key(NAME, "The environment of its devices, such as `prod`.", default=None)
    labels: Mapping[str, str] = key(
        Names(Text("the value of a label", LABEL), LABEL, "the name of a label"),
        "Labels that a [worker](runs-on-the-server.md#labels) needs to run its events.",
    )
    warm_providers: bool = key(
        Flag(), "Whether provider processes are kept for the next event.", default=False
    )
    not_read: tuple[str, ...] = key(
        ListOf(Text("TYPE.attribute", r"[A-Za-z_][A-Za-z0-9_-]*\.[A-Za-z_][A-Za-z0-9_.-]*", numbers=False)),
        "Attributes that the provider never reads back, as TYPE.attribute. Drift reports list them as not "
        "looked at.",
    )
    engine: BlueprintEngine = key(BlueprintEngine, "What runs Terraform.")

    def place_of(self, key: str, name: str | None = None) -> Place:
        """Of a key, or of a name in its value."""
        at: At = self.written.value.get(key, self.written)
        place = at.place
        if isinstance(at.value, dict) and name in at.value:
            place = at.value[name].key_place
        elif isinstance(at.value, tuple):
            place = next((item.place for item in at.value if item.value == name), place)
        return place


BlueprintSettings.keys.update({name: StackRule.keys[name] for name in _OF_STACK})
BlueprintSettings.keys.update({name: Config.keys[name] for name in _OF_FILE})


def load_blueprint_settings(folder: Path) -> BlueprintSettings:
    """Raises ConfigError with every mistake, in the order of the file."""
    path = folder.absolute() / FILE_NAME
    shown = f"{path.parent.name}/{FILE_NAME}"
    problems = Problems()
    node = yaml.read(decode(read_content(path), file=shown), file=shown, problems=problems)
    if node is None or isinstance(node, yaml.BrokenNode):
        raise ConfigError(problems.sorted())
    top = Reader(whole=BlueprintSettings, problems=problems).read(BlueprintSettings, node)
    problems.raise_any()
    fields = build_fields(BlueprintSettings, top)
    for name in (*_OF_STACK, *_OF_FILE):
        fields.pop(name, None)
    settings = BlueprintSettings(folder=path.parent, configuration="", written=top, **fields)
    generated = _device_configuration(settings, node)
    try:
        parse_node(generated, root=path.parent, path=path.with_name(GENERATED_FILE))
    except ConfigError as error:
        found = (item._replace(message=_as_written(item.message)) for item in error.problems)
        raise ConfigError(tuple(found)) from None
    return replace(settings, configuration=f"{_text_of(generated)}\n")


def _as_written(message: str) -> str:
    """With the keys of blueprint.yaml instead of those of the generated file."""
    for moved, name in (("stacks[0].variables", "inputs"), ("stacks[0].", ""), ("stacks[0]", FILE_NAME)):
        message = message.replace(moved, name)
    return message


def _device_configuration(settings: BlueprintSettings, node: yaml.Node) -> yaml.Node:
    """Everything that is given keeps its nodes, and with them its places."""
    top = _values(node)
    here = node.place
    of_stack = ("module", "environment", "account", "region", *_MOVED, *_OF_STACK)
    entry = {
        "name": _scalar(DEVICE, here),
        "module": _scalar(settings.module, here),
        **{_MOVED.get(name, name): top[name] for name in of_stack if name in top},
    }
    file: dict[str, yaml.Node] = {"version": yaml.ScalarNode(place=here, value=1, text="1")}
    if settings.environment is not None:
        file["environments"] = _mapping({settings.environment: _mapping({}, here)}, here)
    file |= {name: top[name] for name in _OF_FILE if name in top}
    engine = _values(top.get("engine"))
    if (parallelism := engine.pop("parallelism", None)) is not None:
        entry["terraform_parallelism"] = parallelism
    if settings.warm_providers:
        entry["warm_providers"] = top["warm_providers"]
    if engine:
        file["engine"] = _mapping(engine, here)
    return _mapping({**file, "stacks": yaml.ListNode(place=here, items=(_mapping(entry, here),))}, here)


def _values(node: yaml.Node | None) -> dict[str, yaml.Node]:
    return {entry.key: entry.value for entry in node.entries} if isinstance(node, yaml.MapNode) else {}


def _scalar(text: str, place: Place) -> yaml.Node:
    return yaml.ScalarNode(place=place, value=text, text=text)


def _mapping(values: Mapping[str, yaml.Node], place: Place) -> yaml.MapNode:
    entries = (yaml.Entry(key=name, place=value.place, value=value) for name, value in values.items())
    return yaml.MapNode(place=place, entries=tuple(entries))


def _text_of(node: yaml.Node) -> str:
    """As JSON, which is YAML, but numbers as they were written: `1.10` may be meant as text."""
    match node:
        case yaml.MapNode():
            return (
                "{" + ", ".join(f"{_quoted(item.key)}: {_text_of(item.value)}" for item in node.entries) + "}"
            )
        case yaml.ListNode():
            return "[" + ", ".join(map(_text_of, node.items)) + "]"
        case yaml.ScalarNode(value=str()):
            return _quoted(node.text)
        case yaml.ScalarNode(value=None):
            return "null"
        case yaml.ScalarNode():
            return node.text
        case _:
            raise TypeError("a file with mistakes has no text")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
