"""Passwords in commands, before commands, and in environment entries. Pure.

`mysql -p…`, `curl -u user:…`, `--password=…`, `PGPASSWORD=… psql`, `{"name": "DB_PASSWORD", "value": "…"}`.
Interpolated values (`$PASSWORD`, `${var.password}`, `{{ … }}`) do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.kernel.patterns import pattern


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
    _Command("-passw", "--password",
             pattern(rf"(?<=\s)--?(?:[\w-]+-)?passw(?:or)?d(?:=|\s+(?=\S*\d)){_VALUE}")),
)  # fmt: skip
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
            for found in command.pattern.finditer(text):
                yield InlinePassword(command.name, found["secret"], found.start("secret"), is_password=True)
    if any(name in text for name in _NAMES):
        for pattern_ in (_SET, _LINE):
            for found in pattern_.finditer(text):
                yield InlinePassword(found["name"], found["secret"], found.start("secret"), is_password=True)
    if "value" in text:
        for found in _ENTRY.finditer(text):
            yield InlinePassword(found["name"], found["secret"], found.start("secret"), is_password=False)


def _is_interpolated(text: str) -> bool:
    return (
        text[0] == "%"
        or any(mark in text for mark in _INTERPOLATIONS)
        or _REFERENCE.fullmatch(text) is not None
    )
