"""`azure-kv:VAULT/NAME[/VERSION][#KEY]`: secrets in Azure Key Vault, over its HTTP API.

The login uses the first identity that the environment, the machine or the `az` program has.

    AZURE_CLIENT_SECRET              a service principal with a secret
    AZURE_FEDERATED_TOKEN_FILE       workload identity: a token of Kubernetes or CI, exchanged for Azure's
    ACTIONS_ID_TOKEN_REQUEST_URL     the same with the token that GitHub Actions issues for the job
    the metadata service             the managed identity of this machine
    az                               the user of `az login`

The first three need AZURE_CLIENT_ID and AZURE_TENANT_ID. `ARM_…` is used where `AZURE_…` is not set.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import Failed, HoldfastError
from holdfast.kernel.text import json_object
from holdfast.kernel.values import MaskedStruct
from holdfast.secrets.sources import errors
from holdfast.secrets.sources.http_session import HttpSession
from holdfast.secrets.sources.interface import (
    ReadSecret,
    Source,
    Timeouts,
    parse_locator,
    select_value,
    whole_text,
)
from holdfast.system import clock, processes
from holdfast.system.environment import Environment
from holdfast.system.http import Response

_API = "7.4"
_OK, _NOT_FOUND = 200, 404
_DENIED = frozenset({401, 403})
_NEEDS = (
    "It needs the role `Key Vault Secrets User` on the vault (or `get` on secrets in its access policy), "
    "and the vault's firewall must admit this machine."
)
_MAX_BYTES = 64 * 1024
_RENEW_EARLY = 120.0
_PROBE_SECONDS = 2.0
_AZ_SECONDS = 20.0
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_AUDIENCE = "api://AzureADTokenExchange"
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
_LOGIN_HINT = (
    "Set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE, "
    "give the machine a managed identity, or run `az login`."
)
_PUBLIC = "login.microsoftonline.com"
_VAULT_DOMAINS: Mapping[str, str] = {
    _PUBLIC: "vault.azure.net",
    "login.microsoftonline.us": "vault.usgovcloudapi.net",
    "login.chinacloudapi.cn": "vault.azure.cn",
    "login.partner.microsoftonline.cn": "vault.azure.cn",
}
_METADATA = "http://169.254.169.254"


class Cloud(NamedTuple):
    """The addresses of one Azure cloud."""

    authority: str
    """For logins: https:// and a host."""
    resource: str
    """What a token for vaults is requested for."""
    vaults: str
    """The address of a vault, with `{vault}` for its name."""
    metadata: str

    def vault(self, name: str) -> str:
        return self.vaults.replace("{vault}", name)


def cloud_from(environment: Environment) -> Cloud:
    """The cloud of AZURE_AUTHORITY_HOST, or the public one.

    A token is valid for every vault of a cloud, so the caller's environment decides which hosts receive it. A
    reference in the repository names a vault, never a host.
    """
    authority = (environment.get("AZURE_AUTHORITY_HOST") or f"https://{_PUBLIC}").rstrip("/")
    if "://" not in authority:
        authority = f"https://{authority}"
    host = authority.partition("://")[2].partition("/")[0]
    domain = _VAULT_DOMAINS.get(host, _VAULT_DOMAINS[_PUBLIC])
    return Cloud(
        authority=authority,
        resource=f"https://{domain}",
        vaults=(environment.get("HOLDFAST_AZURE_VAULT_URL") or f"https://{{vault}}.{domain}").rstrip("/"),
        metadata=(environment.get("AZURE_POD_IDENTITY_AUTHORITY_HOST") or _METADATA).rstrip("/"),
    )


class AzureToken(MaskedStruct, frozen=True, kw_only=True):
    value: str
    owner: str
    """For messages."""
    until: float
    """On the monotonic clock."""


