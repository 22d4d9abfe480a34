"""The secrets that an expression contains, as far as the source shows. Pure.

Sensitive variables, sensitive attributes of providers, and outputs of local modules are followed through
local values, objects, functions and module arguments.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.checks.model.subjects import Module
from holdfast.checks.secrets import secret_facts
from holdfast.hcl.eval.code import ModuleCall
from holdfast.hcl.nodes import (
    Access,
    Binary,
    Block,
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
from holdfast.secrets.entropy import is_secret_name

_DEEPEST = 24
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

Steps = tuple[str, ...]


class CarriedSecret(NamedTuple):
    source: str
    """`var.password`, `aws_db_instance.main.password`."""
    unmasked: bool = False
    """`nonsensitive` removed the mark: Terraform shows it without an error."""
    masked: bool = True
    """Terraform knows that it is a secret."""


class ModuleScope(NamedTuple):
    """A module, with its call if one is followed."""

    module: Module
    file: str
    call: ModuleCall | None = None
    caller: ModuleScope | None = None
    depth: int = 0


def secret_in(  # noqa: C901, PLR0911 - one row per kind of expression
    expression: Expression, at: ModuleScope, steps: Steps = ()
) -> CarriedSecret | None:
    """The first secret in it. `steps`: only that part of the value."""
    if at.depth > _DEEPEST:
        return None
    deeper = at._replace(depth=at.depth + 1)
    match expression:
        case Traversal():
            return _traversal(expression, deeper, steps)
        case Access():
            return secret_in(expression.base, deeper, (*_names(expression.steps), *steps))
        case Object():
            return _object(expression, deeper, steps)
        case Call():
            return _call(expression, deeper, steps)
        case Conditional():
            return _first((expression.yes, expression.no), deeper, steps) or _mark_only(
                _first((expression.condition,), deeper, ())
            )
        case Binary() | Unary():
            return _operation(expression, deeper)
        case For():
            return _for(expression, deeper)
        case Opaque():
            return _splat(expression, deeper, steps)
        case Tuple():
            return _first(expression.items, deeper, _without_key(steps))
        case _:
            return _first(expression.parts(), deeper, steps)


def _first(expressions: tuple[Expression, ...], at: ModuleScope, steps: Steps) -> CarriedSecret | None:
    return next(filter(None, (secret_in(expression, at, steps) for expression in expressions)), None)


def _mark_only(secret: CarriedSecret | None) -> CarriedSecret | None:
    """It is not revealed: only Terraform's mark is passed on, unless `nonsensitive` removed it."""
    return secret if secret is not None and secret.masked and not secret.unmasked else None


def _names(steps: tuple[str | Expression, ...]) -> Steps:
    """Attributes and literal keys; indexes and computed keys are skipped."""
    names = (step if isinstance(step, str) else _text(step) for step in steps)
    return tuple(step for step in names if step is not None)


def _text(expression: Expression) -> str | None:
    is_text = isinstance(expression, Literal) and isinstance(expression.value, str)
    return str(expression.value) if is_text and isinstance(expression, Literal) else None


def _object(expression: Object, at: ModuleScope, steps: Steps) -> CarriedSecret | None:
    for key, value in expression.items:
        name = key.root if isinstance(key, Traversal) and not key.steps else _text(key)
        if not steps or name is None or steps[0] in (_ANY, name):
            secret = secret_in(value, at, steps[1:])
            if secret is not None:
                return secret
    return None


def _call(call: Call, at: ModuleScope, steps: Steps) -> CarriedSecret | None:
    if call.name == "sensitive":
        return CarriedSecret("sensitive(…)")
    if call.name in _UNMASKED:
        return None
    if call.name == "nonsensitive":
        secrets = (_revealed_secret(argument, at, steps) for argument in call.arguments)
        secret = next(filter(None, secrets), None)
        if secret is None or _plain_parameter(secret.source):
            return None
        return secret._replace(unmasked=True, masked=False)
    through = steps if call.name in {"merge", "try", "coalesce", "tomap", "one", "element"} else ()
    secret = _first(call.arguments, at, through)
    return _mark_only(secret) if call.name in _TELLS_NOTHING else secret


def _revealed_secret(expression: Expression, at: ModuleScope, steps: Steps) -> CarriedSecret | None:
    """The secret that a value reveals. `length(…)` and `var.password != ""` reveal none."""
    match expression:
        case Call() if expression.name in _TELLS_NOTHING:
            return None
        case Binary() if expression.operator in _BOOLEAN:
            return None
        case Unary(operator="!"):
            return None
        case Conditional():
            return _first((expression.yes, expression.no), at, steps)
        case Template():
            return next(filter(None, (_revealed_secret(piece, at, ()) for piece in expression.pieces)), None)
        case _:
            return secret_in(expression, at, steps)


def _plain_parameter(source: str) -> bool:
    """The provider marks every SSM parameter, but most are settings: image ids, host names."""
    return "aws_ssm_parameter." in source and not is_secret_name(source)


def _operation(expression: Binary | Unary, at: ModuleScope) -> CarriedSecret | None:
    secret = _first(expression.parts(), at, ())
    return _mark_only(secret) if expression.operator in (*_BOOLEAN, "!") else secret


