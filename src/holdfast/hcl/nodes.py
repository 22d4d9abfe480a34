"""The syntax of an HCL file: blocks, attributes, expressions and their places. Nothing about their meaning.

Lines and columns are counted from one, in characters. Bodies and expressions are built on first use, because
most of them are never needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final, Generic, TypeVar

from msgspec import Struct

from holdfast.kernel.errors import Place, Problem

Constant = str | int | float | bool | None

T = TypeVar("T")

_MOST_DIGITS = 400
"""Python refuses to convert thousands of digits."""
OLD_SYNTAX: Final = "HF-HCL-7"
"""The code of problems with syntax that only Terraform before 0.12 reads."""


class Expression(Struct, frozen=True, gc=False):
    line: int
    column: int

    def parts(self) -> tuple[Expression, ...]:
        """The expressions directly inside this one, in the order they are written."""
        return ()


class Literal(Expression, frozen=True, gc=False):
    """A string without interpolation (escapes and indentation resolved), a number, a bool or null."""

    value: Constant


class Template(Expression, frozen=True, gc=False):
    """`"a-${b}"`: text and interpolated expressions. A single part keeps its own type."""

    pieces: tuple[Expression, ...]

    def parts(self) -> tuple[Expression, ...]:
        return self.pieces


class Tuple(Expression, frozen=True, gc=False):
    items: tuple[Expression, ...]

    def parts(self) -> tuple[Expression, ...]:
        return self.items


class Object(Expression, frozen=True, gc=False):
    """A bare key is a literal string; a key in parentheses or a template is an expression."""

    items: tuple[tuple[Expression, Expression], ...]

    def parts(self) -> tuple[Expression, ...]:
        return tuple(chain.from_iterable(self.items))


class Traversal(Expression, frozen=True, gc=False):
    """`var.a.b[0]`: a name, then attributes (text) and indexes (expressions)."""

    root: str
    steps: tuple[str | Expression, ...]

    def parts(self) -> tuple[Expression, ...]:
        return tuple(step for step in self.steps if isinstance(step, Expression))

    @property
    def names(self) -> tuple[str, ...]:
        """The name and the attributes up to the first index: `("var", "a", "b")`."""
        names = [self.root]
        for step in self.steps:
            if not isinstance(step, str):
                break
            names.append(step)
        return tuple(names)


class Access(Expression, frozen=True, gc=False):
    """Attributes and indexes of anything but a plain name: `f(x).a[0]`."""

    base: Expression
    steps: tuple[str | Expression, ...]

    def parts(self) -> tuple[Expression, ...]:
        return (self.base, *(step for step in self.steps if isinstance(step, Expression)))


class Call(Expression, frozen=True, gc=False):
    name: str
    arguments: tuple[Expression, ...]
    expand_final: bool = False
    """`f(a, b...)`: the last argument is a list of arguments."""

    def parts(self) -> tuple[Expression, ...]:
        return self.arguments


class Conditional(Expression, frozen=True, gc=False):
    condition: Expression
    yes: Expression
    no: Expression

    def parts(self) -> tuple[Expression, ...]:
        return (self.condition, self.yes, self.no)


class Unary(Expression, frozen=True, gc=False):
    operator: str
    operand: Expression

    def parts(self) -> tuple[Expression, ...]:
        return (self.operand,)


class Binary(Expression, frozen=True, gc=False):
    operator: str
    left: Expression
    right: Expression

    def parts(self) -> tuple[Expression, ...]:
        return (self.left, self.right)


class For(Expression, frozen=True, gc=False):
    """`[for k, v in c : value if condition]`; with a `key`, an object, grouped when `...` follows."""

    key_name: str | None
    value_name: str
    collection: Expression
    key: Expression | None
    value: Expression
    condition: Expression | None
    grouped: bool = False

    def parts(self) -> tuple[Expression, ...]:
        inside = (self.collection, self.key, self.value, self.condition)
        return tuple(part for part in inside if part is not None)


class Opaque(Expression, frozen=True, gc=False):
    """A splat, a template directive or a mistake: not evaluated, but the expressions inside are kept."""

    inside: tuple[Expression, ...] = ()
    unread: bool = False
    """Even the inside could not be read: it may refer to anything."""

    def parts(self) -> tuple[Expression, ...]:
        return self.inside


def number(text: str) -> int | float | None:
    """A number as it is written; None if it cannot be represented exactly, as Terraform does."""
    if text.removeprefix("-").isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    from decimal import Decimal, InvalidOperation  # noqa: PLC0415 - few numbers are not whole

    try:
        exact, value = Decimal(text), float(text)
        if not math.isfinite(value) or Decimal(repr(value)) != exact:
            return None
    except (InvalidOperation, ValueError):
        return None
    return int(value) if value.is_integer() else value


class Lazy(Generic[T]):
    """A value that is built on first use."""

    __slots__ = ("_build", "_value")

    def __init__(self, build: Callable[[], T]) -> None:
        self._build: Callable[[], T] | None = build

    def get(self) -> T:
        build = self._build  # Another thread may build it, too.
        if build is not None:
            self._value = build()
            self._build = None
        return self._value


class _Placed(Struct, frozen=True, eq=False, gc=False):
    file: str
    line: int
    column: int

    @property
    def place(self) -> Place:
        return Place(file=self.file, line=self.line, column=self.column)


class Attribute(_Placed, frozen=True, eq=False, gc=False):
    name: str
    lazy: Lazy[Expression]

    @property
    def expression(self) -> Expression:
        return self.lazy.get()


class Block(_Placed, frozen=True, eq=False, gc=False):
    type: str
    labels: tuple[str, ...]
    end_line: int
    end_column: int
    lazy: Lazy[Body]

    @property
    def end(self) -> Place:
        """Its closing brace."""
        return Place(file=self.file, line=self.end_line, column=self.end_column)

    @property
    def body(self) -> Body:
        return self.lazy.get()


class Body(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """In the order of the file. A repeated attribute is here twice."""

    attributes: tuple[Attribute, ...] = ()
    blocks: tuple[Block, ...] = ()

    def attribute(self, name: str) -> Attribute | None:
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        return None

    def blocks_of(self, *types: str) -> Iterator[Block]:
        return (block for block in self.blocks if block.type in types)


class File(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """A file as far as it could be read, and the problems found in it."""

    path: str
    body: Body
    problems: tuple[Problem, ...] = ()


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything inside it."""
    waiting = [expression]
    while waiting:
        current = waiting.pop()
        yield current
        if type(current) is not Literal:
            waiting.extend(reversed(current.parts()))


def references(expression: Expression) -> Iterator[Traversal]:
    return (inner for inner in walk(expression) if isinstance(inner, Traversal))


def calls(expression: Expression) -> Iterator[Call]:
    return (inner for inner in walk(expression) if isinstance(inner, Call))
