"""E-mail: TLS or nothing, one thread per alert, and errors that name no secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from alerts_made import MadeOutbox, made_alert
from smtp_server import PASSWORD, USER, SmtpServer


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SmtpServer]:
    with SmtpServer(tmp_path, **getattr(request, "param", {})) as server:
        yield server


def made_for(
    server: SmtpServer, *, trusted: bool = True, password: str = PASSWORD, more: str = ""
) -> MadeOutbox:
    settings = (
        f'host: 127.0.0.1, port: {server.port}, user: {USER}, password: {{ secret: "env:MAIL" }}, '
        f"from: holdfast@acme.example, to: [ops@acme.example, dba@acme.example]{more}"
    )
    notify = f"{{ channels: {{ mail: {{ email: {{ {settings} }} }} }}, routes: [ {{ channel: mail }} ] }}"
    trust = {"SSL_CERT_FILE": str(server.certificate)} if trusted else {}
    return MadeOutbox(notify, {"MAIL": password}, variables=trust)


def test_messages_about_one_alert_are_a_thread(server: SmtpServer) -> None:
    """An update is held for ten minutes, as it is another message; the end is sent at once."""
    made = made_for(server)
    made.raise_(made_alert())
    made.deliver()
    made.raise_(made_alert(details=("something else",)))
    made.deliver(599)
    assert len(server.messages) == 1
    made.deliver(1)
    made.raise_(made_alert(resolved=True))
    made.deliver(1)
    first, second, third = server.messages
    assert first["Subject"] == "[error] prod/network: the apply failed"
    assert first["To"] == "ops@acme.example, dba@acme.example"
    assert first["Auto-Submitted"] == "auto-generated"
    text = first.get_content()
    for part in (
        "Stack: prod/network",
        "quota exceeded",
        "Next: holdfast runs log",
        "https://ci.example/runs/1",
        "since 2026",
    ):
        assert part in text
    assert second["References"] == second["In-Reply-To"] == third["References"] == first["Message-ID"]
    assert len({message["Message-ID"] for message in server.messages}) == 3
    assert third["Subject"] == "[error] Resolved: prod/network: the apply failed"
    assert not any(PASSWORD in line for line in server.lines), "it was sent within TLS, encoded"


@pytest.mark.parametrize("server", [{"immediate": True}], indirect=True)
def test_tls_from_the_start(server: SmtpServer) -> None:
    made = made_for(server, more=", tls: on")
    made.raise_(made_alert())
    made.deliver()
    assert len(server.messages) == 1


def test_a_repeated_attempt_has_the_same_message_id(server: SmtpServer) -> None:
    """So a mail system that stored the first one can drop the second."""
    made = made_for(server)
    made.raise_(made_alert())
    server.refuse = [("DATA", 451)]
    made.deliver()
    assert made.attempts[0].error == "the server answered 451"
    made.deliver(10)
    (message,) = server.messages
    assert message["Message-ID"] == f"<{next(iter(made.outbox.messages))}@acme.example>"


@pytest.mark.parametrize("server", [{"plain": True}], indirect=True)
def test_nothing_is_sent_without_tls(server: SmtpServer) -> None:
    made = made_for(server)
    made.raise_(made_alert())
    made.deliver()
    assert made.attempts[0].error == "the server does not offer what is needed: TLS or a login"
    assert not any(line.startswith(("AUTH", "MAIL")) for line in server.lines)


def test_an_unknown_certificate_is_not_trusted(server: SmtpServer) -> None:
    made = made_for(server, trusted=False)
    made.raise_(made_alert())
    made.deliver()
    assert "certificate" in str(made.attempts[0].error)
    assert not any(line.startswith("AUTH") for line in server.lines)


def test_a_refused_login_names_no_password(server: SmtpServer) -> None:
    made = made_for(server, password="wrong-canary-password")
    made.raise_(made_alert())
    made.deliver()
    assert made.attempts[0].error == "the server refused the login (535)"
    assert "canary" not in str(made.outbox.messages)


def test_a_refused_recipient_does_not_repeat_the_message_to_the_others(server: SmtpServer) -> None:
    made = made_for(server)
    server.refuse = [("RCPT", 550)]
    made.raise_(made_alert())
    made.deliver()
    made.deliver(1000)
    assert len(server.messages) == 1


def test_text_adds_no_header(server: SmtpServer) -> None:
    made = made_for(server)
    made.raise_(made_alert(title="a\r\nBcc: evil@example.com\r\n\r\nbody"))
    made.deliver()
    (message,) = server.messages
    assert message["Bcc"] is None
    assert not any("evil@example.com" in line and line.startswith("RCPT") for line in server.lines)
