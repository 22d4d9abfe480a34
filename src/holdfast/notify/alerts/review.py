"""Which `notify` counts in a job that may run for a change under review. Pure.

Its author could send alerts, and with them the credentials of a channel, to a server of their own, or make
others believe that they were delivered. So such a job sends only as the default branch told last: with the
same channels and routes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import structs

from holdfast.config.notify import NotifySettings
from holdfast.config.secret_refs import SecretRef
from holdfast.notify.alerts.outbox import Outbox

_IN_FILES: Final = frozenset({"file", "dotenv"})


def counts(settings: NotifySettings, outbox: Outbox) -> bool:
    """For a change under review: `notify` is as it is merged, and no file of the change is a part of it."""
    in_files = any(ref.scheme in _IN_FILES and not ref.locator.startswith("/") for ref in _secrets(settings))
    return outbox.merged == _fingerprint(settings) and not in_files


def with_merged(outbox: Outbox, settings: NotifySettings) -> Outbox:
    """What the default branch has counts from now on."""
    return structs.replace(outbox, merged=_fingerprint(settings))


def _fingerprint(settings: NotifySettings) -> str:
    return hashlib.sha256(msgspec.json.encode(settings, order="deterministic")).hexdigest()


def _secrets(settings: NotifySettings) -> Iterator[SecretRef]:
    for entry in settings.channels:
        for name in getattr(entry.settings, "__struct_fields__", ()):
            if isinstance(ref := getattr(entry.settings, name), SecretRef):
                yield ref
