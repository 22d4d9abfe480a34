"""The run store of a tenant, as the caller of a request may use it.

`_RULES` is the only table of who may read and write which blobs. What counts because of who wrote it is not
written as a blob: approvals, authors and the audit log have routes that add the verified actor.

The claim of a stack is the lease of the state of the same name, so that plain Terraform waits for a run and a
run for plain Terraform. Removing the claim ends the lease, and with it the tokens of the run.
"""

from __future__ import annotations

import functools
import json
from contextlib import suppress
from typing import Final, NamedTuple

from holdfast import __version__
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Permission
from holdfast.kernel.errors import HoldfastError, UsageError
from holdfast.server.exceptions import problem
from holdfast.server.guards import roles_hint
from holdfast.server.problems import Denial
from holdfast.store.blob_cipher import OUTCOME, BlobCipher, needs_signature
from holdfast.store.blobs import EncryptedBlobs, StoredBlob, decode_name, encode_name
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.store.run_records import HEARTBEAT, IMPORTS_FOR, journal_name
from holdfast.store.run_store import RunStore
from holdfast.store.server_blobs import ABSENT, CHANGED
from holdfast.store.server_states.blobs import LOCKS, VERSIONS, StateBlobs
from holdfast.store.server_states.rows import StateKey, StateRows
from holdfast.store.server_states.rules import HolderKind, StateLock, StateRefusal, caller_of, run_lease
from holdfast.system import clock

CLAIMS: Final = "claims"
_ACTS: Final = {
    Permission.PLAN: "plan",
    Permission.RUN: "apply",
    Permission.READ_STATE: "read states and plans",
    Permission.WRITE_STATE: "write states",
    Permission.AUDIT: "read the audit log",
}
_RUNS: Final = "runs"
_LONGEST_NAME: Final = 1000


class _Rule(NamedTuple):
    read: Permission = Permission.READ
    write: Permission | None = Permission.RUN
    """None: a route of its own writes it, or nothing does."""
    of_stack: bool = False
    """The second part of the name is a stack."""
    of_state: bool = False
    """It belongs to the state of that stack too."""


_STACK: Final = _Rule(of_stack=True)
_SECRETS: Final = _Rule(read=Permission.READ_STATE, of_stack=True, of_state=True)
_SERVERS: Final = _Rule(write=None)
_RULES: Final = {
    "store.json": _SERVERS,
    "approvals": _SERVERS,
    "authors": _SERVERS,
    "audit": _Rule(read=Permission.AUDIT, write=None),
    "audit/marks": _SERVERS,
    "anchors": _Rule(read=Permission.AUDIT, write=None),
    LOCKS: _SERVERS,
    VERSIONS: _Rule(read=Permission.READ_STATE, write=Permission.WRITE_STATE),
    "backups": _SECRETS,
    "errored": _SECRETS,
    "files": _SECRETS,
    CLAIMS: _STACK._replace(of_state=True),
    "records": _STACK,
    "hooks": _STACK,
    "retired": _STACK,
    "not-renamed": _STACK,
    "runs/plan": _Rule(read=Permission.READ_PLAN, write=Permission.PLAN),
    "runs/key": _SERVERS,
}
"""By the first part of a name; `audit/marks` by two; in the folder of a run also by the last part."""