class AzureLogin:
    """Logs in at the first request, and again when the token expires."""

    def __init__(self, environment: Environment, cloud: Cloud) -> None:
        self._environment = environment
        self.cloud = cloud
        self._lock = threading.Lock()
        self._token: AzureToken | None = None

    def token(self, session: HttpSession) -> AzureToken:
        with self._lock:
            if self._token is None or self._token.until - _RENEW_EARLY < clock.monotonic():
                self._token = self._log_in(session)
            return self._token

    def _log_in(self, session: HttpSession) -> AzureToken:
        if client_secret := self._get("CLIENT_SECRET"):
            return self._as_client(session, "with its secret", lambda _: {"client_secret": client_secret})
        if self._environment.get("AZURE_FEDERATED_TOKEN_FILE") or self._get("OIDC_TOKEN_FILE_PATH"):
            return self._as_client(session, "with a federated token", self._federated_token)
        if self._environment.get("ACTIONS_ID_TOKEN_REQUEST_URL") and self._get("CLIENT_ID"):
            return self._as_client(session, "with the token of this GitHub Actions job", self._actions_token)
        token = self._managed_identity(session) or self._az_token()
        if token is None:
            detail = "no service principal in the environment, no managed identity, no login with az"
            raise errors.no_identity(session.ref, detail=detail, hint=_LOGIN_HINT)
        return token

    def _get(self, name: str) -> str | None:
        return self._environment.get(f"AZURE_{name}") or self._environment.get(f"ARM_{name}")

    def _as_client(
        self, session: HttpSession, how: str, credentials: Callable[[HttpSession], Mapping[str, str]]
    ) -> AzureToken:
        client, tenant = self._get("CLIENT_ID"), self._get("TENANT_ID")
        if client is None or tenant is None:
            missing = "AZURE_CLIENT_ID" if client is None else "AZURE_TENANT_ID"
            raise errors.invalid_setting(session.ref, detail=f"{missing} is not set", hint=_LOGIN_HINT)
        proof = credentials(session)
        form = {
            "client_id": client,
            "scope": f"{self.cloud.resource}/.default",
            "grant_type": "client_credentials",
            **proof,
        }
        url = f"{self.cloud.authority}/{quote(tenant, safe='')}/oauth2/v2.0/token"
        answer = session.request("POST", url, headers=_FORM, body=urlencode(form).encode())
        owner = f"the Azure client {client} in tenant {tenant}, {how}"
        token = _token_from(answer, owner)
        if token is None:
            raise _login_refused(session, answer, owner, proof)
        return token

    def _federated_token(self, session: HttpSession) -> Mapping[str, str]:
        path = self._environment.get("AZURE_FEDERATED_TOKEN_FILE") or self._get("OIDC_TOKEN_FILE_PATH") or ""
        try:
            with Path(path).open("rb") as file:
                assertion = file.read(_MAX_BYTES).decode().strip()
        except (OSError, ValueError):
            raise errors.no_identity(
                session.ref, detail=f"cannot read the federated token {path}", hint=_LOGIN_HINT
            ) from None
        return {"client_assertion_type": _ASSERTION, "client_assertion": assertion}

    def _actions_token(self, session: HttpSession) -> Mapping[str, str]:
        url = self._environment.get("ACTIONS_ID_TOKEN_REQUEST_URL") or ""
        bearer = self._environment.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN") or ""
        joined = f"{url}{'&' if '?' in url else '?'}audience={quote(_AUDIENCE, safe='')}"
        answer = session.request("GET", joined, headers={"Authorization": f"Bearer {bearer}"})
        assertion = json_object(answer.body).get("value")
        if answer.status != _OK or not isinstance(assertion, str):
            detail = f"GitHub Actions issued no token for this job (status {answer.status})"
            raise errors.no_identity(
                session.ref, detail=detail, hint="Add to the job: permissions: id-token: write"
            )
        return {"client_assertion_type": _ASSERTION, "client_assertion": assertion}

    def _managed_identity(self, session: HttpSession) -> AzureToken | None:
        """None if there is no metadata service, or it has no identity for this machine."""
        client = self._environment.get("AZURE_CLIENT_ID")
        query = {"api-version": "2018-02-01", "resource": self.cloud.resource}
        query |= {"client_id": client} if client else {}
        url = f"{self.cloud.metadata}/metadata/identity/oauth2/token?{urlencode(query)}"
        try:
            answer = session.request(
                "GET", url, headers={"Metadata": "true"}, tries=1, seconds=_PROBE_SECONDS
            )
        except Failed:
            return None
        return _token_from(
            answer, f"the managed identity {client}" if client else "the managed identity of this machine"
        )

    def _az_token(self) -> AzureToken | None:
        finished = processes.run(
            ("az", "account", "get-access-token", "--resource", self.cloud.resource, "--output", "json"),
            folder=Path("/"),
            environment=self._environment.variables,
            seconds=_AZ_SECONDS,
            confined=False,
        )
        try:
            result = json.loads(finished.out) if finished.code == 0 else {}
            value, tenant = str(result["accessToken"]), result.get("tenant")
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        owner = f"the user of `az login`{f' (tenant {tenant})' if tenant else ''}"
        return AzureToken(value=value, owner=owner, until=clock.monotonic() + 2 * _RENEW_EARLY)


