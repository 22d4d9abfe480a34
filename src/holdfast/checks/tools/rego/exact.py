"""Rewrites policies for regopy so that a call it would get wrong is an error. Pure.

regopy keeps strings with their escapes: `count` of a string with one quote is one too many, `regex.match`
sees backslashes that are not there, and a rule that depends on it silently does not fire. Such calls go to
helper functions that fail if the string contains an escaped character; the failure is reported as an error.
The same holds for patterns over non-ASCII letters, which are several characters to regopy, and for `sprintf`
of values it cannot format. Calls that regopy gets right (`contains`, `==`, `split`, `replace`, `startswith`,
`json.unmarshal`) stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from holdfast.checks.tools.rego import steps

PACKAGE: Final = "holdfast_exact"
_CHECKED: Final = {
    "x": "count strings.reverse base64.encode base64url.encode base64url.encode_no_pad "
    "crypto.md5 crypto.sha1 crypto.sha256",
    "xx": "indexof indexof_n trim trim_left trim_right crypto.hmac.sha256 crypto.hmac.sha512",
    "xxx": "substring",
    "a": "upper lower hex.encode",
    "aa": "regex.globs_match",
    "-a": "regex.match regex.split",
    "-a-": "regex.find_n regex.find_all_string_submatch_n",
    "a--": "regex.replace",
    "--a": "glob.match",
    "-a--": "regex.template_match",
}
"""Functions by what each argument must be: `x` without escapes, `a` also ASCII, `-` anything."""
_ARGUMENTS: Final = {name: kinds for kinds, names in _CHECKED.items() for name in names.split()}
_UNSUPPORTED: Final = (
    *("base64.decode", "base64url.decode", "hex.decode", "urlquery.decode", "urlquery.decode_object"),
    *("urlquery.encode", "urlquery.encode_object"),
)
"""regopy's results are wrong, or not escaped like all other strings."""
_CHECKS: Final = {"x": "exact", "a": "ascii"}
_BREAK: Final = 'to_number("inexact")'
_OTHERS: Final = {
    "sprintf": f"(f, a) := sprintf(f, a) if {{ formats(f, a) }} else := {_BREAK}",
    # opa sorts the members of a set; regopy returns them in any order.
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
"""regopy formats other verbs, and lists for `%s`, differently from opa."""
_RANKS: Final = ("is_null", "is_boolean", "is_number", "is_string", "is_array", "is_object", "is_set")
_TOKEN: Final = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|`[^`]*`|#[^\n]*|(?<![\w.])('
    + "|".join(
        re.escape(name) for name in sorted((*_ARGUMENTS, *_UNSUPPORTED, *_OTHERS), key=len, reverse=True)
    )
    + r")(?=[ \t]*\()"
)
_INPUT: Final = "holdfast_input"
_INPUT_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|`[^`]*`|#[^\n]*|(?<![\w.])(input)(?!\w)')
_ESCAPED: Final = (r"\\", r"\"", r"\n", r"\r", r"\t")
_CONTROL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\[bfu]")


def rewrite_policy(text: str) -> str:
    """The policy with every call that regopy may get wrong replaced by one of `helper_module`."""

    def replacement(token: re.Match[str]) -> str:
        return f"data.{PACKAGE}.{_function(token[1])}" if token[1] else token[0]

    return steps.rewrite_comparisons(_TOKEN.sub(replacement, steps.lift_iterations(text)), PACKAGE)


def rewrite_tests(text: str) -> str:
    """The same without `input`: regopy can crash on `with input as` around a built-in function."""

    def replacement(token: re.Match[str]) -> str:
        return f"data.{_INPUT}" if token[1] else token[0]

    return _INPUT_TOKEN.sub(replacement, rewrite_policy(text))


def _function(name: str) -> str:
    return f"{name.replace('.', '_')}_"


def inspects_strings(text: str) -> bool:
    """Whether a rewritten policy calls a function that depends on the characters of a string."""
    return any(f"data.{PACKAGE}.{_function(name)}" in text for name in (*_ARGUMENTS, *_UNSUPPORTED))


def has_control_characters(document: str) -> bool:
    """Whether the JSON contains control characters, which the helper functions cannot detect."""
    return _CONTROL.search(document) is not None


def helper_module() -> str:
    """The helper functions. They fail with `to_number` of a non-number, which strict errors report."""
    no_escapes = "; ".join(f'not contains(x, "{escaped}")' for escaped in _ESCAPED)
    lines = [
        f"package {PACKAGE}",
        "import rego.v1",
        "exact(x) if not is_string(x)",
        f"exact(x) if {{ is_string(x); {no_escapes} }}",
        "ascii(x) if { exact(x); regex.match(`^[ -~]*$`, x) }",
    ]
    for name, kinds in _ARGUMENTS.items():
        arguments = ", ".join(f"a{number}" for number in range(len(kinds)))
        holds = "; ".join(f"{_CHECKS[kind]}(a{n})" for n, kind in enumerate(kinds) if kind in _CHECKS)
        lines.append(
            f"{_function(name)}({arguments}) := {name}({arguments}) if {{ {holds} }} else := {_BREAK}"
        )
    lines += [f"{_function(name)}{rest}" for name, rest in _OTHERS.items()]
    lines += [*_FORMATS, *_order()]
    lines += [f"{_function(name)}(_) := {_BREAK}" for name in _UNSUPPORTED]
    return "\n".join(lines) + "\n"


def _order() -> Iterator[str]:
    """Values of two types are ordered by type; strings with escapes are an error."""
    for rank, is_type in enumerate(_RANKS):
        yield f"rank(x) := {rank} if {is_type}(x)"
    for sign, name in steps.ORDER.items():
        yield (
            f"{name}(a, b) := a {sign} b if {{ is_number(a); is_number(b) }}"
            f" else := rank(a) {sign} rank(b) if {{ rank(a) != rank(b) }}"
            f" else := a {sign} b if {{ exact(a); exact(b) }} else := {_BREAK}"
        )
