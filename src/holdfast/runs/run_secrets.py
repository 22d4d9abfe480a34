"""What is secret in a run's journal: known when it is written, and again when it is read."""

from __future__ import annotations

import json
from collections.abc import Iterable

from holdfast.kernel.errors import HoldfastError
from holdfast.plans.context import ChangeContext
from holdfast.secrets.sources.catalogue import is_local
from holdfast.secrets.stack_secrets import references_of
from holdfast.store.run_store import RunStore
from holdfast.terraform.statefile.model import read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state

_SECRETS = "secrets"


def store_run_secrets(store: RunStore, run: str, values: Iterable[str]) -> None:
    """Sealed beside the journal, so that whoever reads it later hides what was secret then."""
    store.runs.write(run, _SECRETS, json.dumps(sorted(set(values)), ensure_ascii=False).encode())


def stored_run_secrets(store: RunStore, run: str) -> frozenset[str]:
    found = store.runs.read(run, _SECRETS)
    return frozenset(json.loads(found)) if found is not None else frozenset()


def register_run_secrets(context: ChangeContext, run: str | None, name: str | None) -> None:
    """What the run remembered, what its stack's states call sensitive, and its secret references."""
    if run is not None:
        context.redactor.register_all(stored_run_secrets(context.store, run))
    if name is None:
        return
    version, backup = context.store.states.current(name), context.store.backups.last(name)
    for state in (one.state for one in (version, backup) if one is not None):
        context.redactor.register_all(sensitive_in_state(read_state(state)))
    stack = context.project.stacks.get(name)
    # What lies behind a network is not asked for again; what the run itself remembered counts.
    for reference in references_of(stack) if stack is not None else ():
        if not is_local(reference):
            continue
        try:
            context.redactor.register(context.secrets.read(reference))
        except HoldfastError:
            # It cannot be had here, as above.
            continue
