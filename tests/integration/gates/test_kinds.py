"""Each kind of gate against a real server on loopback: passing, failing, and what it says."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from pathlib import Path

import pytest
import trustme
from answering import Answer, Answering, Asked
from dnslib import RCODE
from gates_made import closed_port, dns_server, gate, tls_server, tools

from holdfast.gates.catalogue import KINDS
from holdfast.gates.interface import Met, NotMet, NotObservable, Observation
from holdfast.gates.values import filled
from holdfast.system import clock


def observe(folder: Path, text: str, seconds: float = 5.0) -> Observation:
    declared = gate(text)
    environment = {"PATH": "/usr/bin:/bin"}
    settings = filled(declared.settings, str)
    return asyncio.run(KINDS[declared.kind](settings, tools(folder, environment)).observe(seconds))


def failing(folder: Path, text: str, seconds: float = 5.0) -> NotMet:
    observation = observe(folder, text, seconds)
    assert isinstance(observation, NotMet)
    return observation


# A port


def test_a_port_accepts_connections(tmp_path: Path) -> None:
    """Or it does not, and the name and the port are said."""
    with Answering(lambda _: Answer()) as server:
        assert isinstance(observe(tmp_path, f"tcp: {{ host: 127.0.0.1, port: {server.port} }}"), Met)
    port = closed_port()
    assert (
        failing(tmp_path, f"tcp: {{ host: 127.0.0.1, port: {port} }}").text
        == f"127.0.0.1:{port}: connection refused"
    )
    assert "unknown host" in failing(tmp_path, "tcp: { host: nothing.invalid, port: 1 }").text


# A response


def respond(asked: Asked) -> Answer:
    match asked.path:
        case "/redirect":
            return Answer(status=301, headers={"Location": "/there"})
        case "/broken":
            return Answer(status=503, body=b"starting\x1b[31m up")
        case _:
            return Answer(body=b'{"status": "ok"}', headers={"X-Version": "2"})


@pytest.mark.parametrize(
    ("path", "more", "says"),
    [
        ("/", "", None),
        ("/", ', contains: "{{\\"status\\": \\"ok\\"}}", headers: { x-version: "2" }', None),
        ("/broken", ", status: [200, 503]", None),
        ("/redirect", ", redirect: URL/there", None),
        ("/redirect", "", "status 301 instead of 200"),
        ("/broken", "", "status 503 instead of 200"),
        ("/", ", contains: [ok, healthy]", "the body does not contain 'healthy'"),
        ("/", ', headers: { x-version: "3" }', "the header x-version is '2' instead of '3'"),
        ("/", ", headers: { x-none: a }", "the header x-none is missing instead of 'a'"),
        ("/redirect", ", redirect: URL/elsewhere", "/there instead of"),
        ("/", ", redirect: URL/there", "status 200 instead of 301 or 302"),
    ],
)
def test_a_response_is_as_expected(tmp_path: Path, path: str, more: str, says: str | None) -> None:
    """Status, text, headers and redirect; a redirect is not followed."""
    with Answering(respond) as server:
        text = f'http: {{ url: "{server.url}{path}"{more.replace("URL", server.url)} }}'
        if says is None:
            assert isinstance(observe(tmp_path, text), Met)
        else:
            assert says in failing(tmp_path, text).text
        assert [asked.path for asked in server.asked] == [path]


def test_the_last_response_is_evidence(tmp_path: Path) -> None:
    """Without control characters, which could change a terminal."""
    with Answering(respond) as server:
        part = failing(tmp_path, f"http: {{ url: {server.url}/broken }}").evidence[0]
    assert (part.title, "\x1b" in part.text, "starting" in part.text) == ("last response, 503", False, True)


def test_a_server_that_does_not_answer_fails_in_time(tmp_path: Path) -> None:
    """An attempt ends at its time limit."""
    with Answering(respond) as server:
        server.hold()
        assert "within 0.5 seconds" in failing(tmp_path, f"http: {{ url: {server.url} }}", 0.5).text
    with Answering(respond):
        pass
    assert failing(tmp_path, f'http: {{ url: "http://127.0.0.1:{closed_port()}/" }}').text.endswith("refused")


def test_https_is_verified(tmp_path: Path) -> None:
    """With the authority that is named, and not without it."""
    with tls_server(tmp_path, "localhost") as (port, _):
        url = f'http: {{ url: "https://localhost:{port}/"'
        assert "not trusted" in failing(tmp_path, f"{url} }}").text
        assert "not trusted" not in failing(tmp_path, f"{url}, ca_file: ca.pem }}").text


# DNS

ZONE = {
    "acme.example": ("203.0.113.7",),
    "*.acme.example": ("203.0.113.7",),
    "six.acme.example": ("203.0.113.7", "2001:db8::7"),
    "www.acme.example": ("lb.cloud.example",),
    "lb.cloud.example": ("198.51.100.1", "198.51.100.2"),
}


@pytest.mark.parametrize(
    ("names", "equals", "says"),
    [
        ("acme.example", "203.0.113.7", None),
        ('[acme.example, "*.acme.example"]', "203.0.113.7", None),
        ("six.acme.example", '[203.0.113.7, "2001:db8::7"]', None),
        ("www.acme.example", "lb.cloud.example", None),
        ("acme.example", "203.0.113.8", "is 203.0.113.7, without 203.0.113.8"),
        ("six.acme.example", "203.0.113.7", "is also 2001:db8::7, besides 203.0.113.7"),
        ("none.other.example", "203.0.113.7", "has no address"),
        ("acme.example", "lb.cloud.example", "but lb.cloud.example is 198.51.100.1, 198.51.100.2"),
        ("acme.example", "gone.cloud.example", "the expected gone.cloud.example has no address"),
    ],
)
def test_names_have_exactly_these_addresses(
    tmp_path: Path, names: str, equals: str, says: str | None
) -> None:
    """Apex, wildcard, both families, and host names of load balancers."""
    with dns_server(ZONE) as (_, resolver):
        text = f'dns: {{ name: {names}, equals: {equals}, resolvers: "{resolver}" }}'
        if says is None:
            assert isinstance(observe(tmp_path, text), Met)
        else:
            assert says in failing(tmp_path, text).text


def test_every_resolver_must_agree(tmp_path: Path) -> None:
    """One that still has the old address, refuses or is silent fails the gate, and is named."""
    with dns_server(ZONE) as (_, right), dns_server({"acme.example": ("192.0.2.1",)}) as (zone, other):
        text = f'dns: {{ name: acme.example, equals: 203.0.113.7, resolvers: ["{right}", "{other}"] }}'
        assert f"at {other}: is 192.0.2.1" in failing(tmp_path, text).text
        zone.records["acme.example"] = ("203.0.113.7",)
        met = observe(tmp_path, text)
        assert isinstance(met, Met)
        assert "at 2 DNS servers" in met.text
        zone.code = RCODE.SERVFAIL
        assert re.search(rf"at {other}: refused to answer: .*SERVFAIL", failing(tmp_path, text).text)
    silent = f'dns: {{ name: acme.example, equals: 203.0.113.7, resolvers: "127.0.0.1:{closed_port()}" }}'
    assert ": " in failing(tmp_path, silent, 0.5).text


def test_a_wildcard_is_looked_up_by_a_name_that_nobody_has(tmp_path: Path) -> None:
    """A record for one known name below it is not a wildcard."""
    with dns_server({"www.acme.example": ("203.0.113.7",)}) as (_, resolver):
        text = f'dns: {{ name: "*.acme.example", equals: 203.0.113.7, resolvers: "{resolver}" }}'
        assert failing(tmp_path, text).text == f"*.acme.example at {resolver}: has no address"


def test_a_resolver_is_an_address(tmp_path: Path) -> None:
    """Its name would have to be looked up first: the gate is not checked."""
    text = "dns: { name: acme.example, equals: 203.0.113.7, resolvers: dns.example }"
    assert isinstance(observe(tmp_path, text), NotObservable)


# TLS


def tls(port: int, more: str = "", host: str = "portal.acme.example") -> str:
    return f"tls: {{ host: {host}, address: 127.0.0.1, port: {port}, ca_file: ca.pem{more} }}"


def test_a_certificate_is_trusted_for_the_name_and_valid(tmp_path: Path) -> None:
    """Each of the three can fail, and the line says which."""
    soon = clock.now() + dt.timedelta(days=10)
    with tls_server(tmp_path, "*.dev.acme.example", expires=soon) as (port, _):
        assert isinstance(observe(tmp_path, tls(port, host="a.dev.acme.example")), Met)
        wrong = failing(tmp_path, tls(port))
        assert wrong.text.endswith("chain valid, name does not match (*.dev.acme.example)")
        assert "expires" in wrong.evidence[0].text
        deep = failing(tmp_path, tls(port, host="a.b.dev.acme.example"))
        assert "name does not match" in deep.text
        late = failing(tmp_path, tls(port, ", valid_for: 14d", host="a.dev.acme.example"))
        assert "in less than 14d" in late.text
        trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
        unknown = failing(tmp_path, tls(port, host="a.dev.acme.example").replace("ca.pem", "other.pem"))
        assert "chain not trusted (" in unknown.text


def test_an_expired_certificate_is_not_trusted(tmp_path: Path) -> None:
    """And the reason is the expiry."""
    past = clock.now() - dt.timedelta(days=1)
    with tls_server(tmp_path, "portal.acme.example", expires=past) as (port, _):
        assert "expired" in failing(tmp_path, tls(port)).text


def test_what_does_not_speak_tls_fails(tmp_path: Path) -> None:
    """As does a port on which nothing listens."""
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with Answering(lambda _: Answer()) as server:
        assert "TLS failed" in failing(tmp_path, tls(server.port)).text
    assert "refused" in failing(tmp_path, tls(closed_port())).text


# A program


def test_a_program_exits_with_zero(tmp_path: Path) -> None:
    """Anything else fails, with its last line; one that hangs is stopped at its time limit."""
    assert isinstance(observe(tmp_path, 'run: [sh, -c, "exit 0"]'), Met)
    wrong = failing(tmp_path, 'run: [sh, -c, "echo first; echo no pods >&2; exit 3"]')
    assert wrong.text.endswith("exited with 3: no pods")
    assert wrong.evidence[0].text == "first\nno pods"
    assert "took longer" in failing(tmp_path, "run: [sleep, '60']", 0.3).text
    assert isinstance(observe(tmp_path, "run: [./missing.sh]"), NotObservable)
