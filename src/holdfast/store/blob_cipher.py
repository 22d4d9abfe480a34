"""Encrypts and signs the blobs of one run store.

Each blob is bound to the id of its store and to its name. Its key is derived for its scope, the first two
parts of its name: the process that hosts Terraform gets the keys of its own state and run and no others.

A plan job can read everything and sign nothing. What it must be able to write counts without a signature; all
other names count only if the apply key signed them or granted it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from holdfast.kernel.errors import UnknownOutcome
from holdfast.secrets.encryption import WrongKey, apply_key_needed, decrypt, encrypt, key_id_of, wrong_key
from holdfast.secrets.keys import CipherKey, Key
from holdfast.secrets.signing import BadSignature, Grant, Signer, Verifier, unsigned

PULL_REQUESTS = "pull-requests"
DRIFT = "drift"
_UNSIGNED = ("audit/", "authors/", "planning/", f"{PULL_REQUESTS}/", f"{DRIFT}/")
"""A plan job writes these: the audit log, who saved a plan, which plans run, pull requests, drift."""
OUTCOME = "outcome"
PLAN = "plan"


def needs_signature(name: str) -> bool:
    """The outcome of a plan and the plan itself count without a signature, those of an apply do not:
    `runs/run.py`, `runs/stored_plan.py`.
    """
    own = name.startswith("runs/") and name.endswith((f"/{OUTCOME}", f"/{PLAN}"))
    return not name.startswith(_UNSIGNED) and not own


def scope_of(name: str) -> str:
    return "/".join(name.split("/", 2)[:2])


class BlobCipher:
    def __init__(
        self,
        store: str,
        key_id: str,
        *,
        scopes: Mapping[str, bytes] | None = None,
        key: Key | None = None,
        verify: bytes,
        signer: Signer | None,
        older: Mapping[str, BlobCipher] | None = None,
    ) -> None:
        """`older` reads what an earlier key encrypted, by the id of that key."""
        self.store = store
        self.key_id = key_id
        self.verifier = Verifier(store, verify)
        self.signer = signer
        self._scopes = dict(scopes or {})
        self._key = key
        self._verify = verify
        self._older = older or {}

    @classmethod
    def of(cls, store: str, key: Key, *, older: Key | None = None) -> BlobCipher:
        """`older`: the key that is being replaced by this one."""
        signer = Signer(store, key.private.sign) if key.private is not None else None
        ciphers = {older.id: cls.of(store, older)} if older is not None else None
        return cls(store, key.id, key=key, verify=key.public.sign, signer=signer, older=ciphers)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> BlobCipher:
        """In the process that hosts Terraform: what `grant` gave it."""
        store, granted = document["store"], document["grant"]
        signer = None
        if granted is not None:
            signer = Signer(store, _bytes(granted["secret"]), proof=_bytes(granted["proof"]))
        return cls(
            store,
            document["key"],
            scopes={scope: _bytes(secret) for scope, secret in document["scopes"].items()},
            verify=_bytes(document["verify"]),
            signer=signer,
        )

    def grant(self, *, read: tuple[str, ...], write: tuple[str, ...]) -> dict[str, object]:
        """As JSON: the keys of these scopes, and a signing key for those that may be written."""
        granted: Grant | None = None
        if write:
            if self.signer is None:
                raise apply_key_needed("changing a state")
            granted = self.signer.grant(*write)
        return {
            "store": self.store,
            "key": self.key_id,
            "scopes": {scope: _text(self.scope_key(scope).secret) for scope in {*read, *write}},
            "verify": _text(self._verify),
            "grant": {"secret": _text(granted.secret), "proof": _text(granted.proof)} if granted else None,
        }

    def scope_key(self, scope: str) -> CipherKey:
        """Derived once: a command reads and writes few scopes many times."""
        if scope not in self._scopes:
            if self._key is None:
                raise apply_key_needed(f"reading {scope} in the run store")
            self._scopes[scope] = self._key.scope_key(scope).secret
        return CipherKey(self.key_id, self._scopes[scope])

    def of_journal(self, run: str) -> BlobCipher:
        """The cipher of this run's journal: this one, unless each run has its own key."""
        del run
        return self

    def encrypt(self, name: str, data: bytes, *, sign: bool = True) -> bytes:
        """`sign` is false for what a plan job wrote and is encrypted again."""
        if sign and self.signer is not None and self.signer.may_sign(name):
            content = self.signer.sign(name, data)
        elif needs_signature(name):
            raise apply_key_needed(f"writing {name} in the run store")
        else:
            content = unsigned(data)
        return encrypt(self.scope_key(scope_of(name)), content, context=self._context(name))

    def decrypt(self, name: str, encrypted: bytes, *, what: str) -> tuple[bytes, bool]:
        """The data, and whether it is signed."""
        try:
            content = decrypt(self.scope_key(scope_of(name)), encrypted, context=self._context(name))
        except WrongKey:
            if (older := self._older.get(key_id_of(encrypted))) is not None:
                return older.decrypt(name, encrypted, what=what)
            raise wrong_key(what, key_id_of(encrypted), self.key_id) from None
        try:
            data, signed = self.verifier.open(name, content)
        except BadSignature:
            raise unverified(what) from None
        if not signed and needs_signature(name):
            raise unverified(what)
        return data, signed

    def _context(self, name: str) -> str:
        return f"store\0{self.store}\0{name}"


def unverified(what: str) -> UnknownOutcome:
    return UnknownOutcome(
        "HF-KEY-11",
        f"{what} was not signed by the apply key",
        hint="Something else wrote it, for example a job with the plan key: find out what. Restore it from a "
        "backup, or remove it if it is forged.",
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
