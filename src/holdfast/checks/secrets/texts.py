"""Secrets in scripts, templates, documents and texts embedded in code. Pure."""

from __future__ import annotations

import bisect
import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from holdfast.checks.model.contents import is_shown_plan, is_state
from holdfast.checks.model.interface import Severity, Skipped
from holdfast.checks.model.subjects import Checkout
from holdfast.checks.secrets.evidence import THIS_MACHINE, is_placeholder, quality_of, severity_of
from holdfast.checks.secrets.known_secrets import (
    NAME_BEFORE,
    is_api_description,
    is_known,
    known_in,
    line_starts,
    may_name_secrets,
    names_secret,
)
from holdfast.checks.secrets.suspicion import (
    SecretKind,
    SuspiciousText,
    classify_text,
    digest_of,
    ends_as_password,
    is_command,
    is_identifier,
    is_key_id,
    is_public_key,
    severity_by_name,
    without_sealed,
)
from holdfast.hcl.eval.code import is_code
from holdfast.kernel.errors import Place
from holdfast.kernel.patterns import pattern
from holdfast.secrets import entropy
from holdfast.secrets.redact import lower_case
from holdfast.system.repository import NOT_SOURCE

_LARGEST = 5_000_000
_SEARCHED = (".json", ".tfbackend", ".sh", ".ps1", ".tpl", ".tftpl", ".tmpl")
_LOCKS = ("package-lock.json", "npm-shrinkwrap.json", "composer.lock", ".lock.json")
_OPENS = pattern(r"<<[-~]?([A-Za-z_][\w-]*)[ \t]*\r?\n")
_ALONE = pattern(r"(?m)^[ \t]*([A-Za-z_][\w-]*)[ \t]*\r?$")
"""A single word on its line, which ends a heredoc."""
_QUOTED = pattern(r'"((?:[^"\\\n]|\\.)*+)("?)')
_FILE = pattern(r'\b(?:template)?file(?:base64)?\(\s*"(?:\$\{path\.module\}/)?([^"$]+\.ya?ml)"')
_PUBLIC_KEY = pattern(r"\bAAAA[A-Za-z0-9+/]{60,1100}={0,3} $")
"""Of SSH: what follows is its comment."""
_CODE = pattern(r"^ENC\[|\w\(")
"""Encrypted, or the call of a function."""
_LONGEST_NAME = 120
_DIGEST = pattern(r"(?i)(?:checksum|digest|sha\d+|hash)[\w./-]*$")
_HEX = pattern(r"[0-9a-fA-F]{32,128}")
_QUOTE = pattern(r"[\"'`\n]")
_KIND = pattern(r"\bkind[\"']?\s*:\s*[\"']?((?:Sealed)?Secret)\b")
_FARTHEST = 1000
_PRODUCTION = pattern(r"(?i)(?:^|[/._-])(?:prod|prd|production)(?:[/._-][^/]*)?\.(?:json|ya?ml)$")
_NOT_BLANK = pattern(r"[^\n]")
_DESCRIBES = pattern(r"(?:^|[\s{,])(?:description|error_message)\s*=\s*(?:<<[-~]?\w+\s*)?$")
_LONGEST_ARGUMENT = 80

_Suspicion = tuple[SecretKind, Severity, str, str]
"""Last: its name and its digest."""


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
    paths: set[str] = set()
    for module in checkout.modules:
        for file in module.files:
            text = checkout.text(file.path) or ""
            if "file" in text and (".yaml" in text or ".yml" in text):
                names = (match[1] for match in _FILE.finditer(text))
                paths.update(posixpath.normpath(posixpath.join(module.folder, name)) for name in names)
    return paths


def in_code(path: str, checkout: Checkout) -> tuple[SuspiciousText, ...]:
    """Secrets in heredocs and quoted texts of a code or variables file, under names in these texts."""
    return checkout.code.once(("texts in code", path), lambda: tuple(_search(path, checkout, code=True)))


def may_name(path: str, checkout: Checkout) -> bool:
    """A quick test: most files contain no secret-looking name."""
    words = checkout.config.redaction.words
    key = ("may name secrets", path)
    return checkout.code.once(key, lambda: may_name_secrets(checkout.text(path) or "", words))


def may_hold_secrets(text: str) -> bool:
    """Whether anything in a text looks like a secret: a known format, a random text, a password."""
    found = (known_in(text), entropy.spans(text, lower_case(text), (), entropy.BITS), inline_passwords(text))
    return any(next(iter(each), None) is not None for each in found)


