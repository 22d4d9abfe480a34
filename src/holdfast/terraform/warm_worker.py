"""The process that keeps Terraform warm: it holds the library and runs one command at a time.

Started as `python warm_worker.py LIBRARY SOCKET` with the environment it has for life:
Go reads its environment once. Messages are lines of JSON over the socket; a command comes with two
descriptors for its output, which Terraform writes to directly. When the one who asked is gone, the running
command is finished and the process ends: an apply does not die with its parent.

Imports are few on purpose: this start is part of every first command.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import socket
import sys
import threading

_BUFFER = 1 << 20
_BROKEN = 70


class Library:
    """The two calls of the embedded Terraform that are used."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        self._run = library.RunCliWithCancel
        self._run.argtypes = [
            ctypes.c_char_p,
            ctypes.c_int64,
            ctypes.POINTER(ctypes.c_char_p),
            ctypes.c_int64,
            ctypes.c_int64,
        ]
        self._cancel = library.CancelCli
        self._cancel.argtypes = [ctypes.c_char_p]
        self._cancel.restype = ctypes.c_int

    def run(self, name: str, argv: list[str], out: int, err: int) -> int:
        """Blocks without holding Python's lock. The library closes both descriptors."""
        texts = (ctypes.c_char_p * len(argv))(*[os.fsencode(text) for text in argv])
        return int(self._run(name.encode(), len(argv), texts, out, err))

    def cancel(self, name: str) -> None:
        self._cancel(name.encode())


def _size() -> dict[str, int]:
    """What decides whether this process is recycled."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - pathlib is not imported here
            memory = int(file.read().split()[1]) * resource.getpagesize()
        files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    except OSError:
        # Where there is no /proc: the most memory it ever had, which macOS counts in bytes.
        unit = 1 if sys.platform == "darwin" else 1024
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        files = len(os.listdir("/dev/fd"))  # noqa: PTH208
    return {"memory": memory, "files": files}


class Worker:
    def __init__(self, library: Library, channel: socket.socket) -> None:
        self._library = library
        self._channel = channel
        self._sending = threading.Lock()
        self._running: threading.Thread | None = None

    def tell(self, message: dict[str, object]) -> None:
        try:
            with self._sending:
                self._channel.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # Nobody listens any more; the command itself is what matters.

    def serve(self) -> None:
        self.tell({"ready": True})
        pending = b""
        descriptors: list[int] = []
        while True:
            try:
                data, received, _, _ = socket.recv_fds(self._channel, _BUFFER, 8)
            except OSError:
                data, received = b"", []
            for descriptor in received:
                # A provider or a provisioner that lives on must not hold a command's output open.
                os.set_inheritable(descriptor, False)  # noqa: FBT003 - the standard library's own signature
            descriptors += received
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "run" in message:
                    out, err = descriptors.pop(0), descriptors.pop(0)
                    self._start(message, out, err)
                elif "cancel" in message:
                    self._library.cancel(message["cancel"])
        if self._running is not None:
            self._running.join()

    def _start(self, message: dict[str, object], out: int, err: int) -> None:
        self._running = threading.Thread(target=self._execute, args=(message, out, err), daemon=False)
        self._running.start()

    def _execute(self, message: dict[str, object], out: int, err: int) -> None:
        name, argv = str(message["run"]), [str(text) for text in message["argv"]]  # type: ignore[attr-defined]
        try:
            code = self._library.run(name, argv, out, err)
        except Exception as error:  # noqa: BLE001 - without an answer the other side would wait for ever
            sys.stderr.write(f"{error!r}\n")
            sys.stderr.flush()
            os._exit(_BROKEN)
        self.tell({"done": name, "code": code, **_size()})


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[2]))
    # What this process starts must not keep the conversation open when the process is gone.
    channel.set_inheritable(False)
    Worker(Library(sys.argv[1]), channel).serve()
    # Go's own threads do not let the interpreter end in an orderly way.
    os._exit(0)


if __name__ == "__main__":
    main()
