"""Approvals count people: nobody becomes two, or becomes somebody else, by what the environment claims."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from people_made import approve_elsewhere, use_known_key
from program import Program

JOB = {
    "CI": "true",
    "GITHUB_ACTIONS": "true",
    "GITHUB_ACTOR": "bob",
    "GITHUB_REPOSITORY": "acme/infra",
    "GITHUB_RUN_ID": "77",
    "GITHUB_RUN_ATTEMPT": "1",
}


def configure(program: Program, approvals: str) -> None:
    program.write(
        "holdfast.yaml",
        f"""
        version: 1
        environments: {{ dev: {{ match: [dev] }} }}
        stacks:
          - {{ name: db, module: db, environment: dev }}
        guard: {{ approvals: {approvals} }}
        engine: {{ use: embedded }}
        store: .holdfast
        """,
    )
    program.write("db/main.tf", 'resource "terraform_data" "it" {}\n')


@pytest.fixture
def token_server() -> Iterator[str]:
    """An address that a job can name instead of GitHub's: its token says what the job likes."""

    def part(document: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            claims = {
                "iss": "https://token.actions.githubusercontent.com",
                "aud": self.path.rpartition("audience=")[2],
                "exp": 4_000_000_000,
                "actor": "eve",
                "repository": "acme/infra",
                "run_id": "77",
                "run_attempt": "1",
            }
            token = f"{part({'alg': 'none', 'kid': 'k'})}.{part(claims)}.{part('x')}"
            body = json.dumps({"value": token, "keys": []}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/token?api-version=2.0"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_user_of_a_machine_counts_once_and_proves_nothing(
    holdfast: Program, tmp_path: Path, token_server: str
) -> None:
    """Other names, another CI, a token from an address of the job's choice: still one, and unverified."""
    use_known_key(holdfast)
    configure(holdfast, "2")
    bundle = tmp_path / "bundle"
    planned = holdfast.results("plan", "--out", str(bundle), code=5)["db"]
    token = {
        "ACTIONS_ID_TOKEN_REQUEST_URL": token_server,
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "mine",
        "https_proxy": "http://127.0.0.1:9",
    }
    claims: tuple[dict[str, str], ...] = (
        {},
        {"USER": "bob", "LOGNAME": "bob", "SUDO_USER": "bob", "SUDO_UID": "4711"},
        {"CI": "true"},
        JOB,
        {**JOB, "GITHUB_ACTOR": "eve", "GITHUB_RUN_ID": "78"},
        {**JOB, **token},
    )
    for claimed in claims:
        holdfast.ok("runs", "approve", planned["run"], "--reason", "it is me", env=claimed)
    waiting = holdfast.ok("apply", "--plan", str(bundle), code=5)
    assert "1 approval is missing" in waiting.text
    acts = [entry for entry in holdfast.json("audit", "show")["entries"] if entry["what"] == "approve"]
    assert [entry["who"]["verified"] for entry in acts] == [False] * len(claims)
    assert len({(entry["who"]["machine"], entry["who"]["uid"]) for entry in acts}) == 1
    approve_elsewhere(holdfast, planned["run"], planned["digest"], name="eve")
    assert holdfast.results("apply", "--plan", str(bundle))["db"]["status"] == "applied"


def test_where_proof_is_needed_other_approvals_do_not_count(holdfast: Program, tmp_path: Path) -> None:
    """However many there are; each says so when it is given, and only verified ones are counted."""
    use_known_key(holdfast)
    configure(holdfast, "{ count: 1, verified: true }")
    bundle = tmp_path / "bundle"
    planned = holdfast.results("plan", "--out", str(bundle), code=5)["db"]
    assert planned["guard"]["reasons"][0]["message"] == "changes to dev need a verified approval"
    approved = holdfast.json("runs", "approve", planned["run"], "--reason", "mine", env=JOB)
    assert any(note.startswith("this approval does not count") for note in approved["notes"])
    approve_elsewhere(holdfast, planned["run"], planned["digest"], name="bob")
    waiting = holdfast.ok("apply", "--plan", str(bundle), code=5)
    assert "1 verified approval is missing" in waiting.text
    approve_elsewhere(holdfast, planned["run"], planned["digest"], name="eve", verified=True)
    assert holdfast.results("apply", "--plan", str(bundle))["db"]["status"] == "applied"
