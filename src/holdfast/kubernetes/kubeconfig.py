"""Reads one context of a kubeconfig. Pure, but for the files that it names.

What is not understood is refused: a request must never reach another cluster, or be sent unverified.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from holdfast.kernel.errors import Failed
from holdfast.kernel.secret import Secret
from holdfast.kernel.values import MaskedStruct
from holdfast.system import files
from holdfast.system.environment import Environment

_UNSUPPORTED_CLUSTER = ("proxy-url", "tls-server-name")
_UNSUPPORTED_USER = ("username", "password", "auth-provider", "as", "as-groups", "as-uid")
_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class KubeconfigError(Failed):
    """Such a cluster is never asked."""


class ExecPlugin(Struct, frozen=True, kw_only=True):
    """A program that prints credentials, such as `aws eks get-token`."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    api_version: str


class ClusterAccess(MaskedStruct, frozen=True, kw_only=True):
    context: str
    server: str
    authority: bytes | None = None
    identity: tuple[bytes, bytes] | None = None
    """A client certificate and its key, in PEM."""
    token: Secret | None = None
    plugin: ExecPlugin | None = None
    namespace: str = "default"


class KubeconfigFile(MaskedStruct, frozen=True, kw_only=True):
    """`folder`: what relative paths in it are relative to; None: it has no place, and may name no files."""

    shown: str
    text: str
    folder: Path | None = None


def kubeconfig_files(environment: Environment) -> tuple[KubeconfigFile, ...]:
    """Those that `kubectl` would read: of KUBECONFIG, or `~/.kube/config`."""
    named = environment.get("KUBECONFIG")
    home = Path(environment.get("HOME") or "/")
    paths = [Path(part) for part in named.split(":") if part] if named else [home / ".kube" / "config"]
    return tuple(kubeconfig_file(path) for path in paths if path.is_file())


def kubeconfig_file(path: Path) -> KubeconfigFile:
    try:
        return KubeconfigFile(shown=str(path), text=files.read_text(path), folder=path.parent)
    except (OSError, UnicodeDecodeError):
        raise KubeconfigError(
            "HF-KUBE-1",
            f"the kubeconfig {path} cannot be read",
            hint="Check that the file exists and is text.",
        ) from None


def read_context(configs: Sequence[KubeconfigFile], name: str) -> ClusterAccess:
    """The first entry of each name counts, as in `kubectl`."""
    parsed = [(config, _parsed(config)) for config in configs]
    found = _entry(parsed, "contexts", "context", name)
    if found is None:
        known = sorted(
            {str(entry.get("name")) for _, content in parsed for entry in _list(content, "contexts")}
        )
        where = ", ".join(config.shown for config in configs) or "any file: there is no kubeconfig"
        raise KubeconfigError(
            "HF-KUBE-2",
            f"there is no context {name} in {where}",
            hint=f"Its contexts are {', '.join(known)}."
            if known
            else "Set KUBECONFIG, or `kubernetes.kubeconfig` of the target.",
        )
    context = found[1]
    cluster = _entry(parsed, "clusters", "cluster", str(context.get("cluster")))
    user = _entry(parsed, "users", "user", str(context.get("user")))
    if cluster is None or user is None:
        what = f"cluster {context.get('cluster')}" if cluster is None else f"user {context.get('user')}"
        raise KubeconfigError("HF-KUBE-1", f"the context {name} names the {what}, which does not exist")
    return _access(name, context, cluster, user)


_Found = tuple[KubeconfigFile, Mapping[str, Any]]


def _access(name: str, context: Mapping[str, Any], cluster: _Found, user: _Found) -> ClusterAccess:
    if cluster[1].get("insecure-skip-tls-verify"):
        raise _unsupported(name, "insecure-skip-tls-verify", "Add certificate-authority-data instead.")
    for _, content, keys in ((*cluster, _UNSUPPORTED_CLUSTER), (*user, _UNSUPPORTED_USER)):
        if unsupported := next((key for key in keys if content.get(key)), None):
            raise _unsupported(name, unsupported, "Use a token, a client certificate or an exec plugin.")
    server = cluster[1].get("server")
    if not isinstance(server, str):
        raise KubeconfigError("HF-KUBE-1", f"the cluster of the context {name} has no server")
    certificate, key = _content(user, "client-certificate"), _content(user, "client-key")
    if (certificate is None) != (key is None):
        raise KubeconfigError(
            "HF-KUBE-1", f"the user of {name} has a client certificate without key, or a key alone"
        )
    token = user[1].get("token")
    if token is None and (file := user[1].get("tokenFile")):
        token = _read(user[0], str(file)).decode(errors="replace").strip()
    return ClusterAccess(
        context=name,
        server=server.rstrip("/"),
        authority=_content(cluster, "certificate-authority"),
        identity=(certificate, key) if certificate is not None and key is not None else None,
        token=Secret(str(token)) if token else None,
        plugin=_plugin(name, user[1].get("exec")),
        namespace=str(context.get("namespace") or "default"),
    )


def _unsupported(name: str, key: str, hint: str) -> KubeconfigError:
    return KubeconfigError(
        "HF-KUBE-3", f"the context {name} uses `{key}`, which Holdfast does not support", hint=hint
    )


def _plugin(name: str, content: object) -> ExecPlugin | None:
    if content is None:
        return None
    if not isinstance(content, Mapping) or not isinstance(content.get("command"), str):
        raise KubeconfigError("HF-KUBE-1", f"`exec` of the user of {name} has no command")
    version = str(content.get("apiVersion"))
    if version not in _EXEC_VERSIONS:
        raise _unsupported(name, f"exec with apiVersion {version}", f"Use {_EXEC_VERSIONS[0]}.")
    return ExecPlugin(
        argv=(content["command"], *map(str, content.get("args") or ())),
        env={str(entry["name"]): str(entry["value"]) for entry in _list(content, "env")},
        api_version=version,
    )


def _content(found: _Found, key: str) -> bytes | None:
    """Data wins over a file, as in `kubectl`."""
    config, content = found
    if data := content.get(f"{key}-data"):
        try:
            return base64.b64decode(str(data), validate=True)
        except (binascii.Error, ValueError):
            raise KubeconfigError("HF-KUBE-1", f"{key}-data in {config.shown} is not base64") from None
    file = content.get(key)
    return _read(config, str(file)) if file else None


def _read(config: KubeconfigFile, name: str) -> bytes:
    if config.folder is None:
        raise KubeconfigError(
            "HF-KUBE-3",
            f"{config.shown} names the file {name}, but has no folder",
            hint="Embed it: kubectl config view --raw --flatten",
        )
    try:
        return (config.folder / name).read_bytes()
    except OSError:
        raise KubeconfigError("HF-KUBE-1", f"{config.shown} names {name}, which cannot be read") from None


def _entry(
    parsed: Sequence[tuple[KubeconfigFile, Mapping[str, Any]]], section: str, key: str, name: str
) -> _Found | None:
    for config, content in parsed:
        for entry in _list(content, section):
            if entry.get("name") == name and isinstance(entry.get(key), Mapping):
                return config, entry[key]
    return None


def _list(content: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = content.get(key)
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _parsed(config: KubeconfigFile) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(config.text)
    except (yaml.YAMLError, ValueError, RecursionError):
        content = None
    if not isinstance(content, Mapping):
        raise KubeconfigError("HF-KUBE-1", f"{config.shown} is not a kubeconfig")
    return content
