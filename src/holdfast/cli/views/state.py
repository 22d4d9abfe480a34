"""Versions of a state on a screen and as documents: what there is, what one holds, what differs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from holdfast.cli.console import Console
from holdfast.secrets.redact_document import clean_value
from holdfast.stacks.stack import Stack
from holdfast.states.rollback import RolledBack
from holdfast.states.versions import Entry, Loaded, Versions
from holdfast.terraform.statefile.diff import DiffKind, ResourceDiff, StateDiff
from holdfast.terraform.statefile.model import State, StateResource, read_state

Document = dict[str, object]
_UNSEEN = "one of them is encrypted or cannot be read: what they hold was not looked at"
_SIGNS = {DiffKind.ADDED: ("+", "green"), DiffKind.REMOVED: ("-", "red"), DiffKind.CHANGED: ("~", "yellow")}
_DAY_AND_TIME = 19
_LINEAGE = 8


def entry_document(entry: Entry) -> Document:
    return {
        "name": entry.name,
        "serial": entry.serial,
        "lineage": entry.lineage,
        "resources": entry.resources,
        "at": entry.at,
        "who": entry.who,
        "why": entry.why,
        "run": entry.run,
        "current": entry.current,
    }


def versions_document(stack: Stack, found: Versions) -> Document:
    now = found.current
    return {
        "version": 1,
        "stack": stack.name,
        "kept": found.kept,
        "versions": [entry_document(entry) for entry in found.entries],
        "current": {"serial": now.serial, "lineage": now.lineage, "resources": now.resources}
        if now is not None
        else None,
        "unseen": found.unseen,
    }


def show_versions(console: Console, stack: Stack, found: Versions) -> None:
    word = "version" if found.kept else "copy"
    console.say(f" {stack.name}: its state, newest {word} first")
    if not found.kept:
        if found.unseen is not None:
            console.say(("   ! ", "yellow"), f"its backend could not be looked at: {found.unseen}")
        elif found.current is not None:
            now = found.current
            console.say(f"   in its backend now: serial {now.serial}, {_count(now.resources)}")
        else:
            console.say("   in its backend now: nothing")
    rows = [
        (
            "*" if entry.current else " ",
            entry.name,
            f"serial {entry.serial}",
            _count(entry.resources),
            moment(entry.at),
            entry.who or "",
            entry.why or "",
            f"run {entry.run}" if entry.run else "",
            f"lineage {entry.lineage[:_LINEAGE]}",
        )
        for entry in found.entries
    ]
    show_rows(console, rows)


def show_rows(console: Console, rows: Sequence[tuple[str, ...]]) -> None:
    """In columns, each as wide as its widest."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    for row in rows:
        console.line(
            f" {'  '.join(f'{text:<{width}}' for text, width in zip(row, widths, strict=True))}".rstrip()
        )


def moment(at: str | None) -> str:
    """Universal time, to the second."""
    return f"{at[:_DAY_AND_TIME].replace('T', ' ')}Z" if at else ""


def _count(resources: int | None) -> str:
    if resources is None:
        return "encrypted"
    return f"{resources} resource{'s' if resources != 1 else ''}"


def content_document(stack: Stack, loaded: Loaded) -> Document:
    """No attribute of any object: those may be secret. A sensitive output's value is null."""
    state = _readable(loaded)
    resources, outputs = state.resources, state.outputs
    return {
        "version": 1,
        "stack": stack.name,
        **entry_document(loaded.entry),
        "terraform_version": state.terraform_version,
        "managed": state.managed,
        "data": sum(one.mode == "data" for one in resources) if resources is not None else None,
        "resources": [_resource(one) for one in resources] if resources is not None else None,
        "outputs": {
            one.name: {"value": None if one.sensitive else one.read(), "sensitive": one.sensitive}
            for one in sorted(outputs, key=lambda one: one.name)
        }
        if outputs is not None
        else None,
    }


def _readable(loaded: Loaded) -> State:
    """What was stored was a state: anything else reads as one of which nothing can be told."""
    state = read_state(loaded.content)
    if isinstance(state, State):
        return state
    entry = loaded.entry
    return State(lineage=entry.lineage, serial=entry.serial)


