"""The key of a server in AWS KMS or for age recipients: first start, rotation, backup and restore."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pyrage
import pytest
from answering import Answering
from kms_server import MadeKms, kms_variables
from program import Program, eventually
from served import serving
from state_backend_made import state

from holdfast.system import environment, http


@pytest.fixture
def kms() -> Iterator[tuple[MadeKms, Answering]]:
    made = MadeKms()
    with Answering(made.answer) as server:
        yield made, server


@pytest.mark.long
@pytest.mark.parametrize("kind", ["awskms", "age"])
def test_the_drill_with_your_own_key(
    holdfast: Program, tmp_path: Path, kms: tuple[MadeKms, Answering], kind: str
) -> None:
    """The key file is encrypted; after the loss of the machine, a backup and KMS or age are enough."""
    identity = pyrage.x25519.Identity.generate()
    identities = tmp_path / "identity.txt"
    identities.write_text(f"{identity}\n")
    identities.chmod(0o600)
    holdfast.environment |= {name: value for name, value in kms_variables(kms[1]).items() if value}
    if kind == "age":
        holdfast.environment["HOLDFAST_KEY"] = f"age:{identities}"
    data, file, backup = tmp_path / "data", tmp_path / "net.tfstate", tmp_path / "server.backup"
    server, net = ("--data", str(data)), ("--state", "net")
    file.write_bytes(state(1))
    with serving(holdfast, data) as env:
        holdfast.ok("state", "push", *net, str(file), env=env)
        status = holdfast.json("keys", "status", *server)
    assert str(data / "key") in status["key"]["source"]
    wrapped = (data / "key").read_text()
    assert wrapped.startswith("awskms arn:" if kind == "awskms" else "-----BEGIN AGE ENCRYPTED FILE-----")

    rotated = holdfast.json("keys", "rotate", *server)
    assert (data / "key").read_text() != wrapped
    assert Path(rotated["old_file"]).read_text() == wrapped
    with serving(holdfast, data) as env:

        def renewed() -> bool:
            status = holdfast.json("keys", "status", *server)
            return bool(status["states"]["other_key"] == status["blobs"]["other_key"] == 0)

        eventually(renewed, what="everything has the new key")
        done = holdfast.json("db", "backup", str(backup), *server)
    assert done["key"] == rotated["new"]
    shutil.rmtree(data)

    unset: dict[str, str | None] = {"HOLDFAST_KEY": None}
    assert "HF-KEY-21" in holdfast.ok("db", "restore", str(backup), *server, env=unset, code=64).err
    assert not data.exists()
    restored = holdfast.ok("db", "restore", str(backup), *server)
    assert f"The server's key is in {data / 'key'} again." in restored.out
    assert (data / "key").read_text()[:11] == wrapped[:11]
    with serving(holdfast, data) as env:
        assert holdfast.ok("state", "pull", *net, env=env).out == file.read_text()


@pytest.mark.long
def test_a_server_says_why_kms_does_not_open_its_key(
    holdfast: Program, tmp_path: Path, kms: tuple[MadeKms, Answering]
) -> None:
    """Without permission it does not start. An outage it waits for: `/readyz` says so, then it is ready."""
    made, cloud = kms
    holdfast.environment |= {name: value for name, value in kms_variables(cloud).items() if value}
    data = tmp_path / "data"
    made.denied = True
    serve = ("serve", "--data", str(data), "--listen", "127.0.0.1:0")
    denied = holdfast.ok(*serve, code=1)
    assert "HF-KEY-22" in denied.err
    assert "kms:Decrypt" in denied.err
    assert not (data / "key").exists()
    assert "HF-KEY-21" in holdfast.ok(*serve, env={"HOLDFAST_KEY": "awskms:holdfast"}, code=64).err

    made.denied, made.down = False, True
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = holdfast.start("serve", "--data", str(data), "--listen", f"127.0.0.1:{port}")
    try:

        def status(path: str) -> tuple[int, bytes]:
            try:
                answer = http.request(
                    "GET", f"http://127.0.0.1:{port}{path}", environment=environment.read(), headers={}
                )
            except http.HttpError:
                return 0, b""
            return answer.status, answer.body

        eventually(lambda: status("/readyz")[0] == 503, what="it says that it is not ready")
        assert b"HF-KEY-24" in status("/readyz")[1]
        assert b"arn:" not in status("/readyz")[1]
        assert [status(path)[0] for path in ("/healthz", "/state/net", "/api/v1/tokens")] == [200, 503, 503]
        made.down = False
        eventually(lambda: status("/readyz")[0] == 200, what="it is ready")
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
    finally:
        process.terminate()
        _, log = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "waiting for the key" in log
