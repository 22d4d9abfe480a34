"""A mail server on loopback: EHLO, STARTTLS, AUTH, and what it accepts. It takes no message without TLS."""

from __future__ import annotations

import base64
import email
import email.policy
import socketserver
import ssl
import threading
from email.message import EmailMessage
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from certificates import write_certificate

USER, PASSWORD = "holdfast", "canary-password-of-smtp"


class SmtpServer:
    """`refuse`: codes for commands, such as {"RCPT": 550}; each counts once. `plain`: it offers no TLS."""

    def __init__(self, folder: Path, *, immediate: bool = False, plain: bool = False) -> None:
        self.certificate, key = write_certificate(folder)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certificate, key)
        self.messages: list[EmailMessage] = []
        self.refuse: list[tuple[str, int]] = []
        self.lines: list[str] = []
        self.immediate, self.plain = immediate, plain
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def refusal(self, command: str) -> int | None:
        for item in self.refuse:
            if item[0] == command:
                self.refuse.remove(item)
                return item[1]
        return None


def _handler(server: SmtpServer) -> type[socketserver.BaseRequestHandler]:  # noqa: C901 - a row per command
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.sock: Any = self.request
            self.secure = False
            try:
                if server.immediate:
                    self._encrypt()
                self._serve()
            except (OSError, ssl.SSLError):
                return
            finally:
                self.sock.close()

        def _encrypt(self) -> None:
            self.sock = server.context.wrap_socket(self.sock, server_side=True)
            self.secure = True

        def _serve(self) -> None:
            self.file = self.sock.makefile("rb")
            try:
                self._talk()
            finally:
                self.file.close()

        def _talk(self) -> None:
            self._say(220, "ready")
            while line := self.file.readline().decode().strip():
                server.lines.append(line)
                command = line.split(" ")[0].upper()
                if (code := server.refusal(command)) is not None:
                    self._say(code, "refused")
                elif command == "QUIT":
                    self._say(221, "bye")
                    return
                else:
                    self._answer(command, line)

        def _answer(self, command: str, line: str) -> None:
            match command:
                case "EHLO":
                    more = [] if self.secure or server.plain else ["STARTTLS"]
                    offers = [*more, *(["AUTH PLAIN"] if self.secure else []), "8BITMIME"]
                    for offer in ("loopback", *offers[:-1]):
                        self.sock.sendall(f"250-{offer}\r\n".encode())
                    self._say(250, offers[-1])
                case "STARTTLS":
                    self._say(220, "go on")
                    self.file.close()
                    self._encrypt()
                    self.file = self.sock.makefile("rb")
                case "AUTH":
                    given = base64.b64decode(line.split(" ")[2]).decode().split("\0")[1:]
                    right = given == [USER, PASSWORD]
                    self._say(235 if right else 535, "authentication")
                case "MAIL" | "RCPT" | "RSET" | "NOOP":
                    self._say(250 if self.secure else 530, "ok")
                case "DATA":
                    self._say(354, "go on")
                    content = b""
                    while (part := self.file.readline()) != b".\r\n":
                        content += part[1:] if part.startswith(b"..") else part
                    parsed = email.message_from_bytes(content, policy=email.policy.default)
                    assert isinstance(parsed, EmailMessage)
                    server.messages.append(parsed)
                    self._say(250, "accepted")
                case _:
                    self._say(502, "unknown")

        def _say(self, code: int, text: str) -> None:
            self.sock.sendall(f"{code} {text}\r\n".encode())

    return Handler
