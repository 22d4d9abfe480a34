"""Where supervisors of Terraform reach the run store: on this machine, with a token of their run.

A worker has a slot on its host, a folder that it locks. The port stays with the slot: a supervisor that
outlived its worker goes on with the next one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import uvicorn
from msgspec.structs import replace

from holdfast.server.app import ServerParts, with_edge
from holdfast.server.edge import Log
from holdfast.server.serve import uvicorn_config
from holdfast.system import files
from holdfast.worker.store_app import StoreApplication
from holdfast.worker.store_client import StoreRoutes

_HOST: Final = "127.0.0.1"
_PORT: Final = "port"
_MOST_SLOTS: Final = 1000


class Slot(NamedTuple):
    number: int
    folder: Path

    def replace_worker(self, id_: str) -> str | None:
        """The id of the worker that had the slot before."""
        file = self.folder / "worker"
        before = files.content_of(file)
        files.write(file, id_)
        return before.decode() if before is not None else None


@contextlib.contextmanager
def hold_slot(home: Path) -> Iterator[Slot]:
    """The first one that no other worker of this host has."""
    for number in range(1, _MOST_SLOTS):
        folder = files.private_folder(home / "workers" / str(number))
        lock = files.take_lock(folder / ".lock")
        if lock is not None:
            try:
                yield Slot(number, folder)
            finally:
                os.close(lock)
            return
    raise AssertionError("too many workers on one host")


@contextlib.contextmanager
def hold_listener(slot: Slot, parts: ServerParts, routes: StoreRoutes) -> Iterator[str]:
    """The address, while requests are served in a thread."""
    settings = replace(parts.settings, tls=None, trusted_proxies=())
    quiet = replace(parts, settings=settings, log=_Faults(parts.log))
    app = with_edge(quiet, StoreApplication(routes, settings.limits))
    server = uvicorn.Server(uvicorn_config(app, settings, lifespan="off"))
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _bind(listening, slot.folder / _PORT)
        listening.listen(256)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield "http://{}:{}".format(*listening.getsockname()[:2])
        finally:
            server.should_exit = True
            thread.join(5.0)


class _Faults:
    """Without a line for each request: every heartbeat of a supervisor is one."""

    def __init__(self, log: Log) -> None:
        self.error = log.error

    def info(self, event: str, **values: object) -> None:
        pass


def _bind(listening: socket.socket, file: Path) -> None:
    """The port of this slot, unless another program took it meanwhile."""
    text = (files.content_of(file) or b"").decode()
    with contextlib.suppress(OSError, OverflowError, ValueError):
        listening.bind((_HOST, int(text)))
        return
    listening.bind((_HOST, 0))
    files.write(file, str(listening.getsockname()[1]))
