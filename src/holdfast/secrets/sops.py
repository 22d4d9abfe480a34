"""Files of SOPS, as version 3 reads and writes them: values encrypted with AES-256-GCM, names in plaintext.

One data key encrypts the values and a digest over all of them; each age recipient gets a copy of it. Whoever
has the data key can tell whether a file has certain values without any private key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import yaml
from msgspec import Struct

from holdfast.kernel.yaml_text import yaml_text

METADATA: Final = "sops"
"""The key of a file beside its values."""
_VERSION: Final = "3.10.2"
_KEY_SIZE: Final = 32
_NONCE_SIZE: Final = 32
_TAG_SIZE: Final = 16
_ENCRYPTED: Final = re.compile(
    r"ENC\[AES256_GCM,data:(?P<data>[A-Za-z0-9+/=]*),iv:(?P<iv>[A-Za-z0-9+/=]+),tag:(?P<tag>[A-Za-z0-9+/=]+),"
    r"type:(?P<type>[a-z]+)\]"
)
_ALL: Final = ".*"
"""As `encrypted_regex`: by default SOPS leaves what is named `…_unencrypted` in plaintext."""
_LIMIT: Final = 2**63


class SopsError(ValueError):
    """Why a file or a value cannot be used. Never contains a value."""


def seal(
    values: Mapping[str, object], *, data_key: bytes, recipients: Mapping[str, str], modified: str
) -> str:
    """The text of a file. `recipients` have the data key, encrypted for each: `sealed_key`.

    `modified` is the time, as `2026-01-02T03:04:05Z`.
    """
    if METADATA in values:
        raise SopsError(f"a value is named `{METADATA}`, which SOPS uses itself")
    digest = hashlib.sha512()
    encrypted = {
        key: _encrypt_tree(value, data_key, f"{_key(key)}:", digest) for key, value in values.items()
    }
    mac = _encrypt(digest.hexdigest().upper().encode(), "str", data_key, modified)
    metadata = {
        "age": [{"recipient": recipient, "enc": enc} for recipient, enc in recipients.items()],
        "lastmodified": modified,
        "mac": mac,
        "encrypted_regex": _ALL,
        "version": _VERSION,
    }
    return yaml_text({**encrypted, METADATA: metadata})


def unseal(text: str, data_key: bytes) -> dict[str, object]:
    """The values of a file. Raises SopsError unless every value and their digest are genuine."""
    document = read(text)
    metadata = document.pop(METADATA)
    only_encrypted = metadata.get("mac_only_encrypted") is True
    digest = hashlib.sha512(hashlib.sha256(b"sops").digest() if only_encrypted else b"")
    values = {
        key: _decrypt_tree(value, data_key, f"{key}:", digest, only_encrypted)
        for key, value in document.items()
    }
    mac = _decrypt(str(metadata.get("mac", "")), data_key, str(metadata.get("lastmodified", "")))
    if not hmac.compare_digest(str(mac).encode(), digest.hexdigest().upper().encode()):
        raise SopsError("its digest does not match: it was changed without SOPS")
    return values


def read(text: str) -> dict[str, Any]:
    """The mapping of a file, values still encrypted. Raises SopsError if it is not a file of SOPS."""
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise SopsError("it is not valid YAML") from None
    if not isinstance(document, dict) or not isinstance(document.get(METADATA), dict):
        raise SopsError("it is not a file of SOPS")
    return document


def clear_values(document: Mapping[str, Any]) -> Iterator[str]:
    """The paths of values in plaintext, though they could be encrypted."""
    for key, value in document.items():
        if key != METADATA:
            yield from _clear(str(key), value)


def recipients_of(document: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Who can open a file: the kind of each key, and everything that names it."""
    names = ("enc", "created_at")
    return frozenset(
        (kind, repr(sorted((name, value) for name, value in entry.items() if name not in names)))
        for kind, entries in document[METADATA].items()
        if isinstance(entries, list)
        for entry in entries
        if isinstance(entry, dict)
    )


def sealed_key(data_key: bytes, recipient: str) -> str:
    """The data key for one age recipient. Raises SopsError if it is none."""
    try:
        import pyrage  # noqa: PLC0415 - an extra
    except ImportError:
        raise SopsError("the Python package pyrage is missing: pip install 'holdfast[sops]'") from None
    try:
        to = pyrage.x25519.Recipient.from_str(recipient)
    except pyrage.RecipientError:
        raise SopsError(f"{recipient[:12]}… is not an age recipient") from None
    return str(pyrage.encrypt(data_key, [to], armored=True), "ascii")


class _Leaf(Struct, frozen=True, kw_only=True):
    type: str
    plain: bytes
    """What is encrypted, and what the digest covers."""


