"""Outputs of other stacks as inputs: `{ output: "dev/network.vpc_id", mock: vpc-0 }`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from holdfast.config.declarations import Section, key
from holdfast.config.secret_refs import Value
from holdfast.config.shapes import AnyValue, Text
from holdfast.config.yaml import MapNode, Node

OUTPUT_KEY: Final = "output"
OUTPUT_NAME: Final = r"[A-Za-z_][A-Za-z0-9_-]*"


class OutputRef(Struct, frozen=True, kw_only=True):
    text: str
    """`STACK.OUTPUT`: the last dot separates them, because the names of stacks can contain dots."""
    mock: Value = None
    """The value of a plan that is made before the output exists; None without one."""

    @property
    def stack(self) -> str:
        return self.text.rpartition(".")[0]

    @property
    def output(self) -> str:
        return self.text.rpartition(".")[2]

    def __str__(self) -> str:
        return self.text


class OutputInput(Section, frozen=True, kw_only=True):
    output: str = key(
        Text("STACK.OUTPUT, such as `dev/network.vpc_id`", r"[^\x00-\x1f]+\.[^.\x00-\x1f]+", fill=True),
        "The stack and its output.",
        required=True,
    )
    mock: Value = key(AnyValue(null=True), "A value for plans that are made before the output exists.")

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> OutputRef:
        return OutputRef(text=values["output"], mock=values.get("mock"))


def is_output(node: Node) -> bool:
    """Any mapping with the key `output` is meant as one, valid or not."""
    return isinstance(node, MapNode) and any(entry.key == OUTPUT_KEY for entry in node.entries)


def outputs_in(inputs: Mapping[str, object]) -> dict[str, OutputRef]:
    return {name: value for name, value in inputs.items() if isinstance(value, OutputRef)}
