"""Commands in hints, as they work for a run of a server. Pure.

Most code that writes a hint does not know where it runs. Whoever runs it on a server passes its hints through
`on_server`.
"""

from __future__ import annotations

from typing import Final

from holdfast.kernel.errors import Problem

KNOWN_SERVER: Final = "--server"
"""The option for the server of HOLDFAST_URL, or where the user is logged in."""
_RUN_THERE: Final = frozenset({"plan", "apply", "destroy"})
_ONLY_THERE: Final = frozenset({"events", "devices"})
_LOCAL: Final = frozenset({"--plan", "--continue", "--lockfile", "--override"})
"""Options of commands that read or write files here."""
_COMMENT: Final = "comment"
"""Before a command that is written as a comment on a pull request."""
_ENDS: Final = (",", ".", ";", ":", ")", "`")
_PROSE: Final = frozenset({"again", "and", "before", "or", "to", "when", "which", "without"})
"""Words after a command that are no stack."""


def on_server(text: str, option: str = KNOWN_SERVER) -> str:
    """With `option` in commands that would run without the server, or on another one."""
    words, shown = text.split(" "), list[str]()
    while words:
        if words[0].lstrip("(`") != "holdfast" or shown[-1:] == [_COMMENT]:
            shown.append(words.pop(0))
            continue
        end = _end(words)
        command, words = words[:end], words[end:]
        last = command[-1]
        command[-1] = last.rstrip("".join(_ENDS))
        shown += _rewritten(command, option)
        shown[-1] += last[len(command[-1]) :]
    return " ".join(shown)


def problem_on_server(problem: Problem, option: str = KNOWN_SERVER) -> Problem:
    return problem._replace(hint=on_server(problem.hint, option)) if problem.hint else problem


def _end(words: list[str]) -> int:
    for number, word in enumerate(words):
        if number and (word in _PROSE or word.startswith("(")):
            return number
        if word.endswith(_ENDS):
            return number + 1
    return len(words)


def _rewritten(command: list[str], option: str) -> list[str]:
    verb, rest = (command[1] if len(command) > 1 else ""), command[2:]
    if "--bundle" in rest or (verb in _RUN_THERE and not _LOCAL.isdisjoint(rest)):
        return command
    if KNOWN_SERVER in rest:
        at = command.index(KNOWN_SERVER)
        has_address = at + 1 < len(command) and "://" in command[at + 1]
        return command if has_address else [*command[:at], option, *command[at + 1 :]]
    if verb in _RUN_THERE:
        if "--out" in rest:
            at = command.index("--out")
            command = [*command[:at], *command[at + 2 :]]
        return [*command, option]
    if verb in _ONLY_THERE and option != KNOWN_SERVER:
        return [*command, option]
    if verb == "runs" and (option != KNOWN_SERVER or rest[:1] == ["list"]):
        return [*command, option]
    return command
