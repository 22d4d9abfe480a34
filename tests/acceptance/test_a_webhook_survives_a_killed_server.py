"""`holdfast serve` as a process sends what waited when it was killed, to a receiver that was down."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from program import Program, eventually
from webhook_receiver import Receiver

from holdfast.system import environment, http

PAGE = Path(__file__).parent.parent.parent / "docs/outgoing-webhooks.md"


class Client:
    """An admin of the server."""

    def __init__(self, url: str, data: Path) -> None:
        self._url = f"{url}/api/v1/webhooks"
        token = (data / "admin-token").read_text().strip()
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def send(self, method: str, path: str = "", document: object = None) -> Any:
        body = json.dumps(document).encode() if document is not None else None
        answer = http.request(
            method, self._url + path, environment=environment.read(), headers=self._headers, body=body
        )
        assert answer.status < 300, answer.body
        return json.loads(answer.body)


@pytest.mark.long
def test_a_webhook_survives_a_killed_server(holdfast: Program, tmp_path: Path) -> None:
    """The delivery has the same id, and the code of the documentation finds its signature genuine."""
    config, data = tmp_path / "server.yaml", tmp_path / "data"
    config.write_text("version: 1\nwebhooks: {private_addresses: [127.0.0.1]}\n")
    arguments = ("serve", "--listen", "127.0.0.1:0", "--data", str(data), "--config", str(config))

    with Receiver() as unused:
        port = unused.port
    process = holdfast.start(*arguments, "--workers", "0")
    try:
        assert process.stdout is not None
        client = Client(process.stdout.readline().split()[-1], data)
        given = {"url": f"http://127.0.0.1:{port}/hook", "events": ["event.*"]}
        webhook = client.send("POST", document=given)
        delivery = client.send("POST", f"/{webhook['id']}/test")
        listed = f"/{webhook['id']}/deliveries"
        eventually(lambda: client.send("GET", listed)["deliveries"][0]["error"] is not None, what="a failure")
    finally:
        process.kill()
        process.communicate()

    process = holdfast.start(*arguments, "--workers", "0")
    try:
        assert process.stdout is not None
        client = Client(process.stdout.readline().split()[-1], data)
        with Receiver(port=port) as receiver:
            # Without requests until then: each is a line of the log, which is read at the end.
            eventually(lambda: receiver.asked != [], what="a request")
            arrived = f"{listed}?state=delivered"
            eventually(lambda: client.send("GET", arrived)["deliveries"] != [], what="a delivery")
        process.terminate()
        _, err = process.communicate(timeout=30)
        assert (process.returncode, "Traceback" in err) == (0, False)
    finally:
        process.kill()

    (asked,) = receiver.asked
    assert asked.headers["webhook-id"] == delivery["id"]
    code = re.search(r"```python\n(.+?)```", PAGE.read_text(), re.DOTALL)
    assert code is not None
    documented: dict[str, Any] = {}
    exec(code[1], documented)  # noqa: S102 - our own page
    assert documented["is_genuine"](asked.headers, asked.body, webhook["secret"])
    assert not documented["is_genuine"](asked.headers, asked.body + b" ", webhook["secret"])
