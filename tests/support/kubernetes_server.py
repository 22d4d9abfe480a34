"""A small Kubernetes API server on loopback, with what the client uses.

Discovery, get, list with pages and selectors, server-side apply with field managers, merge patch, delete with
finalizers. The contract tests run on it and on the real kube-apiserver.
"""

from __future__ import annotations

import contextlib
import copy
import json
import re
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import trustme
import yaml
from answering import Answer, Answering, Asked, told

TOKEN = "token-of-the-small-server"
KINDS: dict[str, tuple[tuple[str, str, bool], ...]] = {
    "v1": (
        ("Namespace", "namespaces", False),
        ("ConfigMap", "configmaps", True),
        ("Secret", "secrets", True),
        ("Service", "services", True),
        ("PersistentVolumeClaim", "persistentvolumeclaims", True),
        ("PersistentVolume", "persistentvolumes", False),
        ("Event", "events", True),
    ),
    "apps/v1": (("Deployment", "deployments", True),),
    "apiextensions.k8s.io/v1": (("CustomResourceDefinition", "customresourcedefinitions", False),),
}
_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"(?:/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<part>status))?)?)?"
)
Json = dict[str, Any]


class SmallCluster:
    """`resources` by API version, plural, namespace and name."""

    def __init__(self) -> None:
        self.resources: dict[tuple[str, str, str | None, str], Json] = {}
        self.kinds = {version: list(kinds) for version, kinds in KINDS.items()}
        self.asked: list[tuple[str, str]] = []
        self.fail: int | None = None
        """A status that every request gets."""
        self.hold_on: str | None = None
        """Requests whose method and path contain this wait until `free`."""
        self.held, self.free = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._number = 0
        for name in ("default", "kube-system"):
            self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def put(self, resource: Mapping[str, Any]) -> None:
        """As a controller would write it, status included."""
        version, metadata = resource["apiVersion"], resource["metadata"]
        plural, namespaced = next(
            (plural, namespaced)
            for kind, plural, namespaced in self.kinds[version]
            if kind == resource["kind"]
        )
        namespace = metadata.get("namespace", "default") if namespaced else None
        with self._lock:
            self._store((version, plural, namespace, metadata["name"]), copy.deepcopy(dict(resource)))

    def _store(self, key: tuple[str, str, str | None, str], resource: Json) -> Json:
        self._number += 1
        metadata = resource.setdefault("metadata", {})
        metadata["resourceVersion"] = str(self._number)
        metadata.setdefault("uid", f"uid-{self._number}")
        if key[2] is not None:
            metadata["namespace"] = key[2]
        before = self.resources.get(key)
        generation = before["metadata"].get("generation", 1) if before else metadata.get("generation", 1)
        if before is not None and before.get("spec") != resource.get("spec"):
            generation += 1
        metadata["generation"] = generation
        self.resources[key] = resource
        if key[1] == "customresourcedefinitions":
            spec = resource["spec"]
            for version in spec["versions"]:
                kinds = self.kinds.setdefault(f"{spec['group']}/{version['name']}", [])
                names = spec["names"]
                kinds.append((names["kind"], names["plural"], spec["scope"] == "Namespaced"))
        return resource

    # Requests

    def answer(self, asked: Asked) -> Answer:
        self.asked.append((asked.method, asked.path))
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return _status(401, "Unauthorized")
        if self.hold_on is not None and self.hold_on in f"{asked.method} {asked.path}":
            self.held.set()
            self.free.wait()
        if self.fail is not None:
            return _status(self.fail, "the test says so")
        if urlsplit(asked.path).path == "/version":
            return told({"gitVersion": "v1.36.0-small"})
        match = _PATH.fullmatch(urlsplit(asked.path).path)
        if match is None:
            return _status(404, "the server could not find the requested resource")
        version = f"{match['group']}/{match['version']}" if match["group"] else match["version"]
        query = {name: values[0] for name, values in parse_qs(urlsplit(asked.path).query).items()} | dict(
            asked.query
        )
        with self._lock:
            return self._route(asked, version, match, query)

    def _route(  # noqa: PLR0911 - a row per request
        self, asked: Asked, version: str, match: re.Match[str], query: Mapping[str, str]
    ) -> Answer:
        if version not in self.kinds:
            return _status(404, "the server could not find the requested resource")
        plural, namespace, name = match["plural"], match["namespace"], match["name"]
        if plural is None:
            return told({"kind": "APIResourceList", "resources": self._discovered(version)})
        known = {plural: (kind, namespaced) for kind, plural, namespaced in self.kinds[version]}
        if plural not in known:
            return _status(404, "the server could not find the requested resource")
        kind, namespaced = known[plural]
        if name is None:
            return self._list(version, plural, kind, namespace, query)
        key = (version, plural, namespace if namespaced else None, name)
        body = json.loads(asked.body) if asked.body else {}
        match asked.method:
            case "GET":
                found = self.resources.get(key)
                return told(found) if found is not None else _absent(plural, name)
            case "DELETE":
                return self._delete(key)
            case "PATCH" if "apply-patch" in asked.headers["content-type"]:
                return self._apply(key, body, query)
            case "PATCH":
                found = self.resources.get(key)
                if found is None:
                    return _absent(plural, name)
                return self._changed(key, _merged(copy.deepcopy(found), body))
            case _:
                return _status(405, "not implemented here")

    def _discovered(self, version: str) -> list[Json]:
        resources: list[Json] = []
        for kind, plural, namespaced in self.kinds[version]:
            resources.append({"name": plural, "kind": kind, "namespaced": namespaced})
            resources.append({"name": f"{plural}/status", "kind": kind, "namespaced": namespaced})
        return resources

    def _list(
        self, version: str, plural: str, kind: str, namespace: str | None, query: Mapping[str, str]
    ) -> Answer:
        items = [
            resource
            for key, resource in sorted(
                self.resources.items(), key=lambda item: (item[0][2] or "", item[0][3])
            )
            if key[:2] == (version, plural) and namespace in {None, key[2]}
            if _selected(resource["metadata"].get("labels") or {}, query.get("labelSelector"))
            if _selected(_flat(resource), query.get("fieldSelector"))
        ]
        start, limit = int(query.get("continue", "0")), int(query.get("limit", "500"))
        page, more = items[start : start + limit], start + limit < len(items)
        bare = [
            {name: value for name, value in item.items() if name not in {"kind", "apiVersion"}}
            for item in page
        ]
        metadata = {"continue": str(start + limit)} if more else {}
        return told({"kind": f"{kind}List", "apiVersion": version, "metadata": metadata, "items": bare})

    def _apply(self, key: tuple[str, str, str | None, str], body: Json, query: Mapping[str, str]) -> Answer:
        manager, force = query["fieldManager"], query.get("force") == "true"
        if key[2] is not None and ("v1", "namespaces", None, key[2]) not in self.resources:
            return _status(404, f'namespaces "{key[2]}" not found')
        before = copy.deepcopy(self.resources.get(key)) or {}
        owners: Json = before.get("metadata", {}).pop("owners", {})
        given = {
            name: value
            for name, value in _flat(body).items()
            if not name.startswith(("metadata.name", "kind", "api"))
        }
        old = _flat(before)
        conflicts = [
            path
            for path, value in given.items()
            if path in old and str(old[path]) != str(value) and owners.get(path, manager) != manager
        ]
        if conflicts and not force:
            return _status(409, f"Apply failed with conflicts: {', '.join(conflicts)}")
        for path in [path for path, owner in owners.items() if owner == manager and path not in given]:
            _remove(before, path.split("."))
            owners.pop(path)
        merged = _merged(before, body)
        owners.update(dict.fromkeys(given, manager))
        merged["metadata"]["owners"] = owners
        created = key not in self.resources
        return told(self._store(key, merged), 201 if created else 200)

    def _delete(self, key: tuple[str, str, str | None, str]) -> Answer:
        resource = self.resources.get(key)
        if resource is None:
            return _absent(key[1], key[3])
        if resource["metadata"].get("finalizers"):
            resource["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        else:
            del self.resources[key]
        return told(resource)

    def _changed(self, key: tuple[str, str, str | None, str], resource: Json) -> Answer:
        metadata = resource["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            del self.resources[key]
            return told(resource)
        return told(self._store(key, resource))


def _status(code: int, message: str) -> Answer:
    return told({"kind": "Status", "status": "Failure", "message": message, "code": code}, code)


def _absent(plural: str, name: str) -> Answer:
    return _status(404, f'{plural} "{name}" not found')


def _merged(old: Json, new: Mapping[str, Any]) -> Json:
    for name, value in new.items():
        if value is None:
            old.pop(name, None)
        elif isinstance(value, Mapping):
            inner = old.get(name)
            old[name] = _merged(inner if isinstance(inner, dict) else {}, value)
        else:
            old[name] = value
    return old


def _remove(resource: Json, path: list[str]) -> None:
    for part in path[:-1]:
        if not isinstance(resource.get(part), dict):
            return
        resource = resource[part]
    resource.pop(path[-1], None)


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        path = f"{prefix}{name}"
        flat.update(_flat(inner, f"{path}.") if isinstance(inner, Mapping) else {path: inner})
    return flat


def _selected(values: Mapping[str, Any], selector: str | None) -> bool:
    parts = [part.split("=", 1) for part in selector.split(",")] if selector else []
    return all(str(values.get(name)) == wanted for name, wanted in parts)


@contextlib.contextmanager
def small_cluster(folder: Path) -> Iterator[tuple[SmallCluster, Path]]:
    """The cluster, and the file of a kubeconfig with the context `small`."""
    cluster, authority = SmallCluster(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    ca_file = folder / "kube-ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    with Answering(cluster.answer, tls=context) as server:
        try:
            yield cluster, write_kubeconfig(folder, f"https://127.0.0.1:{server.port}", ca_file, TOKEN)
        finally:
            cluster.free.set()


def write_kubeconfig(folder: Path, server: str, ca_file: Path, token: str, **user: Any) -> Path:
    """With another context that must never be used."""
    wrong = {"server": "https://127.0.0.1:1", "certificate-authority": str(ca_file)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "wrong",
        "contexts": [
            {"name": "wrong", "context": {"cluster": "wrong", "user": "u"}},
            {"name": "small", "context": {"cluster": "c", "user": "u", "namespace": "default"}},
        ],
        "clusters": [
            {"name": "wrong", "cluster": wrong},
            {"name": "c", "cluster": {"server": server, "certificate-authority": ca_file.name}},
        ],
        "users": [{"name": "u", "user": user or {"token": token}}],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file
