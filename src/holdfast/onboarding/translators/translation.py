"""What a translator makes of another tool's files: entries, where their keys come from, what is held back."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.checks.secrets.known_secrets import names_secret
from holdfast.config.placeholders import escape
from holdfast.config.stack_rules import Backend, RuleKind
from holdfast.hcl.eval.code import Code
from holdfast.hcl.reader import constant
from holdfast.kernel.errors import Place, Problem
from holdfast.onboarding.naming import environment_folder, environment_word
from holdfast.onboarding.scan_signs import Sign, SignKind, Signs
from holdfast.onboarding.starter_entries import StackEntry, single_entry
from holdfast.secrets.redact import Redactor, clean_value
from holdfast.stacks.backend import code_backend, state_location
from holdfast.stacks.listing import ROOT
from holdfast.stacks.scope import ENVIRONMENT_VARIABLES
from holdfast.stacks.stack import Stack

_SHARED_KEYS: Final = ("engine", "backend", "credentials", "generate")
"""Keys that move to `defaults` if all stacks have the same."""


_MARK: Final = re.compile("\ue000([A-Za-z_][A-Za-z0-9_]*)\ue001")
"""Marks a value that the entry takes from `values`, because it comes from an environment variable."""


def variable_mark(name: str) -> str:
    return f"\ue000{name}\ue001"


def marked_variables(value: object) -> Iterator[str]:
    """The environment variables that a value depends on."""
    match value:
        case str():
            yield from _MARK.findall(value)
        case Mapping():
            for item in value.values():
                yield from marked_variables(item)
        case list() | tuple():
            for item in value:
                yield from marked_variables(item)
        case _:
            pass


def stacks_read(inputs: object) -> set[str]:
    """The stacks whose outputs are inputs."""
    values = inputs.values() if isinstance(inputs, Mapping) else ()
    outputs = (str(value["output"]) for value in values if isinstance(value, Mapping) and "output" in value)
    return {output.rpartition(".")[0] for output in outputs}


class Part(Struct, frozen=True, kw_only=True):
    """A part of the original and the keys that it became."""

    original: str
    keys: str


class TranslatedStack(Struct, frozen=True, kw_only=True):
    original: str
    """The file that defines it."""
    name: str
    module: str
    keys: Mapping[str, object]
    """Keys of the entry, as plain values: texts are not escaped yet."""
    environment: str | None = None
    """If the tool says it; else what its name or its inputs say."""
    depends_on: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why it is held back and what to do, in sentences."""


class Translation(Struct, frozen=True, kw_only=True):
    tool: str
    found: str
    """The tool's files in this repository, for users."""
    stacks: tuple[TranslatedStack, ...]
    defaults: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders whose code belongs to the tool: no stacks of their own."""

    @property
    def entries(self) -> tuple[StackEntry, ...]:
        return tuple(_entry(stack) for stack in self.stacks)


def complete(translation: Translation, code: Code) -> Translation:
    """Without secrets in plain text, and with what only all stacks show: shared states, dependencies."""
    redactor = Redactor()
    stacks = [_without_secrets(stack, code, redactor) for stack in translation.stacks]
    return replace(translation, stacks=_hold_back_dependents(_hold_back_shared_states(stacks, code)))


def hold_back_workspaces(translation: Translation, signs: Iterable[Sign]) -> Translation:
    """Scripts may select a workspace for stacks that have none by the tool's own files."""
    nearest = Signs(signs, (posixpath.dirname(stack.original) for stack in translation.stacks))
    stacks: list[TranslatedStack] = []
    for stack in translation.stacks:
        sign = nearest.near(posixpath.dirname(stack.original) or ROOT, SignKind.WORKSPACE)
        reasons = stack.reasons
        if sign is not None and "workspace" not in stack.keys:
            reasons += (f"{sign.place} {sign.what}. Set `workspace`, or remove the command.",)
        stacks.append(replace(stack, reasons=reasons))
    return replace(translation, stacks=_hold_back_dependents(stacks))


