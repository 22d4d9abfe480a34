from __future__ import annotations

import base64
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from answering import Answer, Answering, Asked
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from holdfast.system import http
from holdfast.system.addresses import AddressRules
from holdfast.system.environment import Environment
from holdfast.system.http import HttpError, request

EMPTY = Environment(variables={})


def refused(url: str, environment: Environment = EMPTY, *, seconds: float = 5.0, **given: str) -> HttpError:
    with pytest.raises(HttpError) as caught:
        request("GET", url, environment=environment, headers=given, seconds=seconds, max_bytes=100)
    return caught.value


def echo(asked: Asked) -> Answer:
    match asked.path:
        case "/elsewhere":
            return Answer(status=302, headers={"Location": "/other"})
        case "/long":
            return Answer(body=b"x" * 101)
        case "/cut":
            return Answer(body=b"half", cut=5)
        case _:
            return Answer(status=201, body=asked.body, headers={"X-Kind": asked.method})


@pytest.fixture
def server() -> Iterator[Answering]:
    with Answering(echo) as running:
        yield running


def test_a_request_and_its_answer(server: Answering) -> None:
    """What is sent arrives, and what is answered comes back, whatever the status."""
    answer = request("POST", f"{server.url}/a?b=c", environment=EMPTY, headers={"X-Mine": "1"}, body=b"hello")
    assert (answer.status, answer.body, answer.headers["x-kind"]) == (201, b"hello", "POST")
    (asked,) = server.asked
    assert (asked.query, asked.headers["x-mine"]) == ({"b": "c"}, "1")
    assert asked.headers["user-agent"].startswith("holdfast/")
    assert "hello" not in repr(answer)


def test_a_redirect_is_an_answer(server: Answering) -> None:
    """Nothing that was sent to one address is sent to another."""
    answer = request("GET", f"{server.url}/elsewhere", environment=EMPTY, headers={"Authorization": "x"})
    assert (answer.status, answer.headers["location"]) == (302, "/other")
    assert len(server.asked) == 1


def test_half_an_answer_is_none(server: Answering) -> None:
    """An answer that breaks off, or is larger than it may be, is an error."""
    assert refused(f"{server.url}/cut").reason == "the response is incomplete"
    assert refused(f"{server.url}/long").reason == "the response is larger than 100 bytes"


def test_a_time_limit_for_all_of_it(server: Answering) -> None:
    """Who does not answer is not waited for longer than was said."""
    server.hold()
    error = refused(f"{server.url}/", seconds=0.2)
    assert error.timed_out
    assert error.host == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://vault.example/x", "http:// is only for loopback addresses; use https://"),
        ("http://10.0.0.1/x", "http:// is only for loopback addresses; use https://"),
        ("http://127.0.0.1.example/x", "http:// is only for loopback addresses; use https://"),
        (
            "https://hunter2:hunter2@h/x",
            "the address contains a user or a password, which belong in a header",
        ),
        ("ftp://h/x", "the address does not start with https:// and a host"),
        ("https:///x", "the address does not start with https:// and a host"),
        ("https://h:port/x", "the address is not valid"),
    ],
)
def test_invalid_addresses_are_refused(url: str, reason: str) -> None:
    """Unencrypted over a network, with a password, or no address at all: refused before anything is sent."""
    error = refused(url)
    assert (error.reason, error.final) == (reason, True)
    assert "hunter2" not in str(error)


def test_errors_never_contain_what_was_sent(server: Answering) -> None:
    """A header that HTTP does not allow is refused without being quoted."""
    error = refused(f"{server.url}/", Authorization="hunter2\nX: y")
    assert error.reason == "the request contains a character that HTTP does not allow"
    assert "hunter2" not in f"{error!r} {error.__cause__!r}"
    assert not server.asked


def test_a_machine_that_is_not_there() -> None:
    """Refused connections and unknown hosts have their own messages."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert refused(f"http://127.0.0.1:{taken.getsockname()[1]}/").reason == "Connection refused"


def certificate(folder: Path) -> tuple[ssl.SSLContext, str]:
    """A server's side of TLS for 127.0.0.1 and vault.example, and the file that says it can be trusted."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName(
        [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("vault.example")]
    )
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context, str(folder / "ca.pem")


def test_tls_is_verified(tmp_path: Path) -> None:
    """A certificate of an unknown authority is refused; the environment or the caller may name one."""
    context, trusted = certificate(tmp_path)
    with Answering(echo, tls=context) as server:
        url = f"https://127.0.0.1:{server.port}/"
        error = refused(url)
        assert error.reason.startswith("its certificate is not trusted: ")
        assert error.final
        by_variable = Environment(variables={"SSL_CERT_FILE": trusted})
        assert request("GET", url, environment=by_variable).status == 201
        assert request("GET", url, environment=EMPTY, ca_file=trusted).status == 201
        missing = Environment(variables={"SSL_CERT_FILE": str(tmp_path / "absent.pem")})
        assert "absent.pem" in refused(url, missing).reason


