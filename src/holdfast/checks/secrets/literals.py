"""Texts in code that look like secrets, by argument or by name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.checks.code.argument_values import (
    LOGIN,
    literal_text,
    named_texts,
    names_a_store,
    texts_in,
    values_at,
)
from holdfast.checks.model.interface import Severity, place_of
from holdfast.checks.model.subjects import Checkout, Module, Resource, VariablesFile, bodies, value
from holdfast.checks.secrets import secret_facts, texts
from holdfast.checks.secrets.evidence import Quality, is_placeholder, looks_like_credential, quality_of
from holdfast.checks.secrets.known_secrets import is_about, is_known, names_secret
from holdfast.checks.secrets.secret_variables import only_triggers
from holdfast.checks.secrets.suspicion import (
    SecretKind,
    SuspiciousText,
    classify_text,
    digest_of,
    ends_as_password,
    is_harmless,
    is_key_id,
    is_uuid,
    names_a_secret,
    severity_by_name,
)
from holdfast.hcl.eval.code import ModuleCall
from holdfast.hcl.nodes import (
    Block,
    Body,
    Call,
    Conditional,
    Expression,
    File,
    Literal,
    Traversal,
    Tuple,
    walk,
)
from holdfast.hcl.reader import constant
from holdfast.kernel.errors import Place
from holdfast.kernel.patterns import pattern
from holdfast.secrets.entropy import BITS, is_secret_name

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
    for text in _by_names(module.files, module.checkout, set(map(_line_of, places))):
        if only_triggers(module, text.address, text.name):
            continue
        is_default = text.address is not None and text.address.startswith("var.")
        replaced = is_default and _is_replaced(module, str(text.address).removeprefix("var."))
        yield replace(text, severity=Severity.NOTE) if replaced else text


def _is_replaced(module: Module, name: str) -> bool:
    """Whether every call of the module has a value for the variable."""
    checkout = module.checkout

    def find() -> dict[str, list[ModuleCall]]:
        calls: dict[str, list[ModuleCall]] = {}
        for caller in checkout.modules:
            for call in caller.code.calls:
                source = constant(call.source) if call.source is not None else None
                if isinstance(source, str) and source.startswith("."):
                    folder = checkout.code.tree.inside(caller.folder, source)
                    calls.setdefault(folder or "", []).append(call)
        return calls

    calls = checkout.code.once(("calls by folder", id(checkout)), find).get(module.folder, [])
    return (
        bool(calls) and module.folder not in checkout.roots and all(name in call.arguments for call in calls)
    )


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
            here += (text for text in _in_file(file, checkout) if _line_of(text.place) not in reported)
        yield from here
        lines = {_line_of(text.place) for text in here} | reported
        yield from (text for text in texts.in_code(file.path, checkout) if _line_of(text.place) not in lines)


def _line_of(place: Place) -> tuple[str, int]:
    """An argument's place is its name, the text's place is behind it: both have the same line."""
    return place.file, place.line or 0


def _in_file(file: File, checkout: Checkout) -> Iterator[SuspiciousText]:
    words, bits = checkout.config.redaction.words, checkout.config.redaction.entropy or BITS
    for address, name, literal, text in _all_named(file):
        if names_secret(name, words):
            marked = address is not None and address.startswith("provider.")
            suspicion = classify_text(name, text, bits, password=ends_as_password(name), marked=marked)
            if suspicion is not None:
                kind, severity = suspicion
                if is_key_id(name, text, checkout.text(file.path) or ""):
                    severity = Severity.NOTE
                place, digest = place_of(literal, file.path), digest_of(text)
                yield SuspiciousText(kind, name, place, severity, address, digest=digest)


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
    names = {attribute.name for attribute in body.attributes}
    for attribute in body.attributes:
        name = attribute.name
        if block is top and top.labels and (top.type, name) in (("variable", "default"), ("output", "value")):
            name = top.labels[0]
        if name not in _PUBLIC and (attribute.name != "pass" or LOGIN & names):
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


# Arguments that are always secret, by provider tables or by the code. Values are followed through functions,
# conditionals and objects, and to local values and variable defaults of the same module.


_SPOKEN = pattern(
    r"(?:^|_)(?:key2?|key_base64|key_value|key_material_base64|auth(?:orization)?_code|magic_code|signature)$"
    r"|^(?:secret_string|secret_data|plaintext|plain_text|plaintext_value|secure_value|auth_string|pfx_\w+)$"
)
_SHOWN = frozenset(
    (
        "application_insights_key", "instrumentation_key", "host_key", "rsa_encrypted_key",
        "virtual_machine_ssh_key",
    )
)  # fmt: skip
"""Marked by their providers, but public, encrypted, or known to every client."""
_VALUES = frozenset(
    (
        "aws_api_gateway_api_key.value", "aws_cloudwatch_event_connection.auth_parameters.api_key.value",
        "azurerm_key_vault_secret.value", "helm_release.set_sensitive.value",
    )
)  # fmt: skip
"""Elsewhere a marked `value` may be anything: a setting, a header, a document."""
_IN_STORE = pattern(r"^(?:(?:plaintext_)?value|secret_(?:string|data))(?:_wo|_base64)?$")
_FLAGS = ("sensitive", "is_secret", "is_value_secret", "masked", "encrypted", "secret")
"""Next to a `value`, these say that it is a secret."""
_GITHUB = pattern(r"github_\w+_secret")
_NAMED = ("secret_name", "name", "key")
_DEEPEST = 4


class HardCodedSecret(NamedTuple):
    suspicious: SuspiciousText
    text: str
    is_first_only: bool
    """`ignore_changes` names it: an initial value that is changed elsewhere."""


class _Text(NamedTuple):
    steps: tuple[str, ...]
    text: str
    place: Place
    is_fallback: bool
    """Another value may replace it: the default of a variable, `coalesce(var.a, "…")`."""


def hard_coded_secrets(module: Module, resource: Resource) -> Iterator[HardCodedSecret]:
    if resource.mode != "managed":
        return
    for text in _all(module, resource):
        if text.text and not is_harmless(text.text) and not _is_filled_in_later(text):
            secret = SuspiciousText(
                SecretKind.KNOWN,
                ".".join(text.steps),
                text.place,
                _severity(text, module.checkout),
                resource.address,
                resource.type,
                digest_of(text.text),
            )
            yield HardCodedSecret(secret, text.text, _is_ignored(resource, text.steps[0]))


def _severity(text: _Text, checkout: Checkout) -> Severity:
    """An error looks like a credential; in a secret store, or as a fallback, it is random."""
    name = text.steps[-1]
    if is_key_id(name, text.text, checkout.text(text.place.file) or ""):
        return Severity.NOTE
    if text.is_fallback or _IN_STORE.search(name) or is_uuid(text.text):
        return severity_by_name(name, text.text, marked=True)
    return Severity.ERROR if looks_like_credential(text.text) else Severity.WARNING


def _is_filled_in_later(text: _Text) -> bool:
    """A placeholder or a sentence in a secret store; as a password, even `changeme` is one."""
    stands_in = quality_of(text.text) is Quality.WEAK or " " in text.text.strip()
    return stands_in and not ends_as_password(text.steps[-1])


def _all(module: Module, resource: Resource) -> Iterator[_Text]:
    for steps in _listed(resource):
        is_secret = _is_secret(resource, steps)
        for value_ in values_at(resource.body, steps):
            if value_.expression is not None:
                for text in _texts(module, value_.steps, value_.expression, value_.place):
                    direct = text.steps == value_.steps
                    if is_secret if direct else _is_secret_entry(text):
                        yield text
    for body in bodies(resource.block) if _may_flag(module, resource.block.file) else ():
        argument = body.attribute("value")
        flagged = argument is not None and any(value(body, flag) is True for flag in _FLAGS)
        if argument is not None and flagged and not _is_about(body):
            yield from _texts(module, ("value",), argument.expression, argument.place)


def _may_flag(module: Module, file: str) -> bool:
    """A quick test: most files have no flag."""
    return any(module.checkout.mentions(file, flag.encode()) for flag in _FLAGS)


def _listed(resource: Resource) -> Iterator[tuple[str, ...]]:
    for attribute in secret_facts.secret_attributes(resource.mode, resource.type):
        if attribute.kind == secret_facts.SENSITIVE:
            yield attribute.steps
    for twin in secret_facts.write_only_twins(resource.type):
        yield (*twin.steps[:-1], twin.name)
    if _GITHUB.fullmatch(resource.type):
        yield from (("plaintext_value",), ("value",))


def _is_secret(resource: Resource, steps: tuple[str, ...]) -> bool:
    """Whether every text in this argument is a secret; content may also be harmless."""
    if len(steps) == 1 and (_is_about(resource.body) or is_about(resource.name)):
        return False
    name = steps[-1].removesuffix("_wo")
    if resource.type == "aws_ssm_parameter":
        return value(resource.body, "type") == "SecureString"
    if name == "value":
        path = ".".join((resource.type, *steps[:-1], name))
        return path in _VALUES or _GITHUB.fullmatch(resource.type) is not None
    return name not in _SHOWN and (is_secret_name(name) or _SPOKEN.search(name) is not None)


def _is_about(body: Body) -> bool:
    """The name says that the store holds something else: `AWS_REGION`, `storage-account-name`."""
    names = (
        literal_text(attribute.expression)
        for name in _NAMED
        if (attribute := body.attribute(name)) is not None
    )
    name = next(filter(None, names), None)
    return name is not None and is_about(name.rpartition("/")[2])


def _is_secret_entry(entry: _Text) -> bool:
    """A text below the argument, unless it is a placeholder or a name (`password = "db_password"`)."""
    named = names_secret(entry.steps[-1])
    return named and not is_placeholder(entry.text) and not names_a_secret(entry.text)


def _texts(module: Module, steps: tuple[str, ...], expression: Expression, place: Place) -> Iterator[_Text]:
    target, file, is_fallback = _behind(module, expression, place.file)
    is_fallback = is_fallback or any(map(_is_choice, walk(target)))
    for below, literal, text in texts_in(target, steps):
        at = place_of(literal, file)
        here = place if (at.file, at.line) == (place.file, place.line) else at
        inside = _document(text)
        if inside is None:
            yield _Text(below, text, here, is_fallback)
        else:
            yield from (
                _Text((*below, *names), text_, here, is_fallback) for names, text_ in named_texts(inside)
            )


def _is_choice(expression: Expression) -> bool:
    return isinstance(expression, Conditional) or (
        isinstance(expression, Call) and expression.name in ("coalesce", "try")
    )


def _behind(module: Module, expression: Expression, file: str) -> tuple[Expression, str, bool]:
    """Follows a name of the module to its value and file, as far as the code shows it.

    Last: whether it is the default of a variable.
    """
    is_default = False
    for _ in range(_DEEPEST):
        match expression:
            case Traversal(root="var", steps=(str() as name,)):
                block = module.declared("variable", name)
                attribute = block.body.attribute("default") if block is not None else None
            case Traversal(root="local", steps=(str() as name,)):
                attributes = (block.body.attribute(name) for block in module.blocks("locals"))
                attribute = next((attribute for attribute in attributes if attribute is not None), None)
            case _:
                break
        if attribute is None:
            break
        is_default = is_default or attribute.name == "default"
        expression, file = attribute.expression, attribute.place.file
    return expression, file, is_default


def _document(text: str) -> Any:
    """The JSON object in a text; None if it is not one."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _is_ignored(resource: Resource, name: str) -> bool:
    for block in resource.body.blocks_of("lifecycle"):
        changes = block.body.attribute("ignore_changes")
        if changes is None:
            continue
        items = changes.expression.items if isinstance(changes.expression, Tuple) else (changes.expression,)
        if any(_root(item) in (name, "all") for item in items):
            return True
    return False


def _root(expression: Expression) -> str | None:
    return expression.root if isinstance(expression, Traversal) else literal_text(expression)
