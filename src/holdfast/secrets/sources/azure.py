"""`azure-kv:VAULT/NAME[/VERSION][#KEY]`: secrets in Azure Key Vault, over its HTTP API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from holdfast.config.valid import SecretRef
from holdfast.kernel.errors import HoldfastError
from holdfast.secrets.sources import failures, values
from holdfast.secrets.sources.azure_identity import AzureIdentity, AzureToken
from holdfast.secrets.sources.azure_places import Cloud, cloud_of
from holdfast.secrets.sources.interface import Found, Patience, locator_of
from holdfast.secrets.sources.request import Asking, document
from holdfast.system.environment import Environment
from holdfast.system.http import Response

_API = "7.4"
_OK, _ABSENT = 200, 404
_DENIED = frozenset({401, 403})
_NEEDS = (
    "It needs the role `Key Vault Secrets User` on the vault (or `get` on secrets in its access policy), "
    "and the vault's firewall must let this machine in."
)


class KeyVault:
    """One caller's way to the vaults of one cloud."""

    batches = False

    def __init__(self, environment: Environment, patience: Patience, *, named: bool) -> None:
        del named  # Who asks is known without asking.
        self._environment = environment
        self._patience = patience
        self._cloud: Cloud = cloud_of(environment)
        self._identity = AzureIdentity(environment, self._cloud)

    def fetch(self, refs: Sequence[SecretRef]) -> Mapping[SecretRef, Found | HoldfastError]:
        return {ref: self._answered(ref) for ref in refs}

    def _answered(self, ref: SecretRef) -> Found | HoldfastError:
        try:
            return self._read(ref)
        except HoldfastError as error:
            return error

    def _read(self, ref: SecretRef) -> Found:
        locator = locator_of(ref)
        vault, _, name = locator.name.partition("/")
        asking = Asking(ref, self._environment, self._patience)
        token = self._identity.token(asking)
        answer = asking.ask(
            "GET",
            f"{self._cloud.vault(vault)}/secrets/{quote(name)}?api-version={_API}",
            headers={"Authorization": f"Bearer {token.proof}", "Accept": "application/json"},
        )
        if answer.status != _OK:
            raise _refused(ref, token, answer, vault)
        value = document(answer).get("value")
        if not isinstance(value, str):
            raise failures.not_understood(ref, place=f"the vault {vault}", said="the answer holds no value")
        return Found(values.picked(ref, value, locator.field), token.shown)


def _refused(ref: SecretRef, token: AzureToken, answer: Response, vault: str) -> HoldfastError:
    error = document(answer).get("error")
    told = error if isinstance(error, dict) else {}
    said = failures.quoted(f"{told.get('code') or answer.status}: {told.get('message') or ''}", token.proof)
    said = said.rstrip(": ")
    if answer.status == _ABSENT:
        return failures.absent(ref, by=token.shown, said=said)
    if answer.status in _DENIED:
        return failures.forbidden(ref, by=token.shown, said=said, needs=_NEEDS)
    return failures.not_understood(ref, place=f"the vault {vault}", said=f"{answer.status}, {said}")