def _search(path: str, checkout: Checkout, *, code: bool) -> Iterator[SuspiciousText]:
    text = checkout.text(path) or ""
    words, bits = checkout.config.redaction.words, checkout.config.redaction.entropy or entropy.BITS
    if len(text) > _LARGEST or (
        not code
        and ('"sops"' in text or set(_KIND.findall(text)) == {"SealedSecret"} or is_api_description(text))
    ):
        return
    if not may_have_passwords(text) and not may_name(path, checkout):
        return
    searched = without_sealed(_embedded_texts(text) if code else text)
    suspects = sorted(
        {**dict(_random_texts(searched, words, bits)), **dict(_inline_texts(searched, words, bits))}.items()
    )
    if not suspects:
        return
    own = code or _is_terraforms_own(path, checkout.content(path) or b"")
    # Secrets of known formats have their own rule.
    reported = {secret.line for secret in known_in(text)}
    starts = line_starts(text)
    for at, (kind, severity, name, digest) in suspects:
        line = bisect.bisect_right(starts, at)
        if line not in reported:
            reported.add(line)
            place = Place(file=path, line=line, column=at - starts[line - 1] + 1)
            rated = severity if own else _outside_terraform(severity, name, text, at)
            rated = Severity.NOTE if THIS_MACHINE.search(_string_around(text, at)) else rated
            yield SuspiciousText(kind, name, place, rated, digest=digest)


def _is_terraforms_own(path: str, content: bytes) -> bool:
    """Settings of a backend, a state or a plan, and the variables of production."""
    named = path.endswith(".tfbackend") or _PRODUCTION.search(path) is not None
    return named or is_state(content) or is_shown_plan(content)


def _outside_terraform(severity: Severity, name: str, text: str, at: int) -> Severity:
    """Where a name is the only evidence; a command that takes a password is more."""
    if THIS_MACHINE.search(_object_around(text, at)):
        return Severity.NOTE
    return Severity.WARNING if severity is Severity.ERROR and not _is_option(name) else severity


def _is_option(name: str) -> bool:
    """Whether a command takes it: `mysql -p`, `--password`."""
    return " " in name or name.startswith("-")


def _string_around(text: str, at: int) -> str:
    """Up to the next quotes in the line: one address, or one connection string."""
    before, after = text[max(at - _FARTHEST, 0) : at], text[at : at + _FARTHEST]
    return _QUOTE.split(before)[-1] + _QUOTE.split(after)[0]


def _object_around(text: str, at: int) -> str:
    """The innermost `{…}`, without those in it; empty if the text is not JSON."""
    if not text.lstrip().startswith(("{", "[")):
        return ""
    before, after = text[max(at - _FARTHEST, 0) : at], text[at : at + _FARTHEST]
    return _up_to(reversed(before), "{", "}")[::-1] + _up_to(after, "}", "{")


def _up_to(characters: Iterable[str], end: str, nested: str) -> str:
    depth, here = 0, []
    for character in characters:
        if character == end and depth == 0:
            break
        depth += (character == nested) - (character == end)
        here += [character] if depth == 0 else []
    return "".join(here)


def _embedded_texts(text: str) -> str:
    """Blanks everything else, so that lines and columns stay the same."""
    pieces: list[str] = []
    at = 0
    for start, end in _heredocs(text) if "<<" in text else ():
        pieces += (_quoted_texts(text[at:start]), text[start:end])
        at = end
    pieces.append(_quoted_texts(text[at:]))
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
            if not _is_description(text, at):
                yield at, later[number]
            at = later[number]


def _is_description(text: str, at: int) -> bool:
    """Whether the text that starts there is for readers, such as the description of a variable."""
    return _DESCRIBES.search(text, max(at - _LONGEST_ARGUMENT, 0), at) is not None


def _quoted_texts(text: str) -> str:
    pieces: list[str] = []
    at = 0
    for match in _QUOTED.finditer(text):
        described = _is_description(text, match.start())
        if match[2] and ("=" in match[1] or " " in match[1]) and not described:
            pieces += (_NOT_BLANK.sub(" ", text[at : match.start(1)]), match[1])
            at = match.end(1)
    pieces.append(_NOT_BLANK.sub(" ", text[at:]))
    return "".join(pieces)