def _resource(one: StateResource) -> Document:
    return {
        "address": one.address,
        "mode": one.mode,
        "type": one.type,
        "tainted": one.tainted,
        "deposed": one.deposed,
    }


def show_content(console: Console, stack: Stack, loaded: Loaded) -> None:
    state = _readable(loaded)
    made = f", written by {state.terraform_version}" if state.terraform_version else ""
    console.say(f" {stack.name}: {loaded.entry.shown}, lineage {state.lineage}{made}")
    if state.resources is None or state.outputs is None:
        console.say("   it is encrypted: what it holds was not looked at")
        return
    console.say(f"   {_count(state.managed)}, {len(state.outputs)} outputs")
    for one in sorted(state.resources, key=lambda one: (one.mode != "managed", one.address)):
        notes = [*(["tainted"] if one.tainted else []), *([f"deposed {one.deposed}"] if one.deposed else [])]
        more = f"  ({', '.join(notes)})" if notes else ""
        console.line(f"   {one.address}{more}")
    for output in sorted(state.outputs, key=lambda one: one.name):
        value = "(sensitive)"
        if not output.sensitive:
            cleaned = clean_value(console.redactor, output.name, output.read())
            value = json.dumps(cleaned, ensure_ascii=False)
        console.line(f"   {output.name} = {value}")


def diff_document(stack: Stack, old: Loaded, new: Loaded, found: StateDiff | None) -> Document:
    return {
        "version": 1,
        "stack": stack.name,
        "from": entry_document(old.entry),
        "to": entry_document(new.entry),
        **changes_document(found),
    }


def changes_document(found: StateDiff | None) -> Document:
    """Null where nobody could look."""
    return {
        "resources": [
            {
                "address": one.address,
                "deposed": one.deposed,
                "change": one.kind.value,
                "note": one.note,
                "attributes": [
                    {
                        "path": each.path,
                        "before": each.before,
                        "after": each.after,
                        "sensitive": each.sensitive,
                    }
                    for each in one.attributes
                ],
                "more": one.more,
            }
            for one in found.resources
        ]
        if found is not None
        else None,
        "outputs": [
            {
                "name": one.name,
                "change": one.kind.value,
                "before": one.before,
                "after": one.after,
                "sensitive": one.sensitive,
            }
            for one in found.outputs
        ]
        if found is not None
        else None,
    }


def show_diff(console: Console, stack: Stack, old: Loaded, new: Loaded, found: StateDiff | None) -> None:
    console.say(f" {stack.name}: from {old.entry.shown} to {new.entry.shown}")
    if old.entry.lineage != new.entry.lineage:
        console.line(("   ! ", "yellow"), f"lineage: {old.entry.lineage} → {new.entry.lineage}")
    show_changes(console, found)


def show_changes(console: Console, found: StateDiff | None) -> None:
    if found is None:
        console.say(f"   {_UNSEEN}")
        return
    for one in found.resources:
        _show_object(console, one)
    for output in found.outputs:
        sign, style = _SIGNS[output.kind]
        values = f"{output.before or 'nothing'} → {output.after or 'nothing'}"
        console.line((f"   {sign} ", style), f"output {output.name}: {values}")
    if found.same:
        console.say("   they hold the same")


def _show_object(console: Console, one: ResourceDiff) -> None:
    sign, style = _SIGNS[one.kind]
    deposed = f"  (deposed {one.deposed})" if one.deposed else ""
    note = f"  {one.note}" if one.note else ""
    console.line((f"   {sign} ", style), f"{one.address}{deposed}{note}")
    for each in one.attributes:
        console.line((f"       {each.path}: {each.before or 'nothing'} → {each.after or 'nothing'}", "dim"))
    if one.more:
        console.line((f"       … and {one.more} more", "dim"))


def rollback_document(stack: Stack, done: RolledBack, plan: Document) -> Document:
    return {
        "version": 1,
        "stack": stack.name,
        "run": done.run,
        "to": done.goal,
        "previous_serial": done.previous,
        "serial": done.serial,
        "lineage": done.lineage,
        "resources": done.resources,
        "backup": done.backup,
        "plan": plan,
    }
