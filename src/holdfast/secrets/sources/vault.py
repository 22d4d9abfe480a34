"""`vault:MOUNT/PATH#FIELD`: secrets in a KV engine, version 1 or 2, of Vault or OpenBao, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from holdfast.config.valid import SecretRef
from holdfast.kernel.errors import HoldfastError
from holdfast.secrets.sources import failures, values
from holdfast.secrets.sources.interface import Found, Patience, locator_of
from holdfast.secrets.sources.request import Asking, document
from holdfast.secrets.sources.vault_login import Token, VaultLogin
from holdfast.system.environment import Environment
from holdfast.system.http import Response

_OK, _FORBIDDEN, _ABSENT, _SEALED = 200, 403, 404, 503
_NEEDS = "Its policy needs `read` on this path (for version 2 of the engine: MOUNT/data/PATH)."


class _Place(NamedTuple):
    """Where a secret lies in Vault."""

    mount: str
    path: str
    versioned: bool


class Vault:
    """One caller's way into one Vault, as its variables say."""

    batches = False

    def __init__(self, environment: Environment, patience: Patience, *, named: bool) -> None:
        self._environment = environment
        self._named = named
        self._patience = patience
        self._login = VaultLogin(environment)

    def fetch(self, refs: Sequence[SecretRef]) -> Mapping[SecretRef, Found | HoldfastError]:
        return {ref: self._answered(ref) for ref in refs}

    def _answered(self, ref: SecretRef) -> Found | HoldfastError:
        try:
            return self._read(ref)
        except HoldfastError as error:
            return error

    def _read(self, ref: SecretRef) -> Found:
        locator = locator_of(ref)
        asking = Asking(ref, self._environment, self._patience, ca_file=self._environment.get("VAULT_CACERT"))
        token = self._login.token(asking)
        version = locator.options.get("version")
        for place in self._places(asking, token, locator.name):
            answer = self._ask(asking, token, place, version)
            if answer.status == _OK:
                fields = self._fields(ref, token, answer, versioned=place.versioned)
                by = self._login.described(asking, token) if self._named else token.shown
                return Found(values.field_of(ref, fields, locator.field or ""), by)
            if answer.status != _ABSENT:
                raise self._refused(asking, token, answer)
        raise failures.absent(ref, by=self._login.described(asking, token), said="Vault has nothing there")

    def _places(self, asking: Asking, token: Token, name: str) -> tuple[_Place, ...]:
        """Vault says which engine a path belongs to; where it does not tell, the first part is the mount."""
        url = f"{token.address}/v1/sys/internal/ui/mounts/{quote(name)}"
        answer = asking.ask("GET", url, headers=token.headers)
        if answer.status == _OK:
            data = _mapping(document(answer).get("data"))
            mount = str(data.get("path") or "").strip("/")
            if name.startswith(f"{mount}/"):
                versioned = str(_mapping(data.get("options")).get("version")) == "2"
                return (_Place(mount, name.removeprefix(f"{mount}/"), versioned),)
        elif answer.status not in {_FORBIDDEN, _ABSENT}:
            raise self._refused(asking, token, answer)
        mount, _, path = name.partition("/")
        return (_Place(mount, path, versioned=True), _Place(mount, path, versioned=False))

    def _ask(self, asking: Asking, token: Token, place: _Place, version: str | None) -> Response:
        path = f"{place.mount}/data/{place.path}" if place.versioned else f"{place.mount}/{place.path}"
        wanted = f"?version={quote(version)}" if version is not None and place.versioned else ""
        return asking.ask("GET", f"{token.address}/v1/{quote(path)}{wanted}", headers=token.headers)

    def _fields(
        self, ref: SecretRef, token: Token, answer: Response, *, versioned: bool
    ) -> Mapping[str, Any]:
        data = document(answer).get("data")
        fields = _mapping(data).get("data") if versioned else data
        if not isinstance(fields, dict):
            raise failures.not_understood(ref, place=token.address, said="the answer holds no fields")
        return fields

    def _refused(self, asking: Asking, token: Token, answer: Response) -> HoldfastError:
        ref, errors = asking.ref, document(answer).get("errors")
        said = failures.quoted("; ".join(map(str, errors)) if isinstance(errors, list) else "", token.proof)
        if answer.status == _FORBIDDEN:
            by = self._login.described(asking, token)
            return failures.forbidden(ref, by=by, said=said or "permission denied", needs=_NEEDS)
        if answer.status == _SEALED:
            return failures.unreachable(ref, place=token.address, reason=said or "it is sealed or not ready")
        said = f"it answered {answer.status}{f': {said}' if said else ''}"
        if "location" in answer.headers:
            said += "; it sends on to another address, which is not followed: name that one in VAULT_ADDR"
        return failures.not_understood(ref, place=token.address, said=said)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
