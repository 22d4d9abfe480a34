"""The commands of `holdfast state` for states on the server, and what decides between them and a stack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.cli.parameters import Reason, Yes
from holdfast.kernel.errors import Exit, UsageError

if TYPE_CHECKING:
    from holdfast.states.server_states import ServerState

StateName = Annotated[
    str | None, Option("--state", metavar="NAME", help="A state on the server, instead of a stack.")
]
OneVersion = Annotated[str, Argument(metavar="VERSION", help="A number from `state versions`, or serial:N.")]


def require_stack(name: str | None) -> str:
    if name is None:
        raise UsageError(
            "HF-USE-1",
            "no stack is named",
            hint="Name a STACK, or a state on the server: --state NAME",
        )
    return name


def require_argument(value: str | None, name: str, hint: str = "See --help of the command.") -> str:
    if value is None:
        raise UsageError("HF-USE-1", f"the argument {name} is missing", hint=hint)
    return value


def no_more(*unexpected: object) -> None:
    if any(value for value in unexpected):
        raise UsageError(
            "HF-USE-4",
            "these options or arguments cannot be combined with each other",
            hint="With --state NAME, no STACK is named. See --help of the command.",
        )


def _state(invocation: Invocation, name: str | None) -> ServerState:
    from holdfast.cli.states.on_server import open_state

    if name is None:
        raise UsageError(
            "HF-USE-1", "no state is named", hint="Add --state NAME; list them: holdfast state list"
        )
    return open_state(invocation, name)


def locks(invocation: Invocation, state: StateName = None) -> Exit:
    """Show who holds locks on the server, and who waits. Without --state: all locks."""
    from holdfast.cli.states.on_server import run_locks

    return run_locks(invocation, state)


def set_(
    invocation: Invocation,
    name: Annotated[str | None, Argument(metavar="NAME", help="Name of a state on the server.")] = None,
    unlocked_writes: Annotated[
        bool, Option("--unlocked-writes", help="Accept writes of clients that cannot lock. Recorded.")
    ] = False,
    locked_writes: Annotated[
        bool, Option("--locked-writes", help="Accept writes only under the lock, as by default.")
    ] = False,
    state: StateName = None,
) -> Exit:
    """Change a setting of a state on the server. The state need not exist yet."""
    from holdfast.cli.states.on_server import run_set

    no_more(name is not None and state is not None, unlocked_writes and locked_writes)
    if not unlocked_writes and not locked_writes:
        raise UsageError("HF-USE-1", "nothing to set", hint="Add --unlocked-writes or --locked-writes.")
    return run_set(invocation, require_argument(name or state, "NAME"), allowed=unlocked_writes)


def pin(
    invocation: Invocation,
    version: OneVersion,
    state: StateName = None,
    reason: Reason = None,
    remove: Annotated[bool, Option("--remove", help="Let retention remove it again.")] = False,
) -> Exit:
    """Keep a version on the server, whatever retention says. Needs --reason."""
    from holdfast.cli.states.on_server import run_pin

    return run_pin(invocation, _state(invocation, state), version, None if remove else _reason(reason))


def purge(
    invocation: Invocation,
    version: OneVersion,
    state: StateName = None,
    yes: Yes = False,
    reason: Reason = None,
) -> Exit:
    """Destroy the content of an old version on the server. Needs --reason.

    For a version that contains a secret. That there was a version stays recorded.
    """
    from holdfast.cli.states.on_server import run_purge

    return run_purge(invocation, _state(invocation, state), version, _reason(reason), yes=yes)


def scan(
    invocation: Invocation,
    name: Annotated[str | None, Argument(metavar="STACK", help="Name of the stack.")] = None,
    state: StateName = None,
) -> Exit:
    """Find secrets in a state, in any backend. Says what to do about each."""
    from holdfast.cli.states.scan import run_scan, run_scan_on_server

    if state is not None:
        no_more(name)
        return run_scan_on_server(invocation, _state(invocation, state))
    return run_scan(invocation, require_stack(name))


def export(
    invocation: Invocation,
    folder: Annotated[Path, Argument(metavar="DIR", help="A new folder.")],
    state: Annotated[
        list[str] | None,
        Option(
            "--state", metavar="NAME", help="Only this state; repeatable. Default: all that you may read."
        ),
    ] = None,
    current: Annotated[bool, Option("--current", help="Only the current version of each state.")] = False,
    plaintext: Annotated[
        bool, Option("--plaintext", help="Write states with their secrets as plain text, without a key.")
    ] = False,
    yes: Yes = False,
) -> Exit:
    """Write states of the server to a folder.

    With all their versions, readable without the server.

    They are encrypted with your key (HOLDFAST_KEY, HOLDFAST_KEY_FILE or the one in Holdfast's home) unless
    you ask for plain text.
    """
    from holdfast.cli.states.transfer import run_export

    names = tuple(state or ())
    return run_export(invocation, folder, names, plaintext=plaintext, current_only=current, yes=yes)


def import_(
    invocation: Invocation,
    source: Annotated[
        str | None,
        Argument(
            metavar="SOURCE",
            help="The folder of an export or of a run store (.holdfast), a state file, or -.",
        ),
    ] = None,
    state: StateName = None,
    stack: Annotated[
        str | None,
        Option(
            "--stack", metavar="STACK", help="Import what this stack has in its backend, whichever that is."
        ),
    ] = None,
) -> Exit:
    """Import states into the server.

    From an export, a file, or the backend of a stack.

    Nothing is overwritten: lineage and serial must follow what is stored. Each version is compared with its
    source after it was written.
    """
    from holdfast.cli.states.transfer import run_import

    no_more(source is not None and stack is not None)
    if source is None and stack is None:
        raise UsageError("HF-USE-1", "nothing to import is named", hint="Name a SOURCE, or --stack STACK.")
    return run_import(invocation, source, state, stack)


def _reason(reason: str | None) -> str:
    if not (reason or "").strip():
        raise UsageError("HF-USE-16", "this needs --reason", hint="Add --reason TEXT; it is recorded.")
    return str(reason)
