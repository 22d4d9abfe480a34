"""The services that alerts are sent to, on loopback: each speaks its vendor's API, with limits and errors.

What they check is in the vendors' documentation: sizes, required fields, who may send, how a repeated request
is recognised. Each says what its users would see: how many alerts are open, and all texts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from answering import Answer, Answering, Asked, told
from webhook_receiver import is_signed

SLACK_TOKEN = "xoxb-1234567890-canary"
ROUTING_KEY = "0123456789abcdef0123456789abcdef"
GENIE_KEY = "11111111-2222-3333-4444-555555555555"
GITHUB_TOKEN = "ghp_" + "A1b2" * 9
WHSEC = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
HOOK_PATH = "/services/T0001/B0001/canaryXXXXXXXXXXXXXXXXXX"
FLOW_QUERY = "api-version=1&sig=canary-signature-of-the-flow"


@dataclass
class Item:
    """A message, alert, incident or issue."""

    texts: list[str] = field(default_factory=list)
    open: bool = True
    opened: int = 1
    """How often it was asked for: a repeated request opens no second one."""


class Service:
    """`next_` answers come before the service's own; `lose`: it acts, and the answer is a 502."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.next_: list[Answer] = []
        self.lose = 0
        self._lock = threading.Lock()
        self.http = Answering(self._serve)

    @property
    def url(self) -> str:
        return self.http.url

    @property
    def open(self) -> list[str]:
        return [id_ for id_, item in self.items.items() if item.open]

    @property
    def texts(self) -> list[str]:
        return [text for item in self.items.values() for text in item.texts]

    @property
    def raw(self) -> str:
        """Everything that was received, except where the credentials belong."""
        return "\n".join(asked.body.decode() for asked in self.http.asked)

    def _serve(self, asked: Asked) -> Answer:
        with self._lock:
            if self.next_:
                return self.next_.pop(0)
            answer = self.handle(asked, json.loads(asked.body) if asked.body else None)
            if self.lose:
                self.lose -= 1
                return Answer(status=502)
            return answer

    def handle(self, asked: Asked, body: Any) -> Answer:
        raise NotImplementedError


