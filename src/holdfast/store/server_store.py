"""The run store on a server: the client holds no key, and the server says who acts and what they may do.

What counts because of who wrote it goes through requests of its own, in which the server adds the verified
actor: approvals, the author of a saved plan, and the audit log.
"""

from __future__ import annotations

import asyncio
import base64
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.kernel.errors import Refused
from holdfast.secrets.keys import Key, PublicHalves
from holdfast.store.approval_rules import ApprovalRule
from holdfast.store.approvals import Approval, Approvals
from holdfast.store.blobs import BlobStore, EncryptedBlobs, encode_name, unreadable
from holdfast.store.run_store import RunStore
from holdfast.store.server_blobs import ServerBlobs, ServerCipher
from holdfast.store.stack_names import DEVICES, StackNames
from holdfast.store.steps import Step
from holdfast.system import clock

RUN_KEY = "key"
_REUSED = 3600.0
"""Seconds. A token that only reads is valid for longer."""


_READ: Mapping[Step, tuple[str, ...]] = {
    Step.PLAN: ("claims/{0}", "records/{0}", "errored/{0}/unsaved", "states/{0}/", "files/"),
    Step.FIRST: ("applied/names/{0}", "states/{0}/", "records/", "states/"),
    Step.DECIDE: ("applied/names/{0}", "states/{0}/"),
    Step.PREPARE: ("records/{0}", "applied/names/{0}"),
    Step.RECORD: ("states/{0}/", "backups/{0}/", "applied/names/{0}", "claims/{0}"),
    Step.REPORT: ("audit/marks/", "pull-requests/"),
}
"""What each step reads of a stack. A folder ends with a slash."""


