"""Operations on the versions of a state on the server: difference, rollback, secrets in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from holdfast.checks.secrets.secret_facts import remedy
from holdfast.checks.secrets.stored_secrets import secrets_in_state
from holdfast.kernel.errors import Refused
from holdfast.secrets.redact import Redactor
from holdfast.states.rollback import CurrentState, content_to_restore
from holdfast.states.versions import LoadedVersion, VersionInfo
from holdfast.store.run_store import StateRecord
from holdfast.store.server_states.changes import Author, StateKey
from holdfast.store.server_states.cipher import VersionPlace
from holdfast.store.server_states.locks import Caller
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.rules import read_new_state, refuse_locked
from holdfast.store.server_states.versions import StateVersion, StateVersions
from holdfast.system import clock
from holdfast.terraform.statefile.diff import StateDiff, diff_states
from holdfast.terraform.statefile.model import State, StateResource, read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state

_OUTPUT = "Remove the output, or pass on where the secret is stored instead of its value."
_PAUSE = 0.0001


class SecretsFound(Struct, frozen=True, kw_only=True):
    """Attributes with secrets, never their values."""

    address: str
    paths: tuple[str, ...]
    remedy: str


def diff(versions: StateVersions, tenant: str, state: str, before: int, after: int) -> StateDiff | None:
    """By resource, with secrets masked. None where one of them is encrypted or not a state."""
    return compare_contents(*(versions.content(tenant, state, number) for number in (before, after)))


def compare_contents(before: bytes, after: bytes) -> StateDiff | None:
    old, new = read_state(before), read_state(after)
    redactor = Redactor()
    redactor.register_all(sensitive_in_state(old) | sensitive_in_state(new))
    # Whether Terraform or OpenTofu wrote them is not known: assume the one that marks less.
    return diff_states(old, new, clean=redactor.clean_field, tofu=True)


def rollback(
    rows: StateRows, tenant: str, state: str, number: int, caller: Caller, *, reason: str
) -> StateVersion:
    """Write the content of an earlier version as a new one, with a serial greater than any before.

    Only while the state is not locked: Terraform would otherwise save over it.
    """
    versions = StateVersions(rows)
    name, goal = versions.state(tenant, state).name, versions.show(tenant, state, number)
    loaded = LoadedVersion(entry=_info(goal), content=versions.content(tenant, state, number))
    with rows.change(StateKey(tenant, name)) as change:
        current = change.row.current
        if change.row.id != state or current is None:
            raise Refused(
                "HF-STATE-58",
                f"{name} was deleted; this is one of its earlier versions",
                hint="Download the version, then: terraform state push FILE",
            )
        if change.row.lock is not None:
            refuse_locked(change.row.lock)
        restored, _ = content_to_restore(
            name,
            CurrentState(lineage=current.lineage, serial=current.serial, encrypted=current.encrypted),
            loaded,
            record=StateRecord(
                place="", lineage=goal.lineage, serial=change.newest_serial(), resources=None, seen=""
            ),
        )
        new = read_new_state(restored)
        author = Author(who=caller.who, why=f"rollback to {number}: {reason}")
        added = rows.add(change, new, rows.cipher.compress(restored), author)
        change.record(caller.who, f"rollback to version {number}", reason)
    return versions.show(tenant, state, added.number)


def find_secrets(content: bytes, *, pause: float = 0.0) -> tuple[SecretsFound, ...] | None:
    """None: OpenTofu encrypted the state, or it cannot be read. `pause`: seconds before each resource."""
    state = read_state(content)
    if not isinstance(state, State) or state.resources is None:
        return None
    attributes = (
        SecretsFound(address=row.address, paths=row.paths, remedy=remedy(row.mode, row.type, row.paths))
        for row in secrets_in_state(_paused(state.resources, pause) if pause else state.resources)
    )
    outputs = (
        SecretsFound(address=f"output.{output.name}", paths=("value",), remedy=_OUTPUT)
        for output in state.outputs or ()
        if output.sensitive and output.read() is not None
    )
    return (*attributes, *outputs)


def scan_version(versions: StateVersions, place: VersionPlace, content: bytes) -> None:
    """Record how many attributes of a version contain secrets, if that can be known.

    Requests come first: a thread that computes without a pause delays each of their steps.
    """
    if (secrets := find_secrets(content, pause=_PAUSE)) is not None:
        versions.record_secrets(place, sum(len(row.paths) for row in secrets))


def _paused(resources: Iterable[StateResource], seconds: float) -> Iterator[StateResource]:
    for resource in resources:
        clock.pause(seconds)
        yield resource


def _info(version: StateVersion) -> VersionInfo:
    return VersionInfo(
        name=str(version.number), serial=version.serial, lineage=version.lineage, resources=version.resources
    )
