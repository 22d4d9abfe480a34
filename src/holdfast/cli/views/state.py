"""Versions of a state, as text and as JSON: the list, the contents of one, the differences of two."""

from __future__ import annotations

import json
from collections.abc import Sequence

from holdfast.cli.command import fields
from holdfast.cli.console import Console
from holdfast.kernel.text import plural
from holdfast.secrets.redact import clean_value
from holdfast.stacks.stack import Stack
from holdfast.states.rollback import RolledBack
from holdfast.states.server_states import ServerState, ServerVersion
from holdfast.states.surgery import StateChange
from holdfast.states.versions import LoadedVersion, VersionInfo, Versions
from holdfast.terraform.addresses import address_order
from holdfast.terraform.statefile.diff import DiffKind, ResourceDiff, StateDiff
from holdfast.terraform.statefile.model import State, read_state

Document = dict[str, object]
Subject = Stack | ServerState
"""What a command is about."""
_NOT_COMPARED = "One of them is encrypted or cannot be read, so they were not compared."
_SIGNS = {DiffKind.ADDED: ("+", "green"), DiffKind.REMOVED: ("-", "red"), DiffKind.CHANGED: ("~", "yellow")}
_DAY_AND_TIME = 19
_LINEAGE = 8


def named(subject: Subject) -> Document:
    return {"stack": subject.name} if isinstance(subject, Stack) else {"stack": None, "state": subject.name}


def entry_document(entry: VersionInfo) -> Document:
    document = fields(entry, "name", "serial", "lineage", "resources", "at", "who", "why", "run", "current")
    if isinstance(entry, ServerVersion):
        document |= fields(entry, "digest", "size", "pinned", "purged", "secrets")
    return document


def versions_document(stack: Subject, versions: Versions) -> Document:
    now = versions.current
    return {
        "version": 1,
        **named(stack),
        "managed": versions.managed,
        "versions": [entry_document(entry) for entry in versions.entries],
        "current": fields(now, "serial", "lineage", "resources") if now is not None else None,
        "reason": versions.unseen,
        "unsaved": [entry_document(entry) for entry in versions.unsaved],
    }


def show_versions(console: Console, stack: Subject, versions: Versions) -> None:
    managed = versions.managed
    console.say(f" {stack.name}: {'versions' if managed else 'backups'} of its state, newest first")
    if not managed:
        now = versions.current
        if versions.unseen is not None:
            console.say(("   ! ", "yellow"), f"cannot read its backend: {versions.unseen}")
        elif now is not None:
            console.say(f"   in its backend now: serial {now.serial}, {resources_text(now.resources)}")
        else:
            console.say("   in its backend now: no state")
    show_rows(console, [_row(entry) for entry in versions.entries])
    if not versions.entries:
        console.say("   none yet" if managed else "   none yet: Holdfast makes one before each apply")
    if versions.unsaved:
        console.say(
            f" States that Terraform could not save (holdfast state show {stack.name} NAME --unsaved):"
        )
        show_rows(console, [_row(entry) for entry in versions.unsaved])


def _row(entry: VersionInfo) -> tuple[str, ...]:
    return (
        "*" if entry.current else " ",
        entry.name,
        f"serial {entry.serial}",
        resources_text(entry.resources),
        moment(entry.at),
        entry.who or "",
        entry.why or "",
        f"run {entry.run}" if entry.run else "",
        f"lineage {entry.lineage[:_LINEAGE]}" if entry.lineage else "no lineage",
        entry.note if isinstance(entry, ServerVersion) else "",
    )


def show_rows(console: Console, rows: Sequence[tuple[str, ...]]) -> None:
    """As columns, each as wide as its widest cell."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    for row in rows:
        console.line(
            f" {'  '.join(f'{text:<{width}}' for text, width in zip(row, widths, strict=True))}".rstrip()
        )


def moment(at: str | None) -> str:
    """UTC, to the second."""
    return f"{at[:_DAY_AND_TIME].replace('T', ' ')}Z" if at else ""


def resources_text(number: int | None) -> str:
    return "encrypted" if number is None else plural(number, "resource")


def content_document(stack: Subject, loaded: LoadedVersion) -> Document:
    """Without attributes of resources, which may be secret. The value of a sensitive output is null."""
    state = _readable(loaded)
    resources, outputs = state.resources, state.outputs
    return {
        "version": 1,
        **named(stack),
        **entry_document(loaded.entry),
        "terraform_version": state.terraform_version,
        "managed": state.managed,
        "data": sum(resource.mode == "data" for resource in resources) if resources is not None else None,
        "resources": [
            fields(resource, "address", "mode", "type", "tainted", "deposed") for resource in resources
        ]
        if resources is not None
        else None,
        "outputs": {
            output.name: {"value": None if output.sensitive else output.read(), "sensitive": output.sensitive}
            for output in sorted(outputs, key=lambda output: output.name)
        }
        if outputs is not None
        else None,
    }


def _readable(loaded: LoadedVersion) -> State:
    """The state's contents; unknown contents if it is encrypted or cannot be read."""
    state = read_state(loaded.content)
    if isinstance(state, State):
        return state
    entry = loaded.entry
    return State(lineage=entry.lineage, serial=entry.serial)


