"""`holdfast state scan`: attributes of a state that contain secrets, and what to do about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.cli.command import Invocation, fields
from holdfast.cli.context import run_on_stack
from holdfast.cli.views.state import Subject, moment, named
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural
from holdfast.states import operations
from holdfast.states.server_states import ServerState
from holdfast.states.server_versions import find_secrets

_VERSIONS = 10


def run_scan(invocation: Invocation, name: str) -> Exit:
    stack, content = run_on_stack(invocation, name, operations.pull)
    found = find_secrets(content) if content else ()
    secrets = msgspec.to_builtins(found) if found is not None else None
    return _answer(invocation, stack, secrets, [])


def run_scan_on_server(invocation: Invocation, state: ServerState) -> Exit:
    """The current version, and how many each earlier one has."""
    secrets = state.secrets(state.version(None))
    history = [fields(entry, "name", "at", "secrets", "purged") for entry in state.entries]
    return _answer(invocation, state, secrets, history)


def _answer(
    invocation: Invocation,
    subject: Subject,
    secrets: Sequence[dict[str, Any]] | None,
    history: Sequence[dict[str, Any]],
) -> Exit:
    if secrets is None:
        raise UsageError(
            "HF-STATE-63",
            f"{subject.name}: its state is encrypted by OpenTofu or cannot be read, so it was not scanned",
            hint="Only OpenTofu can read what it encrypted: keep its key safe.",
        )
    count = sum(len(row["paths"]) for row in secrets)

    def show() -> None:
        console = invocation.console
        if secrets:
            verb = "contains" if count == 1 else "contain"
            console.line(f" {subject.name}: {plural(count, 'attribute')} of its state {verb} secrets")
        else:
            console.line(f" {subject.name}: found no secrets in its state")
            console.say("   No attribute is marked as sensitive, known for its type, or in a known format.")
        for row in secrets:
            console.line(("   ! ", "yellow"), f"{row['address']}: {', '.join(row['paths'])}")
            console.line(f"     {row['remedy']}")
        if any(row["secrets"] for row in history[1:]):
            console.line(" Versions, newest first:")
            for row in history[:_VERSIONS]:
                known = "not scanned" if row["secrets"] is None else plural(row["secrets"], "attribute")
                known = "purged" if row["purged"] else known
                console.line(f"   {row['name']}  {moment(row['at'])}  {known}")
            console.line(
                f" To destroy an old one: holdfast state purge --state {subject.name} VERSION --reason TEXT"
            )

    document = {"version": 1, **named(subject), "count": count, "secrets": secrets, "history": history}
    return invocation.answer(document, show)
