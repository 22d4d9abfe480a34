r"""The forms in which a secret travels: as it is, line by line, and in every encoding that tools put it in.

as it is        also without blanks at its ends, with `\r\n` for `\n`, and with its lines joined
base64          standard and URL-safe, in all three alignments: a secret inside a larger text gives other
                characters by where it begins, and the part in its middle that stays the same is searched for
in addresses    percent-encoded as browsers, Python and Go do it, upper and lower case, `+` for a blank
in JSON         with and without other alphabets escaped, as Go does it (`\u003c`), and twice over
in HCL and HTML `$${`, `&amp;`, `&#34;`
hexadecimal     upper and lower case
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 5
"""A shorter value would blacken half of every text and hide nothing: it is masked only in its own field."""
SHORTEST_LINE = 8
_NEVER = frozenset({"true", "false", "null", "none"})
_ARMOUR = re.compile(r"-----(?:BEGIN|END) [A-Z0-9 ]+-----")
_ONE_WORD = re.compile(r"\W*(?:[A-Z]?[a-z]+|[A-Z]+)\W*")
_UNQUOTED = ("", "/", "!'()*", "$&+,;=", "$&+,/:;=@")
"""What the usual encoders leave as it is: Python's, JavaScript's, Go's for user names and for paths."""
_WRAPPED = (64, 76)
_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_UNICODE = re.compile(r"\\u[0-9a-f]{4}")
_GO = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}
_GO_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;", "+": "&#43;"})


def worth_hiding(text: str) -> bool:
    """Blanks, the mask itself and the words of every language are no secrets, whatever is marked as one."""
    return len(text) >= SHORTEST and bool(text.strip(" \t\r\n*")) and text.casefold() not in _NEVER


def forms_of(text: str) -> frozenset[str]:
    """Every text that gives this secret away. None of them is shorter than five characters."""
    if not worth_hiding(text):
        return frozenset()
    found = {form for plain in _plain(text) for form in (plain, *_escaped(plain), *_hexadecimal(plain))}
    for plain in {text, text.strip()}:
        found.update(_base64(plain.encode("utf-8", "surrogatepass")))
    for line in lines_of(text):
        found.update((line, *_in_json(line), html.escape(line)))
    return frozenset(form for form in found if worth_hiding(form))


def lines_of(text: str) -> tuple[str, ...]:
    """Of a text with several lines those that give something away alone: no armour, no single word."""
    lines = [line.strip() for line in text.splitlines()]
    if len(lines) < 2:  # noqa: PLR2004 - one line is the text itself
        return ()
    return tuple(
        line
        for line in dict.fromkeys(lines)
        if len(line) >= SHORTEST_LINE and not _ARMOUR.fullmatch(line) and not _ONE_WORD.fullmatch(line)
    )


def _plain(text: str) -> set[str]:
    unix = text.replace("\r\n", "\n")
    whole = {text, text.strip(), unix, unix.strip()}
    if "\n" in unix:
        whole |= {one.replace("\n", "\r\n") for one in (unix, unix.strip())}
        whole |= {" ".join(text.split()), "".join(text.split())}
    return whole


def _escaped(plain: str) -> Iterator[str]:
    yield from _in_json(plain)
    yield plain.replace("${", "$${").replace("%{", "%%{")
    yield html.escape(plain)
    yield html.escape(plain, quote=False)
    yield plain.translate(_GO_HTML)
    for kept in _UNQUOTED:
        quoted = _quoted(plain, kept)
        yield quoted
        yield _ESCAPE.sub(lambda found: found[0].lower(), quoted)
    spaced = quote_plus(plain, errors="surrogatepass")
    yield spaced
    yield _ESCAPE.sub(lambda found: found[0].lower(), spaced)


def _quoted(plain: str, kept: str) -> str:
    return quote(plain, safe=kept, errors="surrogatepass")


def _in_json(plain: str) -> set[str]:
    once = {
        json.dumps(plain)[1:-1],
        json.dumps(plain, ensure_ascii=False)[1:-1],
        json.dumps(plain, ensure_ascii=False)[1:-1].translate(_GO),
    }
    once |= {_UNICODE.sub(lambda found: f"\\u{found[0][2:].upper()}", one) for one in once}
    once |= {one.replace("/", "\\/") for one in once}
    return once | {one.replace("\\", "\\\\").replace('"', '\\"') for one in once}


def _hexadecimal(plain: str) -> tuple[str, str]:
    digits = plain.encode("utf-8", "surrogatepass").hex()
    return digits, digits.upper()


def _base64(data: bytes) -> Iterator[str]:
    for form in _alignments(data):
        yield form
        yield form.replace("+", "-").replace("/", "_")
    whole = base64.b64encode(data).decode()
    for width in _WRAPPED:
        if len(whole) > width:
            lines = (whole[at : at + width] for at in range(0, len(whole), width))
            yield from (line for line in lines if len(line) >= SHORTEST_LINE)


def _alignments(data: bytes) -> Iterator[str]:
    """Without the characters at either end that what stands beside the secret has a part in."""
    whole = base64.b64encode(data).decode()
    yield whole
    yield whole.rstrip("=")
    for before, skipped in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(b"\0" * before + data).decode()
        yield text[skipped : (before + len(data)) * 8 // 6]
