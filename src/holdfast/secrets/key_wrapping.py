"""A server's key that is stored encrypted: by AWS KMS, or for age recipients.

`HOLDFAST_KEY=awskms:ARN` or `HOLDFAST_KEY=age:IDENTITIES[,RECIPIENT…]` says what opens the key file in the
data folder of the server. It is one of

    awskms ARN ID CIPHERTEXT                  KMS opens it only for this id of the key (encryption context)
    -----BEGIN AGE ENCRYPTED FILE-----        `age --decrypt` opens it too: its content is a key file
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from holdfast.kernel.errors import Failed, HoldfastError, UsageError
from holdfast.secrets.keys import KEY_SIZE, VARIABLE, Key, key_text, read_private, secret_from
from holdfast.system import files
from holdfast.system.environment import Environment

if TYPE_CHECKING:
    from pyrage import x25519

    from holdfast.system.aws import AwsCaller

_KMS, _AGE = "awskms:", "age:"
_KMS_FILE, _AGE_FILE = "awskms ", "-----BEGIN AGE ENCRYPTED FILE-----"
_ARN = re.compile(r"arn:[a-z-]+:kms:([a-z0-9-]+):\d{12}:(?:key|alias)/[!-~]+")
_CONTEXT = "holdfast-key"
_STORED = "the server's key"
_DENIED = re.compile(
    r"AccessDenied|UnrecognizedClient|Signature|ExpiredToken|InvalidClientToken|OptInRequired"
)
_WRONG = frozenset(
    {
        "IncorrectKeyException", "InvalidCiphertextException", "NotFoundException", "DisabledException",
        "KMSInvalidStateException", "InvalidKeyUsageException", "InvalidArnException", "ValidationException",
    }
)  # fmt: skip


class KmsUnreachable(Failed):
    """KMS gave no usable answer. It may later."""


class KeyWrapping(Protocol):
    @property
    def shown(self) -> str: ...

    def wrap(self, secret: bytes) -> str:
        """The content of a key file."""
        ...

    def unwrap(self, wrapped: str, what: str) -> bytes:
        """The secret. `what`: the file, or the copy in a backup."""
        ...

    def fits(self, wrapped: str) -> int:
        """0: another kind; more is better."""
        ...


def is_wrapped(text: str) -> bool:
    return text.startswith((_KMS_FILE, _AGE_FILE))


def key_wrapping(environment: Environment, variable: str = VARIABLE) -> KeyWrapping | None:
    """None: the variable is not set, or contains a key."""
    text = environment.get(variable) or ""
    if text.startswith(_KMS):
        return KmsWrapping(environment, text.removeprefix(_KMS), variable)
    if text.startswith(_AGE):
        identities, *recipients = text.removeprefix(_AGE).split(",")
        return AgeWrapping(Path(identities).expanduser().absolute(), tuple(map(str.strip, recipients)))
    return None


def unwrap(wrapped: str, wrappings: Sequence[KeyWrapping | None], what: str) -> bytes:
    """With the one that fits best."""
    usable = [wrapping for wrapping in wrappings if wrapping is not None and wrapping.fits(wrapped)]
    if not usable:
        kind = f"{_KMS}ARN" if wrapped.startswith(_KMS_FILE) else f"{_AGE}IDENTITIES"
        by = f"KMS key {wrapped.split()[1]}" if wrapped.startswith(_KMS_FILE) else "age"
        raise UsageError(
            "HF-KEY-21", f"{what} is encrypted by {by}", hint=f"Set what opens it: {VARIABLE}={kind}"
        )
    return max(usable, key=lambda wrapping: wrapping.fits(wrapped)).unwrap(wrapped, what)


class AgeWrapping(NamedTuple):
    identities: Path
    recipients: tuple[str, ...]
    """Beside those of the identities."""

    @property
    def shown(self) -> str:
        return f"the age identities in {self.identities}"

    def wrap(self, secret: bytes) -> str:
        own = _identities(read_private(self.identities), self.identities, _STORED)
        return wrap_key(secret, [*(str(identity.to_public()) for identity in own), *self.recipients])

    def unwrap(self, wrapped: str, what: str) -> bytes:
        return _decrypt(wrapped, read_private(self.identities), self.identities, what, "HF-KEY-23")

    def fits(self, wrapped: str) -> int:
        return int(wrapped.startswith(_AGE_FILE))


def wrap_key(secret: bytes, recipients: Sequence[str]) -> str:
    """For these age recipients (`age1…`), as text."""
    import pyrage  # noqa: PLC0415 - an extra

    to = [_recipient(text) for text in recipients]
    return str(pyrage.encrypt(key_text(secret), to, armored=True), "ascii")


def unwrap_key(wrapped: str, identities: Path) -> bytes:
    """With a file of age identities, as `age-keygen` writes it."""
    return _decrypt(wrapped, files.read_text(identities), identities, "the copy of the key", "HF-DB-15")


def _decrypt(wrapped: str, identities: str, file: Path, what: str, code: str) -> bytes:
    import pyrage  # noqa: PLC0415 - an extra

    try:
        text = pyrage.decrypt(wrapped.encode(), _identities(identities, file, what, code))
    except pyrage.DecryptError:
        raise _no_identity(file, what, code) from None
    return secret_from(text.decode("ascii", "replace"), what)


def _identities(text: str, file: Path, what: str, code: str = "HF-KEY-23") -> list[x25519.Identity]:
    import pyrage  # noqa: PLC0415 - an extra

    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    try:
        identities = [pyrage.x25519.Identity.from_str(line) for line in lines]
    except pyrage.IdentityError:
        identities = []
    if not identities:
        raise _no_identity(file, what, code)
    return identities


def _no_identity(file: Path, what: str, code: str) -> UsageError:
    return UsageError(
        code,
        f"no age identity in {file} opens {what}",
        hint="Use the file that `age-keygen` wrote for one of its recipients.",
    )


def _recipient(text: str) -> x25519.Recipient:
    import pyrage  # noqa: PLC0415 - an extra

    try:
        return pyrage.x25519.Recipient.from_str(text)
    except pyrage.RecipientError:
        raise UsageError(
            "HF-DB-16",
            f"{text[:12]}{'…' if text[12:] else ''} is not an age recipient",
            hint="Create one with `age-keygen -o identity.txt`, keep that file in a safe place, and pass the "
            "public key that it prints: age1…",
        ) from None


class KmsWrapping:
    """The key is created here and encrypted by KMS, which binds it to its id: the database names that id."""

    def __init__(self, environment: Environment, arn: str, variable: str) -> None:
        if (match := _ARN.fullmatch(arn)) is None:
            raise UsageError(
                "HF-KEY-21",
                f"{variable} does not name a KMS key: {arn}",
                hint=f"Write its whole ARN: {variable}={_KMS}arn:aws:kms:REGION:ACCOUNT:key/ID",
            )
        self.shown = f"KMS key {arn}"
        self._arn, self._region, self._environment = arn, match.group(1), environment
        self._caller: AwsCaller | None = None

    def wrap(self, secret: bytes) -> str:
        key_id = Key.of(secret).id
        answer = self._call(
            _STORED,
            lambda kms: kms.encrypt(KeyId=self._arn, Plaintext=secret, EncryptionContext={_CONTEXT: key_id}),
        )
        return f"{_KMS_FILE}{self._arn} {key_id} {base64.b64encode(answer['CiphertextBlob']).decode()}\n"

    def unwrap(self, wrapped: str, what: str) -> bytes:
        try:
            _, _, key_id, text = wrapped.split()
            blob = base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error):
            raise self._wrong(what, "it was changed or cut") from None
        answer = self._call(
            what,
            lambda kms: kms.decrypt(
                KeyId=self._arn, CiphertextBlob=blob, EncryptionContext={_CONTEXT: key_id}
            ),
        )
        secret: bytes = answer["Plaintext"]
        if len(secret) != KEY_SIZE or Key.of(secret).id != key_id:
            raise self._wrong(what, f"it is not the key {key_id}")
        return secret

    def fits(self, wrapped: str) -> int:
        return wrapped.startswith(_KMS_FILE) + wrapped.startswith(f"{_KMS_FILE}{self._arn} ")

    def _call(self, what: str, call: Callable[[Any], Any]) -> Any:
        try:
            from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - an extra
            from botocore.parsers import ResponseParserError  # noqa: PLC0415

            from holdfast.system.aws import AwsCaller, AwsError, NoCredentialsError, S3Timeouts  # noqa: PLC0415
        except ModuleNotFoundError:
            raise UsageError(
                "HF-KEY-21",
                f"{what} is encrypted by {self.shown}, and the Python package boto3 is not installed",
                hint="Install Holdfast with both extras: pip install 'holdfast[server,aws]'.",
            ) from None
        if self._caller is None:
            variables, timeouts = self._environment.variables, S3Timeouts(read=5.0, tries=3)
            self._caller = AwsCaller(variables, timeouts=timeouts, service="kms", region=self._region)
        try:
            return call(self._caller.client())
        except ClientError as error:
            details = error.response.get("Error", {})
            code, message = str(details.get("Code")), " ".join(str(details.get("Message")).split())[:300]
            if code in _WRONG:
                raise self._wrong(what, f"{code}: {message}") from None
            if _DENIED.search(code):
                raise self._denied(what, f"{code}: {message}") from None
            raise self._unreachable(what, f"{code}: {message}") from None
        except NoCredentialsError as error:
            raise self._denied(what, f"no AWS credentials: {error}") from None
        except (BotoCoreError, ResponseParserError, AwsError) as error:
            raise self._unreachable(what, str(error)) from None

    def _denied(self, what: str, reason: str) -> HoldfastError:
        return Failed(
            "HF-KEY-22",
            f"this AWS identity may not use {self.shown} for {what}: {reason}",
            hint="It needs kms:Decrypt on that key, and kms:Encrypt to create or replace the server's key.",
        )

    def _wrong(self, what: str, reason: str) -> HoldfastError:
        return UsageError(
            "HF-KEY-23",
            f"{self.shown} does not open {what}: {reason}",
            hint=f"Set {VARIABLE} to the KMS key that encrypted it, and check that the key is enabled. "
            "`holdfast db restore --identity` restores a lost key from a backup with an escrow.",
        )

    def _unreachable(self, what: str, reason: str) -> HoldfastError:
        return KmsUnreachable(
            "HF-KEY-24",
            f"cannot reach {self.shown} to open {what}: {reason}",
            hint="Check the network, the proxy, the region in the ARN and AWS_ENDPOINT_URL_KMS.",
        )
