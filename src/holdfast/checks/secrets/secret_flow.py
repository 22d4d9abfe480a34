"""The secrets that an expression contains, as far as the source shows. Pure.

Sensitive variables, sensitive attributes of providers, and outputs of local modules are followed through
local values, objects, functions and module arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator

from holdfast.checks.model.subjects import Module
from holdfast.checks.secrets import secret_facts
from holdfast.checks.secrets.carried_secrets import (
    Carried,
    CarriedSecret,
    Steps,
    VariableUse,
    mark_only,
    merged,
    secret_of,
    unmask,
    up_to_first_secret,
)
from holdfast.checks.secrets.known_secrets import is_about
from holdfast.hcl.eval.code import ModuleCall
from holdfast.hcl.nodes import (
    Access,
    Attribute,
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
    references,
)
from holdfast.hcl.reader import constant
from holdfast.kernel.patterns import pattern
from holdfast.kernel.work_limit import check_work_limit
from holdfast.secrets.entropy import is_secret_name

_MOST_STEPS = 24
_MOST_PARTS = 20_000
"""Parts of names of one module: code that is not written to slow down the checks has a few hundred."""
_TELLS_NOTHING = frozenset(
    (
        "base64sha256", "base64sha512", "bcrypt", "can", "contains", "endswith", "filemd5", "filesha256",
        "issensitive", "keys", "length", "md5", "sha1", "sha256", "sha512", "startswith", "type", "uuidv5",
    )
)  # fmt: skip
"""Functions whose result does not reveal the secret."""
_BOOLEAN = frozenset(("==", "!=", "<", ">", "<=", ">=", "&&", "||"))
_UNMASKED = frozenset({"issensitive", "keys"})
_SPLAT = pattern(r"(?:\[\s*\*\s*\]|\.\*)((?:\.[A-Za-z_][\w-]*|\[\d+\])*)")
_NAME = pattern(r"[A-Za-z_][\w-]*")
_ANY = "*"
"""Any item of a collection."""
_BLOCK = pattern(
    r"_(?:key|certificate|step|profile|client|portal)$"
    r"|^(?:gateway|management|portal|scm|mysql|postgresql|oracle|alloydb|cloudsql|oidc)$"
)
"""Block names for paths of the provider table that start with `*`."""

_PASSED_ON = frozenset(("merge", "try", "coalesce", "tomap", "one", "element", "values"))
"""Functions whose result has the parts of their arguments."""


class TooComplexError(Exception):
    """The expression cannot be followed to its end within the limits."""


def secret_in(expression: Expression, module: Module, file: str) -> CarriedSecret | None:
    """The first secret in an expression of a module. Raises `TooComplexError`."""
    try:
        return secret_of(_flow_of(module).carried(expression, file))
    except RecursionError:
        raise TooComplexError from None


def variables_in(
    expression: Expression, module: Module, file: str, steps: Steps = ()
) -> frozenset[tuple[str, Steps]]:
    """The parts of variables that (a part of) an expression reveals; all in it if it is too complex."""
    try:
        carried = _flow_of(module).carried(expression, file, steps)
    except (RecursionError, TooComplexError):
        found = (one.names for one in references(expression) if one.root == "var")
        return frozenset((name, ()) for _, name, *_ in (names for names in found if len(names) > 1))
    uses = (part for part in carried if isinstance(part, VariableUse) and not part.mark_only)
    return frozenset((use.name, use.steps) for use in uses)


def _flow_of(module: Module) -> _Flow:
    return module.checkout.code.once(("secret flow", module.folder), lambda: _Flow(module))


class _Flow:
    """What the expressions of one module carry. Each name is followed once, whoever refers to it.

    A module does not depend on its callers: what it does with its variables is found once, and each call
    looks up its own arguments.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[tuple[str | int, Steps], Carried] = {}
        self._loops: list[For] = []
        """Kept, so that no other expression gets the id of one of them."""

    def carried(self, expression: Expression, file: str, steps: Steps = ()) -> Carried:  # noqa: C901, PLR0911 - one row per kind of expression
        """`steps`: only that part of the value."""
        check_work_limit()
        match expression:
            case Literal():
                return ()
            case Traversal():
                return self._traversal(expression, steps)
            case Access():
                return self.carried(expression.base, file, (*_names(expression.steps), *steps))
            case Object():
                return up_to_first_secret(
                    self.carried(value, file, rest) for value, rest in _values(expression, steps)
                )
            case Call():
                return self._call(expression, file, steps)
            case Conditional():
                values = self._all((expression.yes, expression.no), file, steps)
                return up_to_first_secret((values, mark_only(self.carried(expression.condition, file))))
            case Binary() | Unary():
                operands = self._all(expression.parts(), file, ())
                return mark_only(operands) if expression.operator in (*_BOOLEAN, "!") else operands
            case For():
                inner = steps[1:] if expression.key is not None else _without_key(steps)
                inner = _without_key(inner) if expression.grouped else inner
                return self._once(id(expression), inner, lambda: self._for(expression, file, inner))
            case Opaque():
                return self._splat(expression, file, steps)
            case Tuple():
                return self._all(expression.items, file, _without_key(steps))
            case _:
                return self._all(expression.parts(), file, steps)

    def _once(self, key: str | int, steps: Steps, follow: Callable[[], Carried]) -> Carried:
        """Nothing for a name that is being followed: it refers to itself, which Terraform refuses."""
        if (key, steps) not in self._known:
            if len(self._known) > _MOST_PARTS or len(steps) > _MOST_STEPS:
                raise TooComplexError
            self._known[key, steps] = ()
            try:
                self._known[key, steps] = follow()
            except BaseException:
                del self._known[key, steps]
                raise
        return self._known[key, steps]

    def _all(self, expressions: Iterable[Expression], file: str, steps: Steps) -> Carried:
        return up_to_first_secret(self.carried(expression, file, steps) for expression in expressions)

    def _call(self, call: Call, file: str, steps: Steps) -> Carried:
        if call.name == "sensitive":
            return (CarriedSecret("sensitive(…)"),)
        if call.name in _UNMASKED:
            return ()
        if call.name == "nonsensitive":
            return unmask(
                up_to_first_secret(self._revealed(argument, file, steps) for argument in call.arguments)
            )
        through = steps if call.name in _PASSED_ON else ()
        carried = self._all(call.arguments, file, through)
        if call.name in _TELLS_NOTHING:
            return mark_only(carried)
        return carried if call.name in _PASSED_ON else merged(carried)

    def _revealed(self, expression: Expression, file: str, steps: Steps) -> Carried:
        """What a value reveals."""
        match expression:
            case _ if _reveals_nothing(expression):
                return ()
            case Conditional():
                return self._all((expression.yes, expression.no), file, steps)
            case Template():
                return up_to_first_secret(self._revealed(piece, file, ()) for piece in expression.pieces)
            case _:
                return self.carried(expression, file, steps)

    def _for(self, expression: For, file: str, inner: Steps) -> Carried:
        """The result for each item: part of the collection, or something else; `inner`: only that part."""
        self._loops.append(expression)
        collection = expression.collection
        some = bool(self.carried(collection, file))
        results: list[Carried] = []
        for part in (expression.key, expression.value):
            if part is None:
                continue
            roots = (reference for reference in references(part) if reference.root == expression.value_name)
            steps = inner if part is expression.value else ()
            more = steps if isinstance(part, Traversal) else ()
            paths = dict.fromkeys((*_names(reference.steps), *more) for reference in roots) if some else ()
            results += (self.carried(collection, file, (_ANY, *path)) for path in paths)
            results.append(self.carried(part, file, steps))
        return up_to_first_secret(results)

    def _splat(self, expression: Opaque, file: str, steps: Steps) -> Carried:
        """The parser does not keep the attribute after a splat, so it is read from the text."""
        lines = self._module.checkout.lines(file)
        line = lines[expression.line - 1] if 0 < expression.line <= len(lines) else ""
        attribute = _SPLAT.search(line, expression.column - 1)
        first = expression.inside[:1]
        if attribute is None or not first:
            return self._all(expression.inside, file, steps)
        return self.carried(first[0], file, (_ANY, *_NAME.findall(attribute[1]), *steps))

    def _traversal(self, expression: Traversal, steps: Steps) -> Carried:
        match expression.root:
            case "var" | "local":
                name, *rest = (*_names(expression.steps), *steps, "")
                follow = self._variable if expression.root == "var" else self._local
                return follow(name, tuple(filter(None, rest)))
            case "module":
                name, output, *rest = (*_steps_after_reference(expression.steps, 1, steps), "", "")
                return self._output(name, output, tuple(filter(None, rest)))
            case "data":
                type_, name, *rest = (*_steps_after_reference(expression.steps, 2, steps), "", "")
                return _attribute("data", type_, name, tuple(filter(None, rest)))
            case root if "_" in root and secret_facts.secret_attributes("managed", root):
                name, *rest = (*_steps_after_reference(expression.steps, 1, steps), "")
                return _attribute("managed", root, name, tuple(filter(None, rest)))
            case _:
                return ()

    def _local(self, name: str, steps: Steps) -> Carried:
        if name not in self._locals:
            return ()
        local = self._locals[name]
        return self._once(f"local.{name}", steps, lambda: self.carried(local.expression, local.file, steps))

    @functools.cached_property
    def _locals(self) -> dict[str, Attribute]:
        blocks = self._module.blocks("locals")
        return {attribute.name: attribute for block in blocks for attribute in block.body.attributes}

    def _variable(self, name: str, steps: Steps) -> Carried:
        if is_marked(self._module, "variable", name, ("sensitive",)):
            return (CarriedSecret(f"var.{name}"),)
        return (VariableUse(name, steps),)

    def _output(self, call_name: str, output: str, steps: Steps) -> Carried:
        called = self._calls.get(call_name)
        if called is None:
            return ()
        call, module = called
        if is_marked(module, "output", output):
            return (CarriedSecret(f"module.{call_name}.{output}"),)
        return self._once(
            f"module.{call_name}.{output}", steps, lambda: self._passed_on(call, module, output, steps)
        )

    @functools.cached_property
    def _calls(self) -> dict[str, tuple[ModuleCall, Module]]:
        """The calls of local modules."""
        checkout = self._module.checkout
        calls: dict[str, tuple[ModuleCall, Module]] = {}
        for call in self._module.code.calls:
            source = constant(call.source) if call.source is not None else None
            is_local = isinstance(source, str) and source.startswith((".", "/"))
            folder = checkout.code.tree.inside(self._module.folder, str(source)) if is_local else None
            if folder is not None:
                calls[call.name] = (call, checkout.module(folder))
        return calls

    def _passed_on(self, call: ModuleCall, module: Module, output: str, steps: Steps) -> Carried:
        """What an output of a called module carries, with the arguments of this call."""
        block = module.declared("output", output)
        value = block.body.attribute("value") if block is not None else None
        if value is None:
            return ()
        inside = _flow_of(module).carried(value.expression, value.file, steps)
        source = f"module.{call.name}.{output}"
        return up_to_first_secret(self._argument(call, part, source) for part in inside)

    def _argument(self, call: ModuleCall, part: CarriedSecret | VariableUse, source: str) -> Carried:
        if isinstance(part, CarriedSecret):
            return (part._replace(source=source),)
        if part.name not in call.arguments:
            return ()
        carried = self.carried(call.arguments[part.name], call.place.file, part.steps)
        carried = mark_only(carried) if part.mark_only else carried
        carried = unmask(carried) if part.unmasked else carried
        return tuple(other._replace(source=source) for other in carried)


