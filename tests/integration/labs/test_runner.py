from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from tf.gen import grpc_controller_pb2 as controller
from tf.gen import grpc_controller_pb2_grpc as controller_rpc
from tf.gen import tfplugin_pb2 as pb
from tf.gen import tfplugin_pb2_grpc as rpc

from provider import mirror
from workbench import eventually, lives

_COOKIE = {"TF_PLUGIN_MAGIC_COOKIE": "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2"}

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def executable(cli_configuration: Path) -> Path:
    place = cli_configuration.parent / mirror.ADDRESS / "1.0.0" / mirror.platform_name()
    return place / "terraform-provider-lab_v1.0.0"


@pytest.fixture
def start(executable: Path, scratch: Path) -> Iterator[Start]:
    """Starts the provider as Terraform does, with these variables; what still runs at the end is ended."""
    started: list[subprocess.Popen[str]] = []

    def begin(**variables: str) -> subprocess.Popen[str]:
        environment = {"PATH": os.environ["PATH"], "TMPDIR": str(scratch), **variables}
        process = subprocess.Popen(
            [executable], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def _handshake(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n").split("|")


def _connected(socket: str) -> Any:
    return grpc.insecure_channel(f"unix:{socket}")


def test_without_a_client_certificate_the_handshake_has_none(start: Start, scratch: Path) -> None:
    """Terraform that asked for no TLS would crash on a certificate; the socket's folder is private."""
    process = start(**_COOKIE)
    core, protocol, network, socket, kind, certificate = _handshake(process)
    assert (core, protocol, network, kind, certificate) == ("1", "6", "unix", "grpc", "")
    assert Path(socket).parent.parent == scratch
    assert stat.S_IMODE(Path(socket).parent.stat().st_mode) == 0o700


def test_with_a_client_certificate_the_handshake_carries_one(start: Start, scratch: Path) -> None:
    """It is made for this process, on P-256, for localhost, and nothing of it is written anywhere."""
    process = start(**_COOKIE, PLUGIN_CLIENT_CERT="any", HOME=str(scratch))
    encoded = _handshake(process)[5]
    certificate = x509.load_der_x509_certificate(base64.b64decode(encoded + "=" * (-len(encoded) % 4)))
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [each.name for each in scratch.rglob("*") if each.is_file()] == []


def test_the_socket_goes_where_the_plugin_folder_is_set(start: Start, scratch: Path) -> None:
    """PLUGIN_UNIX_SOCKET_DIR goes before TMPDIR."""
    place = scratch / "sockets"
    place.mkdir()
    process = start(**_COOKIE, PLUGIN_UNIX_SOCKET_DIR=str(place))
    assert Path(_handshake(process)[3]).parent.parent == place


def test_stop_is_answered_and_the_provider_goes_on(start: Start) -> None:
    """StopProvider comes with every interrupt; a provider that ended then would lose what it is making."""
    process = start(**_COOKIE)
    with _connected(_handshake(process)[3]) as channel:
        provider = rpc.ProviderStub(channel)
        assert provider.StopProvider(pb.StopProvider.Request()).Error == ""
        schema = provider.GetProviderSchema(pb.GetProviderSchema.Request())
    assert process.poll() is None
    assert set(schema.resource_schemas) == {"lab_object"}
    assert set(schema.data_source_schemas) == {"lab_object", "lab_environment"}
    assert schema.server_capabilities.plan_destroy


def test_shutdown_ends_the_process(start: Start, scratch: Path) -> None:
    """Terraform waits for it, and nothing is left behind."""
    process = start(**_COOKIE)
    with _connected(_handshake(process)[3]) as channel:
        stub = controller_rpc.GRPCControllerStub(channel)
        stub.Shutdown(controller.Empty())
        assert process.wait(timeout=10) == 0
    assert list(scratch.iterdir()) == []


def test_terminate_leaves_nothing_behind(start: Start, scratch: Path) -> None:
    """SIGTERM to a whole group ends the provider as it would end any."""
    process = start(**_COOKIE)
    _handshake(process)
    process.terminate()
    assert process.wait(timeout=10) == 0
    assert list(scratch.iterdir()) == []


def test_the_provider_ends_when_its_parent_dies(executable: Path, scratch: Path) -> None:
    """A provider whose Terraform was killed would otherwise stay for ever."""
    code = "import subprocess, sys; subprocess.Popen([sys.argv[1]]); sys.stdin.read()"
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(scratch), **_COOKIE}
    with subprocess.Popen(
        [sys.executable, "-c", code, executable],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        pid = int(Path(_handshake(parent)[3]).parent.name.split("-")[1])
        assert lives(pid)
        parent.kill()
    eventually(lambda: not lives(pid), what="the provider ends", within=10)
    assert list(scratch.iterdir()) == []


def test_started_by_hand_it_says_what_it_is(start: Start) -> None:
    """A person who runs the file reads a sentence, not a handshake."""
    process = start()
    said, complained = process.communicate(timeout=30)
    assert process.returncode == 1
    assert said == ""
    assert "This is a Terraform provider" in complained


def test_a_folder_too_deep_for_a_socket_is_named(start: Start, scratch: Path) -> None:
    """The limit is the system's; the way out is said."""
    deep = scratch / ("d" * 100)
    deep.mkdir()
    process = start(**{**_COOKIE, "TMPDIR": str(deep)})
    _, complained = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "too long a path for a socket" in complained
