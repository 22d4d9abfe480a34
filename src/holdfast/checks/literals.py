"""Texts in code that look like secrets: by the argument they are given to, or by their names. Pure.

    KNOWN    an argument that the provider itself calls a secret
    RANDOM   a text that looks random under a name that sounds secret
    PASSWORD any other text under a name that ends in `password` and the like

A text is only ever one of them, the first that fits. What is known by its format is left to that rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

from holdfast.checks import secret_facts
from holdfast.checks.interface import place_of
from holdfast.checks.known_secrets import is_known, is_placeholder, may_name_secrets, names_secret
from holdfast.checks.subjects import Module, Resource
from holdfast.checks.written import plain, written
from holdfast.config.valid import Config
from holdfast.hcl.nodes import (
    Block,
    Body,
    Call,
    Conditional,
    Expression,
    File,
    Literal,
    Object,
    Traversal,
    Tuple,
)
from holdfast.hcl.reader import constant
from holdfast.kernel.errors import Place
from holdfast.kernel.patterns import pattern
from holdfast.secrets.entropy import BITS, random_enough, sounds_secret

_PASSWORD = pattern(r"(?i)(?:password|passwd|passphrase)s?$")
_IDENTIFIER = pattern(r"[A-Za-z][A-Za-z_.-]*")
_NO_PASSWORD = pattern(
    r"(?i)$|(?:true|false|yes|no|none|null|required|optional|enabled|disabled|any|default|auto|random)$"
    r"|[$<({*\[@]|\.{0,2}/|~/|arn:|[a-z][a-z0-9+.-]*:/?/|(?:ssm|vault|aws|azure|gcp|env|op|sm|awssm|enc|ref):|ENC\["
    r"|\d{1,3}$"
)
_PASSES = frozenset(
    (
        "base64encode", "coalesce", "concat", "jsonencode", "merge", "nonsensitive", "sensitive", "tolist",
        "tomap", "toset", "tostring", "trimspace", "try", "yamlencode",
    )
)  # fmt: skip
_SPOKEN = frozenset(("secret_string", "secret_data", "plaintext", "shared_key", "preshared_key"))
_STORES = frozenset({"azurerm_key_vault_secret", "aws_secretsmanager_secret_version"})
_PUBLIC = frozenset(("description", "error_message"))


class Kind(Enum):
    KNOWN = "known"
    RANDOM = "random"
    PASSWORD = "password"  # noqa: S105 - a kind, not one


class Suspicious(Struct, frozen=True):
    kind: Kind
    name: str
    place: Place
    address: str | None
    type: str | None = None
    """The type of the resource, for `KNOWN`."""


def in_module(module: Module) -> tuple[Suspicious, ...]:
    return module.checkout.code.once(("literals", module.folder), lambda: tuple(_in_module(module)))


def _in_module(module: Module) -> Iterator[Suspicious]:
    told: set[tuple[str, int]] = set()
    for resource in module.resources():
        for one, text in _known(resource):
            told.add(_spot(one.place))
            if not is_known(text) and not _ignored(resource, one.name.partition(".")[0]):
                yield one
    checkout = module.checkout
    words = checkout.config.redaction.words
    for file in module.files:
        if may_name_secrets(checkout.text(file.path) or "", words):
            for one in in_file(file, checkout.config):
                if _spot(one.place) not in told:
                    yield one


def _spot(place: Place) -> tuple[str, int]:
    """An argument stands at its name and its text behind it: the line is what both have."""
    return place.file, place.line or 0


def in_file(file: File, config: Config) -> Iterator[Suspicious]:
    """By names alone; of a variables file, or of code."""
    words, bits = config.redaction.words, config.redaction.entropy or BITS
    for attribute in file.body.attributes:
        for name, literal in _named(attribute.name, attribute.expression):
            if names_secret(name, words):
                yield from _judged(name, literal, file.path, None, bits)
    for top in file.body.blocks:
        for name, literal in _in_block(top, top):
            if names_secret(name, words):
                yield from _judged(name, literal, file.path, _address(top), bits)


def _in_block(block: Block, top: Block) -> Iterator[tuple[str, Literal]]:
    body = block.body
    pair = _pair(body)
    if pair is not None:
        yield pair
    for attribute in body.attributes:
        name = attribute.name
        if block is top and top.labels and (top.type, name) in (("variable", "default"), ("output", "value")):
            name = top.labels[0]
        if name not in _PUBLIC:
            yield from _named(name, attribute.expression)
    for inner in body.blocks:
        yield from _in_block(inner, top)


def _pair(body: Body) -> tuple[str, Literal] | None:
    """`name = "TOKEN"` beside `value = "…"`: an entry of an environment."""
    name, value = body.attribute("name"), body.attribute("value")
    text = plain(name.expression) if name is not None else None
    if text is None or value is None or not isinstance(value.expression, Literal):
        return None
    return text, value.expression


def _named(name: str, expression: Expression) -> Iterator[tuple[str, Literal]]:
    """The texts in an expression, each with the nearest name it stands under."""
    match expression:
        case Literal(value=str()):
            yield name, expression
        case Tuple():
            for item in expression.items:
                yield from _named(name, item)
        case Conditional():
            yield from _named(name, expression.yes)
            yield from _named(name, expression.no)
        case Call() if expression.name in _PASSES:
            for argument in expression.arguments:
                yield from _named(name, argument)
        case Object():
            keys = {key: value for key, value in ((_key(one), two) for one, two in expression.items) if key}
            entry, text = plain(keys.get("name")), keys.get("value")
            if entry is not None and isinstance(text, Literal) and isinstance(text.value, str):
                yield entry, text
            for key, value in keys.items():
                yield from _named(key, value)
        case _:
            return


def _key(expression: Expression) -> str | None:
    if isinstance(expression, Traversal):
        return expression.root if not expression.steps else None
    return plain(expression)


def _judged(name: str, literal: Literal, file: str, address: str | None, bits: float) -> Iterator[Suspicious]:
    """What a text is that stands under a name which sounds secret."""
    text = str(literal.value)
    if is_placeholder(text) or _NO_PASSWORD.match(text) or is_known(text):
        return
    place = place_of(literal, file)
    if random_enough(text, bits):
        yield Suspicious(Kind.RANDOM, name, place, address)
    elif _PASSWORD.search(name) and not _says_where(text):
        yield Suspicious(Kind.PASSWORD, name, place, address)


def _says_where(text: str) -> bool:
    """A name of a secret rather than one: `db_password`, a sentence."""
    return " " in text or (_IDENTIFIER.fullmatch(text) is not None and sounds_secret(text))


def _known(resource: Resource) -> Iterator[tuple[Suspicious, str]]:
    if resource.mode != "managed":
        return
    for listed in secret_facts.listed(resource.mode, resource.type):
        if listed.kind != secret_facts.SENSITIVE or not _is_secret(resource, listed.steps[-1]):
            continue
        for one in written(resource.body, listed.steps):
            text = plain(one.expression)
            if text and not _NO_PASSWORD.match(text):
                path = ".".join(one.steps)
                yield Suspicious(Kind.KNOWN, path, one.place, resource.address, resource.type), text


def _is_secret(resource: Resource, name: str) -> bool:
    """Whether a text is a secret wherever it is given to this argument; content may also be harmless."""
    if resource.type == "aws_ssm_parameter":
        kind = resource.body.attribute("type")
        return kind is not None and constant(kind.expression) == "SecureString"
    if name == "value":
        return resource.type in _STORES
    return sounds_secret(name) or name in _SPOKEN


def _ignored(resource: Resource, name: str) -> bool:
    """A value that is only there to begin with: what is set later is left alone."""
    for block in resource.body.blocks_of("lifecycle"):
        changes = block.body.attribute("ignore_changes")
        if changes is None:
            continue
        items = changes.expression.items if isinstance(changes.expression, Tuple) else (changes.expression,)
        if any(_first(item) in (name, "all") for item in items):
            return True
    return False


def _first(expression: Expression) -> str | None:
    return expression.root if isinstance(expression, Traversal) else plain(expression)


def _address(block: Block) -> str | None:
    match block.type, block.labels:
        case "resource", (type_, name):
            return f"{type_}.{name}"
        case "data" | "ephemeral", (type_, name):
            return f"{block.type}.{type_}.{name}"
        case "variable", (name,):
            return f"var.{name}"
        case "module" | "output" | "provider", (name,):
            return f"{block.type}.{name}"
        case _:
            return None
