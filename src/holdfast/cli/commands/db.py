"""`holdfast db`: the database of the server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Argument, Invocation, Option, fields
from holdfast.kernel.errors import Exit, Refused, UsageError
from holdfast.kernel.text import plural

if TYPE_CHECKING:
    from holdfast.database.backup import BackupHeader
    from holdfast.database.database import Database
    from holdfast.database.migrations import SchemaStatus
    from holdfast.database.postgres import Cluster

HELP = "Run, migrate, back up and restore the server's database."
COMMANDS = ("start", "stop", "status", "migrate", "backup", "restore")

DataFolder = Annotated[
    Path | None,
    Option("--data", metavar="DIR", help="The data folder of the server. Default: HOLDFAST_HOME/server."),
]


def start(invocation: Invocation, data: DataFolder = None) -> Exit:
    """Start the embedded PostgreSQL. It runs until `holdfast db stop`.

    Not needed for `holdfast serve`, which starts and stops it itself.
    """
    cluster = _embedded(invocation, data, "start")
    started = cluster.start()
    if started:
        from holdfast.system import files

        files.write(cluster.service_mark, "")
    shown = f" PostgreSQL {'is running' if started else 'is already running'} {cluster.shown}."
    document = {"version": 1, "started": started, "pid": cluster.running_pid(), "data": str(cluster.data)}
    return invocation.answer(document, shown)


def stop(invocation: Invocation, data: DataFolder = None) -> Exit:
    """Stop the embedded PostgreSQL. Refused while `holdfast serve` uses it."""
    from holdfast.database.postgres import own_data_folder

    cluster = _embedded(invocation, data, "stop")
    if cluster.exists:
        with own_data_folder(cluster.data, "holdfast db stop"):
            stopped = cluster.stop()
    else:
        stopped = False
    shown = f" PostgreSQL {'stopped' if stopped else 'is not running'} {cluster.shown}."
    return invocation.answer({"version": 1, "stopped": stopped, "data": str(cluster.data)}, shown)


def status(invocation: Invocation, data: DataFolder = None) -> Exit:
    """Show where the database is, its schema and its size."""
    from holdfast.database.database import Database
    from holdfast.database.migrations import schema_status
    from holdfast.database.place import external_address
    from holdfast.database.postgres import Cluster, data_folder_owner

    address, folder = external_address(invocation.environment), _folder(invocation, data)
    cluster, owner = Cluster(folder), data_folder_owner(folder)
    pid = cluster.running_pid() if address is None else None
    document: dict[str, object] = {
        "version": 1,
        "embedded": address is None,
        "database": address.shown if address is not None else str(folder),
        "running": address is not None or pid is not None,
        "pid": pid,
        "owner": owner,
        "postgres": None,
        "bytes": None,
        "schema": None,
    }
    if address is None and pid is None:
        hint = "" if cluster.exists else " There is no database yet."
        return invocation.answer(document, f" PostgreSQL is not running {cluster.shown}.{hint}")
    with Database.open(address or cluster.address(), size=2, purpose="db status") as database:
        postgres, size = _version_and_size(database)
        schema = schema_status(database)
    document |= {"postgres": postgres, "bytes": size, "schema": _schema_document(schema)}
    place = f"at {address.shown}" if address is not None else f"{cluster.shown}, process {pid}"
    used = f", used by {owner}" if owner is not None else ""
    return invocation.answer(
        document,
        f" PostgreSQL {postgres} is running {place}{used}.",
        f" {_size(size)}, {_schema_line(schema)}",
    )


def migrate(invocation: Invocation, data: DataFolder = None) -> Exit:
    """Update the schema of the database. Servers do the same when they start; one of several does it."""
    from holdfast.database import migrations
    from holdfast.database.place import open_database

    with open_database(invocation.environment, _folder(invocation, data), "holdfast db migrate") as database:
        applied = migrations.migrate(database)
        schema = migrations.schema_status(database)
    document = {
        "version": 1,
        "applied": [migration.name for migration in applied],
        "schema": _schema_document(schema),
    }
    count = plural(len(applied), "migration")
    lines = [f" {count} applied: {', '.join(item.name for item in applied)}"] if applied else []
    return invocation.answer(document, *lines, f" {_schema_line(schema)}".replace(" schema", " Schema", 1))


def backup(
    invocation: Invocation,
    file: Annotated[Path, Argument(metavar="FILE", help="The new file. An existing one is not overwritten.")],
    escrow: Annotated[
        list[str] | None,
        Option(
            "--escrow",
            metavar="AGE1...",
            help="Add a copy of the key for this age recipient. Can be repeated.",
        ),
    ] = None,
    data: DataFolder = None,
) -> Exit:
    """Write an encrypted backup of the database.

    Servers may use the database meanwhile. Only the server's key opens the backup. With --escrow, the file
    also contains that key, encrypted for your age recipients: keep their identities elsewhere, and you can
    restore after losing the machine and its key.
    """
    from holdfast.database.backup import write_backup
    from holdfast.database.migrations import require_current_schema
    from holdfast.database.place import open_database
    from holdfast.secrets.server_key import load_server_key

    folder = _folder(invocation, data)
    key = load_server_key(invocation.environment, folder)
    if key is None:
        raise UsageError(
            "HF-DB-15",
            f"the server in {folder} has no key to encrypt a backup with",
            hint="Start it once (holdfast serve creates a key), or set HOLDFAST_KEY.",
        )
    with open_database(invocation.environment, folder, "holdfast db backup") as database:
        require_current_schema(database)
        header = write_backup(database, file, secret=key.secret, recipients=escrow or (), wrapped=key.wrapped)
    size = file.stat().st_size
    document = {"version": 1, "file": str(file), "bytes": size, **_backup_document(header)}

    def warn() -> None:
        if not header.recipients and header.wrapped is None:
            invocation.console.warn(
                f"Only the key {header.key} ({key.source}) opens this backup. Keep a copy of the key "
                "elsewhere, or add one to the backup: --escrow age1…"
            )

    shown = f" {file}: {_size(size)}, {plural(sum(header.tables.values()), 'row')}"
    return invocation.answer(document, shown, warn)


def restore(
    invocation: Invocation,
    file: Annotated[Path, Argument(metavar="FILE", help="A file of `db backup`.")],
    identity: Annotated[
        Path | None,
        Option("--identity", metavar="FILE", help="An age identity that opens the key in the backup."),
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace the content of the database.")] = False,
    data: DataFolder = None,
) -> Exit:
    """Restore a backup. No server may run meanwhile.

    The backup is decrypted and restored beside the current content first, which is replaced in one step.
    """
    from holdfast.database.restore import restore_database
    from holdfast.secrets.keys import Key
    from holdfast.secrets.server_key import write_server_key

    folder = _folder(invocation, data)
    secret, is_new = _key_of_backup(invocation, folder, file, identity)
    result = restore_database(invocation.environment, folder, file, Key.of(secret), force=force)
    key_file = write_server_key(invocation.environment, folder, secret) if is_new else None
    document = {
        "version": 1,
        "file": str(file),
        "previous": result.previous,
        "key_file": str(key_file) if key_file is not None else None,
        **_backup_document(result.header),
    }
    tables = result.header.tables
    rows = f"{plural(sum(tables.values()), 'row')} in {plural(len(tables), 'table')}"
    lines = [f" Restored the backup of {result.header.created}: {rows}"]
    if key_file is not None:
        lines.append(f" The server's key is in {key_file} again.")
    if result.previous is not None:
        lines.append(f" The content before is kept as the database {result.previous} until the next restore.")
    return invocation.answer(document, *lines)


def _key_of_backup(
    invocation: Invocation, folder: Path, file: Path, identity: Path | None
) -> tuple[bytes, bool]:
    """The key that opens the backup, and whether the server has no key yet and gets this one."""
    from holdfast.database.backup import read_header
    from holdfast.secrets.key_wrapping import key_wrapping, unwrap, unwrap_key
    from holdfast.secrets.server_key import load_server_key

    header, current = read_header(file), load_server_key(invocation.environment, folder)
    if current is not None and current.key.id == header.key:
        return current.secret, False
    if current is not None:
        raise Refused(
            "HF-DB-15",
            f"the backup was made with key {header.key}; the server has key {current.key.id} "
            f"({current.source}), which could not read what is restored",
            hint="Set HOLDFAST_KEY to the key of the backup, or move the other key away and use --identity.",
        )
    if header.wrapped is not None and identity is None:
        wrapping = key_wrapping(invocation.environment)
        secret = unwrap(header.wrapped, [wrapping], f"the key in the backup {file}")
        return _checked(secret, header, file), True
    copy = header.escrow or header.wrapped
    if copy is None:
        raise UsageError(
            "HF-DB-15",
            f"this backup opens only with key {header.key}, and the server has no key",
            hint=f"Set HOLDFAST_KEY to it, or restore the key file {folder / 'key'} from its copy.",
        )
    if identity is None:
        raise UsageError(
            "HF-DB-15",
            f"the server has no key; the backup has a copy of it for {', '.join(header.recipients)}",
            hint="Open it with the age identity of one of these recipients: --identity FILE",
        )
    return _checked(unwrap_key(copy, identity), header, file), True


def _checked(secret: bytes, header: BackupHeader, file: Path) -> bytes:
    from holdfast.secrets.keys import Key

    if Key.of(secret).id != header.key:
        raise Refused("HF-DB-13", f"the key in the backup {file} is not the one that encrypted it")
    return secret


def _embedded(invocation: Invocation, data: Path | None, command: str) -> Cluster:
    from holdfast.database.database import URL_VARIABLE
    from holdfast.database.postgres import Cluster

    if invocation.environment.get(URL_VARIABLE) is not None:
        raise UsageError(
            "HF-DB-11",
            f"`db {command}` is for the embedded PostgreSQL, and {URL_VARIABLE} names another one",
            hint=f"Use the tools of that server, or unset {URL_VARIABLE}.",
        )
    return Cluster(_folder(invocation, data))


def _folder(invocation: Invocation, data: Path | None) -> Path:
    from holdfast.database.database import URL_VARIABLE
    from holdfast.database.place import data_folder

    redactor = invocation.console.redactor
    if (url := invocation.environment.get(URL_VARIABLE)) is not None:
        redactor.register(url)
    return data_folder(invocation.environment, data)


def _version_and_size(database: Database) -> tuple[str, int]:
    with database.transaction() as connection:
        row = connection.execute(
            "select current_setting('server_version'), pg_database_size(current_database())"
        ).fetchone()
    version, size = row or ("", 0)
    return str(version).partition(" ")[0], int(size)


def _size(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB" if size >= 1_000_000 else f"{size / 1000:.1f} kB"  # noqa: PLR2004


def _schema_document(schema: SchemaStatus) -> dict[str, object]:
    return {
        **fields(schema, "current", "wanted"),
        "pending": [migration.name for migration in schema.pending],
        "newer": [migration.name for migration in schema.newer],
    }


def _schema_line(schema: SchemaStatus) -> str:
    if schema.newer:
        return f"schema {schema.current}: newer than this version of Holdfast knows ({schema.wanted})"
    if schema.pending:
        return f"schema {schema.current}; this version needs {schema.wanted}: holdfast db migrate"
    return f"schema {schema.current}, up to date"


def _backup_document(header: BackupHeader) -> dict[str, object]:
    return {
        **fields(header, "created", "key", "tables"),
        "schema": max((migration.number for migration in header.schema), default=0),
        "escrow": list(header.recipients),
    }
