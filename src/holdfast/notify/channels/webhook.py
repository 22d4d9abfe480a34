"""A webhook, signed by the Standard Webhooks specification."""

from __future__ import annotations

from typing import Any, Final

from holdfast.config.notify import WebhookSettings
from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import UsageError
from holdfast.notify.alerts.notice import Notice, fingerprint
from holdfast.notify.channels.interface import Access, ChannelKind, Sent, always, post, secret_text
from holdfast.notify.outgoing_webhooks import body_of, signed_headers


def document_of(notice: Notice) -> dict[str, Any]:
    return {
        "id": notice.id,
        "kind": notice.kind.value,
        "status": notice.status.lower(),
        "severity": notice.severity.value,
        "title": notice.title,
        **{
            name: dict(notice.facts).get(name.title())
            for name in ("stack", "environment", "target", "tenant", "run")
        },
        "details": notice.lines,
        "next_step": notice.next_step,
        "link": notice.link,
        "since": notice.since,
        "until": notice.until,
    }


def type_of(notice: Notice, handle: str | None) -> str:
    if notice.test:
        return "alert.test"
    if notice.resolved:
        return "alert.resolved"
    return "alert.opened" if handle is None else "alert.updated"


class Webhook:
    def __init__(self, settings: WebhookSettings, access: Access) -> None:
        self._settings, self._access = settings, access

    def send(self, notice: Notice, handle: str | None, *, again: bool) -> Sent:  # noqa: ARG002 - by `webhook-id`
        given = self._settings.url
        url = secret_text(self._access, given) if isinstance(given, SecretRef) else given
        secret = secret_text(self._access, self._settings.secret_key)
        body = body_of(type_of(notice, handle), notice.since, document_of(notice))
        # The same in every attempt, and another one for what is new.
        id_ = f"{notice.id}-{fingerprint(notice)[:12]}"
        try:
            headers = signed_headers(secret, id_, self._access.now(), body)
        except ValueError:
            raise UsageError(
                "HF-NOTIFY-2",
                "the key of a signed webhook is not `whsec_` followed by base64",
                hint="Create one: echo whsec_$(openssl rand -base64 32)",
            ) from None
        answer = post(self._access, "POST", url, data=body, headers=headers)
        return Sent(answer=str(answer.status), handle=notice.id)


WEBHOOK: Final = ChannelKind(name="webhook", title="Signed webhook", in_place=always, open=Webhook)
