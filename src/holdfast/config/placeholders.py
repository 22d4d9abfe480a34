"""`{name}` in text: where the placeholders stand, and the text with them filled in.

`{{` and `}}` are braces that are meant as they are. `{var.X}` is the value of X in the variables files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from holdfast.kernel.values import dataclass

VAR: Final = "var."
_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|var\.[A-Za-z_][A-Za-z0-9_-]*")


class MalformedError(ValueError):
    """A brace without its other half, or something in braces that can be no name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    name: str


Part = Literal | Placeholder


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Text taken apart once, to be filled in many times."""

    text: str
    parts: tuple[Part, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Each name once, in the order of the text."""
        return tuple(dict.fromkeys(part.name for part in self.parts if isinstance(part, Placeholder)))

    @property
    def literals(self) -> tuple[str, ...]:
        return tuple(part.text for part in self.parts if isinstance(part, Literal))

    def fill(self, value_of: Callable[[str], str]) -> str:
        return "".join(
            [part.text if isinstance(part, Literal) else value_of(part.name) for part in self.parts]
        )


def parse(text: str) -> Template:
    """Raises MalformedError, whose text says what is wrong."""
    parts: list[Part] = []
    literal = ""
    end = 0
    for token in _TOKEN.finditer(text):
        literal += text[end : token.start()]
        end = token.end()
        match token.group():
            case "{{":
                literal += "{"
            case "}}":
                literal += "}"
            case "{":
                raise MalformedError("a `{` without its `}`")
            case "}":
                raise MalformedError("a `}` without its `{`")
            case braces:
                name = token.group(1)
                if not _NAME.fullmatch(name):
                    raise MalformedError(f"{braces} is not the name of a placeholder")
                if literal:
                    parts.append(Literal(text=literal))
                    literal = ""
                parts.append(Placeholder(name=name))
    literal += text[end:]
    if literal:
        parts.append(Literal(text=literal))
    return Template(text=text, parts=tuple(parts))


def escape(text: str) -> str:
    """Text that `parse` and `fill` give back unchanged."""
    return text.replace("{", "{{").replace("}", "}}")
