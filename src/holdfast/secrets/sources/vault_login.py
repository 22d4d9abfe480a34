"""Logs in to Vault with a given token, an AppRole or a Kubernetes service account.

The first one set is used: VAULT_TOKEN; VAULT_ROLE_ID with VAULT_SECRET_ID; VAULT_KUBERNETES_ROLE; the file
`.vault-token` in the home folder, which `vault login` writes.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.values import MaskedStruct
from holdfast.secrets.sources import errors
from holdfast.secrets.sources.http_session import HttpSession, json_body
from holdfast.system.environment import Environment
from holdfast.system.http import Response

_OK = 200
_MAX_BYTES = 16 * 1024
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/token"
_LOGIN_HINT = (
    "Set VAULT_TOKEN, or VAULT_ROLE_ID and VAULT_SECRET_ID, or VAULT_KUBERNETES_ROLE, or run `vault login`."
)


class VaultToken(MaskedStruct, frozen=True, kw_only=True):
    address: str
    value: str
    namespace: str | None
    description: str
    """For messages: where the token came from, never the token."""
    accessor: str | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        return {**_headers(self.namespace), "X-Vault-Token": self.value}


class VaultLogin:
    """Logs in once, at the first request."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._lock = threading.Lock()
        self._token: VaultToken | None = None
        self._description: str | None = None

    def token(self, session: HttpSession) -> VaultToken:
        with self._lock:
            if self._token is None:
                self._token = self._log_in(session)
            return self._token

    def describe(self, session: HttpSession, token: VaultToken) -> str:
        """The identity as Vault reports it, or where the token came from if Vault does not say."""
        with self._lock:
            if self._description is None:
                with contextlib.suppress(HoldfastError):
                    self._description = _look_up(session, token)
            return self._description or token.description

    def _log_in(self, session: HttpSession) -> VaultToken:
        get, ref = self._environment.get, session.ref
        address = _address(ref, get("VAULT_ADDR"))
        namespace = get("VAULT_NAMESPACE")
        at = f"at {address}" + (f", namespace {namespace}" if namespace else "")

        def given_token(value: str, origin: str) -> VaultToken:
            if not value.isprintable() or not value.isascii():
                detail = f"{origin} contains characters that no token has"
                raise errors.no_identity(ref, detail=detail, hint=_LOGIN_HINT)
            return VaultToken(address=address, value=value, namespace=namespace, description=f"{origin} {at}")

        if value := get("VAULT_TOKEN"):
            return given_token(value.strip(), "the token in VAULT_TOKEN")
        if (role := get("VAULT_ROLE_ID")) and (secret := get("VAULT_SECRET_ID")):
            credentials = {"role_id": role, "secret_id": secret}
            return _log_in_as(session, address, namespace, "approle", credentials, f"the AppRole {role} {at}")
        if role := get("VAULT_KUBERNETES_ROLE"):
            token_file = Path(get("VAULT_KUBERNETES_TOKEN_FILE") or _SERVICE_ACCOUNT)
            credentials = {"role": role, "jwt": _read_file(ref, token_file)}
            description = f"the Kubernetes role {role} {at}"
            return _log_in_as(session, address, namespace, "kubernetes", credentials, description)
        home = get("HOME")
        if home and (Path(home) / ".vault-token").is_file():
            return given_token(_read_file(ref, Path(home) / ".vault-token"), "the token in ~/.vault-token")
        raise errors.no_identity(ref, detail="no Vault token is set", hint=_LOGIN_HINT)


def _log_in_as(
    session: HttpSession,
    address: str,
    namespace: str | None,
    method: str,
    credentials: Mapping[str, str],
    description: str,
) -> VaultToken:
    """Sent once: a secret id may be valid for a single use."""
    mount = (session.environment.get("VAULT_AUTH_MOUNT") or method).strip("/")
    answer = session.request(
        "POST",
        f"{address}/v1/auth/{mount}/login",
        headers={**_headers(namespace), "Content-Type": "application/json"},
        body=json.dumps(credentials).encode(),
        tries=1,
    )
    auth = json_body(answer).get("auth")
    if answer.status == _OK and isinstance(auth, dict) and isinstance(auth.get("client_token"), str):
        accessor = auth.get("accessor")
        return VaultToken(
            address=address,
            value=auth["client_token"],
            namespace=namespace,
            description=description,
            accessor=accessor if isinstance(accessor, str) else None,
        )
    detail = quote_errors(answer, *credentials.values())
    raise errors.forbidden(
        session.ref,
        by=description,
        detail=f"login at auth/{mount} failed with status {answer.status}{f': {detail}' if detail else ''}",
        needs="Check the role and its secret; set VAULT_AUTH_MOUNT if the method is mounted elsewhere.",
    )


def quote_errors(answer: Response, *credentials: str) -> str:
    messages = json_body(answer).get("errors")
    return errors.quote("; ".join(map(str, messages)) if isinstance(messages, list) else "", *credentials)


def _look_up(session: HttpSession, token: VaultToken) -> str:
    accessor = f" (accessor {token.accessor})" if token.accessor else ""
    answer = session.request(
        "GET", f"{token.address}/v1/auth/token/lookup-self", headers=token.headers, tries=1
    )
    data = json_body(answer).get("data")
    if answer.status != _OK or not isinstance(data, dict):
        return f"{token.description}{accessor or ', which is unknown to Vault or has expired'}"
    details = [
        f"{name} {errors.quote(data[key], token.value)}"
        for name, key in (("accessor", "accessor"), ("display name", "display_name"), ("by", "path"))
        if isinstance(data.get(key), str) and data[key]
    ]
    return f"{token.description} ({', '.join(details)})" if details else token.description


def _address(ref: SecretRef, address: str | None) -> str:
    if address is None:
        raise errors.invalid_setting(
            ref,
            detail="VAULT_ADDR is not set",
            hint="Set it to Vault's address, such as https://vault.example:8200.",
        )
    return address.strip().rstrip("/")


def _headers(namespace: str | None) -> dict[str, str]:
    return {"X-Vault-Request": "true", **({"X-Vault-Namespace": namespace} if namespace else {})}


def _read_file(ref: SecretRef, path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode().strip()
    except (OSError, ValueError):
        raise errors.no_identity(ref, detail=f"cannot read {path}", hint=_LOGIN_HINT) from None
