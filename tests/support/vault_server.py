"""A Vault on loopback, as far as reading from KV engines goes: mounts, tokens, policies, sign-in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from answering import Answer, Answering, Asked, told

DENIED = told({"errors": ["1 error occurred:\n\t* permission denied\n\n"]}, 403)
NOTHING = told({"errors": []}, 404)


@dataclass(kw_only=True)
class VaultWorld:
    """What there is in it. A token may read what lies below its prefixes."""

    mounts: dict[str, int] = field(default_factory=lambda: {"kv": 2, "old": 1, "team/kv": 2})
    secrets: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    """From mount and path to its versions, the oldest first."""
    tokens: dict[str, tuple[str, ...]] = field(default_factory=dict)
    roles: dict[str, tuple[str, str]] = field(default_factory=dict)
    """From an AppRole's id to its secret and the token it gets."""
    kubernetes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """From a role to the service account's token and the token it gets."""
    namespace: str | None = None
    sealed: bool = False
    tells_mounts: bool = True
    """False: policies keep even the name of a mount from being asked."""
    failing: int = 0
    """So many requests are answered with 500 first."""

    def answer(self, asked: Asked) -> Answer:
        if self.failing:
            self.failing -= 1
            return told({"errors": ["internal error"]}, 500)
        if self.sealed:
            return told({"errors": ["Vault is sealed"]}, 503)
        path = unquote(asked.path).removeprefix("/v1/")
        if asked.headers.get("x-vault-namespace") != self.namespace:
            return NOTHING
        if asked.method == "POST" and asked.headers.get("x-vault-token"):
            return self._write(path, asked)
        return self._sign_in(path, asked) if asked.method == "POST" else self._known(path, asked)

    def _write(self, path: str, asked: Asked) -> Answer:
        """As version 2 does it with `cas`."""
        mount = self._mount_of(path)
        name = path.replace("/data/", "/", 1)
        allowed = self.tokens.get(asked.headers["x-vault-token"], ())
        if mount is None or not any(name.startswith(prefix) for prefix in allowed):
            return DENIED
        document = json.loads(asked.body)
        if self.mounts[mount] == 1:
            self.secrets[name] = [document]
            return Answer(status=204)
        if document.get("options", {}).get("cas") != len(self.secrets.get(name, [])):
            return told({"errors": ["check-and-set parameter did not match the current version"]}, 400)
        self.secrets.setdefault(name, []).append(document["data"])
        return told({"data": {"version": len(self.secrets[name])}})

    def _known(self, path: str, asked: Asked) -> Answer:
        token = asked.headers.get("x-vault-token", "")
        if token not in self.tokens:
            return told({"errors": ["permission denied", f"bad token {token}"]}, 403)
        if path == "auth/token/lookup-self":
            return told(
                {"data": {"accessor": f"accessor-of-{len(token)}", "display_name": "ci", "path": "auth/x"}}
            )
        if path.startswith("sys/internal/ui/mounts/"):
            return self._mount(path.removeprefix("sys/internal/ui/mounts/"))
        return self._read(path, self.tokens[token], asked.query.get("version"))

    def _sign_in(self, path: str, asked: Asked) -> Answer:
        wish = json.loads(asked.body)
        proofs = {"auth/approle/login": self.roles, "auth/kubernetes/login": self.kubernetes}.get(path)
        if proofs is None:
            return DENIED
        role = wish.get("role_id") or wish.get("role") or ""
        expected, token = proofs.get(role, ("", ""))
        if not expected or (wish.get("secret_id") or wish.get("jwt")) != expected:
            return told({"errors": [f"invalid role or secret ID {wish}"]}, 400)
        return told({"auth": {"client_token": token, "accessor": f"accessor-of-{role}"}})

    def _mount(self, path: str) -> Answer:
        mount = self._mount_of(path)
        if mount is None or not self.tells_mounts:
            return DENIED
        return told(
            {"data": {"path": f"{mount}/", "type": "kv", "options": {"version": str(self.mounts[mount])}}}
        )

    def _mount_of(self, path: str) -> str | None:
        return max((one for one in self.mounts if path.startswith(f"{one}/")), key=len, default=None)

    def _read(self, path: str, allowed: tuple[str, ...], version: str | None) -> Answer:
        mount = self._mount_of(path)
        if mount is None:
            return DENIED
        inside = path.removeprefix(f"{mount}/")
        versioned = self.mounts[mount] == 2
        if versioned:
            if not inside.startswith("data/"):
                return NOTHING
            inside = inside.removeprefix("data/")
        name = f"{mount}/{inside}"
        if not any(name.startswith(prefix) for prefix in allowed):
            return DENIED
        versions = self.secrets.get(name, [])
        wanted = int(version) if version else len(versions)
        if not 0 < wanted <= len(versions):
            return NOTHING
        data = versions[wanted - 1]
        return told({"data": {"data": data, "metadata": {"version": wanted}} if versioned else data})


def vault_server(world: VaultWorld) -> Answering:
    return Answering(world.answer)
