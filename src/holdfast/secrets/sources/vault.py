"""`vault:MOUNT/PATH#FIELD`: secrets in a KV engine, version 1 or 2, of Vault or OpenBao.

The login uses the first of these: VAULT_TOKEN; VAULT_ROLE_ID with VAULT_SECRET_ID; VAULT_KUBERNETES_ROLE; the
file `.vault-token` in the home folder, which `vault login` writes.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from msgspec.structs import replace

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.text import json_object
from holdfast.kernel.values import MaskedStruct
from holdfast.secrets.sources import errors
from holdfast.secrets.sources.http_session import HttpSession
from holdfast.secrets.sources.interface import (
    ReadSecret,
    Source,
    Timeouts,
    parse_locator,
    select_field,
)
from holdfast.system.environment import Environment
from holdfast.system.http import Response

_OK, _FORBIDDEN, _NOT_FOUND, _SEALED = 200, 403, 404, 503
_WRITTEN, _BAD_REQUEST = frozenset({200, 204}), 400
_NEEDS = "Its policy needs `read` on this path (for version 2 of the engine: MOUNT/data/PATH)."
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
        address, namespace = _address(ref, get("VAULT_ADDR")), get("VAULT_NAMESPACE")
        at = f"at {address}" + (f", namespace {namespace}" if namespace else "")
        unknown = VaultToken(address=address, value="", namespace=namespace, description=at)

        def given_token(value: str, origin: str) -> VaultToken:
            if not value.isprintable() or not value.isascii():
                detail = f"{origin} contains characters that are not allowed in a token"
                raise errors.no_identity(ref, detail=detail, hint=_LOGIN_HINT)
            return replace(unknown, value=value, description=f"{origin} {at}")

        if value := get("VAULT_TOKEN"):
            return given_token(value.strip(), "the token in VAULT_TOKEN")
        if (role := get("VAULT_ROLE_ID")) and (secret := get("VAULT_SECRET_ID")):
            client = replace(unknown, description=f"the AppRole {role} {at}")
            return _log_in_as(session, client, "approle", {"role_id": role, "secret_id": secret})
        if role := get("VAULT_KUBERNETES_ROLE"):
            token_file = Path(get("VAULT_KUBERNETES_TOKEN_FILE") or _SERVICE_ACCOUNT)
            client = replace(unknown, description=f"the Kubernetes role {role} {at}")
            return _log_in_as(
                session, client, "kubernetes", {"role": role, "jwt": _read_file(ref, token_file)}
            )
        home = get("HOME")
        if home and (Path(home) / ".vault-token").is_file():
            return given_token(_read_file(ref, Path(home) / ".vault-token"), "the token in ~/.vault-token")
        raise errors.no_identity(ref, detail="no Vault token is set", hint=_LOGIN_HINT)


def _log_in_as(
    session: HttpSession, client: VaultToken, method: str, credentials: Mapping[str, str]
) -> VaultToken:
    """Sent once: a secret id may be valid for a single use."""
    mount = (session.environment.get("VAULT_AUTH_MOUNT") or method).strip("/")
    answer = session.request(
        "POST",
        f"{client.address}/v1/auth/{mount}/login",
        headers={**_headers(client.namespace), "Content-Type": "application/json"},
        body=json.dumps(credentials).encode(),
        tries=1,
    )
    auth = json_object(answer.body).get("auth")
    if answer.status == _OK and isinstance(auth, dict) and isinstance(auth.get("client_token"), str):
        accessor = auth.get("accessor")
        known = accessor if isinstance(accessor, str) else None
        return replace(client, value=auth["client_token"], accessor=known)
    detail = _quote_errors(answer, *credentials.values())
    raise errors.forbidden(
        session.ref,
        by=client.description,
        detail=f"login at auth/{mount} failed with status {answer.status}{f': {detail}' if detail else ''}",
        needs="Check the role and its secret; set VAULT_AUTH_MOUNT if the method is mounted elsewhere.",
    )


def _quote_errors(answer: Response, *credentials: str) -> str:
    messages = json_object(answer.body).get("errors")
    return errors.quote("; ".join(map(str, messages)) if isinstance(messages, list) else "", *credentials)


def _look_up(session: HttpSession, token: VaultToken) -> str:
    accessor = f" (accessor {token.accessor})" if token.accessor else ""
    answer = session.request(
        "GET", f"{token.address}/v1/auth/token/lookup-self", headers=token.headers, tries=1
    )
    data = json_object(answer.body).get("data")
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


class _SecretPath(NamedTuple):
    mount: str
    path: str
    versioned: bool


class Vault(Source):
    """The Vault that the caller's variables name."""

    def __init__(self, environment: Environment, root: Path, timeouts: Timeouts, *, identify: bool) -> None:
        super().__init__(environment, root, timeouts, identify=identify)
        self._login = VaultLogin(environment)

    def read(self, ref: SecretRef) -> ReadSecret:
        locator = parse_locator(ref)
        ca_file = self.environment.get("VAULT_CACERT")
        session = HttpSession(ref, self.environment, self.timeouts, ca_file=ca_file)
        token = self._login.token(session)
        version = locator.options.get("version")
        for path in self._paths(session, token, locator.name):
            answer = self._request(session, token, path, version)
            if answer.status == _OK:
                fields = self._fields(ref, token, answer, versioned=path.versioned)
                by = self._login.describe(session, token) if self.identify else token.description
                read = select_field(ref, fields, locator.field or "")
                return ReadSecret(read, by, _version(answer) if path.versioned else None)
            if answer.status != _NOT_FOUND:
                raise self._refused(session, token, answer)
        raise errors.absent(
            ref, by=self._login.describe(session, token), detail="Vault has no secret at this path"
        )

    def create(self, ref: SecretRef, values: Mapping[str, str]) -> bool:
        """Version 2 refuses by itself what exists (`cas: 0`); version 1 is asked first."""
        name = ref.locator
        ca_file = self.environment.get("VAULT_CACERT")
        session = HttpSession(ref, self.environment, self.timeouts, ca_file=ca_file)
        token = self._login.token(session)
        path = self._paths(session, token, name)[0]
        found = self._request(session, token, path, None)
        if found.status == _OK:
            return False
        if found.status != _NOT_FOUND:
            raise self._refused(session, token, found)
        document = {"options": {"cas": 0}, "data": dict(values)} if path.versioned else dict(values)
        url = f"{path.mount}/data/{path.path}" if path.versioned else f"{path.mount}/{path.path}"
        answer = session.request(
            "POST",
            f"{token.address}/v1/{quote(url)}",
            headers={**token.headers, "Content-Type": "application/json"},
            body=json.dumps(document).encode(),
            tries=1,
        )
        if answer.status in _WRITTEN:
            return True
        detail = _quote_errors(answer, token.value, *values.values())
        if answer.status == _BAD_REQUEST and "check-and-set" in detail:
            return False
        raise errors.not_written(
            ref,
            by=self._login.describe(session, token),
            detail=f"status {answer.status}{f': {detail}' if detail else ''}",
            needs="Its policy needs `create` on this path (for version 2 of the engine: MOUNT/data/PATH).",
        )

    def _paths(self, session: HttpSession, token: VaultToken, name: str) -> tuple[_SecretPath, ...]:
        """Vault reports which engine a path belongs to; without that, the first part is the mount."""
        url = f"{token.address}/v1/sys/internal/ui/mounts/{quote(name)}"
        answer = session.request("GET", url, headers=token.headers)
        if answer.status == _OK:
            data = _mapping(json_object(answer.body).get("data"))
            mount = str(data.get("path") or "").strip("/")
            if name.startswith(f"{mount}/"):
                versioned = str(_mapping(data.get("options")).get("version")) == "2"
                return (_SecretPath(mount, name.removeprefix(f"{mount}/"), versioned),)
        elif answer.status not in {_FORBIDDEN, _NOT_FOUND}:
            raise self._refused(session, token, answer)
        mount, _, path = name.partition("/")
        return (_SecretPath(mount, path, versioned=True), _SecretPath(mount, path, versioned=False))

    def _request(
        self, session: HttpSession, token: VaultToken, path: _SecretPath, version: str | None
    ) -> Response:
        url = f"{path.mount}/data/{path.path}" if path.versioned else f"{path.mount}/{path.path}"
        query = f"?version={quote(version)}" if version is not None and path.versioned else ""
        return session.request("GET", f"{token.address}/v1/{quote(url)}{query}", headers=token.headers)

    def _fields(
        self, ref: SecretRef, token: VaultToken, answer: Response, *, versioned: bool
    ) -> Mapping[str, Any]:
        data = json_object(answer.body).get("data")
        fields = _mapping(data).get("data") if versioned else data
        if not isinstance(fields, dict):
            raise errors.unexpected(ref, place=token.address, detail="the response has no fields")
        return fields

    def _refused(self, session: HttpSession, token: VaultToken, answer: Response) -> HoldfastError:
        ref, detail = session.ref, _quote_errors(answer, token.value)
        if answer.status == _FORBIDDEN:
            by = self._login.describe(session, token)
            return errors.forbidden(ref, by=by, detail=detail or "permission denied", needs=_NEEDS)
        if answer.status == _SEALED:
            return errors.unreachable(ref, place=token.address, reason=detail or "it is sealed or not ready")
        detail = f"status {answer.status}{f': {detail}' if detail else ''}"
        if "location" in answer.headers:
            detail += "; Holdfast does not follow its redirect: set VAULT_ADDR to that address"
        return errors.unexpected(ref, place=token.address, detail=detail)


def _version(answer: Response) -> str | None:
    data = _mapping(json_object(answer.body).get("data"))
    version = _mapping(data.get("metadata")).get("version")
    return str(version) if version is not None else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
