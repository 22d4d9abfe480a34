"""Variables that hold a secret by their name, and those whose value can be shown. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.subjects import Module, value
from holdfast.checks.secrets import secret_facts
from holdfast.checks.secrets.known_secrets import names_secret
from holdfast.checks.secrets.secret_facts import SENSITIVE
from holdfast.checks.secrets.secret_flow import is_marked, variables_in
from holdfast.hcl.nodes import Attribute, Block, Body, Call, Expression, Literal, Traversal, references
from holdfast.hcl.reader import constant
from holdfast.kernel.patterns import pattern

_TEXTS = frozenset({"string", "any"})
_LISTS = frozenset({"list", "set", "map"})
_ABOUT = (
    "manage", "create", "enable", "use", "generate", "rotate", "require", "allow", "reset", "store", "random",
    "ignore", "has", "is", "with", "add", "attach", "disable", "include", "no", "min", "max",
)  # fmt: skip
_PLAIN_END = pattern(r"(?i)secrets?$|_(?:access_key|key_pair|credentials?)$")
_NAMES_ONE = pattern(
    r"(?i)^(?:the )?(?:[\w-]+ ){0,4}(?:names?|paths?|arns?|ids?)"
    r" (?:of|for|to|in|where|that|which|containing)\b"
)
_PATH = pattern(r"(?:~|\.{0,2})/|[\w./-]+\.(?:json|key|pem|p12|pfx|pub|txt|ya?ml|zip)$")
_KEY_ID = pattern(r"(?:[a-z0-9]+_)?access_key")
_NAME = pattern(r"(?:^|_)(?:name|id|arn|path)$")
_IN_TABLE = frozenset(
    ("aws", "azurerm", "google", "helm", "kubernetes", "local", "null", "terraform", "vault")
)
"""Providers whose marked arguments are known; others mark those that sound like a secret."""
_TRIGGERS = frozenset(("keepers", "triggers", "triggers_replace"))
_MARKED_ELSEWHERE = ("plaintext_value", "encrypted_value", "value_wo")

Steps = tuple[str, ...]


def secret_variables(module: Module) -> Iterator[Block]:
    """Variables that sound like a secret, can hold one, and are not marked as sensitive or ephemeral."""
    words = module.checkout.config.redaction.words
    for block in module.blocks("variable"):
        name = block.labels[0] if block.labels else ""
        if not names_secret(name, words) or name.split("_")[0] in _ABOUT or not _may_hold(name, block):
            continue
        if not is_marked(module, "variable", name) and not _is_only_a_name(module, block):
            yield block


def uses_of_variables(module: Module) -> dict[str, set[str]]:
    """The variables that the code uses, each with the arguments; without those of providers and backends."""
    return module.checkout.code.once(("uses of variables", module.folder), lambda: _uses(module))


def _uses(module: Module) -> dict[str, set[str]]:
    uses: dict[str, set[str]] = {}
    for block in module.blocks("resource", "data", "module", "locals", "output", "check", "ephemeral"):
        called = _called(module, block)
        for _, attribute in _arguments(block.body):
            for reference in references(attribute.expression):
                named = reference.root == "var" and len(reference.names) > 1
                if named and (called is None or _mentions(called, attribute.name)):
                    uses.setdefault(reference.names[1], set()).add(attribute.name)
    return uses


def only_triggers(module: Module, address: str | None, name: str) -> bool:
    """Whether a variable, or an argument of a local module, only makes Terraform replace something."""
    kind, _, label = (address or "").partition(".")
    target, variable = (module, label) if kind == "var" else (None, name)
    if kind == "module" and (call := module.declared("module", label)) and call.body.attribute(name):
        target = _called(module, call)
    if target is None or not uses_of_variables(target).get(variable, {""}) <= _TRIGGERS:
        return False
    used = (
        references(one.expression) for block in target.blocks("provider") for _, one in _arguments(block.body)
    )
    if any(variable in reference.names for all_ in used for reference in all_):
        return False
    # What a trigger contains can be read: `self.triggers.password`.
    read = (b".keepers", b".triggers")
    return not any(target.checkout.mentions(file.path, word) for file in target.files for word in read)


def shown_variables(module: Module, callers: Steps = ()) -> frozenset[tuple[str, Steps]]:
    """The parts of variables that a plan or an output shows if they are not marked, as far as code is there.

    An argument that its provider marks is never shown; nor is a connection or a remote state.
    """
    key, within = ("shown variables", module.folder), (*callers, module.folder)
    if module.folder in callers:  # Terraform refuses it.
        return frozenset()
    return module.checkout.code.once(key, lambda: frozenset(_shown(module, within)))


def _shown(module: Module, callers: Steps) -> Iterator[tuple[str, Steps]]:
    printed = bool(module.roots) or module.folder not in module.checkout.called
    for block in module.blocks("resource", "data", "module", "check", *(("output",) if printed else ())):
        if block.type == "output" and block.labels and is_marked(module, "output", block.labels[0]):
            continue
        called = _called(module, block)
        inside = shown_variables(called, callers) if called is not None else None
        for steps, attribute in _arguments(block.body):
            parts = [()] if inside is None else [part for name, part in inside if name == attribute.name]
            for part in parts if not _is_hidden(block, steps) else ():
                yield from variables_in(attribute.expression, module, attribute.file, part)


def _is_hidden(block: Block, steps: Steps) -> bool:
    """Whether an argument is known to be masked, or not part of a plan."""
    if block.type not in ("resource", "data") or not block.labels:
        return False
    type_, provider, name = block.labels[0], block.labels[0].partition("_")[0], steps[-1]
    if type_ == "terraform_remote_state" or "connection" in steps[:-1]:
        return True
    if provider not in _IN_TABLE and "provisioner" not in steps:
        return names_secret(name) or name in _MARKED_ELSEWHERE
    mode = "data" if block.type == "data" else "managed"
    listed = [one.steps for one in secret_facts.secret_attributes(mode, type_) if one.kind == SENSITIVE]
    listed += ((*twin.steps[:-1], twin.name) for twin in secret_facts.write_only_twins(type_))
    return any(secret_facts.is_at_or_below(path, steps) for path in listed)


def _arguments(body: Body, above: Steps = ()) -> Iterator[tuple[Steps, Attribute]]:
    """Every argument with its path."""
    for attribute in body.attributes:
        yield (*above, attribute.name), attribute
    for block in body.blocks:
        is_content = block.type == "content" and above
        step = block.labels[:1] if block.type == "dynamic" else () if is_content else (block.type,)
        yield from _arguments(block.body, (*above, *step))


def _called(module: Module, call: Block) -> Module | None:
    """The local module of a call, if its code is there."""
    source = str(value(call.body, "source")) if call.type == "module" else ""
    folder = module.checkout.code.tree.inside(module.folder, source) if source.startswith(".") else None
    called = module.checkout.module(folder) if folder is not None else None
    return called if called is not None and called.files else None


def _mentions(called: Module, argument: str) -> bool:
    return any(called.checkout.mentions(file.path, f"var.{argument}".encode()) for file in called.files)


def _is_only_a_name(module: Module, block: Block) -> bool:
    """Whether its description or its uses say that it is the name of a secret, or the id of a key."""
    description = block.body.attribute("description")
    text = constant(description.expression) if description is not None else None
    if isinstance(text, str) and _NAMES_ONE.search(text):
        return True
    if _KEY_ID.fullmatch(block.labels[0]):
        return any("secret" in other.labels[0] for other in module.blocks("variable") if other.labels)
    arguments = uses_of_variables(module).get(block.labels[0])
    return bool(arguments) and all(map(_NAME.search, arguments or ()))


def _may_hold(name: str, block: Block) -> bool:
    """Whether its type can hold a secret. A `…_secret` or a list is often only the name of one."""
    type_, default = block.body.attribute("type"), block.body.attribute("default")
    kind = _type(type_.expression) if type_ is not None else None
    if kind is None and default is not None:
        literal = constant(default.expression)
        kind = "string" if isinstance(literal, str) or literal is None else type(literal).__name__
    written = constant(default.expression) if default is not None else None
    if kind not in (None, *_TEXTS) or isinstance(written, list | tuple | dict):
        return False
    names_one = isinstance(written, str) and written != "" and _PLAIN_END.search(name) is not None
    return not names_one and not (isinstance(written, str) and _PATH.match(written))


def _type(expression: Expression) -> str | None:
    match expression:
        case Traversal(steps=()):
            return expression.root
        case Literal(value=str() as text):
            return text
        case Call(name=name, arguments=(Traversal() as inner,)) if name in _LISTS:
            return f"{name}({inner.root})"
        case _:
            return "other"
