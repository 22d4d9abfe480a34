"""`holdfast keys --data DIR`: the key of a server.

`keys rotate` only prepares the new key. A server that is started with it encrypts everything again while it
serves: until then it reads with both keys.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.cli.command import Invocation
from holdfast.database.database import URL_VARIABLE, Database
from holdfast.database.migrations import require_current_schema
from holdfast.database.place import open_database
from holdfast.identity.principal import DEFAULT_TENANT
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural
from holdfast.runs.key_rotation import require_new_key
from holdfast.secrets.key_rotation import NEW_FILE_VARIABLE, NEW_VARIABLE
from holdfast.secrets.key_wrapping import key_wrapping
from holdfast.secrets.keys import FILE_NAME, VARIABLE, Key
from holdfast.secrets.server_key import OLD_VARIABLE, load_older_keys, load_server_key, server_rotation_keys
from holdfast.store.database_blobs import DatabaseBlobs, tenants
from holdfast.store.rotation import count_keys
from holdfast.store.run_store import read_identity
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.versions import StateVersions
from holdfast.system import files
from holdfast.system.environment import Environment


def run_status(invocation: Invocation, data: Path) -> Exit:
    environment, data = _prepare(invocation, data)
    key = load_server_key(environment, data)
    if key is None:
        raise UsageError(
            "HF-KEY-12", f"the server of {data} has no key yet", hint="Its first start creates one."
        )
    with open_database(environment, data, "holdfast keys status") as database:
        require_current_schema(database)
        identity = read_identity(DatabaseBlobs(database, DEFAULT_TENANT))
        counts = [count_keys(DatabaseBlobs(database, tenant)) for tenant in tenants(database)]
        versions, old_versions = _versions(database, [key.key]).count_keys()
    blobs = sum(sum(count.values()) for count in counts)
    old_blobs = blobs - sum(count.get(key.key.id, 0) for count in counts)
    older = [old.id for old in load_older_keys(environment, data)]
    left = old_blobs + old_versions
    return invocation.answer(
        {
            "version": 1,
            "key": {"id": key.key.id, "kind": "apply", "source": key.source},
            "store": {"key": identity.key, "next_key": identity.next_key} if identity is not None else None,
            "blobs": {"total": blobs, "other_key": old_blobs},
            "states": {"total": versions, "other_key": old_versions},
            "older_keys": older,
        },
        f" apply key {key.key.id} from {key.source}",
        f" {plural(blobs, 'blob')}, {old_blobs} encrypted with another key",
        f" {plural(versions, 'version')} of states, {old_versions} encrypted with another key",
        *([f" Older keys that can be read: {', '.join(older)}"] if older else []),
        *([" Nothing needs the older keys any more, apart from backups."] if older and not left else []),
    )


def run_rotate(invocation: Invocation, data: Path) -> Exit:
    environment, data = _prepare(invocation, data)
    with open_database(environment, data, "holdfast keys rotate") as database:
        require_current_schema(database)
        identity = read_identity(DatabaseBlobs(database, DEFAULT_TENANT))
        with files.hold_lock(data / "key.lock"):
            keys = server_rotation_keys(environment, data, identity.key if identity is not None else None)
            if identity is not None:
                require_new_key("the server", identity, keys)
            kept = keys.replace_file()
        counts = [count_keys(DatabaseBlobs(database, tenant)) for tenant in tenants(database)]
        _, versions = _versions(database, [keys.new, keys.old]).count_keys()
    blobs = sum(number for count in counts for key, number in count.items() if key != keys.new.id)

    def show() -> None:
        console = invocation.console
        console.line(f" Key {keys.new.id} replaces {keys.old.id}.")
        if (data / FILE_NAME).exists() and keys.home is not None:
            console.line(f" The new key is {data / FILE_NAME}: back it up.")
            if kept is not None:
                console.line(f" The old one is {kept}.")
        if (text := environment.get(NEW_VARIABLE) or environment.get(NEW_FILE_VARIABLE)) is not None:
            new = text if key_wrapping(environment, NEW_VARIABLE) is not None else "the new key"
            console.line(
                f" Set {VARIABLE} to {new}, and {OLD_VARIABLE} to what {VARIABLE} was, if it was set."
            )
        console.line(
            f" Restart the server: it encrypts {plural(blobs, 'blob')} and {plural(versions, 'version')} of "
            "states again while it serves."
        )
        console.line(
            " Workers with this data folder then read the new key by themselves. Give it to the others, and "
            "restart these: until then they take no changes."
        )
        console.line(f" When none is left, the old key is not needed: holdfast keys status --data {data}")

    document = {
        "version": 1,
        "old": keys.old.id,
        "new": keys.new.id,
        "replaced": 0,
        "resumed": identity is not None and identity.next_key is not None,
        "unreadable": [],
        "old_file": str(kept) if kept is not None else None,
        "blobs_left": blobs,
        "states_left": versions,
    }
    return invocation.answer(document, show)


def _prepare(invocation: Invocation, data: Path) -> tuple[Environment, Path]:
    if (url := invocation.environment.get(URL_VARIABLE)) is not None:
        invocation.console.redactor.register(url)
    return invocation.environment, data.expanduser().absolute()


def _versions(database: Database, keys: list[Key]) -> StateVersions:
    return StateVersions(StateRows(database, StateCipher(keys)))