def _for(expression: For, at: ModuleScope) -> CarriedSecret | None:
    """The result for each item: part of the collection, or something else."""
    for part in (expression.key, expression.value):
        if part is None:
            continue
        paths = (
            _names(reference.steps)
            for reference in references(part)
            if reference.root == expression.value_name
        )
        from_items = (secret_in(expression.collection, at, (_ANY, *steps)) for steps in paths)
        secret = next(filter(None, from_items), None) or secret_in(part, at)
        if secret is not None:
            return secret
    return None


def _splat(expression: Opaque, at: ModuleScope, steps: Steps) -> CarriedSecret | None:
    """The parser does not keep the attribute after a splat, so it is read from the text."""
    lines = at.module.checkout.lines(at.file)
    text = lines[expression.line - 1][expression.column - 1 :] if 0 < expression.line <= len(lines) else ""
    attribute = _SPLAT.search(text)
    first = expression.inside[:1]
    if attribute is None or not first:
        return _first(expression.inside, at, ())
    return secret_in(first[0], at, (_ANY, *_NAME.findall(attribute[1]), *steps))


def _traversal(expression: Traversal, at: ModuleScope, steps: Steps) -> CarriedSecret | None:
    match expression.root:
        case "var" | "local":
            name, *rest = (*_names(expression.steps), *steps, "")
            follow = _variable if expression.root == "var" else _local
            return follow(name, at, tuple(filter(None, rest)))
        case "module":
            name, output, *rest = (*_steps_after_reference(expression.steps, 1, steps), "", "")
            return _output(name, output, at, tuple(filter(None, rest)))
        case "data":
            type_, name, *rest = (*_steps_after_reference(expression.steps, 2, steps), "", "")
            return _attribute("data", type_, name, tuple(filter(None, rest)))
        case root if "_" in root and secret_facts.secret_attributes("managed", root):
            name, *rest = (*_steps_after_reference(expression.steps, 1, steps), "")
            return _attribute("managed", root, name, tuple(filter(None, rest)))
        case _:
            return None


def _steps_after_reference(own: tuple[str | Expression, ...], named: int, steps: Steps) -> Steps:
    """The steps after a reference whose name has `named` steps; an instance key is not a step."""
    if len(own) > named and not isinstance(own[named], str):
        own = (*own[:named], *own[named + 1 :])
        return (*_names(own), *steps)
    return (*_names(own), *(_without_key(steps) if len(own) == named else steps))


def _without_key(steps: Steps) -> Steps:
    return steps[1:] if steps[:1] == (_ANY,) else steps


def _local(name: str, at: ModuleScope, steps: Steps) -> CarriedSecret | None:
    expression = at.module.code.locals.get(name)
    if expression is None:
        return None
    return secret_in(expression, at._replace(file=_file_of_local(at.module, name)), steps)


def _variable(name: str, at: ModuleScope, steps: Steps) -> CarriedSecret | None:
    if is_marked(at.module, "variable", name, ("sensitive",)):
        return CarriedSecret(f"var.{name}")
    if at.call is not None and at.caller is not None and name in at.call.arguments:
        return secret_in(at.call.arguments[name], at.caller._replace(depth=at.depth), steps)
    return None


def _output(call_name: str, output: str, at: ModuleScope, steps: Steps) -> CarriedSecret | None:
    call = next((module_call for module_call in at.module.code.calls if module_call.name == call_name), None)
    source = constant(call.source) if call is not None and call.source is not None else None
    if call is None or not isinstance(source, str) or not source.startswith((".", "/")):
        return None
    folder = at.module.checkout.code.tree.inside(at.module.folder, source)
    module = at.module.checkout.module(folder) if folder is not None else None
    block = module.declared("output", output) if module is not None else None
    if module is None or block is None:
        return None
    if is_marked(module, "output", output):
        return CarriedSecret(f"module.{call_name}.{output}")
    value = block.body.attribute("value")
    if value is None:
        return None
    inside = ModuleScope(module=module, file=block.place.file, call=call, caller=at, depth=at.depth)
    secret = secret_in(value.expression, inside, steps)
    return secret._replace(source=f"module.{call_name}.{output}") if secret is not None else None


def _attribute(mode: str, type_: str, name: str, steps: Steps) -> CarriedSecret | None:
    prefix = "data." if mode == "data" else ""
    for listed in secret_facts.secret_attributes(mode, type_):
        if not secret_facts.overlaps(listed.steps, steps) or _is_sibling(listed.steps, steps):
            continue
        if listed.kind == secret_facts.SENSITIVE:
            return CarriedSecret(f"{prefix}{type_}.{name}.{listed.path}")
        if secret_facts.is_at_or_below(listed.steps, steps) and is_secret_name(listed.steps[-1]):
            return CarriedSecret(f"{prefix}{type_}.{name}.{listed.path}", masked=False)
    return None


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


def _file_of_local(module: Module, name: str) -> str:
    places = (
        attribute.place.file
        for block in module.blocks("locals")
        for attribute in block.body.attributes
        if attribute.name == name
    )
    return next(places, "")


def scope_of(module: Module, block: Block) -> ModuleScope:
    return ModuleScope(module=module, file=block.place.file)
