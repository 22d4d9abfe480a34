"""Evaluates an expression to a value or to an unknown. It never guesses.

Whatever depends on an unknown is unknown too. `COMPUTED` is an unknown that depends only on resources, data
sources and module outputs; everything else that cannot be determined is `UNKNOWN`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.hcl.eval.functions import FUNCTIONS, PARTIAL
from holdfast.hcl.eval.values import (
    arithmetic,
    bool_of,
    known,
    logic,
    pairs,
    parts_of,
    same,
    strings,
    text_of,
    unknown_of,
)
from holdfast.hcl.nodes import (
    Access,
    Binary,
    Call,
    Conditional,
    Expression,
    For,
    Literal,
    Object,
    Opaque,
    Template,
    Traversal,
    Tuple,
    Unary,
)
from holdfast.hcl.reader import COMPUTED, UNKNOWN, Unknown

Listing = Callable[[str, str], object]
"""`fileset`: the files below a folder that match a pattern, as a set, or unknown."""

_MOST_ELEMENTS = 2000
_MOST_STEPS = 2_000_000
_STEPS_OF_ELEMENT = 10
_MOST_PARTS = 100_000
_LONGEST_TEXT = 5_000_000
_PASS_PATHS = frozenset(("format", "join", "fileset", "abspath", "tostring", "coalesce", "lookup"))
"""Functions that pass an absolute path on without inspecting it."""


class _Absent:
    """Terraform would report an error here; `try` continues with its next argument."""


_ABSENT = _Absent()


def _no_listing(_folder: str, _pattern: str) -> object:
    return UNKNOWN


class Scope(Struct, frozen=True, kw_only=True):
    """What names refer to at one point in a module."""

    variables: Mapping[str, object] = field(default_factory=dict)
    locals: Mapping[str, Expression] = field(default_factory=dict)
    path_module: str = "."
    """Relative to the root module's folder, as in Terraform."""
    cwd: str | None = None
    """The absolute path of the root module's folder in the source tree; None if unknown."""
    tree: str | None = None
    """The source tree itself, absolute."""
    workspace: str | None = None
    names: Mapping[str, object] = field(default_factory=dict)
    """Names bound here: `each`, `count`, iterators of dynamic blocks, variables of `for`."""
    roots: Mapping[str, object] = field(default_factory=dict)
    """Further names, which mean the same everywhere: also in locals."""
    listing: Listing = _no_listing
    functions: Mapping[str, Callable[..., object]] = field(default_factory=dict)
    """Functions that only this scope has, such as those of another tool; they win over Terraform's."""
    known_locals: dict[str, object] = field(default_factory=dict)
    """Locals that were already evaluated, shared by every scope of the same module."""
    steps: list[int] = field(default_factory=lambda: [_MOST_STEPS])
    """Steps left for one evaluation: a few lines of code can require more work than there is time for."""

    def bind(self, names: Mapping[str, object]) -> Scope:
        return replace(self, names={**self.names, **names})

    def unbound(self) -> Scope:
        return replace(self, names={})


def evaluate(expression: Expression, scope: Scope) -> object:
    """A value, possibly with unknown parts, or an unknown; a huge value is unknown. Never raises."""
    scope.steps[0] = _MOST_STEPS
    try:
        value = _value(expression, scope)
    except RecursionError:
        return UNKNOWN
    return UNKNOWN if isinstance(value, _Absent) or parts_of(value, _MOST_PARTS) > _MOST_PARTS else value


def _value(expression: Expression, scope: Scope) -> object:
    if type(expression) is Literal:
        return expression.value
    return _EVALUATORS[type(expression)](expression, scope)


def _plain(expression: Expression, scope: Scope) -> object:
    value = _value(expression, scope)
    return UNKNOWN if isinstance(value, _Absent) else value


def _named(expression: Traversal, scope: Scope) -> object:  # noqa: PLR0911 - one line per kind of name
    root = expression.root
    if root in scope.names or root in scope.roots:
        return scope.names[root] if root in scope.names else scope.roots[root]
    first = expression.steps[0] if expression.steps else None
    if root == "var" and isinstance(first, str):
        return scope.variables.get(first, UNKNOWN)
    if root == "local" and isinstance(first, str):
        return _local(first, scope)
    if root == "path" and isinstance(first, str):
        return {"module": scope.path_module, "root": ".", "cwd": scope.cwd}.get(first) or UNKNOWN
    if root == "terraform":
        return {"workspace": scope.workspace or UNKNOWN}
    if root in ("var", "local", "path", "each", "count", "self"):
        return UNKNOWN
    return COMPUTED


