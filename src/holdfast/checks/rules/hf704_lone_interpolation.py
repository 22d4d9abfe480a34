"""HF704: a text that is nothing but one interpolation."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.bodies import lines_with
from holdfast.checks.model.interface import Finding, Rule, Severity, finding, place_of
from holdfast.checks.model.subjects import Module, expressions
from holdfast.hcl.nodes import Expression, Literal, Object, Template
from holdfast.kernel.patterns import pattern

_MARK = pattern(rb'"\$\{')


def _look(module: Module) -> Iterator[Finding]:
    for file in module.files:
        # In JSON it is the only way to write an expression.
        lines = lines_with(_MARK, module.checkout.content(file.path) or b"")
        if file.path.endswith(".json") or not lines:
            continue
        for block, name, expression in expressions(file, lines):
            for found in _lone(expression):
                yield finding(
                    place_of(found, file),
                    f"`{name}` is written as a text that holds one interpolation and nothing else",
                    address=_address(block.type, block.labels) if block is not None else None,
                )


def _lone(expression: Expression) -> Iterator[Template]:
    """A key of an object is left alone: there the quotes say that it is no plain name."""
    waiting = [expression]
    while waiting:
        found = waiting.pop()
        if (
            isinstance(found, Template)
            and len(found.pieces) == 1
            and not isinstance(found.pieces[0], Literal)
        ):
            yield found
        inside = tuple(value for _, value in found.items) if isinstance(found, Object) else found.parts()
        waiting.extend(reversed(inside))


def _address(type_: str, labels: tuple[str, ...]) -> str:
    names = labels if type_ == "resource" else (type_, *labels)
    return ".".join(names)


RULE = Rule(
    id="HF704",
    title="A text that is only an interpolation",
    why="It has been out of date since Terraform 0.12 and says nothing that the expression alone does not. "
    "Who reads it takes the value for a text, and it need not be one.",
    fix='Write the expression without quotes: `var.name` instead of `"${var.name}"`.',
    severity=Severity.NOTE,
    source=_look,
    bad='variable "name" {\n  type = string\n}\n\noutput "name" {\n  value = "${var.name}"\n}\n',
    good='variable "name" {\n  type = string\n}\n\noutput "name" {\n  value = var.name\n}\n',
    more="Files in JSON syntax are not looked at: there an expression can only stand in a text. Keys of "
    "objects are left alone, too.",
)
