"""The entry point of the process that runs Terraform: `python main.py PATHS KIND ENGINE DOOR SOCKET`.

It outlives the one who asked. What Terraform says goes into the run's journal before it goes anywhere else, a
state that Holdfast keeps is served through the state door, and the end is written down even when nobody waits
for it any more.

What is not needed for the first command is imported beside it.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import threading


def main() -> None:
    paths, kind, engine, door, channel_number = sys.argv[1:6]
    sys.path[:0] = [path for path in paths.split(os.pathsep) if path not in sys.path]
    from holdfast.terraform.engine.worker import Embedded, Program, Worker  # noqa: PLC0415 - its path came just now

    channel = socket.socket(fileno=int(channel_number))
    # What this process starts must not keep the conversation open when the process is gone.
    channel.set_inheritable(False)
    threading.Thread(target=_import_ahead, daemon=True).start()
    attendant = _Attendant(int(door))
    worker = Worker(Embedded(engine) if kind == "embedded" else Program(engine), channel, attendant.attend)
    worker.serve()
    if worker.last_code < 0:
        # Terraform was killed, and its providers were not: nothing of ours stays behind.
        os.killpg(os.getpgrp(), 9)
    # Go's own threads do not let the interpreter end in an orderly way.
    os._exit(0)


def _import_ahead() -> None:
    importlib.import_module("holdfast.supervisor.services")


class _Attendant:
    """Loads what a command needs when a command needs it: most need nothing."""

    def __init__(self, door: int) -> None:
        self._listening = door
        self._office: object = None

    def attend(self, message: dict[str, object]) -> object:
        from holdfast.terraform.engine.worker import CommandObserver  # noqa: PLC0415 - as above

        if "store" not in message:
            return CommandObserver()
        from holdfast.supervisor.services import SupervisorServices  # noqa: PLC0415 - as above

        if self._office is None:
            self._office = SupervisorServices(self._listening)
        return self._office.attention(message)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
