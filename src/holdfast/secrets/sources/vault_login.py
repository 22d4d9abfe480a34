"""Who asks Vault: a token that is given, or one that an AppRole or a Kubernetes service account gets.

The first that there is: VAULT_TOKEN; VAULT_ROLE_ID with VAULT_SECRET_ID; VAULT_KUBERNETES_ROLE; the file
`.vault-token` in the home folder, which `vault login` writes.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path

from holdfast.config.valid import SecretRef
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.values import dataclass, field
from holdfast.secrets.sources import failures
from holdfast.secrets.sources.request import Asking, document
from holdfast.system.environment import Environment

_OK = 200
_MOST_BYTES = 16 * 1024
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/token"
_WAYS = (
    "Set VAULT_TOKEN, or VAULT_ROLE_ID and VAULT_SECRET_ID, or VAULT_KUBERNETES_ROLE, or run `vault login`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    address: str
    proof: str = field(repr=False)
    namespace: str | None
    shown: str
    """Which token it is, in words: never the token."""
    accessor: str | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        return {**_headers(self.namespace), "X-Vault-Token": self.proof}


class VaultLogin:
    """Signs in once, when somebody first asks."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._described: str | None = None

    def token(self, asking: Asking) -> Token:
        with self._lock:
            if self._token is None:
                self._token = self._obtained(asking)
            return self._token

    def described(self, asking: Asking, token: Token) -> str:
        """Who Vault says the token is; what is known without asking where it does not say."""
        with self._lock:
            if self._described is None:
                with contextlib.suppress(HoldfastError):
                    self._described = _looked_up(asking, token)
            return self._described or token.shown

    def _obtained(self, asking: Asking) -> Token:
        get, ref = self._environment.get, asking.ref
        address = _address(ref, get("VAULT_ADDR"))
        namespace = get("VAULT_NAMESPACE")
        at = f"at {address}" + (f", namespace {namespace}" if namespace else "")

        def given(proof: str, what: str) -> Token:
            if not proof.isprintable() or not proof.isascii():
                raise failures.no_identity(ref, said=f"{what} holds what no token has", hint=_WAYS)
            return Token(address=address, proof=proof, namespace=namespace, shown=f"{what} {at}")

        if proof := get("VAULT_TOKEN"):
            return given(proof.strip(), "the token in VAULT_TOKEN")
        if (role := get("VAULT_ROLE_ID")) and (secret := get("VAULT_SECRET_ID")):
            wish = {"role_id": role, "secret_id": secret}
            return _signed_in(asking, address, namespace, "approle", wish, f"the AppRole {role} {at}")
        if role := get("VAULT_KUBERNETES_ROLE"):
            wish = {
                "role": role,
                "jwt": _file(ref, Path(get("VAULT_KUBERNETES_TOKEN_FILE") or _SERVICE_ACCOUNT)),
            }
            return _signed_in(
                asking, address, namespace, "kubernetes", wish, f"the Kubernetes role {role} {at}"
            )
        home = get("HOME")
        if home and (Path(home) / ".vault-token").is_file():
            return given(_file(ref, Path(home) / ".vault-token"), "the token in ~/.vault-token")
        raise failures.no_identity(ref, said="there is no token for Vault", hint=_WAYS)


def _signed_in(
    asking: Asking, address: str, namespace: str | None, method: str, wish: Mapping[str, str], shown: str
) -> Token:
    """A secret id may be good for one use only, so this is asked once."""
    mount = (asking.environment.get("VAULT_AUTH_MOUNT") or method).strip("/")
    answer = asking.ask(
        "POST",
        f"{address}/v1/auth/{mount}/login",
        headers={**_headers(namespace), "Content-Type": "application/json"},
        body=json.dumps(wish).encode(),
        tries=1,
    )
    told = document(answer)
    auth = told.get("auth")
    if answer.status == _OK and isinstance(auth, dict) and isinstance(auth.get("client_token"), str):
        accessor = auth.get("accessor")
        return Token(
            address=address,
            proof=auth["client_token"],
            namespace=namespace,
            shown=shown,
            accessor=accessor if isinstance(accessor, str) else None,
        )
    errors = told.get("errors")
    said = failures.quoted("; ".join(map(str, errors)) if isinstance(errors, list) else "", *wish.values())
    raise failures.forbidden(
        asking.ref,
        by=shown,
        said=f"signing in at auth/{mount} was answered with {answer.status}{f': {said}' if said else ''}",
        needs="Check the role, its secret, and VAULT_AUTH_MOUNT where the method has another mount.",
    )


def _looked_up(asking: Asking, token: Token) -> str:
    accessor = f" (accessor {token.accessor})" if token.accessor else ""
    answer = asking.ask("GET", f"{token.address}/v1/auth/token/lookup-self", headers=token.headers, tries=1)
    data = document(answer).get("data")
    if answer.status != _OK or not isinstance(data, dict):
        return f"{token.shown}{accessor or ', which Vault does not know or which has expired'}"
    known = [
        f"{name} {failures.quoted(data[key], token.proof)}"
        for name, key in (("accessor", "accessor"), ("signed in as", "display_name"), ("by", "path"))
        if isinstance(data.get(key), str) and data[key]
    ]
    return f"{token.shown} ({', '.join(known)})" if known else token.shown


def _address(ref: SecretRef, given: str | None) -> str:
    if given is None:
        raise failures.setting(
            ref,
            said="VAULT_ADDR is not set",
            hint="Set it to Vault's address, such as https://vault.example:8200.",
        )
    return given.strip().rstrip("/")


def _headers(namespace: str | None) -> dict[str, str]:
    return {"X-Vault-Request": "true", **({"X-Vault-Namespace": namespace} if namespace else {})}


def _file(ref: SecretRef, path: Path) -> str:
    try:
        with path.open("rb") as opened:
            return opened.read(_MOST_BYTES).decode().strip()
    except (OSError, ValueError):
        raise failures.no_identity(ref, said=f"{path} cannot be read", hint=_WAYS) from None
