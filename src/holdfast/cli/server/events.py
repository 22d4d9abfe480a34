"""The commands of `holdfast events`."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.cli.command import Invocation
from holdfast.cli.confirmation import confirm_at_once
from holdfast.cli.server.connection import StoredPlans, open_server
from holdfast.cli.views.events import headline, show_event, show_events
from holdfast.cli.views.plan_diff import FULL, show_plan
from holdfast.fleet.server_fleet import ServerFleet, exit_of, is_ended
from holdfast.identity.client import Unreachable
from holdfast.kernel.errors import Exit, Failed, Refused, UsageError
from holdfast.kernel.server_hints import on_server
from holdfast.system import clock, files

PATIENCE: Final = 300.0
"""Seconds: a server that is started again is back before."""


def open_fleet(invocation: Invocation, address: str | None) -> ServerFleet:
    """A server that is away for a while is waited for."""
    fleet = ServerFleet(open_server(invocation, address).client)
    told = False

    def tell(reason: str) -> None:
        nonlocal told
        if not told:
            invocation.console.warn(f"The server is away: {reason}. Trying again.")
        told = True

    fleet.client.be_patient(PATIENCE, tell)
    return fleet


def pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Of NAME=VALUE."""
    parts = [text.partition("=") for text in texts]
    if any(not sign or not name for name, sign, _ in parts):
        raise UsageError("HF-USE-28", f"{option} needs NAME=VALUE", hint=f"Write it as {option} size=3.")
    return {name: value for name, _, value in parts}


def read_payload(file: str | None, texts: Sequence[str]) -> dict[str, Any] | None:
    """The object in the file, with the values of --set. None: neither is given."""
    if file is None and not texts:
        return None
    payload: Any = {}
    if file is not None:
        content = sys.stdin.read() if file == "-" else files.read_text(Path(file))
        try:
            payload = json.loads(content)
        except ValueError as error:
            place = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "its end"
            message = f"--payload {file} is not valid JSON, at {place}"
            raise UsageError("HF-USE-47", message, hint="It must be a JSON object.") from None
    if not isinstance(payload, dict):
        hint = 'Write it as {"NAME": VALUE}.'
        raise UsageError("HF-USE-47", f"--payload {file} is not a JSON object", hint=hint)
    return {**payload, **{name: _value(text) for name, text in pairs("--set", texts).items()}}


