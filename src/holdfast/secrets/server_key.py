"""The key of a server: it encrypts what clients store, and never leaves the server.

A copy for the case that the machine is lost is encrypted to age recipients, whose identities are kept
elsewhere, such as in a safe. `age --decrypt` opens it too: its content is a key file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holdfast.kernel.errors import UsageError
from holdfast.kernel.secret import masked_repr
from holdfast.secrets.keys import (
    FILE_NAME,
    FILE_VARIABLE,
    VARIABLE,
    Key,
    create_key_file,
    key_text,
    read_secret_file,
    secret_from,
)
from holdfast.system import files
from holdfast.system.environment import Environment

if TYPE_CHECKING:
    from pyrage import x25519


OLD_VARIABLE = "HOLDFAST_OLD_KEY"
OLD_FILE_VARIABLE = "HOLDFAST_OLD_KEY_FILE"
_ID_LENGTH = 16


class ServerKey(NamedTuple):
    secret: bytes
    source: str
    """The variable or the file that it comes from."""

    def __repr__(self) -> str:
        return masked_repr(self)

    @property
    def key(self) -> Key:
        return Key.of(self.secret)


def load_server_key(environment: Environment, data: Path) -> ServerKey | None:
    """From a variable, the named file, or the data folder of the server."""
    if text := environment.get(VARIABLE):
        return ServerKey(secret_from(text, VARIABLE), VARIABLE)
    if name := environment.get(FILE_VARIABLE):
        return ServerKey(read_secret_file(Path(name).expanduser().absolute()), FILE_VARIABLE)
    file = data / FILE_NAME
    return ServerKey(read_secret_file(file), str(file)) if file.exists() else None


def load_older_keys(environment: Environment, data: Path) -> tuple[Key, ...]:
    """Those that were replaced: states are encrypted with them until the server has encrypted them again."""
    keys = [Key.of(read_secret_file(file)) for file in sorted(data.glob(f"{FILE_NAME}.{'?' * _ID_LENGTH}"))]
    if text := environment.get(OLD_VARIABLE):
        keys.append(Key.of(secret_from(text, OLD_VARIABLE)))
    if name := environment.get(OLD_FILE_VARIABLE):
        keys.append(Key.of(read_secret_file(Path(name).expanduser().absolute())))
    return tuple(keys)


def write_server_key(data: Path, secret: bytes) -> Path:
    """In the data folder, which has none."""
    create_key_file(data / FILE_NAME, secret)
    return data / FILE_NAME


def wrap_key(secret: bytes, recipients: Sequence[str]) -> str:
    """For these age recipients (`age1…`), as text."""
    import pyrage  # noqa: PLC0415 - an extra

    to = [_recipient(text) for text in recipients]
    return str(pyrage.encrypt(key_text(secret), to, armored=True), "ascii")


def unwrap_key(wrapped: str, identities: Path) -> bytes:
    """With a file of age identities, as `age-keygen` writes it."""
    import pyrage  # noqa: PLC0415 - an extra

    lines = (line.strip() for line in files.read_text(identities).splitlines())
    try:
        keys = [pyrage.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
        text = pyrage.decrypt(wrapped.encode(), keys)
    except (pyrage.IdentityError, pyrage.DecryptError):
        raise UsageError(
            "HF-DB-15",
            f"no age identity in {identities} opens the copy of the key",
            hint="Use the file that `age-keygen` wrote for one of the recipients of --escrow.",
        ) from None
    return secret_from(text.decode(), "the copy of the key")


def _recipient(text: str) -> x25519.Recipient:
    import pyrage  # noqa: PLC0415 - an extra

    try:
        return pyrage.x25519.Recipient.from_str(text)
    except pyrage.RecipientError:
        raise UsageError(
            "HF-DB-16",
            f"{text[:12]}… is not an age recipient",
            hint="Create one with `age-keygen -o identity.txt`, keep that file in a safe place, and pass the "
            "public key that it prints: --escrow age1…",
        ) from None
