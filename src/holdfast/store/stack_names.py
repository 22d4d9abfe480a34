"""Stacks that the run store knows by name, and what people said about names whose stack is gone.

A state belongs to a name. When a stack gets another one, its state stays under the old name until
`state rename` moves it, or `state retire` says that it is no longer needed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from holdfast.kernel.errors import Busy, Refused
from holdfast.store.applied import applied_name
from holdfast.store.blobs import EncryptedBlobs, decode_name, encode_name, to_json
from holdfast.store.due_hooks import due_hooks_name

DEVICES = "fleet/"
"""With which the names of devices begin on a server, and those of no other stack there."""
_MOVED = ("states", "backups", "errored", "files")
"""What is stored of a stack by name and moves with it, beside what `_pairs` adds and its record."""


def require_no_device(stacks: Iterable[str]) -> None:
    """Only events change devices: code in a repository must not take their states."""
    for name in stacks:
        if name.startswith(DEVICES):
            raise Refused(
                "HF-EVENT-13",
                f"{name}: names that begin with `{DEVICES}` belong to devices, which only events change",
                hint="Give the stack another name.",
            )


class StackNames:
    moved: tuple[str, ...] = _MOVED

    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    @functools.cached_property
    def known(self) -> frozenset[str]:
        """Every stack with a managed state or a record. Read once: later ones are in the repository."""
        names = (*self._encrypted.names("records"), *self._encrypted.names("states"))
        return frozenset(decode_name(name.split("/")[1]) for name in names)

    # Not renamed

    def not_renamed_from(self, stack: str) -> frozenset[str]:
        """Names that a person said this stack did not have before."""
        document = self._encrypted.document(f"not-renamed/{encode_name(stack)}") or {}
        names = document.get("from")
        return frozenset(map(str, names)) if isinstance(names, list) else frozenset()

    def record_not_renamed(self, stack: str, names: frozenset[str]) -> None:
        all_names = sorted(names | self.not_renamed_from(stack))
        self._encrypted.write(f"not-renamed/{encode_name(stack)}", to_json({"from": all_names}))

    # Retired

    def retire(self, stack: str, *, lineage: str, serial: int, who: str, reason: str, at: str) -> None:
        mark: dict[str, object] = {
            "lineage": lineage,
            "serial": serial,
            "who": who,
            "reason": reason,
            "at": at,
        }
        self._encrypted.write(f"retired/{encode_name(stack)}", to_json(mark))

    def is_retired(self, stack: str, *, lineage: str, serial: int) -> bool:
        """Only this version of its state: a stack that was applied again has to be retired again."""
        mark = self._encrypted.document(f"retired/{encode_name(stack)}")
        return mark is not None and (mark.get("lineage"), mark.get("serial")) == (lineage, serial)

    # Renamed

    def copy(self, old: str, new: str) -> None:
        """Everything that is stored of `old`, also for `new`. Can be repeated after an interruption."""
        for source, target in self._pairs(old, new):
            blob = self._encrypted.read(source)
            if blob is None or self._encrypted.create(target, blob.data):
                continue
            there = self._encrypted.read(target)
            if there is None or there.data != blob.data:
                raise Busy("HF-LOCK-2", f"{new}: another process wrote its state in the meantime")

    def remove_old(self, old: str, new: str) -> None:
        """After `copy`: what `new` has too, the newest version of the state last."""
        for source, target in self._pairs(old, new):
            blob, there = self._encrypted.read(source), self._encrypted.read(target)
            if blob is not None and there is not None and there.data == blob.data:
                self._encrypted.remove(source, tag=blob.tag)

    def _pairs(self, old: str, new: str) -> tuple[tuple[str, str], ...]:
        moved = (
            (name, f"{folder}/{encode_name(new)}/{name.split('/', 2)[2]}")
            for folder in self.moved
            for name in self._encrypted.names(f"{folder}/{encode_name(old)}")
        )
        return (applied_name(old), applied_name(new)), (due_hooks_name(old), due_hooks_name(new)), *moved