def _reveals_nothing(expression: Expression) -> bool:
    """`length(…)`, `var.password != ""`, and a part whose name says so: `var.login.host`."""
    match expression:
        case Call():
            return expression.name in _TELLS_NOTHING
        case Binary() | Unary():
            return expression.operator in (*_BOOLEAN, "!")
        case Traversal(root="var" | "local", steps=(_, *_, str() as last)):
            return is_about(last)
        case _:
            return False


def _names(steps: tuple[str | Expression, ...]) -> Steps:
    """Attributes and literal keys; indexes and computed keys are skipped."""
    names = (step if isinstance(step, str) else _text(step) for step in steps)
    return tuple(step for step in names if step is not None)


def _text(expression: Expression) -> str | None:
    is_text = isinstance(expression, Literal) and isinstance(expression.value, str)
    return str(expression.value) if is_text and isinstance(expression, Literal) else None


def _values(expression: Object, steps: Steps) -> Iterator[tuple[Expression, Steps]]:
    """The values of an object that the steps lead to, each with the steps inside it."""
    for key, value in expression.items:
        name = key.root if isinstance(key, Traversal) and not key.steps else _text(key)
        if not steps or name is None or steps[0] in (_ANY, name):
            yield value, steps[1:]


def _steps_after_reference(own: tuple[str | Expression, ...], named: int, steps: Steps) -> Steps:
    """The steps after a reference whose name has `named` steps; an instance key is not a step."""
    if len(own) > named and not isinstance(own[named], str):
        own = (*own[:named], *own[named + 1 :])
        return (*_names(own), *steps)
    return (*_names(own), *(_without_key(steps) if len(own) == named else steps))


