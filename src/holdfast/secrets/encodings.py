r"""The encodings in which a secret may appear in output.

plain           also stripped, with `\r\n` for `\n`, with one space for any whitespace, and each line alone
base64          standard and URL-safe, in all three alignments: the characters depend on where the secret
                starts in a larger text; the part in the middle that does not change is searched for
URL             percent-encoded as browsers, Python and Go do it, upper and lower case, `+` for a space
JSON            with and without escaped non-ASCII, as Go does it (`\u003c`), and twice encoded
HCL and HTML    `$${`, as Terraform writes keys in addresses, `&amp;`, `&#34;`
hexadecimal     upper and lower case
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from holdfast.kernel.patterns import pattern
from holdfast.terraform.addresses import key_text

SHORTEST = 5
"""A shorter value would match everywhere: it is masked only in its own field."""
SHORTEST_LINE = 8
_NEVER = frozenset({"true", "false", "null", "none"})
_ARMOUR = pattern(r"-----(?:BEGIN|END) [A-Z0-9 ]+-----")
_ONE_WORD = pattern(r"\W*(?:[A-Z]?[a-z]+|[A-Z]+)\W*")
_UNQUOTED = ("", "/", "!'()*", "$&+,;=", "$&+,/:;=@")
"""Safe characters of the usual encoders: Python, JavaScript, Go for user names and for paths."""
_WRAPPED = (64, 76)
_ESCAPE = pattern(r"%[0-9A-F]{2}")
_UNICODE = pattern(r"\\u[0-9a-f]{4}")
_GO = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
_GO_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;", "+": "&#43;"})


def is_maskable(text: str) -> bool:
    """Whitespace, the mask itself, true, false and null are no secrets even if they are marked as one."""
    return len(text) >= SHORTEST and bool(text.strip(" \t\r\n*")) and text.casefold() not in _NEVER


def encodings_of(text: str) -> frozenset[str]:
    """Every text that reveals the secret. None is shorter than five characters."""
    if not is_maskable(text):
        return frozenset()
    encodings = {encoded for plain in _plain(text) for encoded in (plain, *_escaped(plain))}
    for plain in {text, text.strip()}:
        encodings.update(_base64(plain.encode("utf-8", "surrogatepass")))
    for line in secret_lines(text):
        encodings.update((line, *_in_json(line), html.escape(line)))
    return frozenset(filter(is_maskable, encodings))


def secret_lines(text: str) -> tuple[str, ...]:
    """The lines of a multi-line secret that reveal something alone: no PEM header, no single word."""
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
    whole = {text, text.strip(), unix, unix.strip(), " ".join(text.split())}
    if "\n" in unix:
        whole |= {text.replace("\n", "\r\n") for text in (unix, unix.strip())}
        whole.add("".join(text.split()))
    return whole


def _escaped(plain: str) -> Iterator[str]:
    yield from _in_json(plain)
    digits = plain.encode("utf-8", "surrogatepass").hex()
    yield from (digits, digits.upper())
    yield plain.replace("${", "$${").replace("%{", "%%{")
    in_address = key_text(plain).removeprefix('["').removesuffix('"]')
    yield from (in_address, *_in_json(in_address))
    yield html.escape(plain)
    yield html.escape(plain, quote=False)
    yield plain.translate(_GO_HTML)
    for safe in _UNQUOTED:
        quoted = quote(plain, safe=safe, errors="surrogatepass")
        yield quoted
        yield _ESCAPE.sub(lambda escape: escape[0].lower(), quoted)
    spaced = quote_plus(plain, errors="surrogatepass")
    yield spaced
    yield _ESCAPE.sub(lambda escape: escape[0].lower(), spaced)


def _in_json(plain: str) -> set[str]:
    once = {
        json.dumps(plain)[1:-1],
        json.dumps(plain, ensure_ascii=False)[1:-1],
        json.dumps(plain, ensure_ascii=False)[1:-1].translate(_GO),
    }
    once |= {_UNICODE.sub(lambda escape: f"\\u{escape[0][2:].upper()}", text) for text in once}
    once |= {text.replace("/", "\\/") for text in once}
    return once | {text.replace("\\", "\\\\").replace('"', '\\"') for text in once}


def _base64(data: bytes) -> Iterator[str]:
    for encoded in _alignments(data):
        yield encoded
        yield encoded.replace("+", "-").replace("/", "_")
    whole = base64.b64encode(data).decode()
    for width in _WRAPPED:
        if len(whole) > width:
            lines = (whole[at : at + width] for at in range(0, len(whole), width))
            yield from (line for line in lines if len(line) >= SHORTEST_LINE)


def _alignments(data: bytes) -> Iterator[str]:
    """Without the characters at either end that depend on the text beside the secret."""
    whole = base64.b64encode(data).decode()
    yield whole
    yield whole.rstrip("=")
    for before, skipped in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(b"\0" * before + data).decode()
        yield text[skipped : (before + len(data)) * 8 // 6]
