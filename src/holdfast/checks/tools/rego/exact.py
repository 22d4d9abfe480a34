"""Where regopy would answer wrongly, it is made to answer with an error. Pure.

It holds texts with their escapes: of a text with one quote `count` gives one too many, `regex.match` sees
backslashes that are not there, and a rule that depends on it silently does not fire. Such calls are led
through functions that first look whether the text holds anything that is escaped, and break if it does; what
breaks is an error of the report. So do patterns over letters beyond ASCII, which are several to it, and
`sprintf` of what it cannot format. What the library answers rightly (`contains`, `==`, `split`, `replace`,
`startswith`, `json.unmarshal`) is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from holdfast.checks.tools.rego import order, steps

PACKAGE: Final = "holdfast_exact"
_ARGUMENTS: Final = {
    **dict.fromkeys(("count", "strings.reverse", "upper", "lower", "base64.encode", "base64url.encode"), 1),
    **dict.fromkeys(
        ("base64url.encode_no_pad", "hex.encode", "crypto.md5", "crypto.sha1", "crypto.sha256"), 1
    ),
    **dict.fromkeys(("indexof", "indexof_n", "trim", "trim_left", "trim_right", "regex.match"), 2),
    **dict.fromkeys(("regex.split", "regex.globs_match", "crypto.hmac.sha256", "crypto.hmac.sha512"), 2),
    **dict.fromkeys(("substring", "regex.find_n", "regex.find_all_string_submatch_n", "regex.replace"), 3),
    "glob.match": 3,
    "regex.template_match": 4,
}
_TEXT: Final = {
    "regex.replace": 0,
    **dict.fromkeys(("regex.match", "regex.split", "regex.template_match", "regex.find_n"), 1),
    "regex.find_all_string_submatch_n": 1,
    "glob.match": 2,
}
"""Which argument is the text, where it is not every one: a pattern is full of backslashes and is right."""
_ASCII: Final = frozenset(
    {
        "upper",
        "lower",
        "hex.encode",
        "glob.match",
        *(name for name in _ARGUMENTS if name.startswith("regex.")),
    }
)
NEVER: Final = (
    "base64.decode",
    "base64url.decode",
    "hex.decode",
    "urlquery.decode",
    "urlquery.decode_object",
    "urlquery.encode",
    "urlquery.encode_object",
)
"""What they make is not what it should be, or not escaped as everything else is."""
_BREAK: Final = 'to_number("inexact")'
_OTHERS: Final = {
    "sprintf": f"(f, a) := sprintf(f, a) if {{ formats(f, a) }} else := {_BREAK}",
    # A set has no order, and its members come in any: the real ones put them in theirs.
    "concat": "(d, x) := concat(d, x) if { not is_set(x) } else := concat(d, sort(x))",
}
_VERBS: Final = r"^([^%]|%%|%[svdxXfeEgGo]|%[0-9]+d|%[0-9]*\.[0-9]+[feEgG])*$"
_FORMATS: Final = (
    f"formats(f, a) if {{ regex.match(`{_VERBS}`, f); lists(a) <= count(split(f, `%v`)) - 1 }}",
    "lists(a) := count([x | some x in a; composite(x)])",
    "composite(x) if is_array(x)",
    "composite(x) if is_object(x)",
    "composite(x) if is_set(x)",
    "composite(x) if is_null(x)",
)
"""Other verbs, and lists for `%s`, come out as something else than what was said."""
_RANKS: Final = ("is_null", "is_boolean", "is_number", "is_string", "is_array", "is_object", "is_set")
_TOKEN: Final = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|`[^`]*`|#[^\n]*|(?<![\w.])('
    + "|".join(re.escape(name) for name in sorted((*_ARGUMENTS, *NEVER, *_OTHERS), key=len, reverse=True))
    + r")(?=[ \t]*\()"
)
_INPUT: Final = "holdfast_input"
_INPUT_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|`[^`]*`|#[^\n]*|(?<![\w.])(input)(?!\w)')
_ESCAPED: Final = (r"\\", r"\"", r"\n", r"\r", r"\t")
_ODD: Final = re.compile(r"(?<!\\)(?:\\\\)*\\[bfu]")


def guarded(text: str) -> str:
    """A policy with its doubtful calls led through the functions of `module`."""

    def instead(token: re.Match[str]) -> str:
        return f"data.{PACKAGE}.{_function(token[1])}" if token[1] else token[0]

    return order.ordered(_TOKEN.sub(instead, steps.stepped(text)), PACKAGE)


def for_tests(text: str) -> str:
    """The same, with `input` in the data: `with input as` can end the process where a built-in is called."""

    def instead(token: re.Match[str]) -> str:
        return f"data.{_INPUT}" if token[1] else token[0]

    return _INPUT_TOKEN.sub(instead, guarded(text))


def _function(name: str) -> str:
    return f"{name.replace('.', '_')}_"


def doubtful(text: str) -> bool:
    """Whether a guarded policy calls anything that looks into texts."""
    return any(f"data.{PACKAGE}.{_function(name)}" in text for name in (*_ARGUMENTS, *NEVER))


def odd(document: str) -> bool:
    """Whether JSON holds control characters that the functions cannot look for."""
    return _ODD.search(document) is not None


def module() -> str:
    """The functions. They break by `to_number` of what is no number: strict errors make that an error."""
    nowhere = "; ".join(f'not contains(x, "{escaped}")' for escaped in _ESCAPED)
    lines = [
        f"package {PACKAGE}",
        "import rego.v1",
        "exact(x) if not is_string(x)",
        f"exact(x) if {{ is_string(x); {nowhere} }}",
        "ascii(x) if { exact(x); regex.match(`^[ -~]*$`, x) }",
    ]
    for name, count in _ARGUMENTS.items():
        given = [f"a{number}" for number in range(count)]
        texts = [given[_TEXT[name]]] if name in _TEXT else given
        check = "ascii" if name in _ASCII else "exact"
        head = f"{_function(name)}({', '.join(given)})"
        holds = "; ".join(f"{check}({x})" for x in texts)
        lines.append(f"{head} := {name}({', '.join(given)}) if {{ {holds} }} else := {_BREAK}")
    lines += [f"{_function(name)}{rest}" for name, rest in _OTHERS.items()]
    lines += [*_FORMATS, *_order()]
    for name in NEVER:
        lines.append(f"{_function(name)}(_) := {_BREAK}")
    return "\n".join(lines) + "\n"


def _order() -> Iterator[str]:
    """Between values of two kinds the kind decides; texts that are held with escapes have no order here."""
    for number, kind in enumerate(_RANKS):
        yield f"rank(x) := {number} if {kind}(x)"
    for sign, name in order.FUNCTIONS.items():
        yield (
            f"{name}(a, b) := a {sign} b if {{ is_number(a); is_number(b) }}"
            f" else := rank(a) {sign} rank(b) if {{ rank(a) != rank(b) }}"
            f" else := a {sign} b if {{ exact(a); exact(b) }} else := {_BREAK}"
        )
