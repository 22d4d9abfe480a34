"""Evaluates an expression to a value or to an unknown. It never guesses.

Whatever depends on an unknown is unknown too. `COMPUTED` is an unknown that depends only on resources, data
sources and module outputs; everything else that cannot be determined is `UNKNOWN`, and so is what Terraform
reports as an error and what takes too many steps: a few lines of code can require endless work.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.hcl.eval.budget import MOST_STEPS, Budget, Exhausted
from holdfast.hcl.eval.functions import ERRORS, FUNCTIONS, LONGEST_TEXT, PARTIAL
from holdfast.hcl.eval.values import (
    arithmetic,
    bool_of,
    keyed,
    known,
    logic,
    number_of,
    pairs,
    parts_of,
    same,
    strings,
    text_of,
    unknown_from,
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
from holdfast.kernel.work_limit import check_work_limit

Listing = Callable[[str, str], object]
"""`fileset`: the files below a folder that match a pattern, as a set, or unknown."""

_MOST_ELEMENTS = 2000
_STEPS_OF_ELEMENT = 10
_MOST_PARTS = 100_000
_PASS_PATHS = frozenset(("format", "join", "fileset", "abspath", "tostring", "coalesce", "lookup"))
"""Functions that pass an absolute path on without inspecting it."""


class _Absent(Exception):  # noqa: N818 - it ends the evaluation of one argument of `try`
    """Terraform would report an error here; `try` continues with its next argument."""


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
    budget: Budget = field(default_factory=Budget)

    def bind(self, names: Mapping[str, object]) -> Scope:
        return replace(self, names={**self.names, **names})

    def unbound(self) -> Scope:
        return replace(self, names={})


def evaluate(expression: Expression, scope: Scope) -> object:
    """A value, possibly with unknown parts, or an unknown; a huge value is unknown. Never raises."""
    if type(expression) is Literal:
        return expression.value
    check_work_limit()
    scope.budget.start()
    try:
        value = _value(expression, scope)
    except (_Absent, Exhausted, RecursionError):
        return UNKNOWN
    return UNKNOWN if parts_of(value, _MOST_PARTS) > _MOST_PARTS else value


def _value(expression: Expression, scope: Scope) -> object:
    if type(expression) is Literal:
        return expression.value
    scope.budget.spend(1)
    return _EVALUATORS[type(expression)](expression, scope)


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
        try:
            value = _value(scope.locals[name], scope.unbound())
        except _Absent:
            # Terraform stops at the local itself: no `try` around a reference to it helps.
            return UNKNOWN
        parts = parts_of(value, _MOST_PARTS)
        scope.budget.spend(parts)
        scope.known_locals[name] = UNKNOWN if parts > _MOST_PARTS else value
    return scope.known_locals[name]


def _steps(value: object, steps: tuple[str | Expression, ...], scope: Scope) -> object:
    for step in steps:
        if isinstance(value, Unknown):
            return unknown_of(value)
        key = step if isinstance(step, str) else _value(step, scope)
        if isinstance(key, Unknown):
            return unknown_of(key, value)
        value = _index(value, key)
    return value


def _index(value: object, key: object) -> object:
    if value is None:
        raise _Absent
    if isinstance(value, Mapping):
        name = text_of(key)
        if name is None:
            return UNKNOWN
        if name not in value:
            raise _Absent
        return value[name]
    at = number_of(key)
    if type(value) is not tuple or not isinstance(at, int) or at < 0:
        return UNKNOWN
    if at >= len(value):
        raise _Absent
    return value[at]


def _template(expression: Template, scope: Scope) -> object:
    if len(expression.pieces) == 1:
        return _value(expression.pieces[0], scope)
    values = [_value(piece, scope) for piece in expression.pieces]
    texts = [text for value in values if (text := text_of(value)) is not None]
    if len(texts) < len(values):
        return unknown_of(*values) if any(isinstance(value, Unknown) for value in values) else UNKNOWN
    length = sum(map(len, texts))
    scope.budget.spend_text(length)
    return "".join(texts) if length <= LONGEST_TEXT else UNKNOWN


def _object(expression: Object, scope: Scope) -> object:
    items: dict[str, object] = {}
    unclear: Unknown | None = None
    for key, item in expression.items:
        name_value, value = _value(key, scope), _value(item, scope)
        name = text_of(name_value)
        if name is not None:
            items[name] = value
        elif unclear is None:
            unclear = unknown_from(name_value)
    return items if unclear is None else unclear


def _conditional(expression: Conditional, scope: Scope) -> object:
    value = _value(expression.condition, scope)
    if isinstance(value, Unknown):
        return unknown_of(value, _either(expression.yes, scope), _either(expression.no, scope))
    condition = bool_of(value)
    if isinstance(condition, Unknown):
        return UNKNOWN
    return _value(expression.yes if condition else expression.no, scope)


def _either(expression: Expression, scope: Scope) -> object:
    """The value of an expression that Terraform may not need: an error in it is no error of the whole."""
    try:
        return _value(expression, scope)
    except _Absent:
        return UNKNOWN


def _binary(expression: Binary, scope: Scope) -> object:
    operator = expression.operator
    if operator in ("&&", "||"):
        return logic(operator, _either(expression.left, scope), _either(expression.right, scope))
    left, right = _value(expression.left, scope), _value(expression.right, scope)
    scope.budget.spend(_parts_in((left, right)))
    if not known(left) or not known(right):
        return unknown_of(left, right)
    if operator in ("==", "!="):
        equal = None if _contains_tree_path(scope, (left, right)) else same(left, right)
        return UNKNOWN if equal is None else equal is (operator == "==")
    return arithmetic(operator, left, right)


def _parts_in(values: tuple[object, ...]) -> int:
    """How many steps it takes to look at every part of them."""
    return sum(parts_of(value, MOST_STEPS) for value in values if isinstance(value, tuple | Mapping))


def _unary(expression: Unary, scope: Scope) -> object:
    operand = _value(expression.operand, scope)
    if isinstance(operand, Unknown):
        return unknown_of(operand)
    if expression.operator == "!":
        value = bool_of(operand)
        return value if isinstance(value, Unknown) else not value
    if isinstance(operand, int | float) and not isinstance(operand, bool) and operand:
        return -operand
    return UNKNOWN  # also of 0, which Terraform may show as -0


def elements(expression: For, scope: Scope) -> list[Scope] | Unknown:
    """One scope per element of a `for`, before its condition. Never raises."""
    scope.budget.start()
    try:
        return _elements(expression, scope)
    except (_Absent, Exhausted, RecursionError):
        return UNKNOWN


def _elements(expression: For, scope: Scope) -> list[Scope] | Unknown:
    collection = _value(expression.collection, scope)
    if isinstance(collection, tuple | Mapping):
        scope.budget.spend(len(collection) * _STEPS_OF_ELEMENT)
    items = pairs(collection)
    if items is None or len(items) > _MOST_ELEMENTS:
        return unknown_from(collection)
    scopes = []
    for key, value in items:
        names = {expression.value_name: value}
        if expression.key_name is not None:
            names[expression.key_name] = key
        scopes.append(scope.bind(names))
    return scopes


def _for(expression: For, scope: Scope) -> object:
    scopes = _elements(expression, scope)
    if isinstance(scopes, Unknown):
        return scopes
    items: list[tuple[object, object]] = []
    if not scopes and expression.condition is not None:
        names = dict.fromkeys((expression.key_name or expression.value_name, expression.value_name), UNKNOWN)
        if not isinstance(_either(expression.condition, scope.bind(names)), bool | Unknown):
            return UNKNOWN  # an error, although there is no element
    for inner in scopes:
        if expression.condition is not None:
            condition = _value(expression.condition, inner)
            if not isinstance(condition, bool):
                return unknown_from(condition)
            if not condition:
                continue
        key = _value(expression.key, inner) if expression.key is not None else None
        items.append((key, _value(expression.value, inner)))
    if expression.key is None:
        return tuple(value for _, value in items)
    return keyed(items, grouped=expression.grouped)


def _call(expression: Call, scope: Scope) -> object:
    name = expression.name.removeprefix("core::")
    if name == "try" and not expression.expand_final:
        return _try(expression, scope)
    arguments = [_value(argument, scope) for argument in expression.arguments]
    if expression.expand_final:
        last = arguments.pop() if arguments else UNKNOWN
        if not isinstance(last, tuple):
            return unknown_from(last)
        arguments.extend(last)
    scope.budget.spend(_parts_in(tuple(arguments)))
    scope.budget.spend_text(sum(len(value) for value in arguments if isinstance(value, str)))
    all_known = all(known(argument) for argument in arguments)
    if not all_known and (name not in PARTIAL or any(isinstance(value, Unknown) for value in arguments)):
        return unknown_of(*arguments)
    if name not in _PASS_PATHS and _contains_tree_path(scope, tuple(arguments)):
        return UNKNOWN
    result = _call_result(name, arguments, scope)
    if isinstance(result, str):
        scope.budget.spend_text(len(result))
    return result


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
    except ERRORS:
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
        try:
            return _value(argument, scope)
        except _Absent:
            continue
    raise _Absent


def _traversal(expression: Traversal, scope: Scope) -> object:
    value = _named(expression, scope)
    skipped = 1 if expression.root in ("var", "local", "path") else 0
    return _steps(value, expression.steps[skipped:], scope) if len(expression.steps) > skipped else value


def _access(expression: Access, scope: Scope) -> object:
    return _steps(_value(expression.base, scope), expression.steps, scope)


def _tuple(expression: Tuple, scope: Scope) -> object:
    return tuple([_value(item, scope) for item in expression.items])


def _opaque(expression: Opaque, scope: Scope) -> object:
    parts = tuple(_either(part, scope) for part in expression.inside)
    scope.budget.spend(_parts_in(parts))
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
