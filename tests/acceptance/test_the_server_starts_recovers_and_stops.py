"""`holdfast serve` as a process: start, tokens, kill and restart, stop with an open connection."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from postgres_made import MadePostgres
from program import Program

from holdfast import __version__
from holdfast.system import environment, http


@contextmanager
def running(
    program: Program, *arguments: str, env: dict[str, str | None] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = program.start("serve", "--listen", "127.0.0.1:0", *arguments, env=env)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Holdfast is ready at http://127.0.0.1:"), process.communicate()
        yield process, line.split()[-1]
    finally:
        process.kill()
        with suppress(ValueError):
            process.communicate()


def get(url: str, token: str | None = None) -> http.Response:
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    return http.request("GET", url, environment=environment.read(), headers=headers)


def terminate(process: subprocess.Popen[str]) -> str:
    process.terminate()
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return err


def test_the_server_starts_recovers_and_stops(holdfast: Program, tmp_path: Path) -> None:
    """What was created survives a kill; every file is private; secrets are in no log."""
    data = tmp_path / "data"
    with running(holdfast, "--data", str(data)) as (process, url):
        assert get(f"{url}/readyz").status == 200
        token_file = data / "admin-token"
        admin = token_file.read_text().strip()
        assert [(data / name).stat().st_mode & 0o777 for name in ("admin-token", "key")] == [0o600, 0o600]
        assert "HF-DB-4" in holdfast.ok("serve", "--data", str(data), "--listen", "127.0.0.1:0", code=4).err

        client: dict[str, Any] = {"env": {"HOLDFAST_URL": url, "HOLDFAST_TOKEN_FILE": str(token_file)}}
        created = holdfast.ok(
            "token", "create", "--role", "viewer", "--name", "ada", "--expires", "90d", **client
        )
        viewer = created.out.strip()
        assert viewer.startswith("hf_")
        assert "ada: viewer in default, until" in created.err
        assert "!" not in created.err
        unitless = holdfast.ok("token", "create", "--role", "viewer", "--expires", "90", code=64, **client)
        assert "--expires 90d" in unitless.err
        listed = holdfast.json("token", "list", **client)["tokens"]
        assert sorted(token["name"] for token in listed) == ["ada", "admin"]
        text = holdfast.ok("token", "list", **client).out
        assert text.index("admin: admin in all tenants") < text.index("ada: viewer in default, until")
        assert "Z, never used" in text
        own = next(token["id"] for token in listed if token["name"] == "admin")
        assert "HF-USE-5" in holdfast.ok("token", "revoke", own, code=64, **client).err
        process.kill()
        _, first_log = process.communicate()

    with running(holdfast, "--data", str(data)) as (process, url):
        assert token_file.read_text().strip() == admin
        login = holdfast.ok("login", url, stdin=f"{viewer}\n")
        assert "Logged in to" in login.out
        assert (holdfast.home / "login.json").stat().st_mode & 0o777 == 0o600
        assert "HF-TOK-2" in holdfast.ok("token", "list", code=3).err
        checked = holdfast.run("doctor").out
        assert f"{url}: the token of ada, viewer in default, until 20" in checked
        assert "HF-TOK-1" in holdfast.ok("login", url, stdin="hf_wrong\n", code=3).err
        ada = next(token["id"] for token in listed if token["name"] == "ada")
        client["env"]["HOLDFAST_URL"] = url
        assert ada in holdfast.ok("token", "revoke", ada, **client).out
        assert "HF-TOK-1" in holdfast.ok("token", "list", code=3).err

        with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0)) as idle:
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert idle.recv(10)
            log = terminate(process)
    assert "Back it up" in first_log
    assert not any(secret in first_log + log for secret in (admin[20:], viewer[20:]))
    requests = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    (started,) = [line for line in requests if line["event"] == "started"]
    assert (started["url"], started["version"]) == (url, __version__)
    assert started["schema"] > 0
    assert {"started", "request", "stopped"} == {line["event"] for line in requests}
    assert not (data / "postgres" / "data" / "postmaster.pid").exists()


def test_servers_share_a_database_and_its_key(
    holdfast: Program, postgres: MadePostgres, tmp_path: Path
) -> None:
    """A token of one works with the other; a server without the key of the database does not start."""
    with postgres.new_database(migrated=False) as address:
        names = address.parameters
        url = f"postgresql://{names['user']}:{names['password']}@/{names['dbname']}?host={names['host']}"
        one, two = tmp_path / "one", tmp_path / "two"
        env: dict[str, str | None] = {"HOLDFAST_DATABASE_URL": url}
        with running(holdfast, "--data", str(one), env=env) as (process, first):
            refused = holdfast.ok("serve", "--data", str(two), "--listen", "127.0.0.1:0", env=env, code=64)
            assert "HF-SRV-5" in refused.err
            assert names["password"] not in refused.text
            env["HOLDFAST_KEY"] = (one / "key").read_text().strip()
            with running(holdfast, "--data", str(two), env=env) as (other, second):
                token = (one / "admin-token").read_text().strip()
                assert token != (two / "admin-token").read_text().strip()
                assert get(f"{first}/api/v1/tokens", token).status == 200
                assert get(f"{second}/api/v1/tokens", token).status == 200
                terminate(other)
            terminate(process)
        env["HOLDFAST_KEY"] = "A" * 43 + "="
        assert "HF-STORE-3" in holdfast.ok("serve", "--data", str(two), env=env, code=64).err


@pytest.mark.parametrize(
    ("listen", "config", "code", "error"),
    [
        ("0.0.0.0:0", "version: 1\n", 64, "HF-SRV-2"),
        ("nowhere", "version: 1\n", 64, "HF-SRV-1"),
        ("127.0.0.1:0", "version: 1\ntls: {certificate: a.pem, key: b.pem}\n", 64, "HF-SRV-3"),
        (
            "127.0.0.1:0",
            "version: 1\nlisten: [1]\ntrusted_proxies: [proxy]\noidc: [{claims: {}}]\n",
            64,
            "HF-CONF-",
        ),
    ],
)
def test_a_wrong_configuration_starts_nothing(
    holdfast: Program, tmp_path: Path, listen: str, config: str, code: int, error: str
) -> None:
    file, data = tmp_path / "server.yaml", tmp_path / "data"
    file.write_text(config)
    refused = holdfast.ok("serve", "--data", str(data), "--listen", listen, "--config", str(file), code=code)
    assert error in refused.err
    assert not data.exists()
