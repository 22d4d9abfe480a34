"""Who asks Azure: the first identity that the environment, the machine or the `az` program has.

    AZURE_CLIENT_SECRET              a service principal with a secret
    AZURE_FEDERATED_TOKEN_FILE       workload identity: a token of Kubernetes or CI, exchanged for Azure's
    ACTIONS_ID_TOKEN_REQUEST_URL     the same with the token that GitHub Actions makes for the job
    the metadata service             the managed identity of this machine
    az                               whoever signed in with `az login`

The first three need AZURE_CLIENT_ID and AZURE_TENANT_ID. Where `AZURE_…` is not set, `ARM_…` counts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from holdfast.kernel.errors import Failed
from holdfast.kernel.values import dataclass, field
from holdfast.secrets.sources import failures
from holdfast.secrets.sources.azure_places import Cloud
from holdfast.secrets.sources.request import Asking, document
from holdfast.system import clock, processes
from holdfast.system.environment import Environment
from holdfast.system.http import Response

_OK = 200
_MOST_BYTES = 64 * 1024
_EARLY = 120.0
_PROBE_SECONDS = 2.0
_AZ_SECONDS = 20.0
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_AUDIENCE = "api://AzureADTokenExchange"
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
_WAYS = (
    "Set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE, "
    "give the machine a managed identity, or run `az login`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureToken:
    proof: str = field(repr=False)
    shown: str
    """Whose it is, in words."""
    until: float
    """On the monotonic clock."""


class AzureIdentity:
    """Signs in when somebody first asks, and again when the token runs out."""

    def __init__(self, environment: Environment, cloud: Cloud) -> None:
        self._environment = environment
        self._cloud = cloud
        self._lock = threading.Lock()
        self._token: AzureToken | None = None

    def token(self, asking: Asking) -> AzureToken:
        with self._lock:
            if self._token is None or self._token.until - _EARLY < clock.monotonic():
                self._token = self._obtained(asking)
            return self._token

    def _obtained(self, asking: Asking) -> AzureToken:
        if self._get("CLIENT_SECRET"):
            return self._as_client(asking, "with its secret", self._secret)
        if self._environment.get("AZURE_FEDERATED_TOKEN_FILE") or self._get("OIDC_TOKEN_FILE_PATH"):
            return self._as_client(asking, "by a federated token", self._federated)
        if self._environment.get("ACTIONS_ID_TOKEN_REQUEST_URL") and self._get("CLIENT_ID"):
            return self._as_client(asking, "by the token of this GitHub Actions job", self._of_actions)
        found = self._managed(asking) or self._of_az()
        if found is None:
            said = "no service principal in the environment, no managed identity, nobody signed in with az"
            raise failures.no_identity(asking.ref, said=said, hint=_WAYS)
        return found

    def _get(self, name: str) -> str | None:
        return self._environment.get(f"AZURE_{name}") or self._environment.get(f"ARM_{name}")

    def _as_client(
        self, asking: Asking, how: str, proofs: Callable[[Asking], Mapping[str, str]]
    ) -> AzureToken:
        client, tenant = self._get("CLIENT_ID"), self._get("TENANT_ID")
        if client is None or tenant is None:
            missing = "AZURE_CLIENT_ID" if client is None else "AZURE_TENANT_ID"
            raise failures.setting(asking.ref, said=f"{missing} is not set", hint=_WAYS)
        proof = proofs(asking)
        form = {
            "client_id": client,
            "scope": f"{self._cloud.resource}/.default",
            "grant_type": "client_credentials",
            **proof,
        }
        url = f"{self._cloud.authority}/{quote(tenant, safe='')}/oauth2/v2.0/token"
        answer = asking.ask("POST", url, headers=_FORM, body=urlencode(form).encode())
        shown = f"the Azure client {client} in tenant {tenant}, {how}"
        token = _taken(answer, shown)
        if token is None:
            raise _refused(asking, answer, shown, proof)
        return token

    def _secret(self, _asking: Asking) -> Mapping[str, str]:
        return {"client_secret": self._get("CLIENT_SECRET") or ""}

    def _federated(self, asking: Asking) -> Mapping[str, str]:
        path = self._environment.get("AZURE_FEDERATED_TOKEN_FILE") or self._get("OIDC_TOKEN_FILE_PATH") or ""
        try:
            with Path(path).open("rb") as opened:
                assertion = opened.read(_MOST_BYTES).decode().strip()
        except (OSError, ValueError):
            raise failures.no_identity(
                asking.ref, said=f"the federated token {path} cannot be read", hint=_WAYS
            ) from None
        return {"client_assertion_type": _ASSERTION, "client_assertion": assertion}

    def _of_actions(self, asking: Asking) -> Mapping[str, str]:
        url = self._environment.get("ACTIONS_ID_TOKEN_REQUEST_URL") or ""
        bearer = self._environment.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN") or ""
        joined = f"{url}{'&' if '?' in url else '?'}audience={quote(_AUDIENCE, safe='')}"
        answer = asking.ask("GET", joined, headers={"Authorization": f"Bearer {bearer}"})
        assertion = document(answer).get("value")
        if answer.status != _OK or not isinstance(assertion, str):
            said = f"GitHub Actions gave no token for this job (it answered {answer.status})"
            raise failures.no_identity(asking.ref, said=said, hint="Give the job `id-token: write`.")
        return {"client_assertion_type": _ASSERTION, "client_assertion": assertion}

    def _managed(self, asking: Asking) -> AzureToken | None:
        """None where there is no such service, or it knows no identity of this machine."""
        client = self._environment.get("AZURE_CLIENT_ID")
        query = {"api-version": "2018-02-01", "resource": self._cloud.resource}
        query |= {"client_id": client} if client else {}
        url = f"{self._cloud.metadata}/metadata/identity/oauth2/token?{urlencode(query)}"
        try:
            answer = asking.ask("GET", url, headers={"Metadata": "true"}, tries=1, seconds=_PROBE_SECONDS)
        except Failed:
            return None
        return _taken(
            answer, f"the managed identity {client}" if client else "the managed identity of this machine"
        )

    def _of_az(self) -> AzureToken | None:
        finished = processes.run(
            ("az", "account", "get-access-token", "--resource", self._cloud.resource, "--output", "json"),
            folder=Path("/"),
            environment=self._environment.variables,
            seconds=_AZ_SECONDS,
        )
        try:
            told = json.loads(finished.out) if finished.code == 0 else {}
            proof, tenant = str(told["accessToken"]), told.get("tenant")
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        shown = f"whoever signed in with `az login`{f' (tenant {tenant})' if tenant else ''}"
        return AzureToken(proof=proof, shown=shown, until=clock.monotonic() + 2 * _EARLY)


def _taken(answer: Response, shown: str) -> AzureToken | None:
    """The token that an answer holds, if it holds one that can be shown in a header."""
    told = document(answer)
    proof = told.get("access_token")
    if answer.status != _OK or not isinstance(proof, str) or not (proof.isascii() and proof.isprintable()):
        return None
    return AzureToken(proof=proof, shown=shown, until=clock.monotonic() + _seconds(told.get("expires_in")))


def _refused(asking: Asking, answer: Response, shown: str, proof: Mapping[str, str]) -> Failed:
    told = document(answer)
    said = failures.quoted(told.get("error_description") or told.get("error"), *proof.values())
    return failures.forbidden(
        asking.ref,
        by=shown,
        said=f"signing in was answered with {answer.status}{f': {said}' if said else ''}",
        needs="Check AZURE_TENANT_ID, AZURE_CLIENT_ID and the secret, or the federated credential's subject.",
    )


def _seconds(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 2 * _EARLY