class Tunnel:
    """A proxy that connects every client to one port of this machine, whatever the requested name."""

    def __init__(self, port: int) -> None:
        self.heard: list[str] = []
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        said = b""
        while b"\r\n\r\n" not in said:
            said += client.recv(4096)
        self.heard.append(said.decode())
        target = socket.create_connection(("127.0.0.1", self._to))
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        back = threading.Thread(target=self._copy, args=(target, client), daemon=True)
        back.start()
        self._copy(client, target)
        back.join()
        client.close()
        target.close()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            """One side is gone."""

    def close(self) -> None:
        self._threads[0].join(10)
        self._listener.close()


def test_by_rules_only_allowed_addresses_are_connected_to(tmp_path: Path) -> None:
    """By what a name stands for, with the certificate of the name, and around a proxy."""
    context, trusted = certificate(tmp_path)
    proxy = Environment(variables={"https_proxy": "http://127.0.0.1:9", "SSL_CERT_FILE": trusted})

    def status(url: str, *networks: str) -> int:
        rules = AddressRules(networks)
        return request("GET", url, environment=proxy, seconds=5.0, rules=rules).status

    with Answering(echo, tls=context) as server:
        here = f"https://127.0.0.1:{server.port}"
        assert status(here, "127.0.0.1/32") == 201
        for url, networks, reason in (
            (here, (), "its address is not allowed"),
            (here, ("10.0.0.0/8",), "its address is not allowed"),
            (f"https://localhost:{server.port}", (), "its address is not allowed"),
            (f"https://2130706433:{server.port}", (), "its address is not allowed"),
            (f"https://127.1:{server.port}", (), "its address is not allowed"),
            ("https://0.0.0.0/", ("0.0.0.0/0",), "its address is not allowed"),
            ("https://no-such-name.invalid/", (), "unknown host"),
        ):
            with pytest.raises(HttpError) as caught:
                status(url, *networks)
            assert caught.value.reason == reason, url
        with pytest.raises(HttpError, match="not trusted"):
            status(f"https://localhost:{server.port}", "127.0.0.0/8", "::1/128")
        assert len(server.asked) == 1


def test_the_proxy_of_the_environment(tmp_path: Path) -> None:
    """A host elsewhere is reached through HTTPS_PROXY, with TLS to the host itself."""
    context, trusted = certificate(tmp_path)
    with Answering(echo, tls=context) as server:
        tunnel = Tunnel(server.port)
        variables = {
            "HTTPS_PROXY": f"http://me:pass%20word@127.0.0.1:{tunnel.port}",
            "SSL_CERT_FILE": trusted,
        }
        url = f"https://vault.example:{server.port}/x"
        assert request("GET", url, environment=Environment(variables=variables)).status == 201
        tunnel.close()
        assert tunnel.heard[0].startswith(f"CONNECT vault.example:{server.port} ")
        assert base64.b64encode(b"me:pass word").decode() in tunnel.heard[0]
        assert [asked.path for asked in server.asked] == ["/x"]
        assert "proxy-authorization" not in server.asked[0].headers
    own = Environment(variables={**variables, "HTTPS_PROXY": "https://proxy.example"})
    assert "https:// proxies are not supported" in refused(url, own).reason


@pytest.mark.parametrize(
    ("listed", "host", "spared"),
    [
        ("*", "a.example", True),
        ("example", "a.example", True),
        (".example", "a.example", True),
        ("b.example, a.example", "a.example", True),
        ("a.example:443", "a.example", True),
        ("a.example:8443", "a.example", False),
        ("ample", "a.example", False),
        ("", "a.example", False),
    ],
)
def test_hosts_without_a_proxy(listed: str, host: str, spared: bool) -> None:  # noqa: FBT001 - a case of the table
    """NO_PROXY names hosts with all below them; a name that only ends alike is another."""
    environment = Environment(variables={"https_proxy": "http://proxy.example:3128", "no_proxy": listed})
    assert (http._proxy(host, 443, environment) is None) == spared


def test_the_module_loads_no_client() -> None:
    """Commands that send no request do not import it."""
    import subprocess  # noqa: PLC0415

    code = "import sys, holdfast.system.http as _; print('http.client' in sys.modules, 'ssl' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.split() == ["False", "False"]
