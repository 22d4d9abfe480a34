"""`azure-kv:VAULT/NAME[/VERSION][#KEY]`: secrets in Azure Key Vault, over its HTTP API."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import HoldfastError
from holdfast.secrets.sources import errors
from holdfast.secrets.sources.azure_login import AzureLogin, AzureToken, cloud_from
from holdfast.secrets.sources.http_session import HttpSession, json_body
from holdfast.secrets.sources.interface import (
    Answers,
    ReadSecret,
    Timeouts,
    fetch_each,
    parse_locator,
    select_value,
)
from holdfast.system.environment import Environment
from holdfast.system.http import Response

_API = "7.4"
_OK, _NOT_FOUND = 200, 404
_DENIED = frozenset({401, 403})
_NEEDS = (
    "It needs the role `Key Vault Secrets User` on the vault (or `get` on secrets in its access policy), "
    "and the vault's firewall must admit this machine."
)


def open_source(environment: Environment, root: Path, timeouts: Timeouts, *, identify: bool) -> KeyVault:
    del root, identify  # the login names the identity without a request
    return KeyVault(environment, timeouts)


class KeyVault:
    """The vaults of one cloud, for one caller."""

    batches = False

    def __init__(self, environment: Environment, timeouts: Timeouts) -> None:
        self._environment = environment
        self._timeouts = timeouts
        self._cloud = cloud_from(environment)
        self._login = AzureLogin(environment, self._cloud)

    def fetch(self, refs: Sequence[SecretRef]) -> Answers:
        return fetch_each(refs, self._read)

    def _read(self, ref: SecretRef) -> ReadSecret:
        locator = parse_locator(ref)
        vault, _, name = locator.name.partition("/")
        session = HttpSession(ref, self._environment, self._timeouts)
        token = self._login.token(session)
        answer = session.request(
            "GET",
            f"{self._cloud.vault(vault)}/secrets/{quote(name)}?api-version={_API}",
            headers={"Authorization": f"Bearer {token.value}", "Accept": "application/json"},
        )
        if answer.status != _OK:
            raise _refused(ref, token, answer, vault)
        value = json_body(answer).get("value")
        if not isinstance(value, str):
            raise errors.unexpected(ref, place=f"the vault {vault}", detail="the answer has no value")
        return ReadSecret(select_value(ref, value, locator.field), token.owner)


def _refused(ref: SecretRef, token: AzureToken, answer: Response, vault: str) -> HoldfastError:
    error = json_body(answer).get("error")
    details = error if isinstance(error, dict) else {}
    detail = errors.quote(
        f"{details.get('code') or answer.status}: {details.get('message') or ''}", token.value
    )
    detail = detail.rstrip(": ")
    if answer.status == _NOT_FOUND:
        return errors.absent(ref, by=token.owner, detail=detail)
    if answer.status in _DENIED:
        return errors.forbidden(ref, by=token.owner, detail=detail, needs=_NEEDS)
    return errors.unexpected(ref, place=f"the vault {vault}", detail=f"{answer.status}, {detail}")
