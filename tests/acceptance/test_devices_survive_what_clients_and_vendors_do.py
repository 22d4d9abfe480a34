"""Devices on a real server with a real vendor's service: approvals, failures, vanished devices, secrets and
payloads that look like code. One server for all of it: to start one takes seconds.
"""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from blueprints_made import make_blueprint
from fleet_made import Answer, EventClient, fleet_of
from lab_stacks import lab_module
from program import Program, eventually
from psycopg.sql import SQL, Identifier
from webhook_receiver import Receiver, is_signed

from holdfast.database.database import Database
from holdfast.database.postgres import Cluster
from provider.service import LabService

CODE = lab_module("""
variable "name" {
  type = string
}
variable "texts" {
  type    = list(string)
  default = []
}
variable "kind" {
  type    = string
  default = ""
}
variable "psk" {
  type      = string
  sensitive = true
  default   = ""
}
resource "lab_object" "site" {
  name   = var.name
  body   = join("|", var.texts)
  kind   = var.kind
  secret = var.psk
}
output "id" {
  value = lab_object.site.id
}
output "texts" {
  value = var.texts
}
output "psk" {
  value     = var.psk
  sensitive = true
}
""")
SETTINGS = """
name: {name}
version: 1.0.0
outputs: [id, texts, psk]
deletion: {deletion}
vanished: {vanished}
retries: {{ attempts: 1, wait: 0s }}
env: {{ LAB_URL: "{url}" }}
"""
HUSH = "hush-4711-of-the-tunnel"
LITERALS = (
    '${file("/etc/passwd")}',
    "%{ for x in [1] }x%{ endfor }",
    '"}\nresource "lab_object" "evil" { name = "evil" }\n{"',
    "\\\" ${var.psk} $${x} 'quoted' \t",
    "\u202egro.elpmaxe \U0001f600 Ωλ",
    "x" * 300_000,
)


@contextmanager
def served(program: Program, folder: Path, lab: LabService) -> Iterator[EventClient]:
    """The admin of a server with two blueprints: `open` and `strict`."""
    for name, deletion, vanished in (("open", "allow", "recreate"), ("strict", "approve", "report")):
        settings = SETTINGS.format(name=name, deletion=deletion, vanished=vanished, url=lab.url)
        make_blueprint(folder / "blueprints" / name, settings=settings, code=CODE)
    (folder / "data").mkdir()
    (folder / "data" / "server.yaml").write_text("version: 1\nwebhooks: {private_addresses: [127.0.0.0/8]}\n")
    with fleet_of(program, folder, folder / "blueprints") as admin:
        yield admin


def succeeded(answer: Answer) -> Any:
    assert (answer.status, answer.body["status"]) == (200, "succeeded"), answer.body
    return answer.body


def test_devices_survive_what_clients_and_vendors_do(with_lab: Program, tmp_path: Path) -> None:
    with LabService() as lab, Receiver() as receiver, ThreadPoolExecutor(1) as pool:
        with served(with_lab, tmp_path, lab) as admin:
            created = admin.request(
                "POST",
                "/api/v1/webhooks",
                {"url": receiver.url, "events": ["event.succeeded", "event.failed"]},
            )
            assert created.status == 201, created.body
            client = admin.as_role("operator", "client")
            approver = admin.as_role("approver", "bob")
            take_text_literally(client, lab)
            keep_secrets(client, admin)
            stop_for_approvals(client, approver)
            keep_failures_apart(client, lab)
            notice_what_vanished(client, lab)
            delete_as_the_blueprint_says(client, approver, admin, lab)
            require_webhooks(receiver, created.body["secret"])
            refuse_a_revoked_token(admin, approver)
            require_no_plaintext(tmp_path / "data")
            answer = wait_while_it_stops(client, pool)
        assert answer.done(), "it stopped without an answer"
        stopped = answer.result()
        assert (stopped.status, stopped.body["status"]) == (202, "queued")
    output = (tmp_path / "data").rglob("*.log")
    assert not any(HUSH in file.read_text(errors="replace") for file in output)


def take_text_literally(client: EventClient, lab: LabService) -> None:
    """What looks like code is a value, in the vendor's service, too."""
    payload = {"name": "text", "texts": LITERALS}
    done = succeeded(client.submit("create", "text", payload, blueprint="open"))
    assert done["outputs"]["texts"] == list(LITERALS)
    (site,) = lab.objects().values()
    assert site["body"] == "|".join(LITERALS)
    for wrong in ("\u0000", "e\u0301", "\ud800", "x" * 1_000_001):
        refused = client.submit("update", "text", {"name": "text", "texts": [wrong]}, blueprint="open")
        assert refused.status in (400, 413, 422), refused


