"""`holdfast state` with a state on the server: lists, locks, settings, rollback, pins and purges."""

from __future__ import annotations

from typing import Any

from holdfast.cli.command import Invocation
from holdfast.cli.confirmation import confirm_at_once
from holdfast.cli.views.state import (
    changes_document,
    entry_document,
    moment,
    named,
    resources_text,
    show_diff,
    show_rows,
)
from holdfast.identity.client import ServerClient, current_login, current_token
from holdfast.identity.roles import Role
from holdfast.kernel.errors import Exit, Refused, UsageError
from holdfast.states.server_states import ServerState, allow_unlocked_writes, list_states
from holdfast.terraform.statefile.model import read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state


def open_client(invocation: Invocation) -> ServerClient:
    login = current_login(invocation.environment)
    invocation.console.redactor.register(login.token)
    return ServerClient(login, invocation.environment)


def open_state(invocation: Invocation, name: str) -> ServerState:
    return ServerState(open_client(invocation), name)


def register_secrets(invocation: Invocation, content: bytes) -> None:
    invocation.console.redactor.register_all(sensitive_in_state(read_state(content)))


def run_list(invocation: Invocation) -> Exit:
    client = open_client(invocation)
    states = sorted(list_states(client), key=lambda state: str(state["name"]))

    def show() -> None:
        invocation.console.say(f" States on {client.url}:")
        show_rows(invocation.console, [_row(state) for state in states])
        if not states:
            invocation.console.say(f"   none{_covered(client)}")

    return invocation.answer({"version": 1, "states": states}, show)


def _covered(client: ServerClient) -> str:
    patterns = current_token(client)["states"]
    return " yet" if "*" in patterns else f" that your token covers ({', '.join(patterns)})"


def _require_admin(state: ServerState) -> None:
    """Before a question is asked, and not only after the answer."""
    token = current_token(state.client)
    if token["role"] != Role.ADMIN:
        raise Refused(
            "HF-TOK-2",
            f"the role {token['role']} of {token['name']} does not permit this (administer)",
            hint="Use a token with the role admin: holdfast token create --role admin",
        )


def _row(state: dict[str, Any]) -> tuple[str, ...]:
    notes = [f"locked by {state['locked_by']}"] if state["locked_by"] else []
    notes += ["accepts unlocked writes"] if state["unlocked_writes"] else []
    written = bool(state["version"])
    return (
        f"  {state['name']}",
        f"version {state['version']}" if written else "never written",
        f"serial {state['serial']}" if written else "",
        resources_text(state["resources"]) if written else "",
        moment(state["written"]),
        ", ".join(notes),
    )


def run_locks(invocation: Invocation, name: str | None) -> Exit:
    client = open_client(invocation)
    if name is not None:
        states = [ServerState(client, name)]
    else:
        locked = (state["name"] for state in list_states(client) if state["locked_by"])
        states = [ServerState(client, name) for name in sorted(locked)]
    locks = [(state.name, state.lock()) for state in states]

    def show() -> None:
        for state, lock in locks:
            for line in lock_lines(state, lock):
                invocation.console.line(line)
        if not locks:
            invocation.console.line(f" No state on {client.url} is locked.")

    documents = [{**lock, "state": state} for state, lock in locks]
    return invocation.answer({"version": 1, "locks": documents}, show)


def lock_lines(state: str, lock: dict[str, Any]) -> list[str]:
    lines = [f" {state}: not locked"]
    if lock["id"] is not None:
        holder = f"run {lock['run']}" if lock["run"] else "Terraform"
        beat = f", last heartbeat {moment(lock['beat'])}" if lock["beat"] else ""
        expired = ", expired" if lock["expired"] else ""
        lines = [
            f" {state}: locked by {lock['holder']} ({holder}) since {moment(lock['taken'])}{beat}{expired}",
            f"   lock {lock['id']}, fencing number {lock['number']}",
        ]
    for waiting in lock["waiting"]:
        asked = moment(waiting["last_asked"])
        lines.append(
            f"   waiting: {waiting['who']} since {moment(waiting['first_asked'])}, last asked {asked}"
        )
    return lines


def run_unlock(invocation: Invocation, state: ServerState, id_: str | None, reason: str) -> Exit:
    held = state.lock()
    if held["id"] is None:
        return invocation.answer(
            {"version": 1, **named(state), "lock": None, "reason": reason}, f" {state.name}: it is not locked"
        )
    id_ = id_ or str(held["id"])
    state.unlock(id_, reason)
    return invocation.answer(
        {"version": 1, **named(state), "lock": id_, "reason": reason},
        f" {state.name}: unlocked ({id_}, held by {held['holder']})",
    )


def run_set(invocation: Invocation, name: str, *, allowed: bool) -> Exit:
    allow_unlocked_writes(open_client(invocation), name, allowed=allowed)
    which = "also without the lock, while no one holds it" if allowed else "only under the lock"
    return invocation.answer(
        {"version": 1, "stack": None, "state": name, "unlocked_writes": allowed},
        f" {name}: writes are accepted {which}",
    )


def run_rollback(
    invocation: Invocation, state: ServerState, wanted: str, reason: str | None, *, yes: bool
) -> Exit:
    if not (reason or "").strip():
        raise UsageError("HF-USE-16", "this needs --reason", hint="Add --reason TEXT; it is recorded.")
    _require_admin(state)
    goal = state.version(wanted)
    current, _, diff = state.diff("current", goal.name)
    if not invocation.as_json:
        show_diff(invocation.console, state, current, goal, diff)
    question = "This changes only the state, no real resource. Roll back?"
    if not confirm_at_once(invocation.console, question, yes=yes):
        return _unchanged(invocation, state)
    done = state.rollback(goal, str(reason))
    return invocation.answer(
        {
            "version": 1,
            **named(state),
            "to": goal.name,
            "previous_serial": current.serial,
            **entry_document(done),
            "changes": changes_document(diff),
        },
        f" {state.name}: restored version {goal.name} as serial {done.serial}; "
        f"replaces serial {current.serial}",
        "   Only the state changed. Next: terraform plan",
    )


def run_pin(invocation: Invocation, state: ServerState, wanted: str, reason: str | None) -> Exit:
    done = state.pin(state.version(wanted), reason)
    kept = "is kept" if reason is not None else "is no longer pinned"
    return invocation.answer(
        {"version": 1, **named(state), **entry_document(done)}, f" {state.name}: version {done.name} {kept}"
    )


def run_purge(invocation: Invocation, state: ServerState, wanted: str, reason: str, *, yes: bool) -> Exit:
    _require_admin(state)
    goal = state.version(wanted)
    question = f"This destroys the content of {goal.shown} of {state.name} for good. Purge it?"
    if not confirm_at_once(invocation.console, question, yes=yes):
        return _unchanged(invocation, state)
    done = state.purge(goal, reason)
    return invocation.answer(
        {"version": 1, **named(state), **entry_document(done)},
        f" {state.name}: the content of version {done.name} is destroyed",
        "   Backups of the database may still contain it. Replace the secret itself, too.",
    )


def _unchanged(invocation: Invocation, state: ServerState) -> Exit:
    invocation.console.line(f" {state.name}: nothing was changed")
    return Exit.FAILED
