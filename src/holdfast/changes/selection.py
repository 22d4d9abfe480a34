"""Which stacks a command works on, with reasons, and which stacks a change removed."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct, structs

from holdfast.changes.old_repository import OldRepository
from holdfast.config.checks import Use
from holdfast.config.settings import Config
from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import UsageError
from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import plural
from holdfast.plans.base_rules import BaseRules
from holdfast.stacks.select import removed_stacks, select
from holdfast.stacks.stack import RemovedStack, Selected, Stack, matches, selectors
from holdfast.stacks.unreadable import UnreadableFiles
from holdfast.system.environment import Environment
from holdfast.terraform.engine.environment import terraform_variables

_QUOTED = pattern(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = pattern(rb"\\([0-7]{3}|.)")
_ESCAPES = {
    b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r",
    b'"': b'"', b"\\": b"\\",
}  # fmt: skip


class Selection(Struct, frozen=True, kw_only=True):
    selected: tuple[Selected, ...]
    removed: tuple[RemovedStack, ...]
    total: int
    changed: frozenset[str] | None
    """The changed files, relative to the root; None if the selection is not by change."""
    named: bool
    policies: tuple[str, ...] = ()
    """Changed Rego policies. They select no stack, but may concern any."""
    base: BaseRules | None = None
    """With `--since`: the rules of the base, unless they are those of the change."""
    before: OldRepository | None = None
    """With `--since`: the repository before the change."""
    added: int = 0
    """How many of `selected` are there only as dependents or dependencies of others."""

    @property
    def unchecked(self) -> str | None:
        """How many stacks were not checked against policies that changed."""
        left = self.total - len(self.selected)
        if not self.policies or not left:
            return None
        more = f" and {len(self.policies) - 1} more" if len(self.policies) > 1 else ""
        stacks = "1 stack was" if left == 1 else f"{left} stacks were"
        what = f"policies changed ({self.policies[0]}{more}), and {stacks} not checked with them"
        return f"{what}: run holdfast plan without --since and --changed"

    def headline(self) -> str:
        count, stacks = len(self.selected) - self.added, plural(self.total, "stack")
        more = f", {self.added} more by dependencies" if self.added else ""
        if self.changed is not None:
            verb = "is" if count == 1 else "are"
            files = plural(len(self.changed), "changed file")
            return f"{count} of {stacks} {verb} affected by {files}{more}"
        return f"{count} of {stacks}{more}" if self.named else stacks

    def single(self, name: str) -> Stack:
        if len(self.selected) != 1:
            names = ", ".join(selected.stack.name for selected in self.selected[:5])
            raise UsageError(
                "HF-USE-7",
                f"{name} matches {len(self.selected)} stacks ({names}); this command takes exactly one",
                hint="Give the full name of one stack.",
            )
        stack = self.selected[0].stack
        if stack.is_unknown:
            raise UnreadableFiles(stack.problems)
        return stack


def parse_path_list(data: bytes) -> tuple[str, ...]:
    """Paths from standard input, one per line or each ended by a NUL byte.

    Git quotes names with unusual characters. A quoted line may also be a name that has quotes, so both
    readings count: more is selected, never less.
    """
    text = data.decode(errors="surrogateescape")
    if "\0" in text:
        return tuple(name for name in text.split("\0") if name)
    names: list[str] = []
    for line in text.split("\n"):
        name = line.removesuffix("\r")
        if not name.strip():
            continue
        names.append(name)
        if quoted := _QUOTED.fullmatch(name):
            names.append(_unquoted(quoted[1]))
    return tuple(names)


def _unquoted(text: str) -> str:
    def character(match: re.Match[bytes]) -> bytes:
        escaped = match[1]
        return bytes([int(escaped, 8) & 0xFF]) if escaped.isdigit() else _ESCAPES.get(escaped, match[0])

    return _ESCAPE.sub(character, text.encode(errors="surrogateescape")).decode(errors="surrogateescape")


def matches_removed(removed: RemovedStack, argument: str) -> bool:
    if removed.stack is not None:
        return matches(removed.stack, argument)
    return removed.name == argument or fnmatch.fnmatchcase(removed.name, argument)


def select_named(
    stacks: tuple[Stack, ...], arguments: list[str], removed: tuple[RemovedStack, ...] = ()
) -> tuple[Selected, ...]:
    """By name, glob or filter. An argument that matches nothing is an error, never an empty selection."""
    if not arguments:
        return tuple(Selected(stack=stack, reasons=()) for stack in stacks)
    reasons: dict[str, list[str]] = {}
    for argument in arguments:
        hits = [stack for stack in stacks if matches(stack, argument)]
        if not hits and not any(matches_removed(stack, argument) for stack in removed):
            near = difflib.get_close_matches(
                argument, [selector for stack in stacks for selector in selectors(stack)], n=1
            )
            raise UsageError(
                "HF-USE-8",
                f"no stack matches `{argument}`",
                hint=f"Did you mean `{near[0]}`?" if near else "List the stacks: holdfast stacks",
            )
        for stack in hits:
            reasons.setdefault(stack.name, []).append(f"matches {argument}")
    return tuple(
        Selected(stack=stack, reasons=tuple(reasons[stack.name])) for stack in stacks if stack.name in reasons
    )


def expand_selection(
    selection: Selection, stacks: Iterable[Stack], *, dependents: bool, dependencies: bool
) -> Selection:
    """Also everything that depends on the selection, or that it depends on, directly or through others.

    With both, the dependencies of the dependents too: what is selected can then be applied.
    """
    by_name = {stack.name: stack for stack in stacks}
    reasons = {selected.stack.name: selected.reasons for selected in selection.selected}
    forward = {name: stack.depends_on for name, stack in by_name.items()}
    backward: dict[str, list[str]] = {}
    for name, needs in forward.items():
        for other in needs:
            backward.setdefault(other, []).append(name)
    if dependents:
        _follow(reasons, backward, "depends on {}")
    if dependencies:
        _follow(reasons, forward, "{} depends on it")
    return structs.replace(
        selection,
        selected=tuple(
            Selected(stack=stack, reasons=reasons[name]) for name, stack in by_name.items() if name in reasons
        ),
        added=len(reasons) - len(selection.selected),
    )


def _follow(reasons: dict[str, tuple[str, ...]], edges: Mapping[str, Iterable[str]], reason: str) -> None:
    waiting = list(reasons)
    while waiting:
        name = waiting.pop(0)
        for other in edges.get(name, ()):
            if other not in reasons:
                reasons[other] = (reason.format(name),)
                waiting.append(other)


def select_changed(
    config: Config,
    stacks: tuple[Stack, ...],
    code: Code,
    changed: frozenset[str],
    *,
    before: OldRepository,
    environment: Environment,
) -> tuple[tuple[Selected, ...], tuple[RemovedStack, ...]]:
    """Stacks that changed files affect, and stacks that they removed.

    A file outside the root (`../x`) counts for stacks that read it, but never was a stack itself.
    """
    inside = frozenset(path for path in changed if not path.startswith("../"))
    old = before.stacks
    selected = select(
        stacks,
        changed,
        code,
        config_file=config.file.name,
        old_stacks=old,
        env_variables=terraform_variables(environment.variables),
    )
    removed = removed_stacks(
        stacks,
        inside,
        code,
        before.stack_of,
        config_file=config.file.name,
        old_stacks=old,
    )
    return selected, removed


def changed_policies(config: Config, changed: Iterable[str]) -> tuple[str, ...]:
    """The changed paths that affect Rego policies, unless these are off."""
    from holdfast.checks.tools.rego.policies import changes_policies  # noqa: PLC0415 - only by change

    if config.checks.tools.get("rego") is Use.OFF:
        return ()
    return tuple(sorted(filter(changes_policies, changed)))