class StoreAccess:
    """`tag`: what a write gets as its tag, which the client chose."""

    def __init__(
        self, store: RunStore, rows: StateRows, principal: Principal, *, tag: str | None = None
    ) -> None:
        self._store = store
        self._rows = rows
        self._principal = principal
        self._tenant = principal.home_tenant
        self._tag = tag or clock.random_token()
        self._stacks: dict[str, str | None] = {}
        blobs = DatabaseBlobs(rows.database, self._tenant, new_tag=lambda: self._tag)
        self._encrypted = EncryptedBlobs(blobs, lambda: self._cipher)
        self._states = StateBlobs(rows, self._tenant, caller_of(principal))

    def read(self, name: str) -> StoredBlob:
        self._require(name, "read")
        blob = self._blobs(name).read(name)
        if blob is None:
            raise _absent(name)
        return blob

    def create(self, name: str, data: bytes) -> str:
        self._require(name, "write", data)
        if _folder(name) == CLAIMS:
            return self._claim(name, data)
        try:
            created = self._blobs(name).create(name, data)
        except (ValueError, KeyError, TypeError):
            raise _invalid("the version of a state does not say what it is") from None
        if not created:
            raise _changed(name)
        return self._tag

    def replace(self, name: str, data: bytes, tag: str) -> str:
        self._require(name, "write", data)
        new = self._blobs(name).replace(name, data, tag=tag)
        if new is None:
            raise _changed(name)
        return new

    def write(self, name: str, data: bytes, *, durable: bool) -> str:
        self._require(name, "write", data)
        if _folder(name) in {VERSIONS, CLAIMS}:
            raise _invalid("a version of a state or a claim is created, never overwritten")
        self._encrypted.write(name, data, durable=durable)
        if name.endswith(f"/{HEARTBEAT}") and "fence" in self._principal.claims:
            self._renew_lease()
        return self._tag

    def remove(self, name: str, tag: str | None) -> None:
        self._require(name, "write")
        claim = self._encrypted.read(name) if _folder(name) == CLAIMS else None
        if not self._blobs(name).remove(name, tag=tag):
            exists = (self._states if _folder(name) == VERSIONS else self._encrypted.blobs).read(name)
            raise _changed(name) if exists is not None else _absent(name)
        if claim is not None:
            self._end_lease(name, str(claim.document().get("run")))

    def names(self, folder: str) -> tuple[str, ...]:
        """Those that the caller may read."""
        names: tuple[str, ...] = ()
        if _folder(folder) in {"", VERSIONS}:
            names = self._states.names(folder or VERSIONS)
        if _folder(folder) != VERSIONS:
            names = tuple(sorted((*names, *self._encrypted.names(folder))))
        return tuple(name for name in names if self._may(name, "read"))

    def require_writable(self, name: str) -> None:
        """As far as that is known without the content."""
        self._require(name, "write")

    def require_journal(self, run: str) -> None:
        """That the caller may write the journal of this run."""
        self._require(journal_name(run), "write")

    def lease(self, stack: str) -> StateLock | None:
        """That of a run."""
        row, _ = self._rows.look(StateKey(self._tenant, stack))
        lock = row.lock if row is not None else None
        return lock if lock is not None and lock.kind is HolderKind.RUN else None

    @functools.cached_property
    def _cipher(self) -> BlobCipher:
        """Signs what a caller writes who may apply: what a plan job writes does not count as much."""
        if self._principal.may(Permission.RUN) or self._principal.kind == "run":
            return self._store.cipher
        return self._store.cipher_with(self._store.key.without_private())

    def _blobs(self, name: str) -> EncryptedBlobs | StateBlobs:
        return self._states if _folder(name) in {VERSIONS, LOCKS} else self._encrypted

    def _require(self, name: str, what: str, data: bytes = b"") -> None:
        require_name(name)
        if not self._may(name, what, data):
            raise problem(_refusal(self._principal, name, what))

    def _may(self, name: str, what: str, data: bytes = b"") -> bool:
        who = self._principal
        if who.kind == "run":
            return self._run_may(name, what)
        rule = _rule(name)
        permission = rule.read if what == "read" else rule.write
        if permission is None or not who.may(permission):
            return False
        of = decode_name(f"{name}/".split("/")[1])
        if _folder(name) == VERSIONS:
            return who.may_read_state(of) if what == "read" else who.may_write_state(of)
        if _folder(name) == _RUNS and "*" not in who.stacks:
            return self._covers_run(of, what, outcome=data if name.endswith(f"/{OUTCOME}") else b"")
        return (not rule.of_stack or who.covers_stack(of)) and (not rule.of_state or who.covers_state(of))

    def _covers_run(self, run: str, what: str, *, outcome: bytes) -> bool:
        """Whether the run is one of the caller's stacks. A run that is not recorded yet may be written."""
        stack = self._stack_of_run(run)
        given = _field(outcome, "stack") if outcome else None
        if stack is None and given is None:
            return what == "write" or not self._encrypted.names(f"{_RUNS}/{run}")
        return all(self._principal.covers_stack(known) for known in (stack, given) if known is not None)

    def _stack_of_run(self, run: str) -> str | None:
        """From its lease, or from what it recorded."""
        if run not in self._stacks:
            stack = self._rows.leased_by(self._tenant, run)
            for name in (OUTCOME, IMPORTS_FOR):
                # What cannot be read is of no stack.
                with suppress(HoldfastError):
                    blob = self._encrypted.read(f"{_RUNS}/{run}/{name}") if stack is None else None
                    stack = _field(blob.data, "stack") if blob is not None else stack
            self._stacks[run] = stack
        return self._stacks[run]

    def _run_may(self, name: str, what: str) -> bool:
        """The token of one run: its own state and journal. Without a lease it only reads."""
        claims = self._principal.claims
        state, journal = encode_name(claims["state"]), claims.get("journal")
        if name.startswith(f"{VERSIONS}/{state}/"):
            may = self._principal.may_read_state if what == "read" else self._principal.may_write_state
            return may(claims["state"])
        if what == "read" and name == f"{CLAIMS}/{state}":
            return True
        own = journal is not None and name.startswith(f"runs/{journal}/")
        return own and (what == "read" or _rule(name).write is not None)

    def _claim(self, name: str, data: bytes) -> str:
        stack, run = decode_name(name.split("/")[1]), _run_of(data)
        if not self._encrypted.create(name, data):
            raise _changed(name)
        key = StateKey(self._tenant, stack)
        request = run_lease(
            run, run, who=self._principal.name, created=clock.now().isoformat(), version=__version__
        )
        try:
            with self._rows.change(key) as change:
                lock = change.row.lock
                if lock is not None and lock.kind is HolderKind.RUN:
                    # Of a run that has no claim any more.
                    change.release(lock)
            self._rows.lock(key, request)
        except BaseException:
            self._encrypted.remove(name, tag=self._tag)
            raise
        return self._tag

    def _end_lease(self, name: str, run: str) -> None:
        with self._rows.change(StateKey(self._tenant, decode_name(name.split("/")[1]))) as change:
            lock = change.row.lock
            if lock is not None and lock.run == run:
                change.release(lock)

    def _renew_lease(self) -> None:
        claims = self._principal.claims
        try:
            key = StateKey(self._tenant, claims["state"])
            self._rows.heartbeat(key, claims["run"], int(claims["fence"]))
        except StateRefusal:
            return