def _random_texts(text: str, words: tuple[str, ...], bits: float) -> Iterator[tuple[int, _Suspicion]]:
    for start, end in entropy.spans(text, lower_case(text), words, bits):
        secret = text[start:end]
        harmless = is_placeholder(secret) or is_command(secret) or _CODE.search(secret) is not None
        harmless = harmless or is_public_key(secret) or _is_public(text, start, secret, words)
        if (
            not harmless
            and not is_known(secret)
            and not _PUBLIC_KEY.search(text, max(start - 1200, 0), start)
        ):
            before = NAME_BEFORE.search(text, max(start - _LONGEST_NAME, 0), start)
            name = before[1] if before is not None else ""
            severity = severity_by_name(name, secret)
            if is_key_id(name, secret, text):
                severity = Severity.NOTE
            elif before is not None and text[max(before.start() - 1, 0)] in "?&":
                severity = severity_of(quality_of(secret))  # In an address, a UUID is a key, too.
            yield start, (SecretKind.RANDOM, severity, "", digest_of(secret))


def _is_public(text: str, at: int, secret: str, words: tuple[str, ...]) -> bool:
    """Whether the name before it says so."""
    before = NAME_BEFORE.search(text, max(at - _LONGEST_NAME, 0), at)
    if before is None:
        return False
    digest = _HEX.fullmatch(secret) and _DIGEST.search(text, max(at - _LONGEST_NAME, 0), before.end(1))
    return bool(digest) or not names_secret(before[1], words) or is_identifier(before[1], secret)


def _inline_texts(text: str, words: tuple[str, ...], bits: float) -> Iterator[tuple[int, _Suspicion]]:
    for password_ in inline_passwords(text):
        if password_.is_password or names_secret(password_.name, words):
            password = password_.is_password or ends_as_password(password_.name)
            marked = _is_option(password_.name)
            suspicion = classify_text(password_.name, password_.text, bits, password=password, marked=marked)
            if suspicion is None:
                continue
            kind, severity = suspicion
            if password_.name in _REMOTE and severity is Severity.WARNING:
                severity = Severity.ERROR
            if kind is SecretKind.RANDOM or not _is_comment(text, password_.start):
                yield password_.start, (kind, severity, password_.name, digest_of(password_.text))


