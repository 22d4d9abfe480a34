"""What the server does from time to time: retention, secrets in versions, replaced keys, expired
tokens, old changes, uploads, events of devices and of webhooks, and deliveries of outgoing ones.

Every step may be repeated, so several servers on one database need not agree on who does it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from msgspec import Struct

from holdfast.audit.entry import Entry
from holdfast.audit.log import Audit
from holdfast.config.settings import BackupSettings
from holdfast.identity.token_rows import TokenRows
from holdfast.kernel.errors import HoldfastError
from holdfast.server.edge import Log
from holdfast.server.key_rotation import ServerRotation
from holdfast.states.server_versions import scan_version
from holdfast.store.fleet.retention import remove_old_events
from holdfast.store.fleet.rows import FleetRows
from holdfast.store.outgoing_webhooks import OutgoingWebhookRows
from holdfast.store.server_runs.retention import end_undecided, remove_expired_uploads, remove_old_changes
from holdfast.store.server_runs.webhooks import WebhookRows
from holdfast.store.server_states.cipher import VersionPlace
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.versions import StateVersions

INTERVAL = 300.0
"""Seconds."""
_STOP_SECONDS = 5.0
"""What is not finished then is repeated by the next start."""


class Upkeep(Struct, frozen=True, kw_only=True):
    rows: StateRows
    tokens: TokenRows
    backups: BackupSettings
    log: Log
    rotation: ServerRotation | None = None
    waiting_limit: float | None = None
    """Seconds that a plan waits for a decision."""
    event_max_age: float | None = None
    """Seconds that events of devices stay at least. None: for ever."""
    audit: Callable[[str], Audit] | None = None
    """The audit log of a tenant."""

    def run(self) -> dict[str, int]:
        """What was done, by step. A step that fails does not stop the others."""
        steps: dict[str, Callable[[], int]] = {
            "versions_scanned": self._scan,
            "blobs_encrypted_again": self.rotation.finish if self.rotation is not None else lambda: 0,
            "versions_encrypted_again": self._renew,
            "versions_removed": lambda: StateVersions(self.rows).prune_all(self.backups),
            "runs_without_decision": self._end_undecided,
            "tokens_removed": self.tokens.remove_expired,
            "changes_removed": lambda: remove_old_changes(self.rows.database),
            "uploads_removed": lambda: remove_expired_uploads(self.rows.database),
            "webhook_events_removed": WebhookRows(self.rows.database).remove_old,
            "events_removed": self._remove_old_events,
            "idempotency_keys_removed": FleetRows(self.rows.database).remove_old_keys,
            "webhook_deliveries_removed": OutgoingWebhookRows(self.rows.database).remove_old,
        }
        done = {name: count for name, step in steps.items() if (count := self._try(name, step))}
        if done:
            self.log.info("upkeep", **done)
        return done

    def _scan(self) -> int:
        versions = StateVersions(self.rows)

        def scan(place: VersionPlace) -> int:
            scan_version(versions, place, versions.content(*place))
            return 1

        return sum(self._try("versions_scanned", partial(scan, place)) for place in versions.unscanned())

    def _end_undecided(self) -> int:
        if self.waiting_limit is None or self.audit is None:
            return 0
        ended = end_undecided(self.rows.database, self.waiting_limit)
        for run in ended:
            entry = Entry(what="cancel", stack=run.stack, run=run.id, reason="no decision in time")
            self.audit(run.tenant).record(entry)
        return len(ended)

    def _remove_old_events(self) -> int:
        limit = self.event_max_age
        return 0 if limit is None else remove_old_events(self.rows.database, max_age=limit)

    def _renew(self) -> int:
        def report(place: VersionPlace, error: HoldfastError) -> None:
            message = error.problem.message
            self.log.error(
                "upkeep failed", step="versions_encrypted_again", state=place.state, message=message
            )

        return StateVersions(self.rows).renew(report)

    def _try(self, name: str, step: Callable[[], int]) -> int:
        try:
            return step()
        except Exception as error:  # noqa: BLE001 - the server goes on, and the next round tries again
            message = error.problem.message if isinstance(error, HoldfastError) else type(error).__name__
            self.log.error("upkeep failed", step=name, message=message)  # noqa: TRY400 - its text may quote a state
            return 0


@contextmanager
def hold_upkeep(upkeep: Upkeep, *, interval: float = INTERVAL) -> Iterator[None]:
    """In a thread, at once and then at every interval."""
    ended = threading.Event()

    def work() -> None:
        upkeep.run()
        while not ended.wait(interval):
            upkeep.run()

    thread = threading.Thread(target=work, name="holdfast-upkeep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_STOP_SECONDS)