def _refusal(who: Principal, name: str, what: str) -> Denial:
    """Without the name of the blob, which says nothing to a user."""
    rule = _rule(name)
    permission = rule.read if what == "read" else rule.write
    hint: str | None = "Ask an admin for a token that covers it: holdfast token create --stack PATTERN"
    if permission is None:
        message, hint = f"only the server may {what} {_folder(name)}", None
    elif who.may(permission):
        message = f"the token of {who.name} ({who.role}) does not cover this stack"
    else:
        message = f"{who.name} ({who.role}) may not {_ACTS.get(permission, what)}"
        hint = roles_hint(permission)
    return Denial(status=403, code="HF-STORE-24", message=message, hint=hint)


def _folder(name: str) -> str:
    return name.partition("/")[0]


def _rule(name: str) -> _Rule:
    parts = name.split("/")
    if parts[0] == "runs":
        return _RULES.get(f"runs/{parts[-1]}") or _Rule(write=_written_by(name))
    rule = _RULES.get("/".join(parts[:2])) or _RULES.get(parts[0])
    return rule or _Rule(write=_written_by(name))


def _written_by(name: str) -> Permission:
    """What a plan job may write without the apply key, it may write here."""
    return Permission.RUN if needs_signature(name) else Permission.PLAN


def require_name(name: str) -> None:
    parts = name.split("/")
    if len(name) > _LONGEST_NAME or not name.isprintable() or any(part in {"", ".", ".."} for part in parts):
        raise _invalid("the name of the blob is not valid")
    if parts[0] in {VERSIONS, LOCKS} and (
        len(parts) != (3 if parts[0] == VERSIONS else 2) or not (parts[-1].isdigit() or parts[0] == LOCKS)
    ):
        raise _invalid("the name of the version of a state is not valid")


def _run_of(claim: bytes) -> str:
    if (run := _field(claim, "run")) is None:
        raise _invalid("the claim does not name its run")
    return run


def _field(data: bytes, name: str) -> str | None:
    """Of a document that a client wrote."""
    try:
        value = json.loads(data)[name]
    except (ValueError, KeyError, TypeError):
        return None
    return value if isinstance(value, str) else None


def _absent(name: str) -> Exception:
    return problem(Denial(status=404, code=ABSENT, message=f"there is no blob {name}"))


def _changed(name: str) -> Exception:
    return problem(Denial(status=412, code=CHANGED, message=f"{name} was changed or exists"))


def _invalid(message: str) -> UsageError:
    return UsageError("HF-STORE-25", message, hint="Use the client of Holdfast: `store: https://HOST`.")
