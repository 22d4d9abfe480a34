"""`holdfast keys --data DIR`: the key of a server.

The run stores of all tenants get the new key while the server is stopped. The states, which are most of the
data, get it while the server runs: until then it reads them with the old key.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.cli.command import Invocation
from holdfast.database.database import URL_VARIABLE, Database
from holdfast.database.migrations import require_current_schema
from holdfast.database.place import hold_database, open_database
from holdfast.identity.principal import DEFAULT_TENANT
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural
from holdfast.plans.context import Identity
from holdfast.runs.key_rotation import rotate_key
from holdfast.secrets.key_rotation import rotation_keys
from holdfast.secrets.keys import Key
from holdfast.secrets.server_key import OLD_VARIABLE, load_older_keys, load_server_key
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.store.rotation import count_keys
from holdfast.store.run_store import IDENTITY, read_identity
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.versions import StateVersions
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
        counts = [count_keys(DatabaseBlobs(database, tenant)) for tenant in _tenants(database)]
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
    # The key file of a server is in its data folder, as that of a user is in their home.
    in_data = Environment({**environment.variables, "HOLDFAST_HOME": str(data)})
    with hold_database(environment, data, "holdfast keys rotate") as database:
        require_current_schema(database)
        identity = read_identity(DatabaseBlobs(database, DEFAULT_TENANT))
        keys = rotation_keys(in_data, identity.key if identity is not None else None)
        results = [
            rotate_key(
                DatabaseBlobs(database, tenant),
                keys,
                lambda store, entry: Identity(store, environment, invocation.console.redactor).audit.record(
                    entry
                ),
            )
            for tenant in _tenants(database)
        ]
        _, left = _versions(database, [keys.new, keys.old]).count_keys()
    kept = keys.replace_file()
    replaced = sum(result.replaced for result in results)
    unreadable = [name for result in results for name in result.unreadable]

    def show() -> None:
        console = invocation.console
        console.line(
            f" {plural(replaced, 'blob')} encrypted with key {keys.new.id}; {keys.old.id} is retired"
        )
        for name in unreadable:
            console.warn(f"{name} was left as it is: the old key cannot read it, or has no right to sign it")
        if kept is not None:
            console.line(f" The new key is {data / 'key'}: back it up. The old one is {kept}.")
        else:
            console.line(f" Set HOLDFAST_KEY to the new key and {OLD_VARIABLE} to the old one.")
        console.line(
            f" Start the server: it encrypts {plural(left, 'version')} of states again while it runs."
        )
        console.line(f" When none is left, the old key is not needed: holdfast keys status --data {data}")

    document = {
        "version": 1,
        "old": keys.old.id,
        "new": keys.new.id,
        "replaced": replaced,
        "resumed": any(result.resumed for result in results),
        "unreadable": unreadable,
        "old_file": str(kept) if kept is not None else None,
        "states_left": left,
    }
    return invocation.answer(document, show, exit_code=Exit.UNKNOWN if unreadable else Exit.DONE)


def _prepare(invocation: Invocation, data: Path) -> tuple[Environment, Path]:
    if (url := invocation.environment.get(URL_VARIABLE)) is not None:
        invocation.console.redactor.register(url)
    return invocation.environment, data.expanduser().absolute()


def _tenants(database: Database) -> list[str]:
    with database.transaction() as connection:
        rows = connection.execute("select tenant from blobs where name = %s order by tenant", (IDENTITY,))
        return [tenant for (tenant,) in rows.fetchall()]


def _versions(database: Database, keys: list[Key]) -> StateVersions:
    return StateVersions(StateRows(database, StateCipher(keys)))