def _is_comment(text: str, at: int) -> bool:
    """Whether the line is a comment, whose commands are not run."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return before.lstrip().startswith("#") and "\\n" not in before


# Passwords in commands, before commands, and in environment entries:
# `mysql -p…`, `curl -u user:…`, `--password=…`, `PGPASSWORD=… psql`, `{"name": "DB_PASSWORD", "value": "…"}`.
# Interpolated values (`$PASSWORD`, `${var.password}`, `{{ … }}`) do not count.


class InlinePassword(NamedTuple):
    name: str
    """`mysql -p`, `PGPASSWORD`."""
    text: str
    start: int
    is_password: bool
    """False if only the name suggests it, so that the name must be checked."""


class _Command(NamedTuple):
    word: str
    """Texts without it need not be searched."""
    name: str
    pattern: re.Pattern[str]


_START = r"(?:(?<![\w.-])|(?<=\\n))"
_REST = r"(?:[^\n|;&\\]|\\(?![nr])[^\n]|\\\r?\n){0,200}?(?<=\s)"
_VALUE = r"\\*[\"']?(?P<secret>[A-Za-z0-9!#@%^_+=~.,-][^\s\"'\\|;&<>`()]*)"
_USER = r"\\*[\"']?[^\s:\"'\\]{0,64}:"


def _after(word: str, command: str, option: str, name: str) -> _Command:
    return _Command(word, name, pattern(f"{_START}{command}\\s{_REST}{option}{_VALUE}"))


_COMMANDS = (
    _after("mysql", r"mysql\w*", "-p", "mysql -p"),
    _after("mariadb", r"mariadb[\w-]*", "-p", "mariadb -p"),
    _after("mongo", r"mongo\w*", r"-p\s+", "mongo -p"),
    _after("redis-cli", "redis-cli", r"-a\s+", "redis-cli -a"),
    _after("sqlcmd", "sqlcmd", r"-P\s*", "sqlcmd -P"),
    _after("ldap", r"ldap\w+", r"-w\s+", "ldap -w"),
    _after("sshpass", "sshpass", r"-p\s*", "sshpass -p"),
    _after("login", r"(?:docker|podman|nerdctl|buildah|skopeo|oras|helm|crane|oc|cf|az)\s+(?:\w+\s+)?login",
           r"-p[\s=]+", "login -p"),
    _after("curl", "curl", rf"(?:-[A-Za-z]{{0,6}}[uU]|--(?:proxy-)?user)[\s=]*{_USER}", "curl -u"),
    _Command("chpasswd", "echo | chpasswd",
             pattern(rf"{_START}echo\s+{_USER}{_VALUE}\\*[\"']?\s*\|\s*(?:sudo\s+)?chpasswd(?!\s+-\w*e)")),
    _Command("pass:", "-pass", pattern(rf"-pass(?:in|out)?\s+pass:{_VALUE}")),
    _Command("--docker-passw", "--docker-password", pattern(rf"(?<=\s)--docker-password[=\s]\s*{_VALUE}")),
    _Command("-passw", "--password",
             pattern(rf"(?<=\s)--?(?:[\w-]+-)?passw(?:or)?d(?:=|\s+(?=\S*\d)){_VALUE}")),
)  # fmt: skip
_REMOTE = frozenset(("login -p", "--docker-password"))
"""For a registry or a cloud: like the password in the address of a remote host, it is an error."""
_WORDS = "(?i:password|passwd|passphrase|_pass)"
_NAME = rf"(?P<name>(?:[A-Za-z_][\w.-]*?)??{_WORDS}|MYSQL_PWD)"
_SET = pattern(rf"(?<![\w$%{{.-]){_NAME}=(?![=~]){_VALUE}")
_LINE = pattern(rf"(?m)^[ \t]*(?:-[ \t]+)?[\"']?{_NAME}[\"']?:[ \t]+(?=\S*\d){_VALUE}[\"']?,?[ \t]*$")
_GAP = r"\s{0,80}"
_ENTRY = pattern(
    rf"(?<![\\\w-])(?P<q>\\{{0,4}}[\"']?)name(?P=q){_GAP}[:=]{_GAP}(?P=q)(?P<name>[A-Za-z_][\w.-]*)(?P=q){_GAP},?{_GAP}"
    rf"(?P=q)value(?P=q){_GAP}[:=]{_GAP}{_VALUE}"
)
_NAMES = ("passw", "PASSW", "Passw", "passphrase", "PASSPHRASE", "_PASS", "_pass", "MYSQL_PWD")
_REFERENCE = pattern(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*|\[[^\]]*\])+,?")
_INTERPOLATIONS = ("$", "{{", "}}", "%s", "*")


def may_have_passwords(text: str) -> bool:
    """Whether there is anything to search for."""
    return any(command.word in text for command in _COMMANDS) or any(name in text for name in _NAMES)


def inline_passwords(text: str) -> Iterator[InlinePassword]:
    """Each position once, commands first."""
    positions: set[int] = set()
    for password in _all(text):
        if password.start not in positions and not _is_interpolated(password.text):
            positions.add(password.start)
            yield password


def _all(text: str) -> Iterator[InlinePassword]:
    for command in _COMMANDS:
        if command.word in text:
            for match in command.pattern.finditer(text):
                yield InlinePassword(command.name, match["secret"], match.start("secret"), is_password=True)
    if any(name in text for name in _NAMES):
        for pattern_ in (_SET, _LINE):
            for match in pattern_.finditer(text):
                if not _is_variable(text, match):
                    at = match.start("secret")
                    yield InlinePassword(match["name"], match["secret"], at, is_password=True)
    if "value" in text:
        for match in _ENTRY.finditer(text):
            yield InlinePassword(match["name"], match["secret"], match.start("secret"), is_password=False)


def _is_variable(text: str, match: re.Match[str]) -> bool:
    """`connect(password=entered)`, `password=settings["password"]`, `password=read()`: code of a program."""
    start, end = match.span("secret")
    is_argument = match["secret"].endswith(",") or text.startswith((")", "("), end)
    if text[start - 1] in "\"'":
        return False
    return match["secret"].endswith("[") or (is_argument and match["secret"].rstrip(",").isidentifier())


def _is_interpolated(text: str) -> bool:
    return (
        text[0] == "%"
        or any(mark in text for mark in _INTERPOLATIONS)
        or _REFERENCE.fullmatch(text) is not None
    )