def show_content(console: Console, stack: Subject, loaded: LoadedVersion) -> None:
    state = _readable(loaded)
    written_by = f", written by {state.terraform_version}" if state.terraform_version else ""
    console.say(f" {stack.name}: {loaded.entry.shown}, lineage {state.lineage or 'none'}{written_by}")
    if state.resources is None or state.outputs is None:
        console.say("   It is encrypted or cannot be read; its contents are not shown.")
        console.say(f"   If OpenTofu encrypted the current one: holdfast terraform {stack.name} -- show")
        return
    console.say(f"   {resources_text(state.managed)}, {plural(len(state.outputs), 'output')}")
    for resource in sorted(
        state.resources, key=lambda resource: (resource.mode != "managed", address_order(resource.address))
    ):
        notes = [
            *(["tainted"] * resource.tainted),
            *([f"deposed {resource.deposed}"] * bool(resource.deposed)),
        ]
        more = f"  ({', '.join(notes)})" if notes else ""
        console.line(f"   {resource.address}{more}")
    for output in sorted(state.outputs, key=lambda output: output.name):
        value = "(sensitive)"
        if not output.sensitive:
            cleaned = clean_value(console.redactor, output.name, output.read())
            value = json.dumps(cleaned, ensure_ascii=False)
        console.line(f"   {output.name} = {value}")


def diff_document(stack: Subject, old: VersionInfo, new: VersionInfo, diff: StateDiff | None) -> Document:
    return {
        "version": 1,
        **named(stack),
        "from": entry_document(old),
        "to": entry_document(new),
        **changes_document(diff),
    }


def changes_document(diff: StateDiff | None) -> Document:
    """Null if the two states could not be compared."""
    if diff is None:
        return {"resources": None, "outputs": None}
    return {
        "resources": [
            {
                **fields(resource, "address", "deposed", "note", "more"),
                "change": resource.kind.value,
                "attributes": [
                    fields(attribute, "path", "before", "after", "sensitive")
                    for attribute in resource.attributes
                ],
            }
            for resource in diff.resources
        ],
        "outputs": [
            {**fields(output, "name", "before", "after", "sensitive"), "change": output.kind.value}
            for output in diff.outputs
        ],
    }


def show_diff(
    console: Console, stack: Subject, old: VersionInfo, new: VersionInfo, diff: StateDiff | None
) -> None:
    console.say(f" {stack.name}: from {old.shown} to {new.shown}")
    if old.lineage != new.lineage:
        console.line(("   ! ", "yellow"), f"lineage: {old.lineage} → {new.lineage}")
    show_changes(console, diff)


def show_changes(console: Console, diff: StateDiff | None) -> None:
    if diff is None:
        console.say(f"   {_NOT_COMPARED}")
        return
    for resource in diff.resources:
        _show_resource(console, resource)
    for output in diff.outputs:
        sign, style = _SIGNS[output.kind]
        values = f"{output.before or 'null'} → {output.after or 'null'}"
        console.line((f"   {sign} ", style), f"output {output.name}: {values}")
    if diff.same:
        console.say("   No differences.")


def _show_resource(console: Console, resource: ResourceDiff) -> None:
    sign, style = _SIGNS[resource.kind]
    deposed = f"  (deposed {resource.deposed})" if resource.deposed else ""
    note = f"  {resource.note}" if resource.note else ""
    console.line((f"   {sign} ", style), f"{resource.address}{deposed}{note}")
    for attribute in resource.attributes:
        console.line(
            (f"       {attribute.path}: {attribute.before or 'null'} → {attribute.after or 'null'}", "dim")
        )
    if resource.more:
        console.line((f"       … and {resource.more} more", "dim"))


def rollback_document(stack: Stack, done: RolledBack, change: StateChange, plan: Document) -> Document:
    return {
        "version": 1,
        "stack": stack.name,
        "run": done.run,
        "to": done.goal,
        "previous_serial": done.previous,
        **fields(done, "serial", "lineage", "resources", "backup"),
        "removed": list(change.lost_addresses),
        "plan": plan,
    }
