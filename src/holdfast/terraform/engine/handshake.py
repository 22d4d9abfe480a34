"""Does a provider speak without a certificate over a Unix socket? Asked when a package enters the mirror.

Terraform panics when plugin TLS is switched off and a provider answers with a certificate all the same, so
nothing is switched off on a guess.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.system import processes

_QUESTION = {
    "TF_PLUGIN_MAGIC_COOKIE": "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
    "PLUGIN_PROTOCOL_VERSIONS": "5,6",
    "PLUGIN_MIN_PORT": "10000",
    "PLUGIN_MAX_PORT": "25000",
}
_PARTS_WITHOUT_CERTIFICATE = 5


def supports_plaintext(package: Path, *, scratch: Path, path: str) -> bool:
    """Start the provider as Terraform would without TLS, and read the one line it prints."""
    program = executable(package)
    if program is None:
        return False
    environment = {**_QUESTION, "TMPDIR": str(scratch), "PATH": path, "HOME": str(scratch)}
    line = processes.first_line((str(program),), folder=scratch, environment=environment)
    return line is not None and is_plaintext_handshake(line.decode(errors="replace"))


def is_plaintext_handshake(line: str) -> bool:
    """`1|6|unix|/path/to/socket|grpc|` and nothing behind it."""
    parts = line.split("|")
    if len(parts) < _PARTS_WITHOUT_CERTIFICATE:
        return False
    _, _, network, _, protocol, *rest = parts
    return network == "unix" and protocol == "grpc" and not (rest and rest[0])


def executable(package: Path) -> Path | None:
    """The provider itself among the files of its package."""
    found = [
        path
        for path in sorted(package.iterdir())
        if path.name.startswith("terraform-provider-") and path.is_file() and os.access(path, os.X_OK)
    ]
    return found[0] if found else None
