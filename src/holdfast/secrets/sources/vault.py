"""`vault:MOUNT/PATH#FIELD`: secrets in a KV engine, version 1 or 2, of Vault or OpenBao."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import HoldfastError
from holdfast.secrets.sources import errors
from holdfast.secrets.sources.http_session import HttpSession, json_body
from holdfast.secrets.sources.interface import (
    Answers,
    ReadSecret,
    Timeouts,
    fetch_each,
    parse_locator,
    select_field,
)
from holdfast.secrets.sources.vault_login import VaultLogin, VaultToken, quote_errors
from holdfast.system.environment import Environment
from holdfast.system.http import Response

_OK, _FORBIDDEN, _NOT_FOUND, _SEALED = 200, 403, 404, 503
_NEEDS = "Its policy needs `read` on this path (for version 2 of the engine: MOUNT/data/PATH)."


class _SecretPath(NamedTuple):
    mount: str
    path: str
    versioned: bool


def open_source(environment: Environment, root: Path, timeouts: Timeouts, *, identify: bool) -> Vault:
    del root
    return Vault(environment, timeouts, identify=identify)


class Vault:
    """The Vault that the caller's variables name."""

    batches = False

    def __init__(self, environment: Environment, timeouts: Timeouts, *, identify: bool) -> None:
        self._environment = environment
        self._identify = identify
        self._timeouts = timeouts
        self._login = VaultLogin(environment)

    def fetch(self, refs: Sequence[SecretRef]) -> Answers:
        return fetch_each(refs, self._read)

    def _read(self, ref: SecretRef) -> ReadSecret:
        locator = parse_locator(ref)
        ca_file = self._environment.get("VAULT_CACERT")
        session = HttpSession(ref, self._environment, self._timeouts, ca_file=ca_file)
        token = self._login.token(session)
        version = locator.options.get("version")
        for path in self._paths(session, token, locator.name):
            answer = self._request(session, token, path, version)
            if answer.status == _OK:
                fields = self._fields(ref, token, answer, versioned=path.versioned)
                by = self._login.describe(session, token) if self._identify else token.description
                return ReadSecret(select_field(ref, fields, locator.field or ""), by)
            if answer.status != _NOT_FOUND:
                raise self._refused(session, token, answer)
        raise errors.absent(
            ref, by=self._login.describe(session, token), detail="Vault has no secret at this path"
        )

    def _paths(self, session: HttpSession, token: VaultToken, name: str) -> tuple[_SecretPath, ...]:
        """Vault reports which engine a path belongs to; without that, the first part is the mount."""
        url = f"{token.address}/v1/sys/internal/ui/mounts/{quote(name)}"
        answer = session.request("GET", url, headers=token.headers)
        if answer.status == _OK:
            data = _mapping(json_body(answer).get("data"))
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
        data = json_body(answer).get("data")
        fields = _mapping(data).get("data") if versioned else data
        if not isinstance(fields, dict):
            raise errors.unexpected(ref, place=token.address, detail="the answer has no fields")
        return fields

    def _refused(self, session: HttpSession, token: VaultToken, answer: Response) -> HoldfastError:
        ref, detail = session.ref, quote_errors(answer, token.value)
        if answer.status == _FORBIDDEN:
            by = self._login.describe(session, token)
            return errors.forbidden(ref, by=by, detail=detail or "permission denied", needs=_NEEDS)
        if answer.status == _SEALED:
            return errors.unreachable(ref, place=token.address, reason=detail or "it is sealed or not ready")
        detail = f"status {answer.status}{f': {detail}' if detail else ''}"
        if "location" in answer.headers:
            detail += "; Holdfast does not follow its redirect: set VAULT_ADDR to that address"
        return errors.unexpected(ref, place=token.address, detail=detail)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
