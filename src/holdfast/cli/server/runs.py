"""The commands of `holdfast runs` for runs on a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.cli.command import Invocation
from holdfast.cli.console import Console
from holdfast.cli.server.connection import StoredPlans
from holdfast.cli.server.following import Detached, Following
from holdfast.cli.views.plan_diff import FULL, show_plan
from holdfast.cli.views.state import moment, show_rows
from holdfast.kernel.errors import Exit
from holdfast.kernel.server_hints import on_server
from holdfast.plans.events import STOPPING_NOW
from holdfast.plans.status import Status
from holdfast.runs.read_document import engine_from_document
from holdfast.runs.server_runs import ServerRuns, require_digest

_DECIDED = {"approve": "approved", "reject": "rejected", "override": "denial overridden"}
_DONE = {"approve": "approved", "reject": "rejected", "override": "overrode the denial of"}


def run_list(invocation: Invocation, server: ServerRuns, *, limit: int, stack: str | None) -> Exit:
    runs = server.list(limit=limit, stack=stack)
    return invocation.answer({"version": 1, "runs": runs}, lambda: show_runs(invocation.console, runs))


def run_show(invocation: Invocation, server: ServerRuns, wanted: str) -> Exit:
    run, option = server.show(server.find(wanted)), server.client.login.option
    return invocation.answer(
        {"version": 1, "run": run}, lambda: _show_details(invocation.console, run, option)
    )


def run_show_plan(invocation: Invocation, server: ServerRuns, wanted: str) -> Exit:
    run = server.show(server.find(wanted))
    document = server.result(run["id"])

    def show() -> None:
        invocation.console.line(f" {_headline(run)}")
        stored = StoredPlans(invocation, server).of({**run, "status": run["status"] or "unknown"})
        show_plan(invocation.console, stored.plan, FULL, more="")

    plan = {"version": 1, "run": run["id"], "stack": run["stack"], **(document or {})}
    return invocation.answer(plan, show)


def run_log(invocation: Invocation, server: ServerRuns, wanted: str, *, follow: bool) -> Exit:
    run, console, option = server.find(wanted), invocation.console, server.client.login.option
    if follow and not invocation.as_json:
        for event in server.follow(run):
            if event.kind == "line":
                console.line(on_server(event.text, option))
        return Exit.DONE
    lines = list(server.log(run))
    return invocation.answer(
        {"version": 1, "run": run, "lines": lines}, *(on_server(line, option) for line in lines)
    )


def run_decide(
    invocation: Invocation,
    server: ServerRuns,
    wanted: str,
    action: str,
    why: str,
    *,
    break_glass: bool = False,
) -> Exit:
    """About the plans that a run or a change has now; others are refused by the server."""
    runs = server.decidable(wanted, action)
    more = {"break_glass": True} if break_glass else {}
    given, lines = [], list[str]()
    now: Mapping[str, Any] = {}
    option = server.client.login.option
    for run in runs:
        digest = require_digest(run, action, option)
        now = server.act(run["id"], action, digest=digest, reason=why, **more)
        counted = ", ".join(f"{number} {what}" for what, number in (run["changes"] or {}).items() if number)
        given.append(
            {
                **{name: run[name] for name in ("stack", "changes")},
                "run": run["id"],
                "digest": digest,
                "notes": [],
            }
        )
        lines += [
            f" {run['stack']}: {_DONE[action]} the plan of run {run['id']}",
            f"   digest {digest}  ({counted or 'no resource changes'})",
            f"   {_next_decision(action, run, now)} "
            + on_server(f"Follow it: holdfast runs watch {run['id']}", option),
        ]
    single = given[0] if len(given) == 1 else dict.fromkeys(("run", "stack", "digest", "changes", "notes"))
    document = {"version": 1, **single, "approvals": given, "decision": action, "reason": why}
    return invocation.answer({**document, "phase": now["phase"], "status": now["status"]}, *lines)


def _next_decision(action: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if action == "reject":
        return "Nothing of it is applied."
    missing = now["missing"]
    if missing is None:
        return "Nothing is missing: a worker applies it now."
    text, mine = f"Still missing: {missing}.", now["decisions"][-1]
    if any((given["decision"], given["who"]) == (action, mine["who"]) for given in before["decisions"]):
        return f"{text} Your decision was recorded before."
    return f"{text} Yours does not count for that." if missing == before["missing"] else text


def run_cancel(
    invocation: Invocation, server: ServerRuns, wanted: str, reason: str | None, *, force: bool
) -> Exit:
    run = server.act(server.find(wanted), "cancel", reason=reason or "", **({"force": True} if force else {}))
    if force and run["status"] is None:
        invocation.console.warn(STOPPING_NOW)
    how = "cancelled" if run["status"] == Status.CANCELLED else "is being cancelled"
    line = f" {run['stack']}: run {run['id']} {how}, with the other runs of its change"
    return invocation.answer({"version": 1, "run": run}, line)


def run_again(
    invocation: Invocation,
    server: ServerRuns,
    wanted: str,
    action: str,
    reason: str | None,
    *,
    detach: bool,
    **decisions: object,
) -> Exit:
    """`retry` or `reconcile`: a new run, which is followed."""
    given = {name: value for name, value in decisions.items() if value}
    run = server.act(server.find(wanted), action, reason=reason or "", **given)
    if detach:
        return invocation.answer({"version": 1, "run": run}, f" {_headline(run)}")
    return run_watch(invocation, server, run["id"])


def run_watch(invocation: Invocation, server: ServerRuns, wanted: str | None) -> Exit:
    """A run or a change until it is over; without one, everything in progress."""
    from holdfast.cli.views.server_runs import watch_all

    if wanted is None:
        return watch_all(invocation, server)
    change = _change_of(server, wanted)
    invocation.console.say(f" Change {change}. Ctrl-C asks whether to cancel it.")
    following = Following(server, invocation.console, change)
    try:
        with following.patient():
            ended = following.until_over()
    except Detached:
        return invocation.answer({"version": 1, "change": change, "runs": None}, f" {change} continues.")
    runs = ended["runs"]
    exits = [Status(run["status"]).exit for run in runs if run["status"] is not None]
    document = {"version": 1, "change": change, "phase": ended["phase"], "runs": runs}
    return invocation.answer(document, lambda: show_runs(invocation.console, runs), exit_code=_worst(exits))


def _worst(exits: Sequence[Exit]) -> Exit:
    from holdfast.kernel.errors import most_severe

    return most_severe(list(exits))


def _change_of(server: ServerRuns, wanted: str) -> str:
    """The change with this id, or that of the run."""
    from holdfast.kernel.errors import UsageError

    try:
        return str(server.change(wanted.upper())["id"])
    except UsageError:
        return str(server.show(server.find(wanted))["change"])


def show_runs(console: Console, runs: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        (
            *(run["id"], run["stack"], run["operation"], run["status"] or run["phase"]),
            *(moment(run["started"] or run["created"]), run["who"]),
        )
        for run in runs
    ]
    show_rows(console, rows)
    if not runs:
        console.say(" No runs yet.")


def _headline(run: Mapping[str, Any]) -> str:
    return f"{run['id']}  {run['operation']} of {run['stack']}: {run['status'] or run['phase']}"


def _show_details(console: Console, run: Mapping[str, Any], option: str) -> None:
    console.line(f" {_headline(run)}")
    console.line(f"   submitted {moment(run['created'])} by {run['who']}")
    if run["reason"]:
        console.line(f"   reason: {run['reason']}")
    for name in ("started", "ended"):
        if run[name]:
            console.line(f"   {name} {moment(run[name])}")
    engine = engine_from_document(run["engine"]) if run["engine"] else None
    shown = {**run, "engine": str(engine) if engine is not None else None}
    for name in ("waiting_for", "change", "engine", "digest", "retried_from"):
        if shown.get(name):
            console.line(f"   {name.replace('_', ' ')}: {shown[name]}")
    if run["changes"]:
        counted = ", ".join(f"{number} {what}" for what, number in run["changes"].items() if number)
        console.line(f"   changes: {counted or 'none'}")
    _show_error(console, run["error"], option)
    _show_decisions(console, run)
    for note in run["notes"] or ():
        console.line(("   ! ", "yellow"), on_server(note, option))
    console.line(on_server(f"   log: holdfast runs log {run['id']}", option))


def _show_decisions(console: Console, run: Mapping[str, Any]) -> None:
    for given in run["decisions"]:
        who, at = given["who"], moment(given["at"])
        console.line(f"   {_DECIDED[given['decision']]} by {who} at {at}: {given['reason']}")
    if run["missing"]:
        console.line(f"   missing: {run['missing']}")


def _show_error(console: Console, error: Mapping[str, Any] | None, option: str) -> None:
    if error is None:
        return
    console.line(("   ✗ ", "bold red"), f"{error['code']}  {error['message']}")
    if error.get("hint"):
        console.line(f"     {on_server(error['hint'], option)}")