def _texts_of(value: Any) -> list[str]:
    """Every text of a document, wherever it is."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for part in value.values() for text in _texts_of(part)]
        case list():
            return [text for part in value for text in _texts_of(part)]
        case _:
            return []


class Slack(Service):
    """`chat.postMessage` and `chat.update` answer 200 with `ok`; an incoming webhook answers `ok` as text."""

    channel = "C0123456789"

    def handle(self, asked: Asked, body: Any) -> Answer:  # noqa: PLR0911 - an answer each
        wrong = self._wrong(body)
        if asked.path == HOOK_PATH:
            if wrong:
                return Answer(status=400, body=wrong.encode())
            self._post(f"hook-{len(self.items)}", body)
            return Answer(body=b"ok")
        if not asked.path.startswith("/api/"):
            return Answer(status=404, body=b"no_service")
        if asked.headers.get("authorization") != f"Bearer {SLACK_TOKEN}":
            return told({"ok": False, "error": "invalid_auth"})
        if body.get("channel") != self.channel:
            return told({"ok": False, "error": "channel_not_found"})
        if wrong:
            return told({"ok": False, "error": wrong})
        if asked.path == "/api/chat.postMessage":
            ts = f"1700000000.{len(self.items):06}"
            self._post(ts, body)
            return told({"ok": True, "channel": self.channel, "ts": ts})
        if body["ts"] not in self.items:
            return told({"ok": False, "error": "message_not_found"})
        self._post(body["ts"], body)
        return told({"ok": True, "channel": self.channel, "ts": body["ts"]})

    def _post(self, ts: str, body: Any) -> None:
        item = self.items.setdefault(ts, Item())
        text = "\n".join(_texts_of(body["blocks"]))
        item.texts.append(text)
        item.open = "Resolved:" not in text and "Test:" not in text

    def _wrong(self, body: Any) -> str | None:
        blocks = body.get("blocks", [])
        if len(blocks) > 50 or not body.get("text"):
            return "invalid_blocks"
        for block in blocks:
            texts = [block["text"]] if "text" in block else block["elements"]
            limit = {"header": 150, "section": 3000, "context": 3000}[block["type"]]
            if any(not text["text"] or len(text["text"]) > limit for text in texts):
                return "invalid_blocks"
            if block["type"] == "header" and texts[0]["type"] != "plain_text":
                return "invalid_blocks"
        if sum(len(text) for text in _texts_of(blocks)) > 13_200:
            return "msg_blocks_too_long"
        return None


class Teams(Service):
    """A workflow takes Adaptive Cards only, at most 28 KB, and answers 202 without a body."""

    def handle(self, asked: Asked, body: Any) -> Answer:
        if asked.query.get("sig") != "canary-signature-of-the-flow":
            return told({"error": {"code": "DirectApiAuthorizationRequired"}}, 401)
        if len(asked.body) > 28 * 1024:
            return told({"error": {"code": "RequestEntityTooLarge"}}, 413)
        (attachment,) = body["attachments"]
        card = attachment["content"]
        if (
            attachment["contentType"] != "application/vnd.microsoft.card.adaptive"
            or card["type"] != "AdaptiveCard"
        ):
            return told({"error": {"code": "BadRequest"}}, 400)
        text = "\n".join(run["text"] for block in card["body"] for run in block["inlines"])
        closed = "Resolved:" in text or "Test:" in text
        self.items[str(len(self.items))] = Item(texts=[text], open=not closed)
        return Answer(status=202)


class PagerDuty(Service):
    """Events API v2: `dedup_key` joins events of one incident."""

    def handle(self, asked: Asked, body: Any) -> Answer:  # noqa: C901 - a limit each
        errors = []
        if asked.path != "/v2/enqueue":
            return Answer(status=404)
        if body.get("routing_key") != ROUTING_KEY:
            errors.append("'routing_key' is invalid")
        if body.get("event_action") not in {"trigger", "acknowledge", "resolve"}:
            errors.append("'event_action' is invalid")
        if not 0 < len(body.get("dedup_key", "")) <= 255:
            errors.append("'dedup_key' is invalid")
        if body.get("event_action") == "trigger":
            payload = body.get("payload", {})
            if not 0 < len(payload.get("summary", "")) <= 1024 or not payload.get("source"):
                errors.append("'payload.summary' or 'payload.source' is invalid")
            if payload.get("severity") not in {"critical", "error", "warning", "info"}:
                errors.append("'payload.severity' is invalid")
        if len(asked.body) > 512 * 1024:
            return Answer(status=413)
        if errors:
            return told(
                {"status": "invalid event", "message": "Event object is invalid", "errors": errors}, 400
            )
        key = body["dedup_key"]
        if body["event_action"] == "trigger":
            item = self.items.setdefault(key, Item(opened=0))
            item.opened += 1
            item.open = True
            item.texts.append("\n".join(_texts_of(body["payload"])))
        elif key in self.items:
            self.items[key].open = False
        return told({"status": "success", "message": "Event processed", "dedup_key": key}, 202)


class Opsgenie(Service):
    """One open alert per alias. Requests are accepted with 202 and processed later."""

    prefix = ""

    def handle(self, asked: Asked, body: Any) -> Answer:  # noqa: PLR0911 - an answer each
        start = f"{self.prefix}/v2/alerts"
        if asked.headers.get("authorization") != f"GenieKey {GENIE_KEY}":
            return told({"message": "Key format is not valid!", "took": 0.0, "requestId": "r"}, 403)
        if not asked.path.startswith(start):
            return Answer(status=404)
        parts = asked.path.removeprefix(start).strip("/").split("/")
        accepted = told({"result": "Request will be processed", "took": 0.1, "requestId": "r"}, 202)
        if parts == [""]:
            limits = {"message": 130, "alias": 512, "description": 15_000, "entity": 512, "source": 100}
            if not body.get("message") or any(
                len(body.get(name, "")) > most for name, most in limits.items()
            ):
                return told({"message": "Request body is not processable"}, 422)
            if body["priority"] not in {"P1", "P2", "P3", "P4", "P5"} or len(body["tags"]) > 20:
                return told({"message": "Request body is not processable"}, 422)
            if not all(isinstance(value, str) for value in body["details"].values()):
                return told({"message": "Request body is not processable"}, 422)
            item = self.items.setdefault(body["alias"], Item(opened=0))
            item.opened += 1
            item.open = True
            item.texts.append(body["description"])
            return accepted
        alias, what = parts
        if asked.query.get("identifierType") != "alias" or alias not in self.items:
            return told({"message": "Alert does not exist"}, 404)
        if what == "close":
            self.items[alias].open = False
        elif what in {"message", "description", "priority"} and body.get(what):
            self.items[alias].texts.append(body[what])
        return accepted


class Jira(Opsgenie):
    prefix = "/jsm/ops/integration"


class GithubIssues(Service):
    """Issues of `acme/infra`: anyone may have opened others."""

    def __init__(self) -> None:
        super().__init__()
        self.issues: list[dict[str, Any]] = []
        self.comments: dict[int, list[str]] = {}

    @property
    def open(self) -> list[str]:
        return [str(issue["number"]) for issue in self.issues if issue["state"] == "open"]

    @property
    def texts(self) -> list[str]:
        comments = [text for of_issue in self.comments.values() for text in of_issue]
        return [f"{issue['title']}\n{issue['body']}" for issue in self.issues] + comments

    def handle(self, asked: Asked, body: Any) -> Answer:  # noqa: PLR0911 - an answer each
        if asked.headers.get("authorization") != f"Bearer {GITHUB_TOKEN}":
            return told({"message": "Bad credentials"}, 401)
        base = "/repos/acme/infra/issues"
        if not asked.path.startswith(base):
            return told({"message": "Not Found"}, 404)
        for text, most in ((body or {}).get("title", ""), 256), ((body or {}).get("body", ""), 65_536):
            if len(text) > most:
                return told({"message": "Validation Failed"}, 422)
        parts = asked.path.removeprefix(base).strip("/").split("/")
        match asked.method, parts:
            case "GET", [""]:
                size, page = int(asked.query["per_page"]), int(asked.query["page"])
                newest = list(reversed(self.issues))
                return told(newest[(page - 1) * size : page * size])
            case "POST", [""]:
                issue = {"number": len(self.issues) + 1, "state": "open", **body}
                self.issues.append(issue)
                return told(issue, 201)
            case "PATCH", [number]:
                self.issues[int(number) - 1].update(body)
                return told(self.issues[int(number) - 1])
            case "POST", [number, "comments"]:
                self.comments.setdefault(int(number), []).append(body["body"])
                return told({"id": 1}, 201)
            case "GET", [number, "comments"]:
                return told([{"body": text} for text in self.comments.get(int(number), [])])
        return Answer(status=404)


class SignedWebhook(Service):
    """A receiver by the Standard Webhooks specification: it recognises a repeated `webhook-id`."""

    def handle(self, asked: Asked, body: Any) -> Answer:
        if not is_signed(asked, WHSEC):
            return Answer(status=401)
        id_ = asked.headers["webhook-id"]
        if id_ in self.items:
            self.items[id_].opened += 1
            return Answer(status=204)
        data = body["data"]
        texts = ["\n".join(_texts_of(data))]
        closed = data["status"] in {"resolved", "test"}
        for item in self.items.values():
            if closed and item.texts and data["id"] in item.texts[0]:
                item.open = False
        again = body["type"] == "alert.updated"
        self.items[id_] = Item(texts=texts, open=not closed and not again)
        return Answer(status=204)


@dataclass(frozen=True, kw_only=True)
class Face:
    """How a service is configured, and what is secret."""

    name: str
    make: Callable[[], Service]
    settings: Callable[[Service], str]
    """As in holdfast.yaml, below the name of the channel."""
    secrets: Callable[[Service], dict[str, str]]
    """Variables of the environment."""
    updates: bool = True
    """It shows one item per alert, however often that changes."""
    deduplicates: bool = True
    """A repeated request opens nothing twice."""


FACES = (
    Face(
        name="slack-webhook",
        make=Slack,
        settings=lambda _: '{ slack: { webhook: { secret: "env:HOOK" } } }',
        secrets=lambda service: {"HOOK": f"{service.url}{HOOK_PATH}"},
        updates=False,
        deduplicates=False,
    ),
    Face(
        name="slack-bot",
        make=Slack,
        settings=lambda service: (
            f'{{ slack: {{ token: {{ secret: "env:BOT" }}, channel: {Slack.channel}, '
            f'url: "{service.url}/api" }} }}'
        ),
        secrets=lambda _: {"BOT": SLACK_TOKEN},
        deduplicates=False,
    ),
    Face(
        name="teams",
        make=Teams,
        settings=lambda _: '{ teams: { webhook: { secret: "env:FLOW" } } }',
        secrets=lambda service: {
            "FLOW": f"{service.url}/workflows/1/triggers/manual/paths/invoke?{FLOW_QUERY}"
        },
        updates=False,
        deduplicates=False,
    ),
    Face(
        name="pagerduty",
        make=PagerDuty,
        settings=lambda service: (
            f'{{ pagerduty: {{ routing_key: {{ secret: "env:ROUTING" }}, url: "{service.url}" }} }}'
        ),
        secrets=lambda _: {"ROUTING": ROUTING_KEY},
    ),
    Face(
        name="opsgenie",
        make=Opsgenie,
        settings=lambda service: (
            f'{{ opsgenie: {{ key: {{ secret: "env:GENIE" }}, url: "{service.url}" }} }}'
        ),
        secrets=lambda _: {"GENIE": GENIE_KEY},
    ),
    Face(
        name="jira",
        make=Jira,
        settings=lambda service: (
            f'{{ jira: {{ key: {{ secret: "env:GENIE" }}, url: "{service.url}{Jira.prefix}" }} }}'
        ),
        secrets=lambda _: {"GENIE": GENIE_KEY},
    ),
    Face(
        name="github",
        make=GithubIssues,
        settings=lambda service: (
            '{ github: { repository: acme/infra, labels: [alert], token: { secret: "env:GITHUB_ISSUES" }, '
            f'url: "{service.url}" }} }}'
        ),
        secrets=lambda _: {"GITHUB_ISSUES": GITHUB_TOKEN},
    ),
    Face(
        name="webhook",
        make=SignedWebhook,
        settings=lambda service: (
            f'{{ webhook: {{ url: "{service.url}/hook", key: {{ secret: "env:WHSEC" }} }} }}'
        ),
        secrets=lambda _: {"WHSEC": WHSEC},
    ),
)
