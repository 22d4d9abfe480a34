"""Events and devices as text, with the command to type next."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from holdfast.cli.console import Console
from holdfast.cli.views.state import moment, show_rows
from holdfast.kernel.server_hints import on_server
from holdfast.kernel.text import cut, plural
from holdfast.secrets.redact import clean_value

_LONGEST_VALUE: Final = 500
_LONGEST_ERROR: Final = 60
_STYLES: Final = {
    "succeeded": "green",
    "failed": "bold red",
    "unknown": "bold red",
    "waiting": "yellow",
    "cancelled": "yellow",
}
_APPROVAL: Final = "HF-APPR-"
"""With which the codes begin of what only needs an approval."""
_DRIFT: Final = {
    "in_sync": "in sync with its state",
    "drifted": "differs from its state",
    "not_checked": "could not be compared",
}

Event = Mapping[str, Any]
Device = Mapping[str, Any]


def device_name(of: Mapping[str, Any]) -> str:
    return f"{of['blueprint']}/{of['resource_id']}"


def headline(event: Event) -> str:
    return f"{event['id']}  {event['action']} of {device_name(event)}: {event['status']}"


def show_event(console: Console, event: Event, option: str) -> None:
    console.line(
        f" {event['id']}  {event['action']} of {device_name(event)}: ",
        (event["status"], _STYLES.get(event["status"], "")),
    )
    for line in (*_origin(event), *_plan(event)):
        console.line(f"   {line}")
    for name, value in (event["outputs"] or {}).items():
        cleaned = clean_value(console.redactor, name, value)
        text = "(sensitive)" if cleaned is None else json.dumps(cleaned, ensure_ascii=False)
        console.line(f"   {name} = {cut(text, _LONGEST_VALUE)}")
    if event["timings"]:
        console.line(f"   {', '.join(f'{name} {ms} ms' for name, ms in event['timings'].items())}")
    if event["status"] == "waiting":
        console.line(
            ("   ! ", "yellow"), str((event["error"] or {}).get("message", "it waits for a decision"))
        )
    else:
        show_error(console, event["error"], option)
    for line in next_commands(event):
        console.line(f"   {on_server(line, option)}")


def _origin(event: Event) -> Iterator[str]:
    version = f"with {event['blueprint']} {event['blueprint_version']}"
    yield f"submitted {moment(event['created'])} by {event['who']}, {version}"
    if event["reason"]:
        yield f"reason: {event['reason']}"
    if event["labels"]:
        yield f"labels: {' '.join(f'{name}={value}' for name, value in event['labels'].items())}"
    if event["origin"]:
        yield f"repeats event {event['origin']}"
    if event["attempts"] > 1:
        yield f"{event['attempts']} attempts"
    if event["next_try"]:
        yield f"tried again at {moment(event['next_try'])}"


def _plan(event: Event) -> Iterator[str]:
    if event["plan"] is not None:
        counts = event["plan"].get("changes") or {}
        changes = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
        yield f"plan: {changes or 'no changes'}"


def next_commands(event: Event) -> Iterator[str]:
    """What a person would type now."""
    id_ = event["id"]
    match event["status"]:
        case "queued" | "running":
            yield f"Wait for it: holdfast events wait {id_}"
        case "waiting":
            yield _decision(event)
            yield f"Or reject it: holdfast events reject {id_} --reason TEXT"
        case "succeeded" if event["action"] != "delete":
            yield f"The device: holdfast devices show {device_name(event)}"
        case "succeeded":
            yield f"To create it again: holdfast events rollback {id_}"
        case "failed":
            if event["run"]:
                yield f"What Terraform printed: holdfast events log {id_}"
            yield f"To repeat it: holdfast events retry {id_}"
        case "cancelled":
            yield f"To repeat it: holdfast events retry {id_}"
        case "superseded":
            yield f"A later update took its place: holdfast events show {event['superseded_by']}"
        case "unknown":
            yield f"Find out what it did: holdfast runs reconcile {event['run']} --server"


def _decision(event: Event) -> str:
    if str((event["error"] or {}).get("code", _APPROVAL)).startswith(_APPROVAL):
        return f"Approve it: holdfast events approve {event['id']}"
    return f"Override the denial: holdfast runs override {event['run']} --reason TEXT --server"


def show_error(
    console: Console, error: Mapping[str, Any] | None, option: str, *, indent: str = "   "
) -> None:
    if error is None:
        return
    console.line((f"{indent}✗ ", "bold red"), (str(error["code"]), "bold"), f"  {error['message']}")
    if error.get("hint"):
        console.line(f"{indent}  {on_server(error['hint'], option)}")


def show_events(console: Console, events: Sequence[Event], option: str, limit: int) -> None:
    rows = [
        (
            *(event["id"], event["action"], device_name(event), event["status"]),
            *(moment(event["created"]), event["who"]),
            _failure(event),
        )
        for event in events
    ]
    show_rows(console, rows)
    console.line(f" {_count(len(events), 'event', limit)}")
    wanting = [event for event in events if event["status"] in {"waiting", "failed", "unknown"}]
    if wanting:
        example = f"Details: holdfast events show {wanting[0]['id']}"
        console.say((f" {on_server(example, option)}", "dim"))


def _count(number: int, noun: str, limit: int) -> str:
    counted = plural(number, noun)
    return f"{counted} shown, there may be more: --limit {limit * 10}" if number == limit else counted


def _failure(event: Event) -> str:
    if event["error"] is None or event["status"] == "waiting":
        return ""
    return cut(str(event["error"]["message"]).partition("\n")[0], _LONGEST_ERROR)


def show_devices(console: Console, devices: Sequence[Device], option: str, limit: int) -> None:
    rows = [
        (
            *(device_name(device), device["status"], device["blueprint_version"] or "", drift_text(device)),
            f"changed {moment(device['updated'])}",
            " ".join(f"{name}={value}" for name, value in device["labels"].items()),
        )
        for device in devices
    ]
    show_rows(console, rows)
    console.line(f" {_count(len(devices), 'device', limit)}")
    if devices:
        example = f"Details: holdfast devices show {device_name(devices[0])}"
        console.say((f" {on_server(example, option)}", "dim"))


def drift_text(device: Device) -> str:
    if device["drift"] is None:
        return "not checked"
    status = str(device["drift"].get("status"))
    return _DRIFT.get(status, status)


def show_device(console: Console, device: Device, last: Event | None, option: str) -> None:
    name = device_name(device)
    version = f", {device['blueprint']} {device['blueprint_version']}" if device["blueprint_version"] else ""
    console.line(f" {name}: {device['status']}{version}")
    console.line(f"   created {moment(device['created'])}, changed {moment(device['updated'])}")
    if device["labels"]:
        console.line(f"   labels: {' '.join(f'{key}={value}' for key, value in device['labels'].items())}")
    console.line(f"   drift: {drift_text(device)}")
    _show_drift(console, device["drift"] or {}, option)
    console.line(f"   state: {device['state']}")
    if last is not None:
        when = moment(last["created"])
        console.line(f"   last event: {last['action']} {last['id']} of {when}: {last['status']}")
        if last["status"] != "waiting":
            show_error(console, last["error"], option)
    if last is not None and last["id"] != device["event"] and device["event"] is not None:
        console.line(f"   last that succeeded: {device['event']}")
    events = f"holdfast events list --blueprint {device['blueprint']} --device {device['resource_id']}"
    console.line(f"   {on_server(f'Its events: {events}', option)}")
    console.line(f"   Versions of its state: holdfast state versions --state {device['state']}")


def _show_drift(console: Console, drift: Mapping[str, Any], option: str) -> None:
    for finding in drift.get("findings") or ():
        attribute = f".{finding['attribute']}" if finding["attribute"] else " no longer exists"
        console.line(("     ~ ", "yellow"), f"{finding['address']}{attribute}")
    if drift.get("not_looked_at"):
        console.line(f"     never read back, so not compared: {', '.join(drift['not_looked_at'])}")
    show_error(console, drift.get("error"), option, indent="     ")
