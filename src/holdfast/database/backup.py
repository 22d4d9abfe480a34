"""Backups of the database: a dump by `pg_dump`, encrypted with the server's key, in one file.

    HOLDFAST BACKUP 1
    {"created": …, "schema": 7, "key": "1f…", "tables": {"blobs": 12}, "escrow": "-----BEGIN AGE…"}
    pieces: length (4 bytes), encrypted piece; the last one is marked

Each piece is bound to the header, its number and whether it is the last, so a backup that was cut, changed or
combined from two does not open. `escrow` is a copy of the key for age recipients, `wrapped` the key file if
it is encrypted. The dump is streamed: it is never on disk unencrypted, nor in memory as a whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from holdfast import __version__
from holdfast.database.database import SCHEMA, Database, DatabaseAddress
from holdfast.database.migrations import (
    AppliedMigration,
    SchemaStatus,
    applied_migrations,
    known_migrations,
    require_known,
)
from holdfast.database.programs import programs
from holdfast.kernel.errors import Failed, Refused, UsageError
from holdfast.secrets.encryption import Damaged, decrypt, encrypt
from holdfast.secrets.key_wrapping import wrap_key
from holdfast.secrets.keys import CipherKey, Key
from holdfast.system import clock, files, processes

if TYPE_CHECKING:
    from psycopg import Connection

_FIRST_LINE = b"HOLDFAST BACKUP 1\n"
_HEADER_LIMIT = 1_000_000
_PIECE = 4 * 1024 * 1024
_PIECE_LIMIT = 2 * _PIECE
_LENGTH = 4


class BackupHeader(Struct, frozen=True, kw_only=True):
    """Readable without the key, and authentic only once a piece was decrypted."""

    created: str
    program: str
    schema: tuple[AppliedMigration, ...]
    key: str
    """The id of the server's key."""
    tables: dict[str, int]
    """Rows of each table."""
    recipients: tuple[str, ...] = ()
    escrow: str | None = None
    """The key, encrypted for the recipients."""
    wrapped: str | None = None
    """The key file, if AWS KMS or an age identity opens it."""