def _without_secrets(stack: TranslatedStack, code: Code, redactor: Redactor) -> TranslatedStack:
    """holdfast.yaml is committed; a file that the value comes from may not be."""
    variables = code.module(stack.module).blocks("variable")
    sensitive = {
        block.labels[0]
        for block in variables
        if block.labels and (mark := block.body.attribute("sensitive")) and constant(mark.expression) is True
    }

    def is_secret(name: str, value: object) -> bool:
        if not value or (isinstance(value, Mapping) and {"output", "secret"} & set(value)):
            return False
        named = name in sensitive or (isinstance(value, str) and names_secret(name))
        return named or clean_value(redactor, name, value) != value

    keys = dict(stack.keys)
    reasons = list(stack.reasons)
    for key in ("inputs", "env"):
        values = keys.get(key)
        for name, value in values.items() if isinstance(values, Mapping) else ():
            if is_secret(name, value):
                keys[key] = {**keys[key], name: {"secret": f"env:{name}"}}  # type: ignore[dict-item] # see above
                reasons.append(
                    f"`{key}.{name}` is a secret. Say where it comes from, if not from `env:{name}`."
                )
    generated = keys.get("generate")
    if generated and clean_value(redactor, "generate", generated) != generated:
        del keys["generate"]
        reasons.append("A generated file contains a secret. Write it with a variable, under `generate`.")
    return replace(
        stack, keys=keys, reasons=tuple(redactor.clean(_MARK.sub(r"${\1}", reason)) for reason in reasons)
    )


def share_keys(translation: Translation) -> Translation:
    """With the values that all stacks share in `defaults`. Only if there are no other stacks.

    A held-back stack counts: it must not get a state from a default that it does not have itself.
    """
    names = [stack.name for stack in translation.stacks]
    if len(names) < 2:  # noqa: PLR2004 - a default for a single stack is none
        return translation
    values = ({key: stack.keys.get(key) for key in _SHARED_KEYS} for stack in translation.stacks)
    defaults = _shared(list(values), names)
    stacks = tuple(replace(stack, keys=_without(stack.keys, defaults)) for stack in translation.stacks)
    return replace(translation, stacks=stacks, defaults=defaults)


def hold_back_invalid(translation: Translation, text: str, problems: Iterable[Problem]) -> Translation:
    """Without the entries that are not valid as they are in the text, and those that depend on them."""
    lines = text.splitlines()
    reasons: dict[str, str] = {}
    for problem in problems:
        place = problem.place
        above = lines[: place.line or 0] if place is not None else []
        entry = next((line for line in reversed(above) if line.startswith("  # ")), "")
        reasons.setdefault(entry.removeprefix("  # "), f"{problem.message}. {problem.hint or ''}".strip())
    stacks = tuple(
        stack
        if stack.reasons or _why(stack) not in reasons
        else replace(stack, reasons=(reasons[_why(stack)],))
        for stack in translation.stacks
    )
    return replace(translation, stacks=_hold_back_dependents(stacks))


def _why(stack: TranslatedStack) -> str:
    """The comment above its entry."""
    return f"{stack.original} → {stack.name}"


def _hold_back_shared_states(stacks: Sequence[TranslatedStack], code: Code) -> tuple[TranslatedStack, ...]:
    users: defaultdict[object, list[str]] = defaultdict(list)
    for stack in stacks:
        if not stack.reasons and (identity := _identity(stack, code)) is not None:
            users[identity].append(stack.name)
    others = {name: names[name == names[0]] for names in users.values() if len(names) > 1 for name in names}
    return tuple(
        replace(stack, reasons=(f"It shares its state with {others[stack.name]}. Separate them.",))
        if stack.name in others
        else stack
        for stack in stacks
    )


def _identity(stack: TranslatedStack, code: Code) -> object:
    own = stack.keys.get("backend")
    backend = None
    if isinstance(own, Mapping):
        backend = Backend(type=own["type"], settings=own.get("settings", {}))
    location = state_location(
        Stack(
            name=stack.name,
            kind=RuleKind.NAMED,
            place=Place(file=stack.original),
            module=stack.module,
            backend=backend,
            workspace=str(stack.keys.get("workspace") or "default"),
        ),
        code_backend(code, stack.module),
    )
    return location.identity if location is not None else None


