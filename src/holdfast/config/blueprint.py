"""The keys of blueprint.yaml, and the holdfast.yaml that a device of the blueprint is run with.

Values below `stack` are not read a second time: their nodes move into the generated file, so that every
mistake in them has its place in blueprint.yaml.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from holdfast.config import yaml
from holdfast.config.checks import CheckSettings
from holdfast.config.declarations import At, Key, ListOf, Names, ScalarOrMapping, Section, key
from holdfast.config.engine import EngineSettings
from holdfast.config.guard import GuardKeys
from holdfast.config.problems import Problems
from holdfast.config.read import FILE_NAME as GENERATED_FILE
from holdfast.config.read import decode, parse_node, read_content
from holdfast.config.reader import Reader, build_fields
from holdfast.config.settings import RedactionSettings
from holdfast.config.shapes import (
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
_OF_ENTRIES: Final = ("account", "region", "credentials", "env", "pass_env", "hooks", "generate", "reads")
_OF_FILE: Final = ("engine", "guard", "checks", "redaction")


class _AsRead(Section, frozen=True, kw_only=True):
    """Keys of holdfast.yaml that are only checked here; their values are those of the generated file."""

    written: At

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> _AsRead:
        return cls(written=values["written"])


class _BlueprintEngine(_AsRead, frozen=True, kw_only=True):
    """How many stacks run at the same time is no question here: there is one."""


class BlueprintStack(_AsRead, frozen=True, kw_only=True):
    """Keys of an entry of `stacks` and of the file around it, as they are in holdfast.yaml."""


_BlueprintEngine.keys.update(
    (name, item) for name, item in EngineSettings.keys.items() if name != "parallelism"
)
BlueprintStack.keys.update(
    {
        "variables": Key(
            shape=Names(AnyValue(null=True), _IDENTIFIER, "the name of a Terraform variable"),
            doc="Values and secret references of variables that the payload cannot set.",
            path="variables",
        ),
        **{name: StackRule.keys[name] for name in _OF_ENTRIES},
        "engine": Key(shape=_BlueprintEngine, doc="The engine, its time limits and retries.", path="engine"),
        "guard": Key(shape=GuardKeys, doc="Rules of [the guard](guard.md).", path="guard"),
        "checks": Key(shape=CheckSettings, doc="Settings of [checks](checks.md).", path="checks"),
        "redaction": Key(
            shape=RedactionSettings, doc="What is masked: [redaction](redaction.md).", path="redaction"
        ),
    }
)


class RetryRule(Section, frozen=True, kw_only=True):
    attempts: int = key(Integer(0, 100), "How often a failed event is tried again, 0 to 100.", default=0)
    wait: float = key(Duration(0, 86400.0), "How long to wait before each further attempt.", default="30s")


class BlueprintSettings(Section, frozen=True, kw_only=True):
    folder: Path
    configuration: str
    """The text of the generated holdfast.yaml."""
    place_of: Mapping[str, Place]
    """Where each key is written."""
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
        default_doc="derived from the `variable` blocks",
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
        "How many events run at the same time for one set of credentials.",
        default=None,
        default_doc="no limit",
    )
    credentials: str | None = key(
        Text(max_length=200),
        "The account that `concurrency` counts for. Blueprints with the same text share the limit.",
        default=None,
        default_doc="the name of the blueprint",
    )
    environment: str | None = key(NAME, "The environment of its devices, such as `prod`.", default=None)
    labels: Mapping[str, str] = key(
        Names(Text("the value of a label", LABEL), LABEL, "the name of a label"),
        "Labels that a [worker](runs-on-the-server.md#labels) needs to run its events.",
    )
    parallelism: int | None = key(
        Integer(1, 256),
        "How many resources Terraform changes at the same time (`-parallelism`).",
        default=None,
        default_doc="Terraform's own, 10",
    )
    warm_providers: bool = key(
        Flag(), "Whether provider processes are kept for the next event.", default=False
    )
    not_read: tuple[str, ...] = key(
        ListOf(Text("TYPE.attribute", r"[A-Za-z_][A-Za-z0-9_-]*\.[A-Za-z_][A-Za-z0-9_.-]*", numbers=False)),
        "Attributes that the provider never reads back, as TYPE.attribute. Drift reports list them as not "
        "looked at.",
    )
    stack: BlueprintStack | None = key(
        BlueprintStack,
        "Keys of `holdfast.yaml` for the runs of its devices: [below](blueprints.md#stack).",
        default=None,
    )

    @property
    def fixed_variables(self) -> frozenset[str]:
        """Variables whose values the blueprint gives."""
        written = self.stack.written.get("variables", {}) if self.stack is not None else {}
        return frozenset(written)


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
    fields: dict[str, Any] = build_fields(BlueprintSettings, top)
    places = MappingProxyType({name: at.place for name, at in top.value.items()})
    settings = BlueprintSettings(folder=path.parent, configuration="", place_of=places, **fields)
    generated = _device_configuration(settings, node)
    try:
        parse_node(generated, root=path.parent, path=path.with_name(GENERATED_FILE))
    except ConfigError as error:
        raise ConfigError(
            tuple(
                item._replace(message=item.message.replace("stacks[0]", "stack")) for item in error.problems
            )
        ) from None
    return replace(settings, configuration=f"{_text_of(generated)}\n")


def _device_configuration(settings: BlueprintSettings, node: yaml.Node) -> yaml.Node:
    """Everything in `stack` keeps its nodes, and with them its places."""
    top = {entry.key: entry.value for entry in node.entries} if isinstance(node, yaml.MapNode) else {}
    stack = top.get("stack")
    given = {entry.key: entry for entry in stack.entries} if isinstance(stack, yaml.MapNode) else {}
    here = node.place
    entry = {"name": _scalar(DEVICE, here), "module": _scalar(settings.module, top.get("module", node).place)}
    if settings.environment is not None:
        entry["environment"] = _scalar(settings.environment, top["environment"].place)
    if settings.labels:
        entry["worker"] = top["labels"]
    entry |= {name: item.value for name, item in given.items() if name not in _OF_FILE}
    file: dict[str, yaml.Node] = {"version": yaml.ScalarNode(place=here, value=1, text="1")}
    if settings.environment is not None:
        file["environments"] = _mapping({settings.environment: _mapping({}, here)}, here)
    file |= {name: item.value for name, item in given.items() if name in _OF_FILE}
    return _mapping({**file, "stacks": yaml.ListNode(place=here, items=(_mapping(entry, here),))}, here)


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