class ServerRunStore(RunStore):
    on_server = True

    def __init__(self, blobs: ServerBlobs, *, spool: Path | None = None) -> None:
        super().__init__(blobs, lambda: self.key, spool=spool)
        self._server = blobs
        self._reading: dict[tuple[object, ...], tuple[float, dict[str, Any]]] = {}

    @functools.cached_property
    def session(self) -> Mapping[str, Any]:
        """What the server says about the store and about the caller, asked once."""
        return self._server.call("GET", "")

    @functools.cached_property
    def key(self) -> Key:
        """The public halves of the server's key. What is sealed for it, only the server opens."""
        session = self.session
        return Key(
            id=session["key"],
            read=bytes(32),
            public=PublicHalves(seal=_bytes(session["seal"]), sign=_bytes(session["sign"])),
            private=None,
            ask_server=self._message_key,
        )

    @functools.cached_property
    def cipher(self) -> ServerCipher:
        return ServerCipher(self.id(), self._run_key)

    @functools.cached_property
    def approvals(self) -> Approvals:
        return ServerApprovals(self.encrypted, self._server)

    @functools.cached_property
    def names(self) -> StackNames:
        return ServerStackNames(self.encrypted, self._server)

    @property
    def can_apply(self) -> bool:
        return bool(self.session["can_apply"])

    def require_apply_key(self, what: str) -> None:
        if not self.can_apply:
            role = self.session["role"]
            raise Refused(
                "HF-STORE-23",
                f"{what} is not permitted with the role {role}",
                hint="Use a token with the role operator or ci: holdfast token create --role operator",
            )

    def require_unchanged_key(self) -> None:
        """The server rotates its key without clients."""

    def id(self) -> str:
        return str(self.session["id"])

    @property
    def empty(self) -> bool:
        return False

    def server_actor(self) -> dict[str, object]:
        return dict(self.session["who"])

    @property
    def approval_rules(self) -> tuple[ApprovalRule, ...]:
        return msgspec.convert(self.session.get("approval_rules", ()), tuple[ApprovalRule, ...])

    @property
    def is_ci(self) -> bool:
        """Verified: the role of the token, whatever the environment says."""
        return bool(self.session["role"] == "ci")

    def supervisor_access(
        self, *, read: tuple[str, ...], write: tuple[str, ...], run: str, stack: str
    ) -> dict[str, object]:
        """With a token for this run only: code of providers runs beside the process that uses it."""
        if write:
            self._server.forget_stack(stack)
        journal = next((scope.removeprefix("runs/") for scope in write if scope.startswith("runs/")), None)
        writes_state = any(scope.startswith("states/") for scope in write)
        wanted = {
            "stack": stack,
            "run": run,
            "journal": journal,
            "reads_state": bool(read),
            "writes_state": writes_state,
        }
        granted = self._grant(wanted) if write else self._reading_grant(wanted)
        runs = {journal: granted["key"]} if journal is not None else {}
        return {
            "store": self._server.description(granted["token"]),
            "keys": {"store": self.id(), "runs": runs},
        }

    def _reading_grant(self, wanted: Mapping[str, object]) -> dict[str, Any]:
        """Commands that only read, such as init and plan, share one token of their stack."""
        key, now = tuple(wanted.values()), clock.monotonic()
        if key not in self._reading or now - self._reading[key][0] >= _REUSED:
            self._reading[key] = (now, self._grant(wanted))
        return self._reading[key][1]

    def _grant(self, wanted: Mapping[str, object]) -> dict[str, Any]:
        return self._server.call("POST", "/grants", wanted)

    def read_ahead(self, step: Step, stack: str = "") -> None:
        if step is Step.FIRST and "known" in vars(self.names):
            step = Step.DECIDE  # All names are listed once.
        self._server.read_ahead([name.format(encode_name(stack)) for name in _READ[step]])

    async def ask_ahead(self, step: Step, stack: str = "") -> None:
        await asyncio.to_thread(self.read_ahead, step, stack)

    async def ask_access(
        self, *, read: tuple[str, ...], write: tuple[str, ...], run: str, stack: str
    ) -> dict[str, object]:
        return await asyncio.to_thread(self.supervisor_access, read=read, write=write, run=run, stack=stack)

    def when_waiting(self, tell: Callable[[str], None]) -> None:
        self._server.on_wait = tell

    def take_over(self, stack: str, run: str, *, declared: str | None = None) -> None:
        """Refused while the run of another person has a heartbeat."""
        self._server.call("POST", "/takeovers", {"stack": stack, "run": run, "reason": declared})

    @property
    def shows_output(self) -> bool:
        return bool(self.session["can_read_states"])

    def append_audit(self, documents: Sequence[dict[str, object]]) -> dict[str, Any]:
        return self._server.call("POST", "/audit", {"batch": clock.new_id(), "entries": list(documents)})

    def _message_key(self, public: bytes, context: str) -> bytes:
        document = {"public": base64.b64encode(public).decode(), "context": context.split("\0")}
        return _bytes(self._server.call("POST", "/exchange", document)["key"])

    def _run_key(self, run: str) -> bytes:
        blob = self.blobs.read(f"runs/{run}/{RUN_KEY}")
        if blob is None:
            raise unreadable(f"the key of the journal of run {run} is missing in {self.blobs.shown}")
        return blob.data


class ServerStackNames(StackNames):
    """The server renames the state itself, with its versions."""

    moved = tuple(folder for folder in StackNames.moved if folder != "states")

    def __init__(self, encrypted: EncryptedBlobs, server: ServerBlobs) -> None:
        super().__init__(encrypted)
        self._server = server

    @functools.cached_property
    def known(self) -> frozenset[str]:
        """Without devices: they belong to no repository, and only events add and remove them."""
        return frozenset(name for name in super().known if not name.startswith(DEVICES))

    def remove_old(self, old: str, new: str) -> None:
        super().remove_old(old, new)
        self._server.call("POST", "/renames", {"old": old, "new": new})


class ServerApprovals(Approvals):
    are_logged = True

    def __init__(self, encrypted: EncryptedBlobs, server: ServerBlobs) -> None:
        super().__init__(encrypted)
        self._server = server

    def add(self, approval: Approval) -> None:
        """The server sets who and when."""
        document = msgspec.to_builtins(approval)
        self._server.call(
            "POST",
            "/approvals",
            {
                name: document[name]
                for name in ("kind", "digest", "stack", "run", "reason", "until", "break_glass")
            },
        )

    def record_author(self, digest: str, author: Mapping[str, object], *, stack: str, run: str) -> None:
        del author
        self._server.call("POST", "/authors", {"digest": digest, "stack": stack, "run": run})


def server_run_store(blobs: BlobStore, *, spool: Path | None) -> RunStore:
    if not isinstance(blobs, ServerBlobs):
        raise TypeError(blobs)
    return ServerRunStore(blobs, spool=spool)


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