def _token_from(answer: Response, owner: str) -> AzureToken | None:
    """None unless the answer has a token that can be sent in a header."""
    body = json_object(answer.body)
    value = body.get("access_token")
    if answer.status != _OK or not isinstance(value, str) or not (value.isascii() and value.isprintable()):
        return None
    return AzureToken(value=value, owner=owner, until=clock.monotonic() + _seconds(body.get("expires_in")))


def _login_refused(session: HttpSession, answer: Response, owner: str, proof: Mapping[str, str]) -> Failed:
    body = json_object(answer.body)
    detail = errors.quote(body.get("error_description") or body.get("error"), *proof.values())
    return errors.forbidden(
        session.ref,
        by=owner,
        detail=f"login failed with status {answer.status}{f': {detail}' if detail else ''}",
        needs="Check AZURE_TENANT_ID, AZURE_CLIENT_ID and the secret, or the federated credential's subject.",
    )


def _seconds(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 2 * _RENEW_EARLY


class KeyVault(Source):
    """The vaults of one cloud, for one caller."""

    def __init__(self, environment: Environment, root: Path, timeouts: Timeouts, *, identify: bool) -> None:
        super().__init__(environment, root, timeouts, identify=identify)
        self._login = AzureLogin(environment, cloud_from(environment))

    def read(self, ref: SecretRef) -> ReadSecret:
        locator = parse_locator(ref)
        vault, _, name = locator.name.partition("/")
        session = HttpSession(ref, self.environment, self.timeouts)
        token = self._login.token(session)
        answer = session.request(
            "GET",
            f"{self._login.cloud.vault(vault)}/secrets/{quote(name)}?api-version={_API}",
            headers={"Authorization": f"Bearer {token.value}", "Accept": "application/json"},
        )
        if answer.status != _OK:
            raise _secret_refused(ref, token, answer, vault)
        body = json_object(answer.body)
        value = body.get("value")
        if not isinstance(value, str):
            raise errors.unexpected(ref, place=f"the vault {vault}", detail="the response has no value")
        version = str(body.get("id") or "").partition("/secrets/")[2].partition("/")[2] or None
        return ReadSecret(select_value(ref, value, locator.field), token.owner, version)

    def create(self, ref: SecretRef, values: Mapping[str, str]) -> bool:
        """Key Vault has no request that only creates: it is asked right before."""
        vault, _, name = ref.locator.partition("/")
        session = HttpSession(ref, self.environment, self.timeouts)
        token = self._login.token(session)
        url = f"{self._login.cloud.vault(vault)}/secrets/{quote(name)}?api-version={_API}"
        headers = {"Authorization": f"Bearer {token.value}", "Accept": "application/json"}
        found = session.request("GET", url, headers=headers)
        if found.status == _OK:
            return False
        if found.status != _NOT_FOUND:
            raise _secret_refused(ref, token, found, vault)
        answer = session.request(
            "PUT",
            url,
            headers={**headers, "Content-Type": "application/json"},
            body=json.dumps({"value": whole_text(values)}).encode(),
            tries=1,
        )
        if answer.status == _OK:
            return True
        error = json_object(answer.body).get("error")
        message = error.get("message") if isinstance(error, dict) else ""
        detail = errors.quote(message, token.value, *values.values())
        raise errors.not_written(
            ref,
            by=token.owner,
            detail=f"status {answer.status}{f': {detail}' if detail else ''}",
            needs="It needs the role `Key Vault Secrets Officer` on the vault. A deleted secret of this name "
            "must be recovered or purged first.",
        )


def _secret_refused(ref: SecretRef, token: AzureToken, answer: Response, vault: str) -> HoldfastError:
    error = json_object(answer.body).get("error")
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