def keep_secrets(client: EventClient, admin: EventClient) -> None:
    """A sensitive output is null; the value is in no document, log or audit log."""
    payload = {"name": "secret", "psk": HUSH}
    done = succeeded(client.submit("create", "secret", payload, blueprint="open", reason="a tunnel"))
    assert done["outputs"]["psk"] is None
    failed = client.submit("update", "secret", {**payload, "kind": "fail-update"}, blueprint="open").body
    assert (failed["status"], failed["attempts"]) == ("failed", 2)
    again = succeeded(client.submit("update", "secret", payload, blueprint="open"))
    paths = [
        f"/api/v1/events/{event['id']}{part}" for event in (done, failed, again) for part in ("", "/log")
    ]
    for path in (*paths, "/api/v1/events", "/api/v1/devices", "/api/v1/audit", "/api/v1/runs"):
        answer = admin.request("GET", path)
        assert answer.status == 200, (path, answer)
        assert HUSH not in json.dumps(answer.body), path
    lines = list(stream(client, f"/api/v1/events/{done['id']}/log"))
    assert lines[-1] == "event: end"
    assert any(line.startswith("data: ") and "applying" in line for line in lines), lines
    assert not any(HUSH in line for line in lines)


def stream(client: EventClient, path: str) -> Iterator[str]:
    """What a client that follows the log gets, until its end."""
    parts = urlsplit(client.url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    fields = {"authorization": f"Bearer {client.token}", "accept": "text/event-stream"}
    connection.request("GET", path, headers=fields)
    with connection.getresponse() as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer:
            yield line.decode().rstrip("\r\n")
            if line.startswith(b"event: end"):
                break
    connection.close()


def stop_for_approvals(client: EventClient, approver: EventClient) -> None:
    """Only the plan that was shown is applied, and only if another person approves it."""
    asked = client.submit("create", "asked", {"name": "asked"}, blueprint="open", requires_approval=True)
    assert (asked.status, asked.body["status"], asked.body["outputs"]) == (200, "waiting", None)
    event, plan = asked.body["id"], asked.body["plan"]
    assert plan["changes"]["create"] == 1
    assert plan["resources"][0]["address"] == "lab_object.site"
    assert client.act(event, "approve").status == 403
    assert approver.act(event, "approve", digest="0" * 64).status == 409
    later = client.submit("update", "asked", {"name": "later"}, blueprint="open", wait=0).body
    assert approver.act(event, "approve", digest=plan["digest"], reason="fine").status == 200
    assert client.ended(event)["status"] == "succeeded"
    assert client.ended(later["id"])["outputs"]["id"] == client.ended(event)["outputs"]["id"]
    again = client.submit("update", "asked", {"name": "no"}, blueprint="open", requires_approval=True).body
    assert approver.act(again["id"], "reject", digest=again["plan"]["digest"]).status == 422
    assert approver.act(again["id"], "reject", reason="not now").status == 422
    rejected = approver.act(again["id"], "reject", digest=again["plan"]["digest"], reason="not now")
    assert rejected.status == 200
    assert client.ended(again["id"])["status"] == "cancelled"
    back = client.act(later["id"], "rollback").body
    waiting = client.ended(back["id"])
    assert waiting["status"] == "waiting", "as the event whose payload it has"
    approver.act(back["id"], "approve", digest=waiting["plan"]["digest"])
    assert client.ended(back["id"])["status"] == "succeeded"


def keep_failures_apart(client: EventClient, lab: LabService) -> None:
    """A device that fails is tried again, then waits in the list of dead letters; others go on."""
    before = len(lab.calls("create"))
    failed = client.submit("create", "broken", {"name": "broken", "kind": "fail-create"}, blueprint="open")
    assert (failed.body["status"], failed.body["attempts"]) == ("failed", 2)
    assert failed.body["error"]["code"]
    assert len(lab.calls("create")) - before <= 2
    succeeded(client.submit("create", "sound", {"name": "sound"}, blueprint="open"))
    dead = client.request("GET", "/api/v1/events?dead_letters=true").body["events"]
    assert [event["id"] for event in dead] == [failed.body["id"]]
    succeeded(client.submit("delete", "broken", blueprint="open"))
    assert client.request("GET", "/api/v1/events?dead_letters=true").body["events"] == []


def notice_what_vanished(client: EventClient, lab: LabService) -> None:
    """Created again, or reported: as the blueprint says."""
    payload = {"name": "gone"}
    for blueprint in ("open", "strict"):
        done = succeeded(client.submit("create", "gone", payload, blueprint=blueprint))
        lab.remove(done["outputs"]["id"])
    again = succeeded(client.submit("update", "gone", payload, blueprint="open"))
    assert again["outputs"]["id"] in lab.objects()
    reported = client.submit("update", "gone", payload, blueprint="strict").body
    assert (reported["status"], reported["error"]["code"]) == ("failed", "HF-EVENT-12"), reported


def delete_as_the_blueprint_says(
    client: EventClient, approver: EventClient, admin: EventClient, lab: LabService
) -> None:
    """`allow`: at once, recorded as an override. `approve`: after an approval. Nothing is left."""
    kept = succeeded(client.submit("create", "kept", {"name": "kept"}, blueprint="strict"))
    asked = client.submit("delete", "kept", blueprint="strict").body
    assert asked["status"] == "waiting", asked
    assert kept["outputs"]["id"] in lab.objects()
    decided = approver.act(asked["id"], "approve", digest=asked["plan"]["digest"])
    assert decided.status == 200, decided.body
    assert client.ended(asked["id"])["status"] == "succeeded"
    deleted = succeeded(client.submit("delete", "sound", blueprint="open"))
    assert {"kept", "sound"}.isdisjoint(item["name"] for item in lab.objects().values())
    entries = admin.request("GET", "/api/v1/audit?limit=200").body["entries"]
    mine = [entry for entry in entries if entry.get("stack") == "fleet/default/open/sound"]
    assert any(deleted["id"] in json.dumps(entry) for entry in mine), mine
    assert any(entry["what"] == "destroy" for entry in mine), mine


def require_webhooks(receiver: Receiver, secret: str) -> None:
    """Signed, with the event and its outputs, for each that ended so."""
    eventually(lambda: len(receiver.asked) >= 10, what="the webhooks")
    assert all(is_signed(asked, secret) for asked in receiver.asked)
    assert {document["type"] for document in receiver.documents} == {"event.succeeded", "event.failed"}
    assert len({document["data"]["id"] for document in receiver.documents}) == len(receiver.asked)
    assert HUSH not in json.dumps(receiver.documents)


def refuse_a_revoked_token(admin: EventClient, approver: EventClient) -> None:
    """What waits for an approval is not done for a client whose token was revoked; its event says so."""
    made = admin.request("POST", "/api/v1/tokens", {"role": "operator", "name": "gone", "tenant": "default"})
    event = EventClient(admin.url, made.body["token"]).submit(
        "create", "revoked", {"name": "revoked"}, blueprint="open", requires_approval=True
    )
    assert event.body["status"] == "waiting"
    assert admin.request("DELETE", f"/api/v1/tokens/{made.body['id']}").status in (200, 204)
    approver.act(event.body["id"], "approve", digest=event.body["plan"]["digest"])
    ended = approver.ended(event.body["id"])
    assert (ended["status"], ended["error"]["code"]) == ("failed", "HF-RUN-31")


def wait_while_it_stops(client: EventClient, pool: ThreadPoolExecutor) -> Any:
    """A client that waits for an event when the server stops is told where to ask later."""
    waits = client.submit("create", "waits", {"name": "waits"}, blueprint="open", requires_approval=True)
    assert waits.body["status"] == "waiting"
    answer = pool.submit(client.submit, "update", "waits", {"name": "w"}, blueprint="open", wait=300)
    eventually(
        lambda: len(client.request("GET", "/api/v1/events?resource_id=waits").body["events"]) == 2,
        what="the update",
    )
    return answer


def require_no_plaintext(data: Path) -> None:
    """Neither in a row nor in a blob."""
    forms = (HUSH.encode(), base64.b64encode(HUSH.encode())[:-4])
    with Database.open(Cluster(data).address(), size=1) as database, database.transaction() as connection:
        tables = connection.execute(
            "select tablename from pg_tables where schemaname = current_schema()"
        ).fetchall()
        for (table,) in tables:
            rows = connection.execute(SQL("select t::text from {} t").format(Identifier(table))).fetchall()
            text = "\n".join(str(row) for (row,) in rows).encode()
            assert not any(form in text or form.hex().encode() in text for form in forms), table
