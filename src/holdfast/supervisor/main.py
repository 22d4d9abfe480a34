"""The supervisor, the process that runs Terraform.

`python main.py PATHS KIND ENGINE SCRATCH SECRETS RULESET STATE_SOCKET SOCKET`: SECRETS are the files that
Terraform must not read, RULESET and the sockets are descriptors. SCRATCH tells others which folder is in use.

`python main.py PATHS TURN LOADING ARGUMENT SOCKET`: a spare one, which gets the rest, and its environment,
over its socket. It loads its modules when the pipe TURN ends, and closes the pipe LOADING then.

It outlives its caller. Terraform's output goes into the run's journal first, a managed state is served by the
local state backend, and the exit record is written even when the caller is gone. Terraform and all that it
starts are confined; the threads that write the journal and serve the state are not.

What the first command does not need is imported in a thread while it runs.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import sys
import threading

_OF_SPARE = 3
"""Arguments of a spare process, without paths and socket."""


def main() -> None:
    paths, *arguments, channel_number = sys.argv[1:]
    spare = len(arguments) == _OF_SPARE
    if spare and int(arguments[0]) >= 0:
        os.read(int(arguments[0]), 1)
    sys.path[:0] = [path for path in paths.split(os.pathsep) if path not in sys.path]
    # What the imports create stays, and a command leaves little: to look for rings costs more than they do.
    gc.set_threshold(100_000, 20, 50)
    from holdfast.system import confine  # noqa: PLC0415 - its path came just now
    from holdfast.terraform.engine.worker import EngineThread, Worker  # noqa: PLC0415 - as above

    measures = () if confine.can_confine_threads() else confine.process_measures()
    confine.protect_process()
    channel = socket.socket(fileno=int(channel_number))
    # Child processes must not keep the connection open after this process is gone.
    channel.set_inheritable(False)
    if spare:
        arguments = _receive_arguments(channel, int(arguments[1]))
    kind, engine, _scratch, secrets, ruleset, state_socket = arguments
    if int(state_socket) >= 0:
        os.set_inheritable(int(state_socket), False)  # noqa: FBT003 - the standard library's own signature
    threading.Thread(target=_import_ahead, daemon=True).start()
    observers = _Observers(int(state_socket))
    thread = EngineThread(kind, engine, int(ruleset))
    confinement = thread.confinement(measures, json.loads(secrets))
    worker = Worker(thread, channel, observers.observe)
    worker.serve(confinement._asdict())
    thread.end_providers()
    if worker.last_code < 0:
        # Terraform was killed and its providers were not: they must not stay behind.
        os.killpg(os.getpgrp(), 9)
    # Go's threads keep the interpreter from exiting normally.
    os._exit(0)


def _receive_arguments(channel: socket.socket, loading: int) -> list[str]:
    """Wait until this spare process is needed, or its caller has ended."""
    from holdfast.system import given_environment  # noqa: PLC0415 - as above

    _import_ahead()
    if loading >= 0:
        os.close(loading)
    text, descriptors = b"", list[int]()
    while not text.endswith(b"\n"):
        data, received, _, _ = socket.recv_fds(channel, 1 << 18, 2)
        if not data:
            os._exit(0)
        text, descriptors = text + data, descriptors + received
    message = json.loads(text)
    *arguments, scratch, secrets = message["arguments"]
    given_environment.replace(message["environment"], scratch)
    os.chdir(scratch)
    numbers = [str(descriptors.pop(0) if present else -1) for present in message["has"]]
    return [*arguments, scratch, secrets, *numbers]


def _import_ahead() -> None:
    importlib.import_module("holdfast.supervisor.services")


class _Observers:
    """Loads the services when a command first needs them: most commands need none."""

    def __init__(self, state_socket: int) -> None:
        self._state_socket = state_socket
        self._services: object = None

    def observe(self, message: dict[str, object]) -> object:
        from holdfast.terraform.engine.worker import CommandObserver  # noqa: PLC0415 - as above

        if "store" not in message:
            return CommandObserver()
        from holdfast.supervisor.services import SupervisorServices  # noqa: PLC0415 - as above

        if self._services is None:
            self._services = SupervisorServices(self._state_socket)
        return self._services.observe(message)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
