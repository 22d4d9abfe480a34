"""The run store of a tenant, as the caller of a request may use it.

`_RULES` is the only table of who may read and write which blobs. What counts because of who wrote it is not
written as a blob: approvals, authors and the audit log have routes that add the verified actor.

The claim of a stack is the lease of the state of the same name, so that plain Terraform waits for a run and a
run for plain Terraform. With the lease end the tokens of the run.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from holdfast.identity.principal import RUN, Principal
from holdfast.identity.roles import Permission
from holdfast.notify.alerts.stored_outbox import FOLDER as NOTIFICATIONS
from holdfast.server.audit_log import TenantStores
from holdfast.server.blob_names import (
    CLAIMS,
    OF_STACKS,
    RUNS,
    absent,
    changed,
    decoded,
    invalid,
    require_name,
)
from holdfast.server.claims import FencedChange, ServerClaims, claim_of
from holdfast.server.exceptions import problem
from holdfast.server.guards import roles_hint
from holdfast.server.problems import Denial
from holdfast.server.run_folders import RunFolder, RunFolders
from holdfast.store.blob_cipher import DRIFT, OUTCOME, BlobCipher, needs_signature
from holdfast.store.blobs import EncryptedBlobs, StoredBlob, decode_name, encode_name
from holdfast.store.database_blobs import DatabaseBlobs, read_several
from holdfast.store.retention import MAX_RUN_AGE
from holdfast.store.run_records import HEARTBEAT, IMPORTS_FOR, TAIL
from holdfast.store.run_store import IDENTITY, RunStore
from holdfast.store.server_runs.contents import FOLDER as SERVER_CONTENTS
from holdfast.store.server_states.blobs import LOCKS, VERSIONS, StateBlobs
from holdfast.store.server_states.changes import StateKey
from holdfast.store.server_states.locks import (
    HolderKind,
    StateLock,
    StateRefusal,
    caller_of,
    is_holder,
)
from holdfast.store.server_states.rows import StateRows
from holdfast.system import clock

_ACTS: Final = {
    Permission.PLAN: "plan",
    Permission.RUN: "apply",
    Permission.READ_STATE: "read states and plans",
    Permission.WRITE_STATE: "write states",
    Permission.AUDIT: "read the audit log",
}
_JOURNAL: Final = "journal"
_SMALL: Final = 1 << 18


class _Rule(NamedTuple):
    read: Permission | None = Permission.READ
    write: Permission | None = Permission.RUN
    """None: only the server itself, or a route of its own."""
    of_state: bool = False
    """It belongs to the state of its stack too."""
    of_all_stacks: bool = False
    """It is about any stack of the tenant."""


_SECRETS: Final = _Rule(read=Permission.READ_STATE, of_state=True)
_SERVERS: Final = _Rule(write=None)
_OUTPUT: Final = _Rule(read=Permission.READ_STATE)
_RULES: Final = {
    IDENTITY: _SERVERS,
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
    CLAIMS: _Rule(of_state=True),
    "runs/plan": _Rule(read=Permission.READ_PLAN, write=Permission.PLAN),
    # Its values are masked, as those of a plan.
    DRIFT: _Rule(read=Permission.READ_PLAN, write=Permission.PLAN),
    # What Terraform printed is not masked.
    f"runs/{_JOURNAL}": _OUTPUT,
    f"runs/{TAIL}": _OUTPUT,
    "runs/secrets": _OUTPUT,
    "runs/key": _Rule(read=Permission.READ_STATE, write=None),
    # Alerts of commands, and by which ids their channels find them again.
    NOTIFICATIONS: _Rule(read=Permission.RUN, of_all_stacks=True),
    # Uploads, variables and plans of runs on the server.
    SERVER_CONTENTS: _Rule(read=None, write=None),
}
"""By the first part of a name; `audit/marks` by two; in the folder of a run also by the last part."""


class _Record(Struct, frozen=True, kw_only=True):
    """The first blob of a run, if it has no claim."""

    stack: str


class StoreAccess:
    """`tag`: what a write gets as its tag, which the client chose. `change`: the worker's that uses it."""

    def __init__(
        self,
        stores: TenantStores,
        rows: StateRows,
        principal: Principal,
        *,
        tag: str | None = None,
        change: FencedChange | None = None,
    ) -> None:
        self._stores = stores
        self._rows = rows
        self._principal = principal
        self._change = change
        self._tenant = principal.home_tenant
        self._tag = tag or clock.random_token()
        self._blobs = DatabaseBlobs(rows.database, self._tenant, new_tag=lambda: self._tag)
        self._encrypted = EncryptedBlobs(self._blobs, lambda: self._cipher)
        self._caller = caller_of(principal)
        self._states = StateBlobs(rows, self._tenant, self._caller)
        self._runs = RunFolders(rows.database, self._tenant)
        self._claims = ServerClaims(
            rows,
            self._tenant,
            self._caller,
            runs=self._runs,
            blobs=self._blobs,
            cipher=lambda: self._cipher,
            change=change,
        )

    def read(self, name: str) -> StoredBlob:
        self._require(name, "read")
        blob = self._store_of(name).read(name)
        if blob is None:
            raise absent(name)
        return blob

    def read_several(
        self, wanted: Iterable[str]
    ) -> tuple[dict[str, StoredBlob | None], dict[str, tuple[str, ...]]]:
        """Blobs, and names by folder (`wanted` with a slash at its end); of a state also its newest version.

        Left out are large blobs, and what the caller may not read.
        """
        names = tuple(dict.fromkeys(wanted))
        for name in names:
            require_name(name.removesuffix("/"), folder=name.endswith("/"))
        folders = self._names_several([name for name in names if name.endswith("/")])
        blobs = self._read_several([name for name in names if not name.endswith("/")])
        for folder, found in folders.items():
            if found and _folder(folder) == VERSIONS and folder != f"{VERSIONS}/":
                newest = self._states.read(found[-1], largest=_SMALL)
                blobs |= {found[-1]: newest} if newest is not None else {}
        return blobs, folders

    def _read_several(self, names: Sequence[str]) -> dict[str, StoredBlob | None]:
        self._runs.read({name.split("/")[1] for name in names if _folder(name) == RUNS})
        permitted = [name for name in names if self._may(name, "read")]
        together = {name for name in permitted if self._store_of(name) is self._encrypted}
        found: dict[str, StoredBlob | None] = {**dict.fromkeys(together)}
        found |= read_several(self._encrypted, together)
        found |= {name: self._store_of(name).read(name) for name in permitted if name not in together}
        return {name: blob for name, blob in found.items() if blob is None or len(blob.data) <= _SMALL}

    def _names_several(self, folders: Sequence[str]) -> dict[str, tuple[str, ...]]:
        own = {folder for folder in folders if _folder(folder) in {VERSIONS, RUNS}}
        stored = self._blobs.names_several([folder[:-1] for folder in folders if folder not in own])
        found = {f"{folder}/": names for folder, names in stored.items()}
        permitted = {
            folder: tuple(n for n in names if self._may(n, "read")) for folder, names in found.items()
        }
        return permitted | {folder: self.names(folder[:-1]) for folder in own}

    def create(self, name: str, data: bytes) -> str:
        self._require(name, "write", data)
        if _folder(name) == CLAIMS:
            self._claims.take(name, data)
            return self._tag
        try:
            created = self._store_of(name).create(name, data)
        except ValueError:
            raise invalid("the version of a state does not say what it is") from None
        if not created:
            raise changed(name)
        return self._tag

    def replace(self, name: str, data: bytes, tag: str) -> str:
        self._require_overwritable(name, data)
        new = self._encrypted.replace(name, data, tag=tag)
        if new is None:
            raise changed(name)
        return new

    def write(self, name: str, data: bytes, *, durable: bool) -> str:
        self._require_overwritable(name, data)
        self._encrypted.write(name, data, durable=durable)
        if name.endswith(f"/{HEARTBEAT}"):
            self._renew_lease()
        return self._tag

    def remove(self, name: str, tag: str | None) -> None:
        self._require(name, "remove")
        if _folder(name) == CLAIMS:
            self._claims.release(name, tag)
            return
        self._require_unsigned(name)
        if not self._store_of(name).remove(name, tag=tag):
            exists = (self._states if _folder(name) == VERSIONS else self._blobs).read(name)
            raise changed(name) if exists is not None else absent(name)

    def names(self, folder: str) -> tuple[str, ...]:
        """Those that the caller may read."""
        names: tuple[str, ...] = ()
        if _folder(folder) in {"", VERSIONS}:
            names = self._states.names(folder or VERSIONS)
        if _folder(folder) != VERSIONS:
            names = tuple(sorted((*names, *self._encrypted.names(folder))))
        if _folder(folder) in {"", RUNS}:
            self._runs.read_all()
        return self._permitted(names)

    def _permitted(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in names if self._may(name, "read"))

    def require_writable(self, name: str) -> None:
        """As far as that is known without the content."""
        self._require(name, "write")

    def lease(self, stack: str, run: str) -> StateLock | None:
        """That of this run, if it is the caller's."""
        lock = self._rows.lock_of(StateKey(self._tenant, stack))
        if lock is None or (lock.kind, lock.run) != (HolderKind.RUN, run):
            return None
        return lock if is_holder(lock, self._caller) else None

    def owns_run(self, run: str, stack: str, *, or_new: bool = False) -> bool:
        folder = self._runs.of(run)
        return folder == (stack, self._caller.subject) or (or_new and folder is None)

    def take_over(self, stack: str, run: str, *, declared: str | None) -> None:
        self._require(f"{CLAIMS}/{encode_name(stack)}", "write")
        self._claims.take_over(stack, run, declared=declared)

    @functools.cached_property
    def _store(self) -> RunStore:
        return self._stores.of(self._tenant)

    @functools.cached_property
    def _cipher(self) -> BlobCipher:
        """Signs what a caller writes who may apply: what a plan job writes does not count as much."""
        if self._principal.may(Permission.RUN) or self._principal.kind == RUN:
            return self._store.cipher
        return self._store.cipher_with(self._store.key.without_private())

    def _store_of(self, name: str) -> EncryptedBlobs | StateBlobs | DatabaseBlobs:
        if name == IDENTITY:
            return self._blobs  # The only blob that is not encrypted.
        return self._states if _folder(name) in {VERSIONS, LOCKS} else self._encrypted

    def _require(self, name: str, what: str, data: bytes | None = None) -> None:
        """`data`: what is written; of a new run it says to which stack that belongs."""
        require_name(name)
        if not self._may(name, what) or (data is not None and not self._may_begin(name, data)):
            raise problem(_refusal(self._principal, name, what))
        if self._change is not None and what != "read" and _folder(name) == RUNS:
            with self._rows.database.transaction(single=True) as connection:
                self._change.require(connection)

    def _require_overwritable(self, name: str, data: bytes) -> None:
        self._require(name, "write", data)
        if _folder(name) in {VERSIONS, CLAIMS}:
            raise invalid("a version of a state or a claim is created, never overwritten")
        self._require_unsigned(name)

    def _require_unsigned(self, name: str) -> None:
        """A plan job does not touch what an apply wrote."""
        if self._cipher.signer is None and not needs_signature(name) and _folder(name) != DRIFT:
            existing = self._encrypted.read(name)
            if existing is not None and existing.signed:
                raise problem(_refusal(self._principal, name, "overwrite"))

    def _may(self, name: str, what: str) -> bool:
        who = self._principal
        if who.kind == RUN:
            return self._run_may(name, what)
        rule = _rule(name)
        permission = rule.read if what == "read" else rule.write
        if permission is None or not who.may(permission):
            return False
        if rule.of_all_stacks and not who.covers_patterns(("*",)):
            return False
        if _folder(name) == RUNS:
            return self._may_in_run(name.split("/")[1], what)
        of = decode_name(f"{name}/".split("/")[1])
        if _folder(name) == VERSIONS:
            return who.may_read_state(of) if what == "read" else who.may_write_state(of)
        in_stacks = _folder(name) not in OF_STACKS or who.covers_stack(of)
        return in_stacks and (not rule.of_state or who.covers_state(of))

    def _may_in_run(self, run: str, what: str) -> bool:
        folder = self._runs.of(run)
        if folder is None:
            return True  # It has no blobs; the first one names its stack.
        if not self._principal.covers_stack(folder.stack):
            return False
        if what == "remove":
            return self._is_old(run, folder.stack)
        return what == "read" or folder.holder == self._caller.subject

    def _is_old(self, run: str, stack: str) -> bool:
        """Runs are history: they are removed when retention says so, by whoever applies then."""
        if clock.now().timestamp() - clock.created_at(run) <= MAX_RUN_AGE:
            return False
        claim = self._encrypted.read(f"{CLAIMS}/{encode_name(stack)}")
        return claim is None or claim_of(claim.data).run != run

    def _may_begin(self, name: str, data: bytes) -> bool:
        """A run without a claim begins with a record that names its stack."""
        if _folder(name) != RUNS or self._principal.kind == RUN:
            return True
        _, run, *_, last = name.split("/")
        if self._runs.of(run) is not None:
            return True
        if last not in {OUTCOME, IMPORTS_FOR}:
            raise invalid("the first blob of a run is its claim, or a record that names its stack")
        stack = decoded(data, _Record, "the record of a run does not name its stack").stack
        if not self._principal.covers_stack(stack):
            return False
        folder = RunFolder(stack, self._caller.subject)
        return self._runs.create(run, folder).holder == folder.holder

    def _run_may(self, name: str, what: str) -> bool:
        """The token of one run: its own state and journal. Without a lease it only reads."""
        claims = self._principal.claims
        state, journal = encode_name(claims["state"]), claims.get("journal")
        if what == "remove" or (what == "write" and self._caller.lease is None):
            return False
        if name.startswith(f"{VERSIONS}/{state}/"):
            may = self._principal.may_read_state if what == "read" else self._principal.may_write_state
            return may(claims["state"])
        if what == "read" and name == f"{CLAIMS}/{state}":
            return True
        own = journal is not None and name.startswith(f"{RUNS}/{journal}/")
        return own and (what == "read" or _last(name) in {_JOURNAL, HEARTBEAT})

    def _renew_lease(self) -> None:
        if self._caller.lease is None:
            return
        run, number = self._caller.lease
        try:
            self._rows.heartbeat(StateKey(self._tenant, self._principal.claims["state"]), run, number)
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
        message = f"the token of {who.name} ({who.role}) does not cover this stack, or the run is another's"
    else:
        message = f"{who.name} ({who.role}) may not {_ACTS.get(permission, what)}"
        hint = roles_hint(permission)
    return Denial(status=403, code="HF-STORE-24", message=message, hint=hint)


def _folder(name: str) -> str:
    return name.partition("/")[0]


def _last(name: str) -> str:
    last = name.rpartition("/")[2]
    return _JOURNAL if last.startswith(f"{_JOURNAL}-") else last


def _rule(name: str) -> _Rule:
    parts = name.split("/")
    if parts[0] == RUNS:
        return _RULES.get(f"{RUNS}/{_last(name)}") or _Rule(write=_written_by(name))
    rule = _RULES.get("/".join(parts[:2])) or _RULES.get(parts[0])
    return rule or _Rule(write=_written_by(name))


def _written_by(name: str) -> Permission:
    """What a plan job may write without the apply key, it may write here."""
    return Permission.RUN if needs_signature(name) else Permission.PLAN
