"""Drafts of stacks and of the entries under `stacks:` that define them, and their names."""

from __future__ import annotations

import itertools
import math
import posixpath
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.config.placeholders import escape
from holdfast.config.stack_rules import RuleKind
from holdfast.onboarding.naming import ends_with_environment, environment_word, is_environment, is_region
from holdfast.stacks.listing import ROOT
from holdfast.stacks.pattern import compile_pattern
from holdfast.stacks.stack import LONGEST_NAME, name_from_path, name_problem

VARIABLES: Final = (".tfvars", ".tfvars.json")
"""How the name of a file ends that a pattern of variables files can match."""


_MEANINGFUL: Final = frozenset({"environment", "account", "region"})
"""Placeholders that set a key of the stack."""


class StackDraft(Struct, frozen=True, kw_only=True):
    """A future stack: its code, its variables, and the values in its path."""

    name: str
    module: str
    short: str = ""
    """A shorter name, used if no other stack wants it."""
    file: str | None = None
    shared: tuple[str, ...] = ()
    captured: Mapping[str, str] = field(default_factory=dict)
    backend_file: str | None = None
    """The `-backend-config` file that makes it a stack."""
    workspace: str | None = None
    depends_on: tuple[str, ...] = ()
    version: str | None = None
    tofu: bool = False

    @property
    def path(self) -> str:
        return self.file or self.module

    @property
    def kind(self) -> RuleKind:
        return RuleKind.VARIABLES if self.file else RuleKind.FOLDER

    @property
    def label(self) -> str:
        """The word that distinguishes it from other stacks of the same module."""
        if "environment" in self.captured:
            return self.captured["environment"]
        return posixpath.basename(name_from_path(self.file) if self.file else self.module)


