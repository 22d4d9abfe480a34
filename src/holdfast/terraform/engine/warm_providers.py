"""Provider processes that a worker keeps between its commands. Terraform reattaches to them.

A provider process holds one configuration and serves one Terraform at a time. So it belongs to one worker,
which has one environment and one provider configuration and runs one command at a time, and it ends with
that worker: after an interrupt, a failed command or the end of any of its providers, the worker is not used
again. Why it is done this way: docs/decisions/0024.

The worker gets the programs in the variable in which Terraform looks for addresses, and replaces them by
addresses before it loads Terraform. A provider that cannot be kept is left out: Terraform starts it as usual.
The supervisor loads this module, so imports are few.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping

from holdfast.system import end_with_parent, given_environment
from holdfast.terraform.engine import worker_sockets

VARIABLE = "TF_REATTACH_PROVIDERS"
HANDSHAKE: Mapping[str, str] = {
    "TF_PLUGIN_MAGIC_COOKIE": "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
    "PLUGIN_PROTOCOL_VERSIONS": "5,6",
    "PLUGIN_MIN_PORT": "10000",
    "PLUGIN_MAX_PORT": "25000",
}
"""What Terraform tells a provider that it starts without plugin TLS."""
_HIDDEN_PREFIXES = ("TF_HTTP_", VARIABLE)
"""Terraform's own: a provider that serves several stacks has nothing to do with their states."""
_PARTS_WITHOUT_CERTIFICATE = 5
_START_SECONDS = 60.0
_FOLDER = "/proc"
"""Where they run. Nothing can be created there, not even by root: every relative path fails."""
_ROOM = 400


def request(programs: Iterable[tuple[str, str]]) -> str:
    """The value of the variable for a new worker, with room for the addresses."""
    by_address = dict(programs)
    return json.dumps(by_address) + " " * (_ROOM * len(by_address))


def plaintext_socket(line: str) -> tuple[int, str] | None:
    """Protocol version and socket of `1|6|unix|/path/to/socket|grpc|`, with no certificate after it."""
    parts = line.strip().split("|")
    if len(parts) < _PARTS_WITHOUT_CERTIFICATE:
        return None
    _, version, network, path, protocol, *rest = parts
    plain = network == "unix" and protocol == "grpc" and not (rest and rest[0])
    return (int(version), path) if plain and version.isdigit() else None


class _Provider:
    """One process. Its output after the handshake is thrown away."""

    def __init__(self, program: str, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(end_with_parent.__file__), str(os.getpid()), program],
            cwd=_FOLDER,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=worker_sockets.inherited(),
        )
        self.ended = False

    def address(self) -> dict[str, object] | None:
        """Wait for the handshake. None if Terraform cannot be attached to it."""
        output = self.process.stdout
        timer = threading.Timer(_START_SECONDS, self.process.kill)
        timer.start()
        try:
            line = output.readline().decode(errors="replace") if output is not None else ""
        finally:
            timer.cancel()
        plain = plaintext_socket(line)
        try:
            number = (
                _take_socket(plain[1]) if plain is not None and worker_sockets.is_private(plain[1]) else None
            )
        except OSError:
            number = None
        if plain is None or number is None:
            self.process.kill()
            self.process.wait()
            return None
        return {
            "Protocol": "grpc",
            "ProtocolVersion": plain[0],
            "Pid": self.process.pid,
            "Test": True,  # Terraform neither ends the process nor asks it to end.
            "Addr": {"Network": "unix", "String": f"/proc/self/fd/{number}"},
        }

    def watch(self, tell: Callable[[], None]) -> None:
        output = self.process.stdout
        while output is not None and output.read(1 << 16):
            pass
        self.process.wait()
        self.ended = True
        tell()


def _take_socket(path: str) -> int | None:
    """A descriptor of the socket, which then has no name: no other process can connect to it."""
    number = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        os.close(number)
        return None
    os.unlink(path)  # noqa: PTH108 - pathlib is not imported here
    return number


class WarmProviders:
    """The provider processes of this worker. Create it in the thread whose confinement they get."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        programs: dict[str, str] = json.loads(environment[VARIABLE])
        self._folder = f"{environment['TMPDIR']}/p{os.getpid()}"
        os.mkdir(self._folder, 0o700)  # noqa: PTH102 - as above
        self._tell: Callable[[], None] | None = None
        own = {name: text for name, text in environment.items() if not name.startswith(_HIDDEN_PREFIXES)}
        own |= {**HANDSHAKE, "TMPDIR": self._folder}
        started = {address: _start(program, own) for address, program in programs.items()}
        self._providers: list[_Provider] = []
        addresses: dict[str, object] = {}
        for name, provider in started.items():
            address = provider.address() if provider is not None else None
            if provider is not None and address is not None:
                addresses[name] = address
                self._providers.append(provider)
        given_environment.overwrite(VARIABLE, json.dumps(addresses))
        for provider in self._providers:
            threading.Thread(target=provider.watch, args=(self._ended,), daemon=True).start()

    def on_end(self, tell: Callable[[], None]) -> None:
        """`tell` is called, in a thread of its own, when one of them has ended."""
        self._tell = tell
        if self.ended:
            tell()

    def _ended(self) -> None:
        if self._tell is not None:
            self._tell()

    @property
    def ended(self) -> bool:
        return any(provider.ended for provider in self._providers)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(provider.process.pid for provider in self._providers)

    def end(self) -> None:
        for provider in self._providers:
            provider.process.kill()
        for provider in self._providers:
            provider.process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _start(program: str, environment: Mapping[str, str]) -> _Provider | None:
    try:
        return _Provider(program, environment)
    except OSError:
        return None
