"""The stacks to be and the entries of `stacks:` that find them: how they are written and called."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.config.placeholders import escape
from holdfast.config.stack_rules import RuleKind
from holdfast.onboarding.naming import environment_word, is_environment, is_region
from holdfast.stacks.listing import ROOT
from holdfast.stacks.pattern import compile_pattern
from holdfast.stacks.stack import LONGEST_NAME, name_from_path, name_problem


class StackDraft(Struct, frozen=True, kw_only=True):
    """One stack to be: its code, its variables, and what its path says."""

    name: str
    module: str
    short: str = ""
    """A shorter name, to be had if no other stack wants it."""
    file: str | None = None
    shared: tuple[str, ...] = ()
    captured: Mapping[str, str] = field(default_factory=dict)
    workspace: str | None = None
    depends_on: tuple[str, ...] = ()
    version: str | None = None
    tofu: bool = False

    @property
    def label(self) -> str:
        """What tells it from others of the same module, in one word."""
        if "environment" in self.captured:
            return self.captured["environment"]
        return posixpath.basename(name_from_path(self.file) if self.file else self.module)


class StackEntry(Struct, frozen=True, kw_only=True):
    """One entry of `stacks:`. Texts hold placeholders of its pattern."""

    kind: RuleKind
    stacks: tuple[StackDraft, ...]
    why: str
    pattern: str | None = None
    module: str | None = None
    name: str | None = None
    shared: tuple[str, ...] = ()
    environment: str | None = None
    account: str | None = None
    region: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    workspace: str | None = None
    held: str | None = None
    """Why it is written as a comment only."""

    @property
    def placeholders(self) -> tuple[str, ...]:
        return compile_pattern(self.pattern).names if self.pattern is not None else ()


def single_entry(
    path: str,
    module: str,
    shared: tuple[str, ...],
    kind: RuleKind,
    captured: Mapping[str, str] | None = None,
) -> StackEntry:
    """A stack written out by itself, because no pattern finds it and nothing else."""
    bare = name_from_path(path) if kind is RuleKind.VARIABLES else path
    name = valid_name(bare)
    said = {**_said(bare.split("/")), **(captured or {})}
    short = valid_name("/".join(captured.values())) if captured else ""
    file = path if kind is RuleKind.VARIABLES else None
    stack = StackDraft(name=name, module=module, file=file, shared=shared, captured=said, short=short)
    if file is not None and not set(file) & set("{}*?[]\\"):
        return StackEntry(
            kind=RuleKind.VARIABLES,
            pattern=file,
            module=escape(module),
            name=name,
            shared=tuple(map(escape, shared)),
            stacks=(stack,),
            environment=said.get("environment"),
            account=said.get("account"),
            region=said.get("region"),
            why="one variables file",
        )
    own = (file,) if file is not None else ()
    return StackEntry(
        kind=RuleKind.NAMED,
        module=escape(module),
        name=name,
        shared=tuple(map(escape, (*shared, *own))),
        stacks=(replace(stack, file=None, shared=(*shared, *own)),),
        environment=said.get("environment"),
        account=said.get("account"),
        region=said.get("region"),
        why="one root module",
    )


def _said(parts: list[str]) -> dict[str, str]:
    """What the parts of a path say by themselves."""
    environment = next((part for part in parts if is_environment(part)), None)
    if environment is None and environment_word(parts[-1]) is not None:
        environment = parts[-1]
    region = next((part for part in parts if is_region(part)), None)
    found = {"environment": environment, "region": region}
    return {key: escape(value) for key, value in found.items() if value is not None}


def root_entry(folder: str, repository: str, shared: tuple[str, ...]) -> StackEntry:
    entry = single_entry(folder, folder, shared, RuleKind.FOLDER)
    if folder != ROOT:
        return entry
    name = valid_name(repository)
    return replace(entry, name=name, stacks=tuple(replace(stack, name=name) for stack in entry.stacks))


def valid_name(text: str) -> str:
    """A name that a stack may have, as near to the text as can be."""
    parts = [
        "".join(one if one.isascii() and (one.isalnum() or one in "._@+-") else "-" for one in part).strip(
            "-."
        )
        for part in text.split("/")
    ]
    return "/".join(part for part in parts if part)[:LONGEST_NAME].strip("/") or "main"


def name_entries(entries: list[StackEntry]) -> list[StackEntry]:
    """Short names made of the placeholders, where they stay different from all others."""
    in_full: set[int] = set()
    while new := _clashing(entries, in_full) - in_full:
        in_full |= new
    still = _clashing(entries, in_full)
    made: list[StackEntry] = []
    for index, entry in enumerate(entries):
        called = _called(entry, in_full=index in in_full)
        if entry.placeholders and (index in still or any(name_problem(name) for name in called)):
            made += [
                single_entry(_path(one), one.module, one.shared, entry.kind, one.captured)
                for one in entry.stacks
            ]
            continue
        template = _short(entry) if index not in in_full else None
        stacks = tuple(replace(one, name=name) for one, name in zip(entry.stacks, called, strict=True))
        made.append(replace(entry, name=template, stacks=stacks))
    return _told_apart(made)


def _clashing(entries: list[StackEntry], in_full: set[int]) -> set[int]:
    """Entries that share a name with another, or have one twice."""
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for index, entry in enumerate(entries):
        for name in _called(entry, in_full=index in in_full):
            wanted[name].append(index)
    return {index for same in wanted.values() if len(same) > 1 for index in same}


def _called(entry: StackEntry, *, in_full: bool) -> list[str]:
    if in_full:
        return [stack.name for stack in entry.stacks]
    if _short(entry) is None:
        return [stack.short or stack.name for stack in entry.stacks]
    return ["/".join(stack.captured[name] for name in entry.placeholders) for stack in entry.stacks]


def _path(stack: StackDraft) -> str:
    return stack.file or stack.module


def _told_apart(entries: list[StackEntry]) -> list[StackEntry]:
    """Two paths can become one plain name; the later one gets a number."""
    seen = {stack.name for entry in entries if entry.placeholders for stack in entry.stacks}
    made: list[StackEntry] = []
    for entry in entries:
        if entry.placeholders:
            made.append(entry)
            continue
        base = entry.stacks[0].name
        tries = (base, *(f"{base}-{count}" for count in range(2, len(entries) + 2)))
        name = next(one for one in tries if one not in seen)
        seen.add(name)
        made.append(replace(entry, name=name, stacks=(replace(entry.stacks[0], name=name),)))
    return made


def _short(entry: StackEntry) -> str | None:
    if entry.kind is RuleKind.NAMED or not entry.placeholders:
        return None
    return "/".join(f"{{{name}}}" for name in entry.placeholders)
