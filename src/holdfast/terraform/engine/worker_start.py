"""Starts worker processes, and spare ones before it is known what they will serve.

The program needs a quarter of a second until its first Terraform command, most of it to load its own modules,
on one core. Meanwhile spare workers load theirs on another core, and wait. They know nothing of the change
until they get their engine, environment and confinement; from then on they are like any other worker.
A spare worker that is not used ends with the program at the latest.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from holdfast.system import given_environment, processes
from holdfast.system.processes import SocketChild

_SUPERVISOR = Path(__file__).parents[2] / "supervisor" / "main.py"
"""The entry point of a worker, started by its path: it uses packages above this one."""
_spares: list[SocketChild] = []


def start_spares() -> None:
    """One for each core, two at most. An error is left to the command that needs a worker.

    The second loads its modules when the first has loaded its own: this program has the other core.
    """
    if sys.platform != "linux" or _spares:
        return
    first_loaded, loading = os.pipe()
    turns = ((-1, loading), (first_loaded, -1))
    try:
        for turn in turns[: os.cpu_count()]:
            command = (*_command(), *map(str, turn), given_environment.ARGUMENT)
            handed = [number for number in turn if number >= 0]
            started = processes.start_with_socket(
                command, folder=Path("/"), environment=given_environment.ROOM, hand_over=handed
            )
            _spares.append(started)
    except OSError:
        return
    finally:
        os.close(first_loaded)
        os.close(loading)


def take_surplus(count: int) -> list[SocketChild]:
    """The spare workers beyond this number. The caller ends them."""
    surplus, _spares[count:] = _spares[count:], []
    return surplus


def start_worker(
    engine: tuple[str, str],
    secrets: str,
    *,
    ruleset: int,
    state_socket: int,
    environment: Mapping[str, str],
    scratch: Path,
) -> tuple[SocketChild, bool]:
    """A worker, and whether it was a spare one. `ruleset` and `state_socket` may be negative: without one."""
    arguments = (*engine, str(scratch), secrets)
    descriptors = [number for number in (ruleset, state_socket) if number >= 0]
    if _spares and given_environment.fits(environment, str(scratch)):
        spare = _spares.pop(0)
        has = (ruleset >= 0, state_socket >= 0)
        message = {"arguments": arguments, "has": has, "environment": dict(environment)}
        with contextlib.suppress(OSError):  # If it is dead, the caller notices as for any worker.
            socket.send_fds(spare.channel, [json.dumps(message).encode() + b"\n"], descriptors)
        return spare, True
    started = processes.start_with_socket(
        (*_command(), *arguments, str(ruleset), str(state_socket)),
        folder=scratch,
        environment=environment,
        hand_over=descriptors,
    )
    return started, False


def _command() -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", str(_SUPERVISOR), os.pathsep.join(filter(None, sys.path)))