class StackEntry(Struct, frozen=True, kw_only=True):
    """One entry of `stacks:`. Texts may contain placeholders of its pattern."""

    kind: RuleKind
    stacks: tuple[StackDraft, ...]
    why: str
    """The comment above it, if there is one."""
    pattern: str | None = None
    module: str | None = None
    name: str | None = None
    shared: tuple[str, ...] = ()
    optional: frozenset[str] = frozenset()
    """Those of `shared` that only some of the stacks have."""
    environment: str | None = None
    account: str | None = None
    region: str | None = None
    backend: Mapping[str, object] = field(default_factory=dict)
    """As written under `backend`: `type`, `files`, `settings`."""
    workspace: str | None = None
    matrix: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Instead of a pattern: the values of each placeholder. Every combination is one of the stacks."""
    keys: Mapping[str, object] = field(default_factory=dict)
    """Further keys as written, such as `inputs` and `generate`."""
    held_back: str | None = None
    """Why it is only written as a comment."""
    next_step: str | None = None
    """What to do before it is uncommented; None: set the location of the state."""

    @property
    def placeholders(self) -> tuple[str, ...]:
        return compile_pattern(self.pattern).names if self.pattern is not None else tuple(self.matrix)


def listed_entry(entry: StackEntry, stacks: Sequence[StackDraft]) -> StackEntry | None:
    """Some stacks of a pattern as a matrix; None if they are not exactly its combinations."""
    if any(name not in stack.captured for stack in stacks for name in entry.placeholders):
        return None
    values = {
        name: tuple(dict.fromkeys(stack.captured[name] for stack in stacks)) for name in entry.placeholders
    }
    if len(stacks) == 1 or math.prod(map(len, values.values())) != len(stacks):
        return None
    variables = stacks[0].file is not None
    why = _why(stacks)
    if entry.pattern is None:
        return replace(entry, matrix=values, stacks=tuple(stacks), why=why)
    return replace(
        entry,
        kind=RuleKind.NAMED,
        pattern=None,
        name=entry.name or name_from_path(entry.pattern),
        module=entry.module if variables else entry.pattern,
        shared=(*entry.shared, entry.pattern) if variables else entry.shared,
        matrix=values,
        stacks=tuple(stacks),
        why=why,
    )


def narrowed_entry(entry: StackEntry, stacks: Sequence[StackDraft]) -> StackEntry | None:
    """The pattern with the folders written out that are the same for some of its stacks: `{group}` as `env`.

    None if it would not match exactly these.
    """
    texts = (entry.pattern, entry.name, entry.module)
    if entry.pattern is None or len(stacks) == 1 or any("{{" in (text or "") for text in texts):
        return None
    fixed = {
        name: stacks[0].captured.get(name, "")
        for name in entry.placeholders
        if f"{{{name}}}" in entry.pattern.split("/") and name not in _MEANINGFUL
    }
    for stack in stacks:
        fixed = {name: value for name, value in fixed.items() if stack.captured.get(name) == value}
    alike = sum(all(stack.captured.get(name) == fixed[name] for name in fixed) for stack in entry.stacks)
    if alike != len(stacks) or any(not value or set(value) & set("{}*?[]\\") for value in fixed.values()):
        return None

    def fill(text: str | None) -> str | None:
        for name, value in fixed.items():
            text = text.replace(f"{{{name}}}", value) if text is not None else None
        return text

    return replace(
        entry,
        pattern=fill(entry.pattern),
        name=fill(entry.name or name_from_path(entry.pattern)),
        module=fill(entry.module),
        shared=tuple(fill(path) or path for path in entry.shared),
        environment=fill(entry.environment),
        stacks=tuple(
            replace(stack, captured={k: v for k, v in stack.captured.items() if k not in fixed})
            for stack in stacks
        ),
        why=_why(stacks),
    )


def _why(stacks: Sequence[StackDraft]) -> str:
    what = "variables files" if stacks[0].file is not None else "root modules"
    return f"{len(stacks)} {what}, one stack each"


def single_entry(
    path: str,
    module: str,
    shared: tuple[str, ...],
    kind: RuleKind,
    captured: Mapping[str, str] | None = None,
) -> StackEntry:
    """An entry for a single stack, because no pattern matches exactly the right stacks."""
    bare = name_from_path(path) if kind is RuleKind.VARIABLES else path
    values = {**_values_in_path(bare.split("/")), **(captured or {})}
    file = path if kind is RuleKind.VARIABLES else None
    by_file = file is not None and file.endswith(VARIABLES) and not set(file) & set("{}*?[]\\")
    if file is not None and not by_file:
        shared, file = (*shared, file), None
    stack = StackDraft(
        name=valid_name(bare),
        module=module,
        file=file,
        shared=shared,
        captured=values,
        short=valid_name("/".join(captured.values())) if captured else "",
    )
    return StackEntry(
        kind=RuleKind.VARIABLES if by_file else RuleKind.NAMED,
        pattern=file,
        module=escape(module),
        name=stack.name,
        shared=tuple(map(escape, shared)),
        stacks=(stack,),
        environment=values.get("environment"),
        account=values.get("account"),
        region=values.get("region"),
        why="one variables file" if by_file else "one root module",
    )


def _values_in_path(parts: list[str]) -> dict[str, str]:
    """The environment and region that the parts of a path name."""
    ending = [part for part in reversed(parts) if ends_with_environment(part)]
    whole = [part for part in parts if is_environment(part) and part != "live"]
    production = [
        part for part in ending if (word := environment_word(part)) and word.production and part != "live"
    ]
    first_found = (*whole, *production, *ending, *((parts[-1],) if environment_word(parts[-1]) else ()))
    environment = first_found[0] if first_found else None
    region = next((part for part in parts if is_region(part)), None)
    values = {"environment": environment, "region": region}
    return {key: escape(value) for key, value in values.items() if value is not None}


def root_entry(folder: str, repository: str, shared: tuple[str, ...]) -> StackEntry:
    entry = single_entry(folder, folder, shared, RuleKind.FOLDER)
    if folder != ROOT:
        return entry
    name = valid_name(repository)
    return replace(entry, name=name, stacks=tuple(replace(stack, name=name) for stack in entry.stacks))


def valid_name(text: str) -> str:
    """The valid stack name that is closest to the text."""
    parts = [
        "".join(c if c.isascii() and (c.isalnum() or c in "._@+-") else "-" for c in part).strip("-.")
        for part in text.split("/")
    ]
    return "/".join(part for part in parts if part)[:LONGEST_NAME].strip("/") or "main"


def name_entries(entries: list[StackEntry], taken: frozenset[str] = frozenset()) -> list[StackEntry]:
    """Entries with short names built from the placeholders, where those are unique.

    `taken`: names of stacks that another tool's files define.
    """
    in_full: set[int] = set()
    while new := _clashing(entries, in_full, taken) - in_full:
        in_full |= new
    still = _clashing(entries, in_full, taken)
    renamed: list[StackEntry] = []
    for index, entry in enumerate(entries):
        names = _names(entry, in_full=index in in_full)
        if entry.placeholders and (index in still or any(name_problem(name) for name in names)):
            renamed += [
                single_entry(stack.path, stack.module, stack.shared, stack.kind, stack.captured)
                for stack in entry.stacks
            ]
            continue
        in_words = entry.name if entry.matrix else None
        template = _short(entry) if index not in in_full else in_words
        stacks = tuple(replace(stack, name=name) for stack, name in zip(entry.stacks, names, strict=True))
        renamed.append(replace(entry, name=template, stacks=stacks))
    return _with_unique_names(renamed, taken)


def _clashing(entries: list[StackEntry], in_full: set[int], taken: frozenset[str]) -> set[int]:
    """Entries that share a name with another entry, have one twice, or have one that is taken."""
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for index, entry in enumerate(entries):
        for name in _names(entry, in_full=index in in_full):
            wanted[name].append(index)
    return {index for name, same in wanted.items() if len(same) > 1 or name in taken for index in same}


def _names(entry: StackEntry, *, in_full: bool) -> list[str]:
    if in_full:
        return [stack.name for stack in entry.stacks]
    if _short(entry) is None:
        return [stack.short or stack.name for stack in entry.stacks]
    return ["/".join(stack.captured[name] for name in entry.placeholders) for stack in entry.stacks]


def _with_unique_names(entries: list[StackEntry], taken: frozenset[str]) -> list[StackEntry]:
    """Two paths can have the same valid name; the later one gets a number."""
    seen = taken | {stack.name for entry in entries if entry.placeholders for stack in entry.stacks}
    renamed: list[StackEntry] = []
    for entry in entries:
        if entry.placeholders:
            renamed.append(entry)
            continue
        name = unused_name(entry.stacks[0].name, seen)
        seen |= {name}
        renamed.append(replace(entry, name=name, stacks=(replace(entry.stacks[0], name=name),)))
    return renamed


def unused_name(name: str, used: Collection[str]) -> str:
    """The name, with a number if it is taken."""
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return next(candidate for candidate in itertools.chain((name,), numbered) if candidate not in used)


def _short(entry: StackEntry) -> str | None:
    if not entry.placeholders:
        return None
    return "/".join(f"{{{name}}}" for name in entry.placeholders)
