"""`holdfast webhooks`: an admin adds a webhook, tries it, finds what did not arrive and sends it again."""

from __future__ import annotations

from pathlib import Path

from fleet_commands import Commands
from fleet_made import EventClient
from program import Program, eventually
from webhook_receiver import Receiver, is_signed


def test_webhooks_have_commands(holdfast: Program, tmp_path: Path) -> None:
    """The secret is shown once, and a mistake is an error with its field."""
    config, data = tmp_path / "server.yaml", tmp_path / "data"
    config.write_text("version: 1\nwebhooks: {private_addresses: [127.0.0.1]}\n")
    words = ("serve", "--listen", "127.0.0.1:0", "--data", str(data), "--config", str(config))
    process = holdfast.start(*words, "--workers", "0")
    try:
        assert process.stdout is not None
        admin = EventClient(process.stdout.readline().split()[-1], (data / "admin-token").read_text().strip())
        mine = Commands(holdfast, admin)
        with Receiver() as receiver:
            added = mine.ok("webhooks", "add", f"http://127.0.0.1:{receiver.port}/hook")
            secret = added.out.strip()
            assert secret.startswith("whsec_")
            (webhook,) = mine.json("webhooks", "list")["webhooks"]
            assert (webhook["events"], webhook["secret"]) == (["event.*"], None)
            assert secret not in mine.ok("webhooks", "list").out
            assert f"Try it: holdfast webhooks test {webhook['id']}" in added.err
            mine.ok("webhooks", "test", webhook["id"])
            eventually(lambda: receiver.asked != [], what="a request")
            assert is_signed(receiver.asked[0], secret)
        sent = mine.json("webhooks", "test", webhook["id"])
        listed = ("webhooks", "deliveries", webhook["id"])
        eventually(lambda: mine.json(*listed)["deliveries"][0]["error"] is not None, what="a failure")
        shown = mine.ok(*listed, "--state", "pending").out
        assert f" {sent['id']}  webhook.test of " in shown
        assert "pending after 1 attempt, Connection refused, next 20" in shown
        assert mine.json("webhooks", "retry", webhook["id"], sent["id"])["state"] == "pending"
        assert "HF-WEBHOOK-6" in mine.ok("webhooks", "test", "nothing", code=64).err
        wrong = mine.ok("webhooks", "add", "ftp://x", "--event", "no", code=64).err
        assert "`url`: must be an address" in wrong
        assert "`events/0`: must be one of" in wrong
        viewer = Commands(holdfast, admin.as_role("operator", "eve"))
        assert "HF-TOK-2" in viewer.ok("webhooks", "list", code=3).err
        mine.ok("webhooks", "remove", webhook["id"], code=64)
        mine.ok("webhooks", "remove", webhook["id"], "--yes")
        assert mine.ok("webhooks", "list").out == " 0 webhooks\n"
    finally:
        process.kill()
        process.communicate()
