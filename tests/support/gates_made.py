"""What gates look at in tests: a DNS server and TLS servers on loopback, a clock that needs no waiting."""

from __future__ import annotations

import contextlib
import datetime as dt
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import trustme
from dnslib import AAAA, CNAME, QTYPE, RCODE, RR, A, DNSRecord
from dnslib.server import BaseResolver, DNSHandler, DNSServer

from holdfast.config.gates import Gate
from holdfast.config.read import parse
from holdfast.config.settings import Target
from holdfast.gates.interface import Observation, Tools
from holdfast.kernel.secret import Secret
from holdfast.system.environment import Environment
from holdfast.terraform.engine.interface import Stop

Records = Mapping[str, tuple[str, ...]]


def gates_of(text: str) -> tuple[Gate, ...]:
    """The gates of one target, as written in holdfast.yaml."""
    return target_of(f"targets:\n  aws:\n    gates:\n{text}").gates


def target_of(text: str) -> Target:
    """The first target of a holdfast.yaml."""
    root = Path("/repo")
    return parse(f"version: 1\n{text}", file="holdfast.yaml", root=root, path=root / "holdfast.yaml").targets[
        0
    ]


def gate(text: str) -> Gate:
    return gates_of(f"      - {{ name: it, {text} }}\n")[0]


def tools(folder: Path, variables: Mapping[str, str] = MappingProxyType({})) -> Tools:
    return Tools(
        environment=Environment(variables=variables),
        root=folder,
        read_secret=lambda reference: Secret(f"value of {reference}"),
        confinement=lambda: -1,
        variables=variables,
        stop=Stop(),
    )


class Ticks:
    """A clock of one gate: a pause takes no time, and an attempt takes what the test says."""

    def __init__(self, *, attempt: float = 0.0) -> None:
        self.time = 0.0
        self.pauses: list[float] = []
        self._attempt = attempt

    def now(self) -> float:
        return self.time

    async def pause(self, seconds: float, stop: Stop) -> None:
        del stop
        self.pauses.append(seconds)
        self.time += seconds


class Script:
    """A probe that observes what it is given, the last of it for ever."""

    def __init__(self, *observations: Observation, ticks: Ticks | None = None, takes: float = 0.0) -> None:
        self._left = list(observations)
        self._ticks, self._takes = ticks, takes
        self.seconds: list[float] = []

    async def observe(self, seconds: float) -> Observation:
        self.seconds.append(seconds)
        if self._ticks is not None:
            self._ticks.time += self._takes
        return self._left.pop(0) if len(self._left) > 1 else self._left[0]


class Zone(BaseResolver):  # type: ignore[misc]
    """Answers from `records`; a name that begins with `*.` is a wildcard. `code` fails every question."""

    def __init__(self, records: Records) -> None:
        self.records = dict(records)
        self.code: int | None = None
        self.silent = False

    def resolve(self, request: DNSRecord, handler: DNSHandler) -> DNSRecord:
        del handler
        reply, name = request.reply(), str(request.q.qname).rstrip(".").lower()
        if self.code is not None:
            reply.header.rcode = self.code
            return reply
        values = self.records.get(name) or self.records.get(f"*.{name.partition('.')[2]}")
        if values is None:
            reply.header.rcode = RCODE.NXDOMAIN
            return reply
        for value in values:
            self._add(reply, name, value, QTYPE[request.q.qtype])
        return reply

    def _add(self, reply: DNSRecord, name: str, value: str, kind: str) -> None:
        if not value[0].isdigit() and ":" not in value:
            reply.add_answer(RR(name, QTYPE.CNAME, rdata=CNAME(value), ttl=1))
            for target in self.records.get(value, ()):
                self._add(reply, value, target, kind)
        elif ":" in value and kind == "AAAA":
            reply.add_answer(RR(name, QTYPE.AAAA, rdata=AAAA(value), ttl=1))
        elif ":" not in value and kind == "A":
            reply.add_answer(RR(name, QTYPE.A, rdata=A(value), ttl=1))


class _Quiet:
    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_: None


@contextlib.contextmanager
def dns_server(records: Records) -> Iterator[tuple[Zone, str]]:
    """The zone, which can be changed, and the address for `resolvers`."""
    zone = Zone(records)
    server = DNSServer(zone, address="127.0.0.1", port=0, logger=_Quiet())
    server.start_thread()
    try:
        yield zone, f"127.0.0.1:{server.server.server_address[1]}"
    finally:
        server.stop()
        server.server.server_close()


@contextlib.contextmanager
def tls_server(
    folder: Path, *names: str, authority: trustme.CA | None = None, expires: dt.datetime | None = None
) -> Iterator[tuple[int, Path]]:
    """The port, and the file of the authority that issued the certificate."""
    ca = authority or trustme.CA()
    ca_file = folder / "ca.pem"
    ca.cert_pem.write_to_path(str(ca_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*names, not_after=expires).configure_cert(context)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        thread = threading.Thread(target=_serve, args=(listening, context), daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1], ca_file
        finally:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listening: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with (
            contextlib.suppress(OSError),
            connection,
            context.wrap_socket(connection, server_side=True) as tls,
        ):
            tls.recv(1)


def closed_port() -> int:
    """A port on which nothing listens."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        return int(listening.getsockname()[1])