def _local(name: str, scope: Scope) -> object:
    if name not in scope.locals:
        return UNKNOWN
    if name not in scope.known_locals:
        scope.known_locals[name] = UNKNOWN  # ends the recursion if a local refers to itself
        value = _plain(scope.locals[name], scope.unbound())
        parts = parts_of(value, _MOST_PARTS)
        scope.steps[0] -= parts
        scope.known_locals[name] = UNKNOWN if parts > _MOST_PARTS or scope.steps[0] < 0 else value
    return scope.known_locals[name]


def _steps(value: object, steps: tuple[str | Expression, ...], scope: Scope) -> object:
    for step in steps:
        if isinstance(value, Unknown):
            return unknown_of(value)
        if isinstance(value, _Absent):
            return value
        key = step if isinstance(step, str) else _plain(step, scope)
        if isinstance(key, Unknown):
            return unknown_of(key, value)
        value = _index(value, key)
    return value


def _index(value: object, key: object) -> object:
    if value is None:
        return _ABSENT
    if isinstance(value, Mapping):
        name = text_of(key)
        return UNKNOWN if name is None else value.get(name, _ABSENT)
    if type(value) is tuple:
        text = text_of(key) or ""
        at = int(text) if text.isascii() and text.isdigit() else None
        if at is None:
            return UNKNOWN
        return value[at] if at < len(value) else _ABSENT
    return UNKNOWN


def _template(expression: Template, scope: Scope) -> object:
    if len(expression.pieces) == 1:
        return _value(expression.pieces[0], scope)
    texts: list[str] = []
    values = [_value(piece, scope) for piece in expression.pieces]
    for value in values:
        if isinstance(value, _Absent):
            return value
        text = text_of(value)
        if text is None:
            return unknown_of(*values) if any(isinstance(v, Unknown) for v in values) else UNKNOWN
        texts.append(text)
    return "".join(texts) if sum(map(len, texts)) <= _LONGEST_TEXT else UNKNOWN


def _object(expression: Object, scope: Scope) -> object:
    items: dict[str, object] = {}
    for key, item in expression.items:
        name_value = _plain(key, scope)
        name = text_of(name_value)
        if name is None:
            return unknown_of(name_value) if isinstance(name_value, Unknown) else UNKNOWN
        items[name] = _plain(item, scope)
    return items


def _conditional(expression: Conditional, scope: Scope) -> object:
    value = _plain(expression.condition, scope)
    if isinstance(value, Unknown):
        return unknown_of(value, _plain(expression.yes, scope), _plain(expression.no, scope))
    condition = bool_of(value)
    if isinstance(condition, Unknown):
        return UNKNOWN
    return _value(expression.yes if condition else expression.no, scope)


def _binary(expression: Binary, scope: Scope) -> object:
    left, right = _plain(expression.left, scope), _plain(expression.right, scope)
    operator = expression.operator
    if operator in ("&&", "||"):
        return logic(operator, left, right)
    if not known(left) or not known(right):
        return unknown_of(left, right)
    if operator in ("==", "!="):
        equal = None if _contains_tree_path(scope, (left, right)) else same(left, right)
        return UNKNOWN if equal is None else equal is (operator == "==")
    return arithmetic(operator, left, right)


def _unary(expression: Unary, scope: Scope) -> object:
    operand = _plain(expression.operand, scope)
    if isinstance(operand, Unknown):
        return unknown_of(operand)
    if expression.operator == "!":
        value = bool_of(operand)
        return value if isinstance(value, Unknown) else not value
    if isinstance(operand, int | float) and not isinstance(operand, bool):
        return -operand
    return UNKNOWN


def elements(expression: For, scope: Scope) -> list[Scope] | Unknown:
    """One scope per element of a `for`, before its condition."""
    collection = _plain(expression.collection, scope)
    items = pairs(collection)
    scope.steps[0] -= len(items or ()) * _STEPS_OF_ELEMENT
    if items is None or len(items) > _MOST_ELEMENTS or scope.steps[0] < 0:
        return unknown_of(collection) if isinstance(collection, Unknown) else UNKNOWN
    scopes = []
    for key, value in items:
        names = {expression.value_name: value}
        if expression.key_name is not None:
            names[expression.key_name] = key
        scopes.append(scope.bind(names))
    return scopes


