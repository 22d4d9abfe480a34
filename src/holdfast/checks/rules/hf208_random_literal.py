"""HF208: a text that looks random under a name that sounds secret."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator

from holdfast.checks import literals
from holdfast.checks.interface import Finding, Rule, Severity, finding
from holdfast.checks.known_secrets import is_known, is_placeholder
from holdfast.checks.literals import Kind, Suspicious
from holdfast.checks.subjects import Checkout, Module, VariablesFile
from holdfast.kernel.errors import Place
from holdfast.secrets import entropy
from holdfast.stacks.code import is_code
from holdfast.stacks.worktree import NOT_SOURCE

_BESIDE = (".json", ".tfbackend")
_LOCKS = ("package-lock.json", "npm-shrinkwrap.json", "composer.lock", ".lock.json")
_LARGEST = 5_000_000
_HEREDOC = r"(?ms)<<[-~]?([A-Za-z_][\w-]*)[ \t]*\r?\n(.*?)^[ \t]*\1[ \t]*\r?$"


def _module(module: Module) -> Iterator[Finding]:
    told = [one for one in literals.in_module(module) if one.kind is Kind.RANDOM]
    yield from _both(told, (file.path for file in module.files), module.checkout)


def _variables(file: VariablesFile) -> Iterator[Finding]:
    every = literals.in_file(file.file, file.checkout.config)
    yield from _both([one for one in every if one.kind is Kind.RANDOM], (file.path,), file.checkout)


def _both(told: list[Suspicious], paths: Iterable[str], checkout: Checkout) -> Iterator[Finding]:
    """What stands under a name of the code, and under one in a heredoc: that only where the first is not."""
    yield from map(_found, told)
    lines = {(one.place.file, one.place.line) for one in told}
    for path in paths:
        for one in _in_heredocs(path, checkout):
            if one.place is not None and (path, one.place.line) not in lines:
                yield one


def _in_heredocs(path: str, checkout: Checkout) -> Iterator[Finding]:
    """Scripts and settings that are handed on as one text: `export DB_PASSWORD=…`."""
    text = checkout.text(path) or ""
    if "<<" not in text or path.endswith(".json") or len(text) > _LARGEST:
        return
    # Everything else becomes blank, so that lines and columns stay what they are.
    pieces: list[str] = []
    at = 0
    for found in re.finditer(_HEREDOC, text):
        pieces += (re.sub(r"[^\n]", " ", text[at : found.start(2)]), found[2])
        at = found.end(2)
    redaction = checkout.config.redaction
    yield from _in_text(path, "".join(pieces), redaction.words, redaction.entropy or entropy.BITS)


def _found(one: Suspicious) -> Finding:
    return finding(one.place, f"`{one.name}` is given a text that looks like a secret", address=one.address)


def _repository(checkout: Checkout) -> Iterator[Finding]:
    redaction = checkout.config.redaction
    for path in checkout.files:
        if not path.endswith(_BESIDE) or path.endswith((".tfvars.json", *_LOCKS)):
            continue
        if is_code(path.rpartition("/")[2]) or not NOT_SOURCE.isdisjoint(path.split("/")):
            continue
        text = checkout.text(path) or ""
        if len(text) <= _LARGEST and '"sops"' not in text:
            yield from _in_text(path, text, redaction.words, redaction.entropy or entropy.BITS)


def _in_text(path: str, text: str, words: tuple[str, ...], bits: float) -> Iterator[Finding]:
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = "".join(one if len(one.lower()) > 1 else one.lower() for one in text)
    starts: list[int] = []
    for start, end in entropy.spans(text, lowered, words, bits):
        secret = text[start:end]
        if is_placeholder(secret) or secret.startswith("ENC[") or is_known(secret):
            continue
        starts = starts or [0, *(at + 1 for at, char in enumerate(text) if char == "\n")]
        line = bisect.bisect_right(starts, start)
        place = Place(file=path, line=line, column=start - starts[line - 1] + 1)
        yield finding(place, "a text that looks like a secret stands under a name that sounds like one")


RULE = Rule(
    id="HF208",
    title="A text that looks like a secret",
    why="A random text under such a name is nearly always a password, a token or a key, and everyone who can "
    "read the repository has it.",
    fix="Change it if it is a secret, and read it from a secret store or a sensitive variable. If it is "
    "none, waive this line.",
    severity=Severity.ERROR,
    source=_module,
    variables=_variables,
    repository=_repository,
    secret=True,
    bad='locals {\n  api_token = "q7Rz2Lw9Xk4Tn8Vb3Md6"\n}\n',
    good='variable "api_token" {\n  type      = string\n  sensitive = true\n}\n\n'
    "locals {\n  api_token = var.api_token\n}\n",
    more="Names and randomness are judged as the redactor does: `redaction.words` adds names of your own, "
    "`redaction.entropy` moves the bar. Names such as `secret_name` or `token_ttl`, references, paths, ARNs, "
    "addresses and placeholders are left alone. Looked at are code, variables files, JSON and `*.tfbackend`; "
    "in heredocs, lines such as `export DB_PASSWORD=…`.",
)
