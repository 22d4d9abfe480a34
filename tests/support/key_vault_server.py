"""Azure on loopback, as far as reading secrets goes: sign-in, metadata service, Key Vault."""

from __future__ import annotations

from dataclasses import dataclass, field

from answering import Answer, Answering, Asked, told

TOKEN = "token-of-azure-0123456789"
JOB_TOKEN = "token-of-the-job-0123456789"
RESOURCE = "https://vault.azure.net"


@dataclass(kw_only=True)
class AzureWorld:
    secrets: dict[str, str] = field(default_factory=dict)
    """From `vault/name` or `vault/name/version` to the value."""
    denied: set[str] = field(default_factory=set)
    client: str = "client-1"
    tenant: str = "tenant-1"
    client_secret: str = "secret-of-the-client"
    assertion: str = "assertion-of-the-pod"
    managed: bool = False
    lifetime: int = 3600
    signed_in: int = 0

    def answer(self, asked: Asked) -> Answer:
        if asked.path.endswith("/oauth2/v2.0/token"):
            return self._sign_in(asked)
        if asked.path == "/metadata/identity/oauth2/token":
            return self._machine(asked)
        if asked.path == "/actions":
            proved = asked.headers.get("authorization") == "Bearer actions-bearer"
            right = proved and asked.query.get("audience") == "api://AzureADTokenExchange"
            return told({"value": JOB_TOKEN}) if right else told({"message": "no"}, 401)
        return self._secret(asked)

    def _sign_in(self, asked: Asked) -> Answer:
        form = asked.form
        proved = form.get("client_secret") == self.client_secret or (
            form.get("client_assertion") in {self.assertion, JOB_TOKEN}
            and str(form.get("client_assertion_type")).endswith("jwt-bearer")
        )
        right = form.get("client_id") == self.client and form.get("scope") == f"{RESOURCE}/.default"
        if not proved or not right or asked.path != f"/{self.tenant}/oauth2/v2.0/token":
            said = (
                f"AADSTS7000215: Invalid client secret provided: {form.get('client_secret')}.\r\nTrace ID: x"
            )
            return told({"error": "invalid_client", "error_description": said}, 401)
        return self._given()

    def _machine(self, asked: Asked) -> Answer:
        right = asked.headers.get("metadata") == "true" and asked.query.get("resource") == RESOURCE
        if not self.managed or not right:
            return told({"error": "invalid_request", "error_description": "Identity not found"}, 400)
        return self._given()

    def _given(self) -> Answer:
        self.signed_in += 1
        return told({"access_token": TOKEN, "expires_in": self.lifetime, "token_type": "Bearer"})

    def _secret(self, asked: Asked) -> Answer:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}" or not asked.query.get("api-version"):
            return told(
                {"error": {"code": "Unauthorized", "message": "AKV10000: Request is missing a token"}}, 401
            )
        vault, _, name = asked.path.removeprefix("/").partition("/secrets/")
        key = f"{vault}/{name}"
        if asked.method == "PUT" and key not in self.denied:
            self.secrets[key] = asked.json["value"]
        if key in self.denied:
            said = f"Caller is not authorized. Caller: appid={self.client}"
            return told({"error": {"code": "Forbidden", "message": said}}, 403)
        if key not in self.secrets:
            return told(
                {"error": {"code": "SecretNotFound", "message": f"A secret named {name} was not found"}}, 404
            )
        return told({"value": self.secrets[key], "id": f"https://{vault}.vault.azure.net/secrets/{name}/1"})


def azure_server(world: AzureWorld) -> Answering:
    return Answering(world.answer)
