"""The server scans each version after it is written; the counts are in the API and in the metrics."""

from __future__ import annotations

import base64
import hashlib
import json
import re

from program import eventually
from server_made import MadeServer, made_server
from state_backend_made import SECRET, envelope, lock_info, state

from holdfast.database.database import Database
from holdfast.identity.roles import Role


def test_secrets_are_counted_over_time(database: Database) -> None:
    with made_server(database) as server:
        assert _metrics(server) == (0, 0, 0)
        server.send("LOCK", "/state/net", body=lock_info("one"))
        seen = []
        for serial, resources in enumerate(([], [SECRET], [SECRET, {**SECRET, "name": "b"}], []), start=1):
            document = json.loads(state(serial))
            document["resources"] += resources
            _write(server, json.dumps(document).encode())
            eventually(lambda: _metrics(server)[2] == 0, what="a scanned version")
            seen.append(_metrics(server))
        assert seen == [(0, 0, 0), (1, 1, 0), (2, 2, 0), (0, 2, 0)]

        # What OpenTofu encrypted is never counted as free of secrets.
        _write(server, envelope(5))
        assert _metrics(server) == (0, 2, 1)
        versions = _versions(server)
        assert [version["secrets"] for version in versions] == [None, 0, 2, 1, 0]
        (id_,) = (row["id"] for row in server.send("GET", "/api/v1/states").document["states"])
        server.send("POST", f"/api/v1/states/{id_}/versions/2/purge", {"reason": "a secret in it"})
        assert _metrics(server) == (0, 1, 1)
        assert b"s3cr3t" not in server.send("GET", "/metrics").body
        # A token of one tenant learns nothing about the states of the others.
        tenants = {tenant: server.token(Role.VIEWER, tenant=tenant) for tenant in ("default", "other", "*")}
        seen = [_metrics(server, token) for token in tenants.values()]
        assert seen == [(0, 1, 1), (0, 0, 0), (0, 1, 1)]


def _write(server: MadeServer, content: bytes) -> None:
    md5 = base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
    answer = server.send("POST", "/state/net?ID=one", body=content, headers={"content-md5": md5})
    assert answer.status == 200, answer


def _versions(server: MadeServer) -> list[dict[str, object]]:
    (id_,) = (row["id"] for row in server.send("GET", "/api/v1/states").document["states"])
    versions: list[dict[str, object]] = server.send("GET", f"/api/v1/states/{id_}/versions").document[
        "versions"
    ]
    return versions


def _metrics(server: MadeServer, token: str = "") -> tuple[int, int, int]:
    """In current versions, versions with secrets, versions that were not scanned."""
    text = server.send("GET", "/metrics", token=token).body.decode()
    found = dict(re.findall(r"^holdfast_state_(\S+) (\d+)\.0$", text, re.MULTILINE))
    names = ("secrets", "versions_with_secrets", "versions_not_scanned")
    current, versions, not_scanned = (int(found[name]) for name in names)
    return current, versions, not_scanned
