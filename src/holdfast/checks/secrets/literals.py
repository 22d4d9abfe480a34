"""Texts in code that look like secrets, by argument or by name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.checks.code.argument_values import literal_text, names_a_store, texts_in
from holdfast.checks.model.interface import place_of
from holdfast.checks.model.subjects import Checkout, Module, VariablesFile
from holdfast.checks.secrets import texts
from holdfast.checks.secrets.known_secrets import is_about, is_known, names_secret
from holdfast.checks.secrets.secret_arguments import hard_coded_secrets
from holdfast.checks.secrets.suspicion import SuspiciousText, classify_text, ends_as_password
from holdfast.config.settings import Config
from holdfast.hcl.nodes import Block, Body, Expression, File, Literal
from holdfast.kernel.errors import Place
from holdfast.kernel.patterns import pattern
from holdfast.secrets.entropy import BITS

_PUBLIC = frozenset(("description", "error_message"))
_MANY = pattern(r"(?i)(?:password|passwd|passphrase|token|api_?key|access_?key)s$")
"""In `tokens = { web = "…" }` the name of the map applies to each text."""


def in_module(module: Module) -> tuple[SuspiciousText, ...]:
    return module.checkout.code.once(("literals", module.folder), lambda: tuple(_in_module(module)))


def _in_module(module: Module) -> Iterator[SuspiciousText]:
    places: set[Place] = set()
    for resource in module.resources():
        for secret in hard_coded_secrets(module, resource):
            place = secret.suspicious.place
            if place not in places and not secret.is_first_only and not is_known(secret.text):
                yield secret.suspicious
            places.add(place)
    yield from _by_names(module.files, module.checkout, set(map(_line_of, places)))


def in_variables(file: VariablesFile) -> tuple[SuspiciousText, ...]:
    key = ("literals of variables", file.path)
    return file.checkout.code.once(key, lambda: tuple(_by_names((file.file,), file.checkout, set())))


def _by_names(
    files: Iterable[File], checkout: Checkout, reported: set[tuple[str, int]]
) -> Iterator[SuspiciousText]:
    """Under names in the code first, then in embedded texts; each line is reported once."""
    for file in files:
        here: list[SuspiciousText] = []
        if texts.may_name(file.path, checkout):
            here += (text for text in _in_file(file, checkout.config) if _line_of(text.place) not in reported)
        yield from here
        lines = {_line_of(text.place) for text in here} | reported
        yield from (text for text in texts.in_code(file.path, checkout) if _line_of(text.place) not in lines)


def _line_of(place: Place) -> tuple[str, int]:
    """An argument's place is its name, the text's place is behind it: both have the same line."""
    return place.file, place.line or 0


def _in_file(file: File, config: Config) -> Iterator[SuspiciousText]:
    words, bits = config.redaction.words, config.redaction.entropy or BITS
    for address, name, literal, text in _all_named(file):
        if names_secret(name, words):
            kind = classify_text(text, bits, password=ends_as_password(name))
            if kind is not None:
                yield SuspiciousText(kind, name, place_of(literal, file.path), address)


def _all_named(file: File) -> Iterator[tuple[str | None, str, Literal, str]]:
    for attribute in file.body.attributes:
        for text in _named_texts(attribute.name, attribute.expression):
            yield None, *text
    for top in file.body.blocks:
        address = _address(top)
        for text in _in_block(top, top):
            yield address, *text


def _in_block(block: Block, top: Block) -> Iterator[tuple[str, Literal, str]]:
    body = block.body
    yield from _pair(body)
    for attribute in body.attributes:
        name = attribute.name
        if block is top and top.labels and (top.type, name) in (("variable", "default"), ("output", "value")):
            name = top.labels[0]
        if name not in _PUBLIC:
            yield from _named_texts(name, attribute.expression)
    for inner in body.blocks:
        yield from _in_block(inner, top)


def _pair(body: Body) -> Iterator[tuple[str, Literal, str]]:
    """`name = "TOKEN"` next to `value = "…"`: an environment entry."""
    name, value = body.attribute("name") or body.attribute("key"), body.attribute("value")
    entry, type_ = literal_text(name.expression) if name is not None else None, body.attribute("type")
    if type_ is not None and names_a_store(type_.expression):
        return
    if entry is not None and value is not None:
        yield from _named_texts(entry, value.expression)


def _named_texts(name: str, expression: Expression) -> Iterator[tuple[str, Literal, str]]:
    """The texts in an expression, each with the nearest name."""
    for steps, literal, text in texts_in(expression, (name,)):
        above = steps[-2] if len(steps) > 1 else ""
        is_of_many = _MANY.search(above) is not None and not is_about(steps[-1])
        yield above if is_of_many and not names_secret(steps[-1]) else steps[-1], literal, text


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
