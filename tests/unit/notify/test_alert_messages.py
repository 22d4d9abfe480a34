"""What each channel sends about one alert, whole: read `alert_messages.txt` when it changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from alerts_made import START, made_alert, settings_of

from holdfast.notify.alerts.notice import Member, Notice, clean_notice, notice_of
from holdfast.notify.channels import console, email, github, opsgenie, pagerduty, slack, teams, webhook

EXPECTED = Path(__file__).with_name("alert_messages.txt")
MAIL = settings_of(
    '{ channels: { mail: { email: { host: smtp.example, from: "hf@example.com", to: "ops@example.com" } } } }'
).channels[0]
HOSTILE = "quota <!channel> @here [x](https://evil.example) <b>&amp;</b> `c`\n::error::\x1b[31m\u202e"


def shown(document: Any) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, default=str)


def messages(notice: Notice) -> Iterator[tuple[str, str]]:
    yield "console", "\n".join(console.lines_of(notice))
    assert MAIL.email is not None
    yield "email", email.message_of(notice, MAIL.email, reply=False).as_string()
    yield "github", f"{notice.title}\n{github.body_of(notice)}"
    yield "opsgenie", shown(opsgenie.alert_of(notice, ()))
    yield "pagerduty", shown(pagerduty.event_of(notice, "KEY", resolve=False))
    yield "slack", shown(slack.message_of(notice))
    yield "teams", shown(teams.message_of(notice))
    yield "webhook", shown(webhook.document_of(notice))


def test_every_message_is_as_people_reviewed_it() -> None:
    """Names and texts of a hostile author are quoted by each channel's own rules."""
    alert = made_alert(details=("HF-TF-1: aws_eip.a: quota exceeded", HOSTILE))
    notices = {
        "open": notice_of("01JD0000000000000000000000", [Member(alert=alert)]),
        "resolved": notice_of(
            "01JD0000000000000000000000", [Member(alert=alert, ended=START + timedelta(hours=1))]
        ),
    }
    text = "\n".join(
        f"=== {channel}, {state}\n{message}\n"
        for state, notice in notices.items()
        for channel, message in messages(clean_notice(notice, str))
        if state == "open" or channel in {"console", "slack"}
    )
    assert text == EXPECTED.read_text()
