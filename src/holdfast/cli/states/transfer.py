"""`holdfast state push`, `export` and `import` with states on the server."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.audit.actor import current_actor
from holdfast.cli.command import Invocation, fields
from holdfast.cli.confirmation import confirm_at_once
from holdfast.cli.context import run_on_stack
from holdfast.cli.states.on_server import open_client, open_state
from holdfast.cli.views.state import named, resources_text, show_changes
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural
from holdfast.plans.context import ChangeContext
from holdfast.secrets.keys import Key, existing_key, load_key
from holdfast.stacks.stack import Stack
from holdfast.states import exports, operations, versions
from holdfast.states.exports import ExportedState
from holdfast.states.server_states import ServerState, ServerVersion, list_states
from holdfast.states.server_versions import compare_contents
from holdfast.store.place import FolderBlobs
from holdfast.store.run_store import IDENTITY, RunStore
from holdfast.system import files
from holdfast.terraform.statefile.losses import lost_resources
from holdfast.terraform.statefile.model import State, read_state


def run_push_to_server(invocation: Invocation, state: ServerState, file: Path, *, yes: bool) -> Exit:
    content = _read_state_file(str(file))
    current, console = state.content(), invocation.console
    if current is not None and not invocation.as_json:
        show_changes(console, compare_contents(current, content))
    lost = lost_resources(read_state(current), read_state(content)) if current else ()
    removed = sorted({resource.address for resource in lost or ()})
    if lost is None or removed:
        what = "an unknown number of resources" if lost is None else plural(len(removed), "resource")
        question = f"This removes {what} from the state. The resources themselves stay. Continue?"
        if not confirm_at_once(console, question, yes=yes):
            console.line(f" {state.name}: the state was not changed")
            return Exit.FAILED
    with state.hold_lock("push", _who(invocation)) as lock:
        written = state.write(content, lock=lock, why="push")
    return invocation.answer(
        {
            "version": 1,
            **named(state),
            **fields(written, "lineage", "serial", "resources"),
            "removed": removed,
        },
        f" {state.name}: pushed {resources_text(written.resources)} as serial {written.serial}",
    )


def run_export(
    invocation: Invocation,
    folder: Path,
    names: Sequence[str],
    *,
    plaintext: bool,
    current_only: bool,
    yes: bool,
) -> Exit:
    client, key = open_client(invocation), None if plaintext else _export_key(invocation)
    if not names:
        names = sorted(str(state["name"]) for state in list_states(client) if state["version"])
    if plaintext:
        question = (
            f"{folder} will contain every secret in {plural(len(names), 'state')} as plain text. Export?"
        )
        if not confirm_at_once(invocation.console, question, yes=yes):
            return Exit.FAILED
    states = [ServerState(client, name) for name in names]
    export = exports.write_export(folder, client.url, states, key, current_only=current_only)
    count = sum(len(state.versions) for state in export.states)
    how = f"encrypted with key {export.key}" if key is not None else "as plain text"
    return invocation.answer(
        {
            "version": 1,
            "folder": str(folder),
            "key": export.key,
            "states": [{"name": state.name, "versions": len(state.versions)} for state in export.states],
        },
        f" Exported {plural(len(states), 'state')} with {plural(count, 'version')} to {folder}, {how}",
        f"   To read one: holdfast state pull --from {folder} --state NAME [VERSION]",
    )


def exported_content(invocation: Invocation, folder: Path, name: str, wanted: str | None) -> bytes:
    export = exports.read_export(folder)
    state = _exported_state(folder, export, name)
    for version in reversed(state.versions):
        if wanted in (None, versions.CURRENT, str(version.number), f"serial:{version.serial}"):
            return exports.read_version(folder, export, state, version, lambda: _key(invocation, folder))
    raise UsageError("HF-STATE-20", f"{folder} has no version {wanted} of {name}")


def run_import(invocation: Invocation, source: str | None, name: str | None, stack: str | None) -> Exit:
    if source is not None and (Path(source) / IDENTITY).is_file():
        imported = _import_run_store(invocation, Path(source), name)
    elif source is not None and source != "-" and Path(source).is_dir():
        imported = _import_export(invocation, Path(source), name)
    else:
        if name is None:
            raise UsageError(
                "HF-USE-1", "no state is named", hint="Add --state NAME: what it is called there."
            )
        if stack is not None:
            _, contents = run_on_stack(invocation, stack, _stack_contents)
            if not contents:
                raise UsageError("HF-STATE-22", f"{stack} has no state", hint="There is nothing to import.")
        else:
            contents = (_read_state_file(str(source)),)
        state = open_state(invocation, name)
        imported = [(state, write_versions(state, contents, who=_who(invocation)))]
    lines, documents = [], []
    for state, new in imported:
        now = state.version(None)
        what = f"imported and verified {plural(len(new), 'version')}" if new else "the server has it already"
        lines.append(f" {state.name}: {what}; now serial {now.serial}, {resources_text(now.resources)}")
        document = {"name": state.name, "versions": len(new), **fields(now, "serial", "lineage", "digest")}
        documents.append(document)
    return invocation.answer({"version": 1, "states": documents}, *lines)


def write_versions(state: ServerState, contents: Sequence[bytes], *, who: str) -> list[ServerVersion]:
    """Those that the server does not have, oldest first, under one lock."""
    try:
        known = {entry.digest for entry in state.entries}
    except UsageError:
        known = set()
    new = [content for content in contents if exports.digest_of(content) not in known]
    if not new:
        return []
    with state.hold_lock("import", who) as lock:
        return [state.write(content, lock=lock, why="import") for content in new]


def _import_export(
    invocation: Invocation, folder: Path, name: str | None
) -> list[tuple[ServerState, list[ServerVersion]]]:
    """All of its states under their names, or one of them."""
    export, client = exports.read_export(folder), open_client(invocation)
    chosen = export.states if name is None else (_exported_state(folder, export, name),)
    imported = []
    for exported in chosen:
        contents = [
            exports.read_version(folder, export, exported, version, lambda: _key(invocation, folder))
            for version in exported.versions
            if version.file is not None
        ]
        state = ServerState(client, exported.name)
        imported.append((state, write_versions(state, contents, who=_who(invocation))))
    return imported


def _import_run_store(
    invocation: Invocation, folder: Path, name: str | None
) -> list[tuple[ServerState, list[ServerVersion]]]:
    """The managed states of a run store in a folder, or one of them, with all versions."""
    states = RunStore(FolderBlobs(folder.absolute()), lambda: _key(invocation, folder)).states
    names = states.stacks()
    if name is not None and name not in names:
        raise UsageError(
            "HF-STATE-62", f"{folder} has no state {name}", hint=f"It has: {', '.join(names[:5])}"
        )
    client, imported = open_client(invocation), []
    for stack in names if name is None else (name,):
        versions_ = (states.version(stack, number) for number in states.numbers(stack))
        contents = [version.state for version in versions_ if version is not None]
        state = ServerState(client, stack)
        imported.append((state, write_versions(state, contents, who=_who(invocation))))
    return imported


def _exported_state(folder: Path, export: exports.Export, name: str) -> ExportedState:
    for state in export.states:
        if state.name == name:
            return state
    names = ", ".join(state.name for state in export.states[:5])
    raise UsageError("HF-STATE-62", f"{folder} has no state {name}", hint=f"It has: {names}")


async def _stack_contents(context: ChangeContext, stack: Stack) -> tuple[bytes, ...]:
    """All versions of a managed state, oldest first; of any other the current one."""
    if not versions.is_managed(context.project, stack):
        content = await operations.pull(context, stack)
        return (content,) if content else ()
    entries = (await versions.versions(context, stack)).entries
    return tuple([(await versions.load(context, stack, entry.name)).content for entry in reversed(entries)])


def _read_state_file(source: str) -> bytes:
    content = sys.stdin.buffer.read() if source == "-" else files.content_of(Path(source))
    if content is None:
        raise UsageError("HF-STATE-6", f"there is no file {source}", hint="Check the path.")
    state = read_state(content) if content else None
    if not isinstance(state, State):
        raise UsageError(
            "HF-STATE-6",
            f"{'standard input' if source == '-' else source} is not a state",
            hint="Give what `terraform state pull` prints.",
        )
    return content


def _export_key(invocation: Invocation) -> Key:
    loaded = load_key(invocation.environment)
    if loaded is None:
        raise UsageError(
            "HF-KEY-12",
            "there is no key to encrypt the export with",
            hint="Set HOLDFAST_KEY (create one with: openssl rand -base64 32), or add --plaintext.",
        )
    return loaded.key


def _key(invocation: Invocation, folder: Path) -> Key:
    return existing_key(invocation.environment, str(folder)).key


def _who(invocation: Invocation) -> str:
    return current_actor(invocation.environment).shown
