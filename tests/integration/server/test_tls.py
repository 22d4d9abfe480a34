"""The server with its own certificate, and clients of other versions."""

from __future__ import annotations

import http.server
import socket
import threading
from pathlib import Path

import pytest
from certificates import write_certificate
from msgspec.structs import replace
from server_made import made_server

from holdfast.config.server import TlsFiles, default_settings
from holdfast.database.database import Database
from holdfast.identity.client import ServerClient, ServerLogin
from holdfast.kernel.errors import Failed, HoldfastError, Refused, UsageError
from holdfast.server.listening import url_of
from holdfast.system.environment import Environment


def tls_files(folder: Path) -> TlsFiles:
    certificate, key = write_certificate(folder)
    return TlsFiles(certificate=certificate.name, key_file=key.name)


def test_https(database: Database, tmp_path: Path) -> None:
    settings = replace(default_settings(tmp_path), tls=tls_files(tmp_path))
    with made_server(database, settings=settings) as server:
        login = ServerLogin(url=server.url.replace("http:", "https:"), token=server.admin)
        trusting = Environment(variables={"SSL_CERT_FILE": str(tmp_path / "server.pem")})
        current = ServerClient(login, trusting).send("GET", "/api/v1/tokens/current")
        assert current["name"] == "root"
        with pytest.raises(Failed, match="certificate is not trusted") as refused:
            ServerClient(login, Environment(variables={})).send("GET", "/api/v1/tokens/current")
        assert "SSL_CERT_FILE" in str(refused.value.problem.hint)
        plain = replace(login, url=server.url)
        with pytest.raises(Failed, match="HF-SRV-8") as refused:
            ServerClient(plain, trusting).send("GET", "/api/v1/tokens/current")
        assert f"Try {login.url}" in str(refused.value.problem.hint)


def test_an_address_that_is_almost_right(database: Database) -> None:
    with made_server(database) as server:
        wrong = {
            server.url.replace("http:", "https:"): f"Try {server.url}",
            server.url.removeprefix("http://"): "Write https://HOST",
            f"{server.url}/api/v1": f"Usually it has none: {server.url}",
        }
        for url, hint in wrong.items():
            login = ServerLogin(url=url, token=server.admin)
            with pytest.raises(HoldfastError) as refused:
                ServerClient(login, Environment(variables={})).send("GET", "/api/v1/tokens/current")
            assert hint in str(refused.value.problem.hint)


def test_a_refused_token_is_named(database: Database) -> None:
    with made_server(database) as server:
        login = ServerLogin(url=server.url, token="hf_wrong", source="HOLDFAST_TOKEN")
        with pytest.raises(Refused, match=f"{server.url} refused the token of HOLDFAST_TOKEN") as refused:
            ServerClient(login, Environment(variables={})).send("GET", "/api/v1/tokens/current")
        assert f"holdfast login {server.url}" in str(refused.value.problem.hint)


def test_a_key_that_others_can_read_is_refused(database: Database, tmp_path: Path) -> None:
    settings = replace(default_settings(tmp_path), tls=tls_files(tmp_path))
    (tmp_path / "server.key").chmod(0o640)
    with pytest.raises(UsageError, match="other users can read"), made_server(database, settings=settings):
        pass


def test_the_address_of_a_server_on_all_addresses_has_a_name(tmp_path: Path) -> None:
    settings = default_settings(tmp_path)
    with socket.socket() as listening:
        listening.bind(("", 0))
        port = listening.getsockname()[1]
        assert url_of(listening, settings) == f"http://{socket.gethostname()}:{port}"
        settings = replace(settings, tls=tls_files(tmp_path))
        assert url_of(listening, settings) == f"https://holdfast.example.com:{port}"
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        assert url_of(listening, settings).startswith("https://127.0.0.1:")


@pytest.mark.parametrize(
    ("version", "message"), [("99.0.0", "has version 99.0.0"), (None, "is not a Holdfast server")]
)
def test_a_client_reports_another_version(version: str | None, message: str) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if version is not None:
                self.send_header("holdfast-version", version)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = threading.Thread(target=other.handle_request)
        thread.start()
        login = ServerLogin(url=f"http://127.0.0.1:{other.server_address[1]}", token="hf_x")
        with pytest.raises(UsageError, match=f"HF-SRV-9.*{message}"):
            ServerClient(login, Environment(variables={})).send("GET", "/api/v1/tokens/current")
        thread.join()
