"""The text of a starter: a holdfast.yaml that a person can read from top to bottom."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from holdfast.config.settings import Environment
from holdfast.config.stack_rules import RuleKind
from holdfast.config.yaml import resolve
from holdfast.onboarding.starter_entries import StackEntry

_PLAIN: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./@+-]*")

_HEAD: Final = """\
# Written by `holdfast init` from what this repository looks like. Check it, change it, keep it in Git.
# What a stack is and what every key means: docs/configuration.md
version: 1
"""
_NO_STACKS: Final = """
# Nothing that could be a stack was found for certain. How stacks can be found, one way per line:
#   - variables: environments/{environment}.tfvars     one stack per variables file, with `module: .`
#   - folder: live/{environment}/{component}            one stack per folder that is a root module
#   - name: bootstrap                                   one stack by hand, with `module: bootstrap`
stacks: []
"""
_HELD: Final = """
# Held back: where their states are today cannot be told from the code, and a guess could plan everything
# anew beside what exists. Say where each state is (a `workspace`, or a `backend` with its own settings,
# such as `backend: { settings: { key: … } }`), move the entry up and take the # away.
"""


def render_config(
    entries: Sequence[StackEntry], environments: Sequence[Environment], *, active: frozenset[str]
) -> str:
    """`active`: the names of the stacks that are not held back; only these can be depended on."""
    parts = [_HEAD, _environments(environments)]
    live = [entry for entry in entries if entry.held is None]
    held = [entry for entry in entries if entry.held is not None]
    if live:
        parts.append("\nstacks:\n" + "".join(_entry(entry, active) for entry in live))
    else:
        parts.append(_NO_STACKS)
    if held:
        parts.append(_held(held, active))
    return "".join(parts)


def yaml_value(value: object) -> str:
    """A value as it stands in YAML; text is quoted wherever it could be read as anything else."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case None:
            return "null"
        case str():
            plain = _PLAIN.fullmatch(value) and isinstance(resolve(value), str)
            return value if plain else json.dumps(value, ensure_ascii=False)
        case Mapping():
            inside = ", ".join(f"{yaml_value(str(key))}: {yaml_value(one)}" for key, one in value.items())
            return f"{{ {inside} }}" if inside else "{}"
        case Iterable():
            return f"[{', '.join(yaml_value(one) for one in value)}]"
        case _:
            raise TypeError(f"{type(value).__name__} has no place in a configuration")


def _environments(environments: Sequence[Environment]) -> str:
    if not environments:
        return "\n# Without `environments`, everything counts as production: the careful side.\n"
    lines = ["", "# What matches none of these counts as production.", "environments:"]
    for one in environments:
        settings: dict[str, object] = {"match": list(one.match)} if one.match else {}
        settings["production"] = one.production
        lines.append(f"  {yaml_value(one.name)}: {yaml_value(settings)}")
    return "\n".join(lines) + "\n"


def _entry(entry: StackEntry, active: frozenset[str]) -> str:
    lines = [f"{key}: {yaml_value(value)}" for key, value in _keys(entry, active).items()]
    first, *rest = lines
    return "".join((f"  # {entry.why}\n", f"  - {first}\n", *(f"    {line}\n" for line in rest)))


def _keys(entry: StackEntry, active: frozenset[str]) -> dict[str, object]:
    """In the order a person reads them; only what is said."""
    stack = entry.stacks[0]
    engine: dict[str, object] = {"use": "tofu"} if stack.tofu else {}
    if stack.version is not None:
        engine["version"] = stack.version
    pattern = {"variables": entry.pattern} if entry.kind is RuleKind.VARIABLES else {}
    folder = {"folder": entry.pattern} if entry.kind is RuleKind.FOLDER else {}
    keys: dict[str, object] = {
        **pattern,
        **folder,
        "name": entry.name,
        "module": entry.module,
        "variables_files": list(entry.shared),
        "environment": entry.environment,
        "account": entry.account,
        "region": entry.region,
        "backend": {"settings": dict(entry.settings)} if entry.settings else None,
        "workspace": entry.workspace,
        "depends_on": [name for name in stack.depends_on if name in active] if entry.pattern is None else [],
        "engine": engine,
    }
    return {key: value for key, value in keys.items() if value not in (None, [], {})}


def _held(entries: Sequence[StackEntry], active: frozenset[str]) -> str:
    text = [_HELD]
    for entry in entries:
        text.append(f"#\n# {entry.held}:\n")
        text += [f"#{line}\n" for line in _entry(entry, active).splitlines()]
    return "".join(text)