def _hold_back_dependents(stacks: Iterable[TranslatedStack]) -> tuple[TranslatedStack, ...]:
    """An entry cannot refer to the output of a stack that is only a comment."""
    by_name = {stack.name: stack for stack in stacks}
    before: set[str] | None = None
    while before != (held := {name for name, stack in by_name.items() if stack.reasons}):
        before = held
        for name, stack in by_name.items():
            missing = stacks_read(stack.keys.get("inputs")) & held
            if missing and not stack.reasons:
                names = ", ".join(sorted(missing))
                why = f"It reads outputs of {names}, held back itself. Complete that entry first."
                by_name[name] = replace(stack, reasons=(why,))
    return tuple(by_name.values())


def _shared(values: Sequence[Mapping[str, object]], names: Sequence[str]) -> dict[str, object]:
    """The parts of mappings that are the same for all stacks, also with {name} in their texts."""
    shared: dict[str, object] = {}
    for key, first in values[0].items():
        own = [value.get(key) for value in values]
        if isinstance(first, Mapping) and all(isinstance(value, Mapping) for value in own):
            shared[key] = _shared(own, names)  # type: ignore[arg-type] # mappings, see above
        elif any(marked_variables(own)):
            continue  # Its `{values.X}` has no value yet, which a default must have.
        elif all(value == first for value in own):
            shared[key] = _marked_template(first) if key == "content" else escaped(first)
        elif key != "content" and all(isinstance(value, str) for value in own):
            templates = {
                as_template(str(value)).replace(escape(name), "{name}")
                for value, name in zip(own, names, strict=True)
            }
            shared[key] = templates.pop() if len(templates) == 1 else None
    return {key: value for key, value in shared.items() if value not in (None, {})}


def _without(value: Mapping[str, object], shared: Mapping[str, object]) -> dict[str, object]:
    """What is not shared."""
    rest = {
        key: _without(item, inner)
        if isinstance(item, Mapping) and isinstance(inner := shared.get(key), Mapping)
        else item
        for key, item in value.items()
        if key not in shared or isinstance(item, Mapping)
    }
    return {key: item for key, item in rest.items() if item or key not in shared}


def _entry(stack: TranslatedStack) -> StackEntry:
    entry = single_entry(stack.name, stack.module, (), RuleKind.FOLDER)
    stated = stack.environment or environment_folder(stack.original)
    environment = escape(stated) if stated else entry.environment
    inputs = stack.keys.get("inputs", {})
    if environment is None and isinstance(inputs, Mapping):
        texts = (inputs.get(name) for name in ENVIRONMENT_VARIABLES)
        environment = next((text for text in texts if isinstance(text, str) and environment_word(text)), None)
    return replace(
        entry,
        name=escape(stack.name),
        stacks=tuple(replace(draft, name=stack.name, depends_on=stack.depends_on) for draft in entry.stacks),
        environment=environment,
        keys={
            key: escaped(value) if key != "generate" else _marked_template(value)
            for key, value in stack.keys.items()
        },
        why=_why(stack),
        held_back=" ".join(stack.reasons).rstrip(".") or None,
    )


def _marked_template(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _marked_template(item) for key, item in value.items()}
    return _MARK.sub(r"@{values.\1}", value) if isinstance(value, str) else value


def as_template(text: str) -> str:
    """A text that means itself, with literal braces; a marked variable is a placeholder."""
    return _MARK.sub(r"{values.\1}", escape(text))


def escaped(value: object) -> object:
    """A value in which every text means itself, with literal braces."""
    match value:
        case str():
            return as_template(value)
        case Mapping():
            return {key: escaped(item) for key, item in value.items()}
        case list() | tuple():
            return [escaped(item) for item in value]
        case _:
            return value
