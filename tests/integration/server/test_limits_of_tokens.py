"""What a token with limits cannot do: act as another person, or reach what its patterns leave out."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from server_made import MadeServer, made_server

from holdfast.database.database import Database
from holdfast.identity.roles import Role

TOKENS = "/api/v1/tokens"
BLOBS = "/api/v1/store/blobs"
GRANTS = "/api/v1/store/grants"
CHANGES = "/api/v1/changes"
REPOSITORIES = "/api/v1/repositories"
DEV: dict[str, Any] = {"stacks": ("dev/*",), "states": ("dev/*",)}


@pytest.fixture
def server(database: Database) -> Iterator[MadeServer]:
    with made_server(database) as server:
        yield server


def created(server: MadeServer, token: str, **wanted: Any) -> str:
    return str(server.send("POST", TOKENS, {"role": "ci", **wanted}, token=token).document["token"])


def put_head(path: str, token: str, length: int) -> bytes:
    fields = f"Host: x\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n"
    return f"PUT {path} HTTP/1.1\r\n{fields}".encode()


def id_of(token: str) -> str:
    return token.split("_")[1]


def test_a_limited_admin_sees_and_revokes_only_what_it_covers(server: MadeServer) -> None:
    limited, alice = server.token(Role.ADMIN, name="dev", **DEV), server.token(Role.OPERATOR, name="alice")
    own = server.send("POST", TOKENS, {"role": "viewer", **DEV}, token=limited).document
    listed = {row["id"] for row in server.send("GET", TOKENS, token=limited).document["tokens"]}
    assert listed == {own["id"], id_of(limited)}
    assert server.send("DELETE", f"{TOKENS}/{id_of(alice)}", token=limited).status == 404
    assert server.send("GET", f"{TOKENS}/current", token=alice).status == 200
    assert server.send("DELETE", f"{TOKENS}/{own['id']}", token=limited).status == 204


def test_a_name_belongs_to_one_person(server: MadeServer) -> None:
    limited = server.token(Role.ADMIN, name="dev", **DEV)
    server.token(Role.OPERATOR, name="alice")

    def create(token: str, name: str) -> int:
        return server.send("POST", TOKENS, {"role": "approver", "name": name, **DEV}, token=token).status

    assert create(limited, "alice") == create(limited, "Alice") == 409
    assert create(limited, "bob") == create(limited, "bob") == 201
    assert create(server.admin, "alice") == 201
    assert create(server.admin, "ALICE") == 409
    assert create(server.token(Role.ADMIN, tenant="other"), "alice") == 201


def test_tokens_without_a_name_are_not_one_person(server: MadeServer) -> None:
    def subject(role: Role, **given: str) -> str:
        token = server.token(role, **given)
        return str(server.send("GET", "/api/v1/store", token=token).document["who"]["subject"])

    assert subject(Role.OPERATOR) != subject(Role.OPERATOR)
    assert subject(Role.OPERATOR, name="ada") == subject(Role.APPROVER, name="ada") == "name:ada"


def test_patterns_of_one_kind_limit_the_other(server: MadeServer) -> None:
    for given in ({"stacks": ["dev/*"]}, {"states": ["dev/*"]}):
        token = created(server, server.admin, **given)
        current = server.send("GET", f"{TOKENS}/current", token=token).document
        assert (current["stacks"], current["states"]) == (["dev/*"], ["dev/*"])
        assert server.send("GET", "/state/prod/net", token=token).status == 403
        assert server.send("GET", f"{BLOBS}/backups/prod%252Fnet/b1", token=token).status == 403
        assert server.send("GET", "/state/dev/net", token=token).status == 404
    both = created(server, server.admin, stacks=["prod/*"], states=["dev/*"])
    for name in (
        "claims/prod%252Fnet",
        "backups/prod%252Fnet/b1",
        "errored/prod%252Fnet/x",
        "files/prod%252Fnet/x",
    ):
        assert server.send("PUT", f"{BLOBS}/{name}", token=both, body=b'{"run":"r"}').status == 403


def test_a_token_does_not_outlive_the_one_that_created_it(server: MadeServer) -> None:
    admin = server.send("POST", TOKENS, {"role": "admin", "expires": 3600}).document
    child = server.send("POST", TOKENS, {"role": "admin"}, token=admin["token"]).document
    assert child["expires"] == admin["expires"]
    grandchild = created(server, child["token"], expires=600)
    grant = server.send("POST", GRANTS, {"stack": "a", "reads_state": True}, token=grandchild).document[
        "token"
    ]
    kept = created(server, child["token"])
    assert server.send("GET", "/state/a", token=grant).status == 404
    assert server.send("DELETE", f"{TOKENS}/{id_of(grandchild)}?keep_created=true").status == 204
    assert server.send("GET", "/state/a", token=grant).status == 401  # Of a run.
    assert server.send("DELETE", f"{TOKENS}/{child['id']}?keep_created=true").status == 204
    assert server.send("GET", "/state/a", token=child["token"]).status == 401
    assert server.send("GET", "/state/a", token=kept).status == 404
    assert server.send("DELETE", f"{TOKENS}/{admin['id']}").status == 204
    assert server.send("GET", "/state/a", token=kept).status == 401


def test_a_token_created_while_its_creator_is_revoked_does_not_work(server: MadeServer) -> None:
    admin = server.send("POST", TOKENS, {"role": "admin"}).document
    child = created(server, admin["token"])
    with server.database.transaction() as connection:
        connection.execute("update tokens set revoked = now() where id = %s", (admin["id"],))
    assert server.send("GET", "/state/a", token=child).status == 401


def test_a_run_may_save_its_state_after_the_token_that_began_it_expired(server: MadeServer) -> None:
    ci = server.send("POST", TOKENS, {"role": "ci", "expires": 600}).document
    claim = f"{BLOBS}/claims/a"
    claimed = server.send(
        "PUT",
        claim,
        token=ci["token"],
        body=b'{"stack":"a","run":"R1","intent":{}}',
        headers={"if-none-match": "*"},
    )
    assert claimed.status == 200
    wanted = {"stack": "a", "run": "R1", "writes_state": True, "journal": "R1"}
    grant = server.send("POST", GRANTS, wanted, token=ci["token"]).document["token"]
    reads = server.send("POST", GRANTS, {"stack": "a", "reads_state": True}, token=ci["token"]).document[
        "token"
    ]
    with server.database.transaction() as connection:
        connection.execute("update tokens set expires = now() where id = %s", (ci["id"],))
        (left,) = connection.execute(
            "select expires - now() < interval '11 minutes' from tokens where id = %s", (id_of(reads),)
        ).fetchone() or (None,)
    assert left is True
    assert server.send("GET", "/state/a", token=ci["token"]).status == 401
    assert server.send("GET", "/state/a", token=grant).status == 404


def test_the_audit_log_takes_only_acts_that_the_caller_can_do(server: MadeServer) -> None:
    ci, viewer = created(server, server.admin, stacks=["dev/*"]), server.token(Role.VIEWER)

    def record(token: str, **entry: object) -> int:
        document = {"batch": "b", "entries": [entry]}
        return server.send("POST", "/api/v1/store/audit", document, token=token).status

    assert record(ci, what="apply", stack="prod/net") == 403
    assert record(ci, what="token-create") == record(server.admin, what="token-revoke") == 403
    assert record(ci, what="rotate") == 403
    assert record(viewer, what="pull", stack="dev/net") == record(viewer, what="plan") == 403
    password = "AKIA" + "Z7Q2M4X6N8B3V5C1"
    assert record(ci, what="unlock", stack="dev/net", break_glass=False, reason=f"password={password}") == 201
    (entry,) = server.send("GET", "/api/v1/audit?limit=1").document["entries"]
    assert (entry["what"], entry["stack"], entry["break_glass"]) == ("unlock", "dev/net", True)
    assert password not in str(entry)


def test_a_body_is_not_received_for_what_may_not_be_written(server: MadeServer) -> None:
    """The answer comes before the body."""
    viewer, limited = server.token(Role.VIEWER), created(server, server.admin, stacks=["dev/*"])
    for token, name in (
        (viewer, "runs/x/plan"),
        (limited, "backups/prod%252Fa/b"),
        (limited, "approvals/d/1"),
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            connection.sendall(put_head(f"{BLOBS}/{name}", token, 99_999_999))
            assert connection.recv(65536).startswith(b"HTTP/1.1 403")


def test_bodies_that_do_not_fit_into_memory_are_refused(database: Database) -> None:
    with made_server(database, limits={"receiving": 50_000}) as server:
        for method, path in (("PUT", f"{BLOBS}/files/x/plan"), ("POST", "/state/a")):
            answer = server.send(method, path, body=b"x" * 60_000)
            assert (answer.status, answer.problem["code"]) == (503, "HF-STATE-56")
        assert server.send("PUT", f"{BLOBS}/files/x/plan", body=b"x" * 40_000).status == 200


def test_a_change_whose_stacks_are_not_selected_yet_is_not_for_everyone(server: MadeServer) -> None:
    """Its patterns may match stacks that a token does not cover; a filter may match any."""
    ann, dev = server.token(Role.OPERATOR, name="ann"), server.token(Role.OPERATOR, name="dev", **DEV)

    def submit(token: str, *stacks: str) -> str:
        upload = server.send("POST", "/api/v1/uploads", body=gzip.compress(b"an archive"), token=token)
        wanted = {"stacks": stacks, "operation": "plan", "source": {"upload": upload.document["id"]}}
        return str(server.send("POST", CHANGES, wanted, token=token).document["id"])

    for stacks in (("prod/*",), ("env:dev",), ("dev/*", "prod/*")):
        change = f"{CHANGES}/{submit(ann, *stacks)}"
        assert server.send("GET", change, token=ann).status == 200
        assert server.send("GET", change, token=dev).status == 404
        assert server.send("GET", f"{change}/checks", token=dev).status == 404
        assert server.send("POST", f"{change}/cancel", {}, token=dev).status == 404
        assert server.send("GET", change, token=ann).document["phase"] == "queued"
    assert server.send("GET", f"{CHANGES}/{submit(ann, 'dev/*')}", token=dev).status == 200
    own = f"{CHANGES}/{submit(dev, 'env:dev')}"
    assert server.send("POST", f"{own}/cancel", {}, token=dev).status == 202


def test_a_limited_admin_gives_no_webhook_and_no_code_to_other_stacks(server: MadeServer) -> None:
    """A webhook lets people apply, so it covers no more than who sets it. A repository is for all stacks."""
    limited = server.token(Role.ADMIN, name="dev", **DEV)
    repository = {"name": "infra", "url": "https://git.example/infra"}
    assert server.send("POST", REPOSITORIES, repository, token=limited).status == 403
    added = server.send("POST", REPOSITORIES, repository).document
    assert server.send("DELETE", f"{REPOSITORIES}/{added['id']}", token=limited).status == 403

    def set_webhook(token: str, **settings: Any) -> int:
        document = {"project": "acme/infra", "token": "t", **settings}
        return server.send("PUT", f"{REPOSITORIES}/infra/webhook", document, token=token).status

    assert set_webhook(limited) == set_webhook(limited, stacks=["dev/*", "prod/net"]) == 403
    assert set_webhook(limited, stacks=["dev/*"]) == 200
    assert set_webhook(server.admin) == 200
    assert set_webhook(limited, stacks=["dev/*"]) == 403
    assert server.send("DELETE", f"{REPOSITORIES}/infra/webhook", token=limited).status == 403
    assert server.send("GET", f"{REPOSITORIES}/infra/webhook").document["stacks"] == ["*"]


def test_alerts_of_commands_are_for_tokens_of_all_stacks(server: MadeServer) -> None:
    """Their outbox is about any stack, and says where the messages are that a channel changes."""
    outbox = f"{BLOBS}/notify/example.com"
    limited, viewer = server.token(Role.OPERATOR, **DEV), server.token(Role.VIEWER)
    for token in (limited, viewer):
        assert server.send("GET", outbox, token=token).status == 403
        assert server.send("PUT", outbox, body=b"{}", token=token).status == 403
    assert server.send("GET", outbox, token=server.token(Role.OPERATOR)).status == 404
