"""What is secret in a run's journal: known when it is written, and again when it is read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from holdfast.config.valid import SecretRef
from holdfast.kernel.errors import HoldfastError
from holdfast.runs.session import Session
from holdfast.secrets.references import resolve
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore
from holdfast.terraform.sensitive import sensitive_in_state

_SECRETS = "secrets"


def remember_secrets(store: RunStore, run: str, values: Iterable[str]) -> None:
    """Sealed beside the journal, so that whoever reads it later hides what was secret then."""
    store.runs.write(run, _SECRETS, json.dumps(sorted(set(values)), ensure_ascii=False).encode())


def remembered_secrets(store: RunStore, run: str) -> frozenset[str]:
    found = store.runs.read(run, _SECRETS)
    return frozenset(json.loads(found)) if found is not None else frozenset()


def know_secrets(session: Session, run: str | None, name: str | None) -> None:
    """What the run remembered, what its stack's states call sensitive, and its secret references."""
    if run is not None:
        session.redactor.register_all(remembered_secrets(session.store, run))
    if name is None:
        return
    version, backup = session.store.states.current(name), session.store.backups.last(name)
    for state in (one.state for one in (version, backup) if one is not None):
        session.redactor.register_all(sensitive_in_state(state))
    stack = session.stacks.get(name)
    for reference in _references(stack) if stack is not None else ():
        try:
            session.redactor.register(resolve(reference, session.environment, session.root))
        except HoldfastError:
            # It cannot be had here; what the run itself remembered counts.
            continue


def _references(stack: Stack) -> Iterator[SecretRef]:
    backend = stack.backend.settings if stack.backend is not None else {}
    yield from _inside((stack.env, stack.variables, stack.credentials, backend))


def _inside(value: object) -> Iterator[SecretRef]:
    match value:
        case SecretRef():
            yield value
        case Mapping():
            for one in value.values():
                yield from _inside(one)
        case tuple() | list():
            for one in value:
                yield from _inside(one)
        case _:
            return
