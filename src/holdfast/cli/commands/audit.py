"""`holdfast audit`: show, verify and export the audit log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Invocation, Option, fields
from holdfast.cli.parameters import Limit, Server, limit_from
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.audit.chain import Piece
    from holdfast.audit.reader import Verification
    from holdfast.cli.console import Console
    from holdfast.config.settings import Config
    from holdfast.store.run_store import RunStore

_MOST_BREAKS = 20
_FORMAT = "jsonl"
_DETAILS = {
    "output": ("name",),
    "unlock": ("lock", "holder", "run"),
    **dict.fromkeys(
        ("rollback", "push", "import", "pin", "purge", "pull"), ("to", "version", "serial", "pinned")
    ),
    "unlocked-writes": ("allowed",),
    **dict.fromkeys(("token-create", "token-revoke", "token-exchange"), ("id", "name", "role", "tenant")),
    **dict.fromkeys(("webhook-set", "webhook-remove"), ("repository", "project", "apply")),
    **dict.fromkeys(("repository-add", "repository-remove"), ("name", "url")),
}
"""What is shown of the details of an act."""
HELP = "Show, verify and export the audit log: who did what, and why."
COMMANDS = ("show", "verify", "export", "accept-loss")


def show(
    invocation: Invocation,
    stack: Annotated[
        str | None, Option("--stack", metavar="STACK", help="Only entries for this stack.")
    ] = None,
    since: Annotated[
        str | None, Option("--since", metavar="DATE", help="Only entries since this date or time (UTC).")
    ] = None,
    limit: Limit = None,
    server: Server = None,
) -> Exit:
    """Show the latest entries of the audit log, newest first."""
    from itertools import islice, takewhile

    from holdfast.audit.reader import newest
    from holdfast.cli.server.connection import known_server, named_server

    begin, most = _since(since), limit_from(limit)

    def wanted(line: Mapping[str, object]) -> bool:
        return (stack is None or line.get("stack") == stack) and (begin is None or _at(line) >= begin)

    entries: tuple[Mapping[str, object], ...]
    elsewhere = ""
    if (on_server := named_server(invocation, server)) is not None:
        lines = takewhile(lambda line: begin is None or _at(line) >= begin, on_server.audit())
        entries = tuple(islice(filter(wanted, lines), most))
    else:
        _, store = _open(invocation)
        entries = newest(store, limit=most, wanted=wanted, on_unreadable=_warn_unreadable(invocation))
        known = None if store.on_server else known_server(invocation)
        elsewhere = f" The entries of {known.client.url}: holdfast audit show --server" if known else ""

    def show_entries() -> None:
        for entry in entries:
            _show_entry(invocation.console, entry)
        if not entries:
            invocation.console.say(" No entries.")
        if elsewhere:
            invocation.console.say((elsewhere, "dim"))

    return invocation.answer({"version": 1, "entries": list(entries)}, show_entries)


def verify(invocation: Invocation) -> Exit:
    """Verify the hash chain of the whole audit log. Finds changed, reordered and removed entries."""
    from msgspec import structs

    from holdfast.audit import reader, sink

    config, store = _open(invocation)
    verdict = reader.verify(store)
    waiting = None
    if config.audit_s3 is not None and verdict.whole:
        waiting = sink.waiting(store, config.audit_s3)
        if not sink.is_accepted(store, config.audit_s3):
            note = sink.not_accepted(config.audit_s3)
            verdict = structs.replace(verdict, notes=(*verdict.notes, note))
    return invocation.answer(
        _verdict_document(verdict, waiting),
        lambda: _show_verdict(invocation.console, verdict, waiting),
        exit_code=Exit.DONE if verdict.whole else Exit.UNKNOWN,
    )


def export(
    invocation: Invocation,
    format_: Annotated[
        str | None,
        Option("--format", metavar="FORMAT", help=f"{_FORMAT} (one JSON object per line), the only format."),
    ] = None,
    out: Annotated[
        Path | None,
        Option("--out", metavar="FILE", help="Write to this file (0600) instead of standard output."),
    ] = None,
) -> Exit:
    """Export the whole audit log, oldest entry first. Each entry is exactly as it was hashed."""
    import json
    import sys

    from holdfast.audit import reader
    from holdfast.audit.chain import content_of
    from holdfast.system import files

    if format_ not in {None, _FORMAT}:
        raise UsageError(
            "HF-AUDIT-7", f"--format {format_}: unknown format", hint=f"Write --format {_FORMAT}."
        )
    _, store = _open(invocation)
    lines = tuple(reader.all_lines(store, _warn_unreadable(invocation)))
    if out is not None:
        files.write(out.absolute(), content_of(lines))
    if invocation.as_json:
        texts = [line.decode("utf-8", "replace") for line in lines] if out is None else None
        document = {"version": 1, "format": _FORMAT, "count": len(lines), "out": out and str(out)}
        sys.stdout.write(json.dumps({**document, "lines": texts}, indent=2, ensure_ascii=False) + "\n")
    elif out is None:
        # They were redacted before they were hashed; redacting again would break the hashes.
        sys.stdout.buffer.write(content_of(lines))
        sys.stdout.buffer.flush()
    else:
        invocation.console.say(f" Wrote {plural(len(lines), 'line')} to {out}")
    return Exit.DONE


def accept_loss(
    invocation: Invocation,
    reason: Annotated[
        str | None, Option("--reason", metavar="TEXT", help="Why the entries are missing; recorded.")
    ] = None,
) -> Exit:
    """Continue the audit log although its last entries are missing. The gap stays visible."""
    from holdfast.plans.context import Identity

    if not (reason or "").strip():
        raise UsageError(
            "HF-USE-25", "audit accept-loss needs --reason", hint="The reason is recorded in the audit log."
        )
    _, store = _open(invocation)
    identity = Identity(store, invocation.environment, invocation.console.redactor)
    missing = identity.audit.accept_loss(reason or "")
    return invocation.answer(
        {"version": 1, "missing": missing, "reason": reason},
        f" Accepted: {missing}. The audit log continues after the gap.",
    )


def _open(invocation: Invocation) -> tuple[Config, RunStore]:
    """The run store of this repository. Mistakes in its stacks do not matter here."""
    from holdfast.audit.layout import HEAD
    from holdfast.changes.repository import open_repository

    repository = open_repository(
        invocation.config,
        invocation.environment,
        with_stacks=False,
        elsewhere=" The log of a server: GET /api/v1/audit, with a token.",
    )
    repository.tune(invocation.console.redactor)
    if repository.store.on_server:
        # The server lists only what the caller may read: no entries, instead of saying so.
        repository.store.blobs.read(HEAD)
    return repository.config, repository.store


def _warn_unreadable(invocation: Invocation) -> Callable[[Piece], None]:
    def warn(piece: Piece) -> None:
        invocation.console.warn(f"cannot read entry {piece.seq}; details: holdfast audit verify")

    return warn


def _since(since: str | None) -> datetime | None:
    if since is None:
        return None
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        raise UsageError(
            "HF-AUDIT-6",
            f"--since {since}: not a date",
            hint="Write --since 2026-07-25, or 2026-07-25T10:00.",
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _at(line: Mapping[str, object]) -> datetime:
    """When the entry was written; an entry without a valid time is always shown."""
    from datetime import UTC, datetime

    try:
        return _since(str(line.get("at"))) or datetime.max.replace(tzinfo=UTC)
    except UsageError:
        return datetime.max.replace(tzinfo=UTC)


def _show_entry(console: Console, line: Mapping[str, object]) -> None:
    from holdfast.cli.views.state import moment

    who = line.get("who")
    who = who if isinstance(who, Mapping) else {}
    name, shown = who.get("name") or "unknown", str(who.get("shown") or "unknown")
    by = shown if shown == name or shown.startswith(f"{name}@") else f"{name} ({shown})"
    verified = "" if who.get("verified") is True else ", unverified"
    outcome = ", ".join(str(word) for word in (line.get("outcome"), line.get("error")) if word)
    mark = ("  BREAK GLASS", "bold yellow") if line.get("break_glass") is True else ""
    console.line(
        f" {line.get('seq'):>6}  {moment(str(line.get('at')))}  ",
        (f"{line.get('what')} ", "bold"),
        f"{line.get('stack') or ''}{f': {outcome}' if outcome else ''}  by {by}{verified}",
        mark,
    )
    for name in ("decision", "reason", "until", "run", "digest"):
        if line.get(name):
            console.say((f"           {name}: {line.get(name)}", "dim"))
    details = line.get("details")
    if isinstance(details, Mapping):
        for name in _DETAILS.get(str(line.get("what")), ()):
            if details.get(name) not in (None, ""):
                console.say((f"           {name}: {details.get(name)}", "dim"))


def _show_verdict(console: Console, verdict: Verification, waiting: int | None) -> None:
    from holdfast.kernel.errors import Problem

    for note in verdict.notes:
        console.say(("   note: ", "dim"), note)
    if waiting:
        console.say(("   note: ", "dim"), f"{plural(waiting, 'entry', 'entries')} not yet shipped to S3")
    if verdict.whole:
        entries = plural(verdict.lines, "entry", "entries")
        console.line(f" The audit log is intact: {entries}, last hash {verdict.end.hash or 'none'}")
        return
    hint = "Compare it with a backup of the run store, or with the copy in S3. See docs/audit.md."
    messages = [
        problem.message
        if problem.expected is None
        else f"{problem.message}: expected {problem.expected}, found {problem.found}"
        for problem in verdict.breaks[:_MOST_BREAKS]
    ]
    if len(verdict.breaks) > _MOST_BREAKS:
        messages.append(f"and {len(verdict.breaks) - _MOST_BREAKS} more; --json lists them all")
    *problems, last = (Problem(code="HF-AUDIT-1", message=message) for message in messages)
    console.problems((*problems, last._replace(hint=hint)), Exit.UNKNOWN)


def _verdict_document(verdict: Verification, waiting: int | None) -> dict[str, object]:
    return {
        "version": 1,
        "intact": verdict.whole,
        "lines": verdict.lines,
        "last": {"seq": verdict.end.seq, "hash": verdict.end.hash},
        "breaks": [
            {"code": "HF-AUDIT-1", **fields(problem, "seq", "kind", "message", "expected", "found")}
            for problem in verdict.breaks
        ],
        "notes": list(verdict.notes),
        "unshipped": waiting,
    }
