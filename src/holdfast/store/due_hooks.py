"""Which stacks have hooks that did not succeed after an apply: the next apply runs them again."""

from __future__ import annotations

from holdfast.store.blobs import EncryptedBlobs, encode_name, to_json


class DueHooks:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def mark(self, stack: str, run: str) -> None:
        """Before Terraform starts. An earlier mark stays."""
        self._encrypted.create(due_hooks_name(stack), to_json({"run": run}))

    def run_of(self, stack: str) -> str | None:
        """The run after which they did not succeed."""
        document = self._encrypted.document(due_hooks_name(stack))
        return str(document["run"]) if document is not None else None

    def clear(self, stack: str, run: str | None = None) -> None:
        """With `run`, only the mark of this run."""
        if run is None or self.run_of(stack) == run:
            self._encrypted.remove(due_hooks_name(stack))


def due_hooks_name(stack: str) -> str:
    return f"hooks/{encode_name(stack)}"