def _value(text: str) -> object:
    """In JSON if it is, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


class EventCommands:
    def __init__(self, invocation: Invocation, address: str | None) -> None:
        self._invocation = invocation
        self._console = invocation.console
        self._fleet = open_fleet(invocation, address)
        self._option = self._fleet.client.login.option

    def submit(self, request: Mapping[str, Any], key: str | None, seconds: float | None) -> Exit:
        """`seconds`: how long to wait; None: until it has ended."""
        key = key or clock.random_token()
        repeat = f"The server may have accepted it. To repeat it safely, add --key {key}"
        begun = clock.monotonic()
        try:
            event = self._fleet.submit(request, key, wait=60.0 if seconds is None else seconds).event
        except Unreachable as error:
            raise Failed(error.problem.code, error.problem.message, hint=repeat) from None
        except KeyboardInterrupt:
            raise Failed("HF-EVENT-16", "interrupted before the server answered", hint=repeat) from None
        left = None if seconds is None else max(0.0, seconds - (clock.monotonic() - begun))
        return self._finish(event, left, waited=seconds != 0)

    def show(self, wanted: str, *, plan: bool) -> Exit:
        event = self._fleet.event(self._fleet.find(wanted))
        if plan and not self._invocation.as_json:
            self._console.line(f" {headline(event)}")
            self._show_plan(event)
            return Exit.DONE
        return self._answer(event, Exit.DONE)

    def wait(self, wanted: str, seconds: float | None) -> Exit:
        return self._finish(self._fleet.event(self._fleet.find(wanted)), seconds)

    def list(self, *, limit: int, **filters: str | None) -> Exit:
        events = self._fleet.events(limit=limit, **filters)
        return self._invocation.answer(
            {"version": 1, "events": events}, lambda: show_events(self._console, events, self._option, limit)
        )

    def log(self, wanted: str, *, follow: bool) -> Exit:
        event = self._fleet.event(self._fleet.find(wanted))
        if follow and event["run"] and not self._invocation.as_json:
            from holdfast.runs.server_runs import ServerRuns

            for line in ServerRuns(self._fleet.client).follow(event["run"]):
                if line.kind == "line":
                    self._console.line(on_server(line.text, self._option))
            return Exit.DONE
        lines = list(self._fleet.log(event["id"]))
        document = {"version": 1, "event": event["id"], "run": event["run"], "lines": lines}
        return self._invocation.answer(document, *(on_server(line, self._option) for line in lines))

    def approve(self, wanted: str, reason: str, *, yes: bool) -> Exit:
        """The plan that was shown, and no other."""
        event, digest = self._waiting(wanted)
        if not self._invocation.as_json:
            self._console.line(f" {headline(event)}")
            self._show_plan(event)
        if not confirm_at_once(self._console, "Approve exactly this plan?", yes=yes):
            self._console.say(" Nothing was approved.")
            return Exit.FAILED
        after = self._fleet.act(event["id"], "approve", digest=digest, reason=reason)
        waits = after["status"] == "waiting"
        told = "Approved. It still waits: more approvals are needed." if waits else "Approved."
        lines = (f" {told}", on_server(f" Wait for it: holdfast events wait {event['id']}", self._option))
        return self._invocation.answer(after, *lines)

    def reject(self, wanted: str, reason: str) -> Exit:
        event, digest = self._waiting(wanted)
        after = self._fleet.act(event["id"], "reject", digest=digest, reason=reason)
        return self._invocation.answer(after, f" Rejected event {event['id']}. Nothing of it is applied.")

    def _waiting(self, wanted: str) -> tuple[dict[str, Any], str]:
        """The event and the digest of the plan that is decided about."""
        event = self._fleet.event(self._fleet.find(wanted))
        digest = (event["plan"] or {}).get("digest")
        if event["status"] != "waiting" or digest is None:
            raise Refused(
                "HF-EVENT-9",
                f"event {event['id']} does not wait for a decision that you may make",
                hint=on_server(f"It is {event['status']}: holdfast events show {event['id']}", self._option),
            )
        return event, str(digest)

    def cancel(self, wanted: str, reason: str) -> Exit:
        event = self._fleet.act(self._fleet.find(wanted), "cancel", reason=reason)
        if event["status"] == "cancelled":
            return self._invocation.answer(event, f" Cancelled event {event['id']}.")
        follow = on_server(f"holdfast events wait {event['id']}", self._option)
        told = f" Event {event['id']} is being cancelled: resources in progress are finished."
        return self._invocation.answer(event, told, f" Wait for it: {follow}")

    def again(self, wanted: str, action: str, reason: str, seconds: float | None) -> Exit:
        """`retry` or `rollback`: a new event."""
        event = self._fleet.act(self._fleet.find(wanted), action, reason=reason)
        return self._finish(event, seconds, waited=seconds != 0)

    def _finish(self, event: dict[str, Any], seconds: float | None, *, waited: bool = True) -> Exit:
        if not is_ended(event) and waited:
            self._console.say(f" {headline(event)}. Ctrl-C ends this command, not the event.")
            with self._going_on(event):
                event = self._fleet.ended(event, seconds)
        return self._answer(event, exit_of(event) if waited or is_ended(event) else Exit.DONE)

    @contextlib.contextmanager
    def _going_on(self, event: Mapping[str, Any]) -> Iterator[None]:
        hint = on_server(f"Wait for it: holdfast events wait {event['id']}", self._option)
        try:
            yield
        except Unreachable as error:
            raise Failed(error.problem.code, error.problem.message, hint=f"It goes on. {hint}") from None
        except KeyboardInterrupt:
            raise Failed("HF-EVENT-16", f"event {event['id']} continues on the server", hint=hint) from None

    def _answer(self, event: Mapping[str, Any], exit_code: Exit) -> Exit:
        return self._invocation.answer(
            event, lambda: show_event(self._console, event, self._option), exit_code=exit_code
        )

    def _show_plan(self, event: Mapping[str, Any]) -> None:
        from holdfast.runs.server_runs import ServerRuns

        runs = ServerRuns(self._fleet.client)
        if event["run"] is None or event["plan"] is None:
            self._console.line(" It has no plan.")
            return
        run = runs.show(event["run"])
        stored = StoredPlans(self._invocation, runs).of({**run, "status": run["status"] or "unknown"})
        show_plan(self._console, stored.plan, FULL, more="")
