"""Addresses and attribute paths, written exactly as Terraform writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from holdfast.kernel.patterns import pattern

Step = str | int
Path = tuple[Step, ...]

_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
_KEY = pattern(r'\[(?:[0-9]+|"(?:[^"\\]|\\.)*")\]', re.DOTALL)
_ADDRESS = pattern(rf"(?:{_NAME.pattern}(?:{_KEY.pattern})?\.)+{_NAME.pattern}(?:{_KEY.pattern})?", re.DOTALL)
_NUMBERS = pattern(r"([^0-9]*)([0-9]*)", re.ASCII)
_BEYOND_FOUR_DIGITS = 0x10000
_ESCAPES = (
    ("\\", "\\\\"),
    ('"', '\\"'),
    ("\n", "\\n"),
    ("\r", "\\r"),
    ("\t", "\\t"),
    ("${", "$${"),
    ("%{", "%%{"),
)


def without_keys(address: str) -> str:
    """The address in the configuration: `module.a["x"].b.c[0]` is `module.a.b.c`."""
    return _KEY.sub("", address)


def is_address(text: str) -> bool:
    """Whether it can be the address of a resource, an instance or a module."""
    return _ADDRESS.fullmatch(text) is not None


def covers(address: str, other: str) -> bool:
    """Whether `other` is this instance, an instance of this resource, or something in this module."""
    return other == address or other.startswith((f"{address}.", f"{address}["))


def import_blocks(imports: Iterable[tuple[str, str]]) -> str:
    """The `import` blocks for addresses and ids. Nothing in an id is interpreted as a template."""
    return "\n".join(
        f"import {{\n  to = {address}\n  id = {key_text(id_)[1:-1]}\n}}\n" for address, id_ in imports
    )


def address_order(address: str) -> tuple[tuple[str, int], ...]:
    """Sort key for addresses: numbers compare as numbers, so `node[2]` comes before `node[10]`."""
    return tuple((text, int(digits or 0)) for text, digits in _NUMBERS.findall(address))


def key_text(key: Step | None) -> str:
    """`[0]`, `["a"]`, or empty for a resource without `count` and `for_each`."""
    match key:
        case None:
            return ""
        case int():
            return f"[{key}]"
        case str():
            text = key
            for plain, escaped in _ESCAPES:
                text = text.replace(plain, escaped)
            if not text.isprintable():
                text = "".join(char if char.isprintable() else _escape(char) for char in text)
            return f'["{text}"]'


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < _BEYOND_FOUR_DIGITS else f"\\U{code:08x}"


def resource_text(*, module: str | None, mode: str, type_: str, name: str, key: Step | None) -> str:
    prefix = f"{module}." if module else ""
    return f"{prefix}{'data.' if mode == 'data' else ''}{type_}.{name}{key_text(key)}"


def path_text(path: Path, clean_key: Callable[[str], str] = lambda key: key) -> str:
    """`rule[0].port`, `tags["a b"]`: a path inside a resource, as in an expression.

    `clean_key` redacts a key in its brackets.
    """
    text = ""
    for step in path:
        key = key_text(step)
        cleaned = clean_key(key)
        if isinstance(step, str) and _NAME.fullmatch(step) and cleaned == key:
            text += f".{step}" if text else step
        else:
            text += cleaned
    return text
