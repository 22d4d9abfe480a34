"""`holdfast keys`: which key is used, the key for jobs that only plan, and the replacement of a key."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Invocation, Option, fields
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural

if TYPE_CHECKING:
    from holdfast.changes.repository import Repository
    from holdfast.secrets.keys import LoadedKey
    from holdfast.store.run_store import StoreIdentity

HELP = "Show and replace the encryption key, print the plan key."
COMMANDS = ("status", "rotate", "plan")
ServerData = Annotated[
    Path | None, Option("--data", metavar="DIR", help="The key of the server with this data folder.")
]


def status(invocation: Invocation, data: ServerData = None) -> Exit:
    """Show which key is used and which key the run store has. Also counts what has another key."""
    if data is not None:
        from holdfast.cli.server_keys import run_status

        return run_status(invocation, data)
    from holdfast.secrets.keys import load_key
    from holdfast.store.rotation import count_keys
    from holdfast.store.run_store import read_identity

    repository = _open(invocation)
    loaded, blobs = load_key(invocation.environment), repository.store.blobs
    identity = read_identity(blobs)
    counts = count_keys(blobs) if identity is not None else {}
    store_key = identity.key if identity is not None else None
    total, other = sum(counts.values()), sum(count for key, count in counts.items() if key != store_key)
    document = {
        "version": 1,
        "key": _key_document(loaded) if loaded is not None else None,
        "store": {"place": blobs.shown, **fields(identity, "id", "key", "next_key", "retired")}
        if identity
        else None,
        "blobs": {"total": total, "other_key": other},
    }

    def show() -> None:
        console = invocation.console
        if loaded is None:
            console.line(" No key yet: Holdfast creates one when it first stores something.")
        else:
            about = _key_document(loaded)
            console.line(f" {about['kind']} key {about['id']} from {about['source']}")
        if identity is None:
            console.line(f" {blobs.shown} is empty.")
            return
        for line in _store_lines(blobs.shown, identity, loaded):
            console.line(line)
        left = (
            f"{plural(other, 'blob')} encrypted with another key"
            if other
            else "all encrypted with the store's key"
        )
        console.line(f" {plural(total, 'blob')}, {left}")

    return invocation.answer(document, show)


def rotate(invocation: Invocation, data: ServerData = None) -> Exit:
    """Encrypt and sign the run store with a new key. Retires the old one.

    The new key comes from HOLDFAST_NEW_KEY or HOLDFAST_NEW_KEY_FILE; if Holdfast created the current key, it
    creates the new one too. Refused while a run is active. After an interruption, run the same command again.
    With --data, the new key is prepared, also beside a running server. Once that is restarted, it encrypts
    everything again while it serves.
    """
    if data is not None:
        from holdfast.cli.server_keys import run_rotate

        return run_rotate(invocation, data)
    from holdfast.changes.preconditions import require_store_key
    from holdfast.plans.context import Identity
    from holdfast.runs.key_rotation import rotate_key
    from holdfast.secrets.key_rotation import rotation_keys
    from holdfast.store.run_store import read_identity

    repository, console = _open(invocation), invocation.console
    require_store_key(repository)
    blobs = repository.store.blobs
    identity = read_identity(blobs)
    keys = rotation_keys(invocation.environment, identity.key if identity is not None else None)
    result = rotate_key(
        blobs,
        keys,
        lambda store, entry: Identity(store, invocation.environment, console.redactor).audit.record(entry),
    )
    kept = keys.replace_file()
    document = {
        "version": 1,
        "old": keys.old.id,
        "new": keys.new.id,
        **fields(result, "replaced", "resumed"),
        "unreadable": list(result.unreadable),
        "old_file": str(kept) if kept is not None else None,
    }

    def show() -> None:
        console.line(
            f" {plural(result.replaced, 'blob')} encrypted with key {keys.new.id}; {keys.old.id} is retired"
        )
        for name in result.unreadable:
            console.warn(f"{name} was left as it is: the old key cannot read it, or has no right to sign it")
        if kept is not None:
            console.line(
                f" The new key is in {repository.environment.home}: back it up. The old one is {kept}."
            )
            console.line(
                " Delete it once no other repository on this machine uses it (holdfast keys rotate there)."
            )
        else:
            console.line(
                " Set HOLDFAST_KEY to the new key, and HOLDFAST_PLAN_KEY to what `holdfast keys plan` prints."
            )
        console.line(" Bundles made with the old key cannot be applied: plan again.")

    return invocation.answer(document, show, exit_code=Exit.UNKNOWN if result.unreadable else Exit.DONE)


def _open(invocation: Invocation) -> Repository:
    """Mistakes in the stacks do not matter here."""
    from holdfast.changes.repository import open_repository

    repository = open_repository(
        invocation.config,
        invocation.environment,
        with_stacks=False,
        elsewhere=" For the key of a server, add --data DIR.",
    )
    repository.tune(invocation.console.redactor)
    if repository.store.on_server:
        raise UsageError(
            "HF-STORE-27",
            f"the run store is the server {repository.store.blobs.shown}, which holds the key",
            hint="On its machine: holdfast keys status --data DIR. "
            "Plan jobs get a token instead of a key: holdfast token create --role planner",
        )
    return repository


def _key_document(loaded: LoadedKey) -> dict[str, str]:
    kind = "apply" if loaded.key.can_apply else "plan"
    return {"id": loaded.key.id, "kind": kind, "source": loaded.source}


def _store_lines(place: str, identity: StoreIdentity, loaded: LoadedKey | None) -> list[str]:
    lines = [f" {place} has key {identity.key}"]
    if identity.next_key is not None:
        lines.append(f" A rotation to key {identity.next_key} is not finished: holdfast keys rotate")
    elif loaded is not None and loaded.key.id in identity.retired:
        lines.append(" The current key is retired: set the new one.")
    elif loaded is not None and loaded.key.id != identity.key:
        lines.append(" The current key is another one.")
    return lines


def plan(invocation: Invocation) -> Exit:
    """Print the plan key, for jobs that must not approve or apply.

    Set it as HOLDFAST_PLAN_KEY. It reads everything in the run store, writes bundles that it cannot open, and
    signs nothing. It is printed to standard output and nowhere else: pass it on to your secret store.
    """
    from holdfast.secrets.encryption import apply_key_needed
    from holdfast.secrets.keys import load_key

    loaded = load_key(invocation.environment)
    if loaded is None:
        raise UsageError(
            "HF-KEY-12",
            "there is no key yet",
            hint="Set HOLDFAST_KEY (create one with: openssl rand -base64 32), then print its plan key.",
        )
    if not loaded.key.can_apply:
        raise apply_key_needed("printing the plan key")
    text = loaded.key.plan_key()
    # Not through the console: it masks whatever looks like a secret.
    if invocation.as_json:
        text = json.dumps({"version": 1, "key": loaded.key.id, "plan_key": text}, indent=2)
    sys.stdout.write(f"{text}\n")
    return Exit.DONE