def _without_key(steps: Steps) -> Steps:
    return steps[1:] if steps[:1] == (_ANY,) else steps


def _attribute(mode: str, type_: str, name: str, steps: Steps) -> Carried:
    prefix = "data." if mode == "data" else ""
    for listed in secret_facts.secret_attributes(mode, type_):
        if not secret_facts.overlaps(listed.steps, steps) or _is_sibling(listed.steps, steps):
            continue
        if listed.kind == secret_facts.SENSITIVE:
            within = len(steps) < len(listed.steps)
            return (CarriedSecret(f"{prefix}{type_}.{name}.{listed.path}", within=within),)
        if secret_facts.is_at_or_below(listed.steps, steps) and is_secret_name(listed.steps[-1]):
            return (CarriedSecret(f"{prefix}{type_}.{name}.{listed.path}", masked=False),)
    return ()


def _is_sibling(listed: Steps, steps: Steps) -> bool:
    """For `*.raw_key` only blocks count: `self_link` is an attribute next to them."""
    return listed[:1] == (_ANY,) and len(steps) == 1 and steps[0] != _ANY and not _BLOCK.search(steps[0])


def is_marked(
    module: Module, kind: str, name: str, marks: tuple[str, ...] = ("sensitive", "ephemeral")
) -> bool:
    """Whether a variable or output is marked sensitive or ephemeral."""
    block = module.declared(kind, name)
    if block is None:
        return False
    attributes = (block.body.attribute(mark) for mark in marks)
    return any(mark is not None and constant(mark.expression) is True for mark in attributes)