def _for(expression: For, scope: Scope) -> object:
    scopes = elements(expression, scope)
    if isinstance(scopes, Unknown):
        return scopes
    items: list[object] = []
    keyed: dict[str, object] = {}
    for inner in scopes:
        if expression.condition is not None:
            condition = _plain(expression.condition, inner)
            if not isinstance(condition, bool):
                return unknown_of(condition) if isinstance(condition, Unknown) else UNKNOWN
            if not condition:
                continue
        value = _plain(expression.value, inner)
        if expression.key is None:
            items.append(value)
            continue
        key_value = _plain(expression.key, inner)
        key = text_of(key_value)
        if key is None:
            return unknown_of(key_value) if isinstance(key_value, Unknown) else UNKNOWN
        if expression.grouped:
            before = keyed.get(key, ())
            keyed[key] = (*before, value) if isinstance(before, tuple) else UNKNOWN
        else:
            keyed[key] = value
    return tuple(items) if expression.key is None else keyed


def _call(expression: Call, scope: Scope) -> object:
    name = expression.name.removeprefix("core::")
    if name == "try":
        return _try(expression, scope)
    arguments = [_plain(argument, scope) for argument in expression.arguments]
    if expression.expand_final:
        last = arguments.pop() if arguments else UNKNOWN
        if not isinstance(last, tuple):
            return unknown_of(last) if isinstance(last, Unknown) else UNKNOWN
        arguments.extend(last)
    all_known = all(known(argument) for argument in arguments)
    if not all_known and (name not in PARTIAL or any(isinstance(value, Unknown) for value in arguments)):
        return unknown_of(*arguments)
    if name not in _PASS_PATHS and _contains_tree_path(scope, tuple(arguments)):
        return UNKNOWN
    return _call_result(name, arguments, scope)


def _call_result(name: str, arguments: list[object], scope: Scope) -> object:
    try:
        match name, arguments:
            case "fileset", [str() as folder, str() as pattern]:
                return scope.listing(folder, pattern)
            case "abspath", [str() as path]:
                return _absolute(path, scope)
            case _ if name in scope.functions:
                return scope.functions[name](*arguments)
            case _ if name in FUNCTIONS:
                return FUNCTIONS[name](*arguments)
            case _:
                return UNKNOWN
    except (TypeError, ValueError, LookupError, StopIteration):
        return UNKNOWN


def _contains_tree_path(scope: Scope, value: object) -> bool:
    """Whether a value contains an absolute path of the source tree.

    Terraform runs in another directory, so such a path may be followed but not split or compared.
    """
    return scope.tree is not None and any(scope.tree in text for text in strings(value))


def _absolute(path: str, scope: Scope) -> object:
    absolute = posixpath.normpath(posixpath.join(scope.cwd or ".", path))
    return absolute if scope.tree is not None and f"{absolute}/".startswith(f"{scope.tree}/") else UNKNOWN


def _try(expression: Call, scope: Scope) -> object:
    for argument in expression.arguments:
        value = _value(argument, scope)
        if not isinstance(value, _Absent):
            return value
    return _ABSENT


def _traversal(expression: Traversal, scope: Scope) -> object:
    value = _named(expression, scope)
    skipped = 1 if expression.root in ("var", "local", "path") else 0
    return _steps(value, expression.steps[skipped:], scope) if len(expression.steps) > skipped else value


def _access(expression: Access, scope: Scope) -> object:
    return _steps(_value(expression.base, scope), expression.steps, scope)


def _tuple(expression: Tuple, scope: Scope) -> object:
    return tuple(_plain(item, scope) for item in expression.items)


def _opaque(expression: Opaque, scope: Scope) -> object:
    parts = [_plain(part, scope) for part in expression.inside]
    only_unknown_parts = not expression.unread and not all(known(value) for value in parts)
    return unknown_of(*parts) if only_unknown_parts else UNKNOWN


_EVALUATORS: Mapping[type[Expression], Callable[[Any, Scope], object]] = {
    Access: _access,
    Binary: _binary,
    Call: _call,
    Conditional: _conditional,
    For: _for,
    Object: _object,
    Opaque: _opaque,
    Template: _template,
    Traversal: _traversal,
    Tuple: _tuple,
    Unary: _unary,
}
