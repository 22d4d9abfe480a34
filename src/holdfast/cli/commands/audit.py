"""`holdfast audit`: who did what, and whether the record of it is whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Group, Invocation, Option, command
from holdfast.kernel.errors import Exit, UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.audit.chain import Piece
    from holdfast.audit.verify import Verdict
    from holdfast.cli.console import Console
    from holdfast.config.valid import Config
    from holdfast.store.run_store import RunStore

_LIMIT = 20
_MOST_BREAKS = 20
_FORMAT = "jsonl"


def register(app: Group) -> None:
    group = Group("audit", help="The record: who did what, why, how it ended; whether it is whole.")
    command(group, "show")(show)
    command(group, "verify")(verify)
    command(group, "export")(export)
    app.add_command(group)


def show(
    invocation: Invocation,
    stack: Annotated[str | None, Option("--stack", metavar="STACK", help="Only acts on this stack.")] = None,
    since: Annotated[
        str | None, Option("--since", metavar="DATE", help="Only from this day or moment (UTC) on.")
    ] = None,
    limit: Annotated[
        str | None, Option("--limit", metavar="N", help=f"How many at most; {_LIMIT} without it.")
    ] = None,
) -> Exit:
    """Show what was done, newest first."""
    from holdfast.audit.reader import newest

    begin, most = _moment(since), _number(limit)

    def wanted(line: Mapping[str, object]) -> bool:
        return (stack is None or line.get("stack") == stack) and (begin is None or _at(line) >= begin)

    _, store = _opened(invocation)
    found = newest(store, limit=most, wanted=wanted, tell=_unopened(invocation))
    if invocation.as_json:
        invocation.document({"version": 1, "entries": list(found)})
        return Exit.DONE
    for line in found:
        _show_line(invocation.console, line)
    if not found:
        invocation.console.say(" nothing is recorded")
    return Exit.DONE


def verify(invocation: Invocation) -> Exit:
    """Read the whole record and say whether anything in it was changed, cut off, swapped or removed."""
    from holdfast.audit import reader, sink

    config, store = _opened(invocation)
    found = reader.verify(store)
    waiting = sink.waiting(store, config.audit_s3) if config.audit_s3 is not None and found.whole else None
    if invocation.as_json:
        invocation.document(_verdict_document(found, waiting))
    else:
        _show_verdict(invocation.console, found, waiting)
    return Exit.DONE if found.whole else Exit.UNKNOWN


def export(
    invocation: Invocation,
    format_: Annotated[
        str | None,
        Option("--format", metavar="FORMAT", help=f"{_FORMAT}, the only one: one JSON object in each line."),
    ] = None,
    out: Annotated[
        Path | None, Option("--out", metavar="FILE", help="A file (0600) instead of standard output.")
    ] = None,
) -> Exit:
    """Write all of the record, oldest first, byte for byte as its hashes were made."""
    import sys

    from holdfast.audit import reader
    from holdfast.audit.chain import content_of
    from holdfast.system import files

    if format_ not in {None, _FORMAT}:
        raise UsageError("HF-AUDIT-7", f"--format {format_} is not known", hint=f"Write --format {_FORMAT}.")
    _, store = _opened(invocation)
    lines = tuple(reader.all_lines(store, _unopened(invocation)))
    if out is not None:
        files.write(out.absolute(), content_of(lines))
    if invocation.as_json:
        texts = [line.decode("utf-8", "replace") for line in lines] if out is None else None
        document = {"version": 1, "format": _FORMAT, "count": len(lines), "out": out and str(out)}
        sys.stdout.write(_dumped({**document, "lines": texts}))
    elif out is None:
        # Cleaned before they were hashed: cleaned again, they would not fit their hashes.
        sys.stdout.buffer.write(content_of(lines))
        sys.stdout.buffer.flush()
    else:
        invocation.console.say(f" {len(lines)} lines in {out}")
    return Exit.DONE


def _opened(invocation: Invocation) -> tuple[Config, RunStore]:
    """The store of this repository. Its stacks need not be right for its record to be read."""
    from holdfast.config import read as config_read
    from holdfast.secrets.keys import load_or_create_key
    from holdfast.secrets.redact import redaction_settings
    from holdfast.store.place import open_blobs
    from holdfast.store.run_store import RunStore

    config = config_read.load(invocation.config or config_read.find(Path.cwd()))
    hidden = config.redaction
    invocation.console.redactor.tune(redaction_settings(hidden.off, hidden.words, hidden.entropy))
    environment = invocation.environment
    blobs = open_blobs(config.store, config.root, environment.variables)
    return config, RunStore(blobs, lambda: load_or_create_key(environment).key)


def _unopened(invocation: Invocation) -> Callable[[Piece], None]:
    """What is left out is said: nothing that could not be read is passed over in silence."""

    def tell(piece: Piece) -> None:
        invocation.console.warn(f"line {piece.seq} cannot be opened; more with: holdfast audit verify")

    return tell


def _number(limit: str | None) -> int:
    if limit is None:
        return _LIMIT
    if not limit.isascii() or not limit.isdigit() or not int(limit):
        raise UsageError("HF-USE-20", f"--limit {limit}: not a number from 1 on", hint="Write --limit 50.")
    return int(limit)


def _moment(since: str | None) -> datetime | None:
    if since is None:
        return None
    from datetime import UTC, datetime

    try:
        found = datetime.fromisoformat(since)
    except ValueError:
        raise UsageError(
            "HF-AUDIT-6",
            f"--since {since}: not a date",
            hint="Write --since 2026-07-25, or 2026-07-25T10:00.",
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _at(line: Mapping[str, object]) -> datetime:
    """When it was written. What cannot be told is always shown."""
    from datetime import UTC, datetime

    try:
        found = datetime.fromisoformat(str(line.get("at")))
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _show_line(console: Console, line: Mapping[str, object]) -> None:
    from holdfast.cli.views.state import moment

    who = line.get("who")
    who = who if isinstance(who, Mapping) else {}
    name, shown = who.get("name"), str(who.get("shown") or "?")
    by = shown if shown.startswith(f"{name}@") else f"{name} ({shown})"
    proved = "" if who.get("proved") is True else ", unproved"
    outcome = ", ".join(str(word) for word in (line.get("outcome"), line.get("error")) if word)
    mark = ("  BREAK GLASS", "bold yellow") if line.get("break_glass") is True else ""
    console.line(
        f" {line.get('seq'):>6}  {moment(str(line.get('at')))}  ",
        (f"{line.get('what')} ", "bold"),
        f"{line.get('stack') or ''}{f': {outcome}' if outcome else ''}  by {by}{proved}",
        mark,
    )
    for name in ("decision", "reason", "until", "run", "digest"):
        if line.get(name):
            console.say((f"           {name}: {line.get(name)}", "dim"))


def _show_verdict(console: Console, found: Verdict, waiting: int | None) -> None:
    from holdfast.kernel.errors import Problem

    for note in found.notes:
        console.say(("   note: ", "dim"), note)
    if waiting:
        console.say(("   note: ", "dim"), f"{waiting} lines wait to be shipped to S3")
    if found.whole:
        console.line(f" the record is whole: {found.lines} lines, the last one {found.end.hash or 'none'}")
        return
    hint = "Compare it with a copy: a backup of the run store, or what was shipped to S3. See docs/audit.md."
    shown = found.breaks[:_MOST_BREAKS]
    problems = tuple(
        Problem(code="HF-AUDIT-1", message=_message(one.message, one.expected, one.found)) for one in shown
    )
    if len(found.breaks) > len(shown):
        more = f"and {len(found.breaks) - len(shown)} more; --json lists them all"
        problems = (*problems, Problem(code="HF-AUDIT-1", message=more))
    last = Problem(code=problems[-1].code, message=problems[-1].message, hint=hint)
    console.problems((*problems[:-1], last), Exit.UNKNOWN)


def _message(message: str, expected: str | None, found: str | None) -> str:
    return message if expected is None else f"{message}: expected {expected}, found {found}"


def _verdict_document(found: Verdict, waiting: int | None) -> dict[str, object]:
    return {
        "version": 1,
        "whole": found.whole,
        "lines": found.lines,
        "last": {"seq": found.end.seq, "hash": found.end.hash},
        "breaks": [
            {
                "code": "HF-AUDIT-1",
                "seq": one.seq,
                "kind": one.kind,
                "message": one.message,
                "expected": one.expected,
                "found": one.found,
            }
            for one in found.breaks
        ],
        "notes": list(found.notes),
        "unshipped": waiting,
    }


def _dumped(document: object) -> str:
    import json

    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
