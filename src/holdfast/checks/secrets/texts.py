"""Secrets in scripts, templates, documents and texts embedded in code. Pure."""

from __future__ import annotations

import bisect
import posixpath
from collections.abc import Iterator

from holdfast.checks.model.interface import Skipped
from holdfast.checks.model.subjects import Checkout
from holdfast.checks.secrets.inline_passwords import inline_passwords, may_have_passwords
from holdfast.checks.secrets.known_secrets import (
    is_known,
    is_placeholder,
    known_in,
    line_starts,
    may_name_secrets,
    names_secret,
)
from holdfast.checks.secrets.suspicion import (
    SecretKind,
    SuspiciousText,
    classify_text,
    ends_as_password,
    is_command,
)
from holdfast.hcl.eval.code import is_code
from holdfast.hcl.eval.worktree import NOT_SOURCE
from holdfast.kernel.errors import Place
from holdfast.kernel.patterns import pattern
from holdfast.secrets import entropy
from holdfast.secrets.redact import lower_case

_LARGEST = 5_000_000
_SEARCHED = (".json", ".tfbackend", ".sh", ".ps1", ".tpl", ".tftpl", ".tmpl")
_LOCKS = ("package-lock.json", "npm-shrinkwrap.json", "composer.lock", ".lock.json")
_OPENS = pattern(r"<<[-~]?([A-Za-z_][\w-]*)[ \t]*\r?\n")
_ALONE = pattern(r"(?m)^[ \t]*([A-Za-z_][\w-]*)[ \t]*\r?$")
"""A single word on its line, which ends a heredoc."""
_QUOTED = pattern(r'"((?:[^"\\\n]|\\.)*+)("?)')
_FILE = pattern(r'\b(?:template)?file(?:base64)?\(\s*"(?:\$\{path\.module\}/)?([^"$]+\.ya?ml)"')
_NOT_BLANK = pattern(r"[^\n]")


def in_documents(checkout: Checkout) -> tuple[SuspiciousText | Skipped, ...]:
    """Secrets in documents, scripts and templates that are not Terraform code."""
    return checkout.code.once("texts in documents", lambda: tuple(_in_documents(checkout)))


def _in_documents(checkout: Checkout) -> Iterator[SuspiciousText | Skipped]:
    for path in _documents(checkout):
        if len(checkout.content(path) or b"") > _LARGEST:
            yield Skipped(reason=f"larger than {_LARGEST // 1_000_000} MB", file=path)
        else:
            yield from _search(path, checkout, code=False)


def _documents(checkout: Checkout) -> Iterator[str]:
    for path in checkout.files:
        if not path.endswith(_SEARCHED) or path.endswith((".tfvars.json", *_LOCKS)):
            continue
        if not is_code(path.rpartition("/")[2]) and NOT_SOURCE.isdisjoint(path.split("/")):
            yield path
    yield from sorted(_read_by_code(checkout).intersection(checkout.files))


def _read_by_code(checkout: Checkout) -> set[str]:
    """YAML that a module reads (chart values, cloud-init). Other YAML is not checked."""
    found: set[str] = set()
    for module in checkout.modules:
        for file in module.files:
            text = checkout.text(file.path) or ""
            if "file" in text and (".yaml" in text or ".yml" in text):
                names = (match[1] for match in _FILE.finditer(text))
                found.update(posixpath.normpath(posixpath.join(module.folder, name)) for name in names)
    return found


def in_code(path: str, checkout: Checkout) -> tuple[SuspiciousText, ...]:
    """Secrets in heredocs and quoted texts of a code or variables file, under names in these texts."""
    return checkout.code.once(("texts in code", path), lambda: tuple(_search(path, checkout, code=True)))


def may_name(path: str, checkout: Checkout) -> bool:
    """A quick test: most files contain no secret-looking name."""
    words = checkout.config.redaction.words
    key = ("may name secrets", path)
    return checkout.code.once(key, lambda: may_name_secrets(checkout.text(path) or "", words))


def _search(path: str, checkout: Checkout, *, code: bool) -> Iterator[SuspiciousText]:
    text = checkout.text(path) or ""
    words, bits = checkout.config.redaction.words, checkout.config.redaction.entropy or entropy.BITS
    if len(text) > _LARGEST or '"sops"' in text:
        return
    if not may_have_passwords(text) and not may_name(path, checkout):
        return
    searched = _embedded_texts(text) if code else text
    found = sorted({**dict(_random(searched, words, bits)), **dict(_inline(searched, words, bits))}.items())
    if not found:
        return
    # Secrets of known formats have their own rule.
    reported = {one.line for one in known_in(text)}
    starts = line_starts(text)
    for at, (kind, name) in found:
        line = bisect.bisect_right(starts, at)
        if line not in reported:
            reported.add(line)
            yield SuspiciousText(kind, name, Place(file=path, line=line, column=at - starts[line - 1] + 1))


def _embedded_texts(text: str) -> str:
    """Blanks everything else, so that lines and columns stay the same."""
    pieces: list[str] = []
    at = 0
    for start, end in _heredocs(text) if "<<" in text else ():
        pieces += (_quoted(text[at:start]), text[start:end])
        at = end
    pieces.append(_quoted(text[at:]))
    return "".join(pieces)


def _heredocs(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each heredoc. Possible end words are searched once."""
    ends: dict[str, list[int]] = {}
    for line in _ALONE.finditer(text):
        ends.setdefault(line[1], []).append(line.start())
    at = 0
    while (opens := _OPENS.search(text, at)) is not None:
        at = opens.end()
        later = ends.get(opens[1], [])
        number = bisect.bisect_left(later, at)
        if number < len(later):
            yield at, later[number]
            at = later[number]


def _quoted(text: str) -> str:
    pieces: list[str] = []
    at = 0
    for found in _QUOTED.finditer(text):
        if found[2] and ("=" in found[1] or " " in found[1]):
            pieces += (_NOT_BLANK.sub(" ", text[at : found.start(1)]), found[1])
            at = found.end(1)
    pieces.append(_NOT_BLANK.sub(" ", text[at:]))
    return "".join(pieces)


def _random(text: str, words: tuple[str, ...], bits: float) -> Iterator[tuple[int, tuple[SecretKind, str]]]:
    for start, end in entropy.spans(text, lower_case(text), words, bits):
        secret = text[start:end]
        harmless = is_placeholder(secret) or is_command(secret) or secret.startswith("ENC[")
        if not harmless and not is_known(secret):
            yield start, (SecretKind.RANDOM, "")


def _inline(text: str, words: tuple[str, ...], bits: float) -> Iterator[tuple[int, tuple[SecretKind, str]]]:
    for password_ in inline_passwords(text):
        if password_.is_password or names_secret(password_.name, words):
            password = password_.is_password or ends_as_password(password_.name)
            kind = classify_text(password_.text, bits, password=password)
            if kind is not None:
                yield password_.start, (kind, password_.name)
