"""Serves the provider to the Terraform that started it, and ends when that Terraform is done or dead.

Three things differ from the runner of the `tf` package. StopProvider, which Terraform sends on every
interrupt, is answered and no more: a create that runs is let finish, so its object reaches the state. TLS is
served only to a client that sent a certificate: one that did not would crash on ours. And no process outlives
its Terraform.
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

# gRPC loads asyncio, and its own half for it, on import; a provider with threads never uses either, and
# starts much sooner without.
for _unused in ("asyncio", "grpc.aio"):
    sys.modules.setdefault(_unused, ModuleType(_unused))

import grpc  # type: ignore[import-untyped]  # noqa: E402
from tf.gen import grpc_controller_pb2, grpc_controller_pb2_grpc, grpc_stdio_pb2_grpc  # noqa: E402
from tf.gen import tfplugin_pb2_grpc as tfplugin  # noqa: E402

if TYPE_CHECKING:
    from provider.servicer import PluginServicer

_COOKIE = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2"
_LONGEST_SOCKET_PATH = 103
_CALLS_AT_ONCE = 128
_PARENT_CHECK_SECONDS = 0.2
_LAST_WORDS_SECONDS = 0.1


class _Controller(grpc_controller_pb2_grpc.GRPCControllerServicer):  # type: ignore[misc]  # no types there
    """Terraform's last call. It is over, and the process may go, when its answer is on the way."""

    def __init__(self, over: threading.Event) -> None:
        self._over = over

    def Shutdown(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 (the protocol's)
        if not context.add_callback(self._over.set):
            self._over.set()
        return grpc_controller_pb2.Empty()


class _Stdio(grpc_stdio_pb2_grpc.GRPCStdioServicer):  # type: ignore[misc]  # no types there
    """Nothing to stream: what the provider has to say it says in diagnostics."""

    def StreamStdio(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 (the protocol's)
        return iter(())


def serve(servicer: PluginServicer) -> NoReturn:
    """Shake hands on standard output, then answer until Terraform says Shutdown or is gone."""
    if os.environ.get("TF_PLUGIN_MAGIC_COOKIE") != _COOKIE:
        sys.exit("This is a Terraform provider. Terraform starts it; labs/provider/README.md says how.")
    parent = os.getppid()
    folder = _private_folder()
    socket = f"{folder}/s"
    # A terminal's Ctrl-C reaches the whole group. It is Terraform's to handle: it sends StopProvider.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: _leave(folder))
    over = threading.Event()
    server = grpc.server(
        ThreadPoolExecutor(max_workers=_CALLS_AT_ONCE),
        options=[("grpc.max_receive_message_length", -1)],
    )
    tfplugin.add_ProviderServicer_to_server(servicer, server)
    grpc_controller_pb2_grpc.add_GRPCControllerServicer_to_server(_Controller(over), server)
    grpc_stdio_pb2_grpc.add_GRPCStdioServicer_to_server(_Stdio(), server)
    try:
        certificate = _listen(server, socket)
        server.start()
        print(f"1|6|unix|{socket}|grpc|{certificate}", flush=True)
        while not over.wait(_PARENT_CHECK_SECONDS):
            if os.getppid() != parent:
                break
        server.stop(grace=_LAST_WORDS_SECONDS).wait()
    finally:
        _leave(folder)


def _listen(server: grpc.Server, socket: str) -> str:
    """Listen as the client wants it; answers the certificate for the handshake, empty without TLS."""
    if "PLUGIN_CLIENT_CERT" not in os.environ and not os.environ.get("LAB_ALWAYS_TLS"):
        server.add_insecure_port(f"unix:{socket}")
        return ""
    from provider import certificate  # noqa: PLC0415 (slow to import, and often not needed)

    key, pem, der = certificate.make()
    server.add_secure_port(f"unix:{socket}", grpc.ssl_server_credentials([(key, pem)]))
    return base64.b64encode(der).decode().rstrip("=")


def _private_folder() -> str:
    """A folder that only this user can enter, named after the process so that a left-over can be traced."""
    place = os.environ.get("PLUGIN_UNIX_SOCKET_DIR") or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 (as Go does)
    folder = os.path.join(os.path.abspath(place), f"lab-{os.getpid()}-{os.urandom(3).hex()}")  # noqa: PTH100, PTH118 (pathlib is slow to load)
    if len(os.fsencode(folder)) + 2 > _LONGEST_SOCKET_PATH:
        sys.exit(
            f"{folder} is too long a path for a socket: set TMPDIR or PLUGIN_UNIX_SOCKET_DIR to a shorter."
        )
    os.mkdir(folder, mode=0o700)  # noqa: PTH102
    return folder


def _leave(folder: str) -> NoReturn:
    """End now. The interpreter's own way down takes longer than Terraform should wait."""
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{folder}/s")  # noqa: PTH108
        os.rmdir(folder)  # noqa: PTH106
    sys.stderr.flush()
    os._exit(0)