def write_backup(
    database: Database,
    file: Path,
    *,
    secret: bytes,
    recipients: Sequence[str] = (),
    wrapped: str | None = None,
) -> BackupHeader:
    """A consistent copy of a database in use. The file appears only when it is complete."""
    key = Key.of(secret)
    escrow = wrap_key(secret, recipients) if recipients else None
    if file.exists():
        raise _exists(file)
    temporary = file.parent / f".{file.name}.{clock.random_token(6)}"
    try:
        with _new_file(temporary) as out, database.transaction() as connection:
            # The dump uses the snapshot of this transaction, which waits for its end.
            connection.execute(
                "set transaction isolation level repeatable read, read only; "
                "set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0"
            )
            row = connection.execute("select pg_export_snapshot()").fetchone()
            header = BackupHeader(
                created=clock.now().isoformat(timespec="seconds"),
                program=__version__,
                schema=applied_migrations(connection),
                key=key.id,
                tables=count_rows(connection),
                recipients=tuple(recipients),
                escrow=escrow,
                wrapped=wrapped,
            )
            line = msgspec.json.encode(header) + b"\n"
            out.write(_FIRST_LINE + line)
            argv = (
                *("pg_dump", "--format=custom", "--compress=1", f"--schema={SCHEMA}"),
                *("--no-owner", "--no-privileges", f"--snapshot={row[0] if row else ''}"),
            )
            with _open_program(argv, database.address, writes=False) as dump:
                _write_pieces(out, _backup_key(key), line, dump)
            out.flush()
            os.fsync(out.fileno())
        _publish(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
    return header


def read_header(file: Path) -> BackupHeader:
    with _open(file) as stream:
        return _read_header(stream, file)[0]


def verify_backup(file: Path, key: Key) -> BackupHeader:
    """Decrypt all of it: complete, unchanged, and of a schema that this program knows."""
    for _ in _pieces(file, key):
        pass
    header = read_header(file)
    require_known(SchemaStatus(applied=header.schema, known=known_migrations()), f"in the backup {file}")
    return header


def restore_backup(file: Path, key: Key, database: Database) -> None:
    """Into a database without the schema, in one transaction; then its rows are counted."""
    argv = (
        *("pg_restore", "--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"),
        *("--format=custom",),
    )
    with _open_program(argv, database.address, writes=True) as restore:
        for piece in _pieces(file, key):
            restore.write(piece)
    with database.transaction() as connection:
        counted = count_rows(connection)
    if counted != (expected := read_header(file).tables):
        different = sorted(name for name in {*counted, *expected} if counted.get(name) != expected.get(name))
        raise _damaged(file, f"the restored tables differ in their number of rows: {', '.join(different)}")


def count_rows(connection: Connection[tuple[Any, ...]]) -> dict[str, int]:
    """Of each table of the schema; empty if there is none."""
    from psycopg import sql  # noqa: PLC0415 - an extra

    names = connection.execute(
        "select tablename from pg_tables where schemaname = %s order by tablename", (SCHEMA,)
    ).fetchall()
    counts = {}
    for (name,) in names:
        query = sql.SQL("select count(*) from {}").format(sql.Identifier(SCHEMA, name))
        row = connection.execute(query).fetchone()
        counts[name] = row[0] if row is not None else 0
    return counts


def _backup_key(key: Key) -> CipherKey:
    return key.scope_key("database backup")


def _write_pieces(out: IO[bytes], key: CipherKey, header: bytes, dump: IO[bytes]) -> None:
    number, piece = 0, dump.read(_PIECE)
    while True:
        following = dump.read(_PIECE) if len(piece) == _PIECE else b""
        encrypted = encrypt(key, piece, context=_context(header, number, last=not following))
        out.write(len(encrypted).to_bytes(_LENGTH, "big") + encrypted)
        if not following:
            return
        number, piece = number + 1, following


def _pieces(file: Path, key: Key) -> Iterator[bytes]:
    with _open(file) as stream:
        _, header = _read_header(stream, file)
        number, length = 0, stream.read(_LENGTH)
        while True:
            size = int.from_bytes(length, "big")
            encrypted = stream.read(size) if len(length) == _LENGTH and size <= _PIECE_LIMIT else b""
            following = stream.read(_LENGTH)
            try:
                context = _context(header, number, last=not following)
                yield decrypt(_backup_key(key), encrypted, context=context)
            except Damaged:
                raise _damaged(file, "it was changed or cut") from None
            if not following:
                return
            number, length = number + 1, following


def _context(header: bytes, number: int, *, last: bool) -> str:
    digest = hashlib.sha256(header).hexdigest()
    return f"database backup {digest} piece {number}{' last' if last else ''}"


def _read_header(stream: IO[bytes], file: Path) -> tuple[BackupHeader, bytes]:
    first = stream.readline(len(_FIRST_LINE))
    line = stream.readline(_HEADER_LIMIT)
    if first != _FIRST_LINE:
        raise _damaged(file, "it is not a backup of this version of Holdfast")
    try:
        return msgspec.json.decode(line, type=BackupHeader), line
    except msgspec.MsgspecError:
        raise _damaged(file, "its header cannot be read") from None


@contextmanager
def _open_program(argv: Sequence[str], address: DatabaseAddress, *, writes: bool) -> Iterator[IO[bytes]]:
    """The password is only in the environment of this program."""
    from psycopg.conninfo import make_conninfo  # noqa: PLC0415 - an extra

    parameters = dict(address.parameters)
    password, host = parameters.pop("password", ""), parameters.get("host", "")
    folder = Path(host) if host.startswith("/") else Path("/")
    if host.startswith("/proc/"):
        # The descriptor is of this process; the program has it as its working directory.
        parameters["host"] = "/proc/self/cwd"
    program = str(programs(folder) / argv[0])
    environment = {"PATH": os.defpath, "LC_ALL": "C", **({"PGPASSWORD": password} if password else {})}
    argv = (program, *argv[1:], f"--dbname={make_conninfo(**parameters)}")
    try:
        with processes.open_pipe(argv, folder=folder, environment=environment, writes=writes) as stream:
            yield stream
    except processes.PipeError as error:
        raise Failed(
            "HF-DB-17",
            f"{Path(program).name} failed: {(str(error).splitlines() or ['no reason given'])[0]}",
            hint="Nothing was replaced. `holdfast db status` shows whether the database answers.",
        ) from None


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, files.PRIVATE_FILE)
    with os.fdopen(handle, "wb") as stream:
        yield stream


def _publish(temporary: Path, file: Path) -> None:
    try:
        os.link(temporary, file)
    except FileExistsError:
        raise _exists(file) from None
    files.flush_folder(file.parent)


def _exists(file: Path) -> Refused:
    hint = "Choose another name: a backup is never overwritten."
    return Refused("HF-DB-12", f"{file} exists", hint=hint)


def _open(file: Path) -> IO[bytes]:
    try:
        return file.open("rb")
    except OSError as error:
        raise UsageError(
            "HF-DB-13", f"cannot read the backup {file}: {error.strerror}", hint="Check the path."
        ) from None


def _damaged(file: Path, reason: str) -> Failed:
    return Failed(
        "HF-DB-13",
        f"the backup {file} cannot be used: {reason}",
        hint="Use another copy of it or an older backup. Nothing was replaced.",
    )
