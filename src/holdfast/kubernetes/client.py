"""Requests to one cluster. One request, one answer: who waits for something asks again."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from holdfast.kernel.errors import Failed
from holdfast.kernel.secret import Secret
from holdfast.kernel.text import json_object
from holdfast.kubernetes.kubeconfig import ClusterAccess, ExecPlugin, KubeconfigError
from holdfast.system import processes
from holdfast.system.environment import Environment
from holdfast.system.http import HttpError, Response, own_tls_context, request

if TYPE_CHECKING:
    import ssl

FIELD_MANAGER = "holdfast"
_MOST_BYTES = 64 * 1024 * 1024
_PAGE = 500
_OK = range(200, 300)
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _CONFLICT = 401, 403, 404, 409
_PLUGIN_SECONDS = 60.0
_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"
"""JSON is YAML."""
Resource = Mapping[str, Any]


class KubernetesError(Failed):
    """`status` of the answer; None: there was none."""

    def __init__(
        self, code: str, message: str, *, status: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(code, message, hint=hint)
        self.status = status

    @property
    def not_found(self) -> bool:
        return self.status == _NOT_FOUND


class Kind(Struct, frozen=True, kw_only=True):
    """`apps/v1` and `Deployment`, and where its resources are."""

    api_version: str
    name: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None, name: str | None = None) -> str:
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        within = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        own = f"/{quote(name, safe='')}" if name else ""
        return f"{root}{within}/{self.plural}{own}"


class KubernetesClient:
    """Thread-safe. Exec plugins run when they are first needed, with this environment."""

    def __init__(
        self, access: ClusterAccess, environment: Environment, *, folder: Path, seconds: float = 20.0
    ) -> None:
        self.access = access
        self._environment = environment
        self._folder = folder
        self._seconds = seconds
        self._lock = threading.Lock()
        self._ready: list[tuple[ssl.SSLContext | None, Secret | None]] = []
        """At most one, shared with copies."""
        self._kinds: dict[str, tuple[Kind, ...]] = {}

    def within(self, seconds: float) -> KubernetesClient:
        """The same client, whose requests may take this long."""
        client = copy.copy(self)
        client._seconds = seconds  # noqa: SLF001 - of this class
        return client

    def version(self) -> str:
        """Of the cluster. Needs credentials that the API accepts."""
        return str(self._json("GET", "/version").get("gitVersion") or "unknown")

    # Resources

    def get(self, kind: Kind, name: str, namespace: str | None = None, *, part: str = "") -> dict[str, Any]:
        return self._json("GET", kind.path(self._namespace(kind, namespace), name) + part)

    def find(self, kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """None: the API says that it does not exist."""
        try:
            return self.get(kind, name, namespace)
        except KubernetesError as error:
            if error.not_found:
                return None
            raise

    def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """In this namespace, or in all of them. Items have no kind of their own."""
        options = {"limit": str(_PAGE), "labelSelector": labels, "fieldSelector": fields}
        query = {name: value for name, value in options.items() if value}
        while True:
            page = self._json("GET", f"{kind.path(namespace)}?{urlencode(query)}")
            items = page.get("items")
            yield from items if isinstance(items, list) else ()
            following = page.get("metadata", {}).get("continue")
            if not following:
                return
            query["continue"] = following

    def apply(self, resource: Resource, *, force: bool = False) -> dict[str, Any]:
        """Server-side: fields that another manager owns are a conflict, unless `force`."""
        metadata = resource.get("metadata") or {}
        kind = self.kind(str(resource.get("apiVersion")), str(resource.get("kind")))
        query = urlencode({"fieldManager": FIELD_MANAGER, "force": "true" if force else "false"})
        namespace = self._namespace(kind, metadata.get("namespace"))
        path = f"{kind.path(namespace, str(metadata.get('name')))}?{query}"
        return self._json("PATCH", path, resource, content_type=_APPLY)

    def patch(
        self, kind: Kind, name: str, change: Resource, namespace: str | None = None, *, part: str = ""
    ) -> dict[str, Any]:
        """A JSON merge patch: null removes a field."""
        path = kind.path(self._namespace(kind, namespace), name) + part
        return self._json(
            "PATCH", f"{path}?{urlencode({'fieldManager': FIELD_MANAGER})}", change, content_type=_MERGE
        )

    def delete(self, kind: Kind, name: str, namespace: str | None = None) -> bool:
        """False: it did not exist. A finalizer may keep it for a while."""
        path = kind.path(self._namespace(kind, namespace), name)
        try:
            self._json("DELETE", path, {"propagationPolicy": "Background"})
        except KubernetesError as error:
            if error.not_found:
                return False
            raise
        return True

    # Kinds

    def kind(self, api_version: str, name: str) -> Kind:
        kinds = self._kinds.get(api_version) or self._discover(api_version)
        found = next((kind for kind in kinds if kind.name == name), None)
        if found is None:
            # It may have been created since.
            found = next((kind for kind in self._discover(api_version) if kind.name == name), None)
        if found is None:
            raise KubernetesError(
                "HF-KUBE-7",
                f"{self.access.context}: the cluster has no kind {name} in {api_version}",
                status=_NOT_FOUND,
                hint="Check the version, and that its CustomResourceDefinition is installed.",
            )
        return found

    def _discover(self, api_version: str) -> tuple[Kind, ...]:
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            resources = self._json("GET", path).get("resources")
        except KubernetesError as error:
            if not error.not_found:
                raise
            resources = ()
        kinds = tuple(
            Kind(
                api_version=api_version,
                name=str(entry.get("kind")),
                plural=str(entry.get("name")),
                namespaced=bool(entry.get("namespaced")),
            )
            for entry in resources or ()
            if "/" not in str(entry.get("name"))
        )
        self._kinds[api_version] = kinds
        return kinds

    def _namespace(self, kind: Kind, namespace: str | None) -> str | None:
        return (namespace or self.access.namespace) if kind.namespaced else None

    # Requests

    def _json(
        self, method: str, path: str, body: Resource | None = None, *, content_type: str = "application/json"
    ) -> dict[str, Any]:
        response = self._send(method, path, body, content_type)
        if response.status == _UNAUTHORIZED and self.access.plugin is not None:
            with self._lock:
                self._ready.clear()  # Its tokens last for minutes only.
            response = self._send(method, path, body, content_type)
        if response.status not in _OK:
            raise self._error(method, path, response)
        return json_object(response.body)

    def _send(self, method: str, path: str, body: Resource | None, content_type: str) -> Response:
        context, token = self._credentials()
        headers = {"Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token.reveal()}"
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            return request(
                method,
                f"{self.access.server}{path}",
                environment=self._environment,
                headers=headers,
                body=json.dumps(body).encode() if body is not None else None,
                seconds=self._seconds,
                max_bytes=_MOST_BYTES,
                context=context,
            )
        except HttpError as error:
            raise KubernetesError(
                "HF-KUBE-6", f"{self.access.context}: {error.host}: {error.reason}", hint=error.hint
            ) from None

    def _error(self, method: str, path: str, response: Response) -> KubernetesError:
        says = json_object(response.body).get("message") or f"status {response.status}"
        hint = {
            _UNAUTHORIZED: "Check the credentials of the kubeconfig: they may have expired.",
            _FORBIDDEN: "Give the user of the kubeconfig this permission.",
            _CONFLICT: "Another program manages this: remove it there, or do not apply it.",
        }.get(response.status)
        where = path.partition("?")[0]
        return KubernetesError(
            "HF-KUBE-5",
            f"{self.access.context}: {method} {where}: {says}",
            status=response.status,
            hint=hint,
        )

    def _credentials(self) -> tuple[ssl.SSLContext | None, Secret | None]:
        with self._lock:
            if not self._ready:
                self._ready.append(self._open())
            return self._ready[0]

    def _open(self) -> tuple[ssl.SSLContext | None, Secret | None]:
        access = self.access
        token, identity = access.token, access.identity
        if access.plugin is not None:
            token, identity = self._run_plugin(access.plugin)
        try:
            context = (
                own_tls_context(access.authority, identity) if access.server.startswith("https:") else None
            )
        except ValueError as error:
            raise KubeconfigError("HF-KUBE-1", f"{access.context}: {error}") from None
        return context, token

    def _run_plugin(self, plugin: ExecPlugin) -> tuple[Secret | None, tuple[bytes, bytes] | None]:
        """Confined, like every program that a file of the user names."""
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        variables = {**self._environment.variables, **plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        own = {name: value for name, value in variables.items() if not name.startswith("HOLDFAST_")}
        finished = processes.run(plugin.argv, folder=self._folder, environment=own, seconds=_PLUGIN_SECONDS)
        status = json_object(finished.out).get("status")
        if finished.code != 0 or not isinstance(status, dict):
            last = (finished.err.decode(errors="replace").strip().splitlines() or [""])[-1]
            says = f"exited with {finished.code}{f': {last}' if last else ''}"
            raise KubeconfigError(
                "HF-KUBE-4",
                f"{self.access.context}: {plugin.argv[0]}, which gets credentials, "
                f"{says if finished.code else 'printed none'}",
                hint="Run it by hand, with the same environment.",
            )
        certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
        identity = (certificate.encode(), key.encode()) if certificate and key else None
        return Secret(status["token"]) if status.get("token") else None, identity