def _leaf(value: object) -> _Leaf:
    match value:
        case bool():
            return _Leaf(type="bool", plain=b"True" if value else b"False")
        case int():
            if not -_LIMIT <= value < _LIMIT:
                raise SopsError("a number is too large for SOPS; make the output a string")
            return _Leaf(type="int", plain=str(value).encode())
        case float():
            text = format(Decimal(repr(value)), "f")
            return _Leaf(type="float", plain=(text.rstrip("0").rstrip(".") if "." in text else text).encode())
        case str():
            return _Leaf(type="str", plain=value.encode())
        case _:
            raise SopsError(f"a value of the type {type(value).__name__} is not supported")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise SopsError("a key is not text")
    return key


def _encrypt_tree(value: object, data_key: bytes, path: str, digest: Any) -> object:
    match value:
        case None:
            return None
        case Mapping():
            return {
                key: _encrypt_tree(inner, data_key, f"{path}{_key(key)}:", digest)
                for key, inner in value.items()
            }
        case list() | tuple():
            return [_encrypt_tree(inner, data_key, path, digest) for inner in value]
        case _:
            leaf = _leaf(value)
            digest.update(leaf.plain)
            return _encrypt(leaf.plain, leaf.type, data_key, path) if leaf.plain else ""


def _decrypt_tree(value: object, data_key: bytes, path: str, digest: Any, only_encrypted: bool) -> object:  # noqa: FBT001
    match value:
        case None:
            return None
        case Mapping():
            return {
                key: _decrypt_tree(inner, data_key, f"{path}{key}:", digest, only_encrypted)
                for key, inner in value.items()
            }
        case list():
            return [_decrypt_tree(inner, data_key, path, digest, only_encrypted) for inner in value]
        case str() if _ENCRYPTED.fullmatch(value):
            plain = _decrypt(value, data_key, path)
            digest.update(_leaf(plain).plain)
            return plain
        case _:
            if not only_encrypted:
                digest.update(_leaf(value).plain)
            return value


def _encrypt(plain: bytes, type_: str, data_key: bytes, path: str) -> str:
    from cryptography.hazmat.primitives.ciphers import Cipher  # noqa: PLC0415 - few commands encrypt
    from cryptography.hazmat.primitives.ciphers.algorithms import AES  # noqa: PLC0415
    from cryptography.hazmat.primitives.ciphers.modes import GCM  # noqa: PLC0415

    nonce = os.urandom(_NONCE_SIZE)
    encryptor = Cipher(AES(data_key), GCM(nonce)).encryptor()
    encryptor.authenticate_additional_data(path.encode())
    data = encryptor.update(plain) + encryptor.finalize()
    parts = (base64.b64encode(part).decode() for part in (data, nonce, encryptor.tag))
    return "ENC[AES256_GCM,data:{},iv:{},tag:{},type:{}]".format(*parts, type_)


def _decrypt(text: str, data_key: bytes, path: str) -> object:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415
    from cryptography.hazmat.primitives.ciphers import Cipher  # noqa: PLC0415
    from cryptography.hazmat.primitives.ciphers.algorithms import AES  # noqa: PLC0415
    from cryptography.hazmat.primitives.ciphers.modes import GCM  # noqa: PLC0415

    match = _ENCRYPTED.fullmatch(text)
    if match is None or len(data_key) != _KEY_SIZE:
        raise SopsError("it has no encrypted digest")
    try:
        data, nonce, tag = (base64.b64decode(match[name], validate=True) for name in ("data", "iv", "tag"))
        if len(tag) != _TAG_SIZE:
            raise InvalidTag  # noqa: TRY301 - one answer for all
        decryptor = Cipher(AES(data_key), GCM(nonce, tag)).decryptor()
        decryptor.authenticate_additional_data(path.encode())
        plain = decryptor.update(data) + decryptor.finalize()
        return _value(match["type"], plain.decode())
    except (InvalidTag, ValueError):
        raise SopsError("a value cannot be decrypted with this key, or was changed") from None


def _value(type_: str, text: str) -> object:
    match type_:
        case "str":
            return text
        case "int":
            return int(text)
        case "float":
            return float(text)
        case "bool":
            return text.lower() == "true"
        case _:
            raise ValueError(type_)


def _clear(path: str, value: object) -> Iterator[str]:
    match value:
        case Mapping():
            for key, inner in value.items():
                yield from _clear(f"{path}.{key}", inner)
        case list():
            for index, inner in enumerate(value):
                yield from _clear(f"{path}[{index}]", inner)
        case None | "":
            return
        case str() if _ENCRYPTED.fullmatch(value):
            return
        case _:
            yield path


def canonical(values: Mapping[str, object], recipients: Sequence[str], place: str) -> bytes:
    """What a data key is derived from: the same values at one place for the same people, the same key."""
    import json  # noqa: PLC0415

    return json.dumps([place, sorted(recipients), values], ensure_ascii=True, allow_nan=False).encode()
