"""E-mail, as plain text. Messages about one alert are one thread: they refer to the first one."""

from __future__ import annotations

from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final

from holdfast.config.notify import EmailSettings
from holdfast.kernel.text import cut
from holdfast.notify.alerts.notice import Notice, fingerprint
from holdfast.notify.channels.interface import Access, ChannelError, ChannelKind, Sent, secret_text
from holdfast.system import smtp
from holdfast.system.smtp import SmtpError

_SUBJECT: Final = 200


def message_of(notice: Notice, settings: EmailSettings, *, reply: bool) -> EmailMessage:
    domain = settings.from_.rpartition("@")[2]
    first = f"<{notice.id}@{domain}>"
    message = EmailMessage()
    message["From"] = settings.from_
    message["To"] = ", ".join(settings.to)
    message["Subject"] = cut(f"[{notice.severity}] {notice.headline}", _SUBJECT)
    # The same in every attempt, and another one for what is new.
    message["Message-ID"] = f"<{notice.id}.{fingerprint(notice)[:12]}@{domain}>" if reply else first
    if reply:
        message["In-Reply-To"] = first
        message["References"] = first
    message["Date"] = format_datetime(notice.until or notice.since)
    message["Auto-Submitted"] = "auto-generated"
    parts = (
        notice.headline,
        "\n".join((*(f"{name}: {value}" for name, value in notice.facts), notice.times)),
        "\n".join(notice.lines),
        f"Next: {notice.next_step}" if notice.next_step else "",
        notice.link or "",
    )
    message.set_content("\n\n".join(filter(None, parts)) + "\n")
    return message


class Email:
    def __init__(self, settings: EmailSettings, access: Access) -> None:
        self._settings, self._access = settings, access

    def send(self, notice: Notice, handle: str | None, *, again: bool) -> Sent:  # noqa: ARG002 - by Message-ID
        settings = self._settings
        login = None
        if settings.user is not None and settings.password is not None:
            login = (settings.user, secret_text(self._access, settings.password))
        message = message_of(notice, settings, reply=handle is not None)
        try:
            answer = smtp.send(
                message,
                host=settings.host,
                port=settings.port,
                immediate_tls=settings.tls == "on",
                login=login,
                environment=self._access.environment,
                seconds=self._access.seconds,
            )
        except SmtpError as error:
            raise ChannelError(error.reason, final=error.final) from None
        return Sent(answer=answer, handle=handle or notice.id)


EMAIL: Final = ChannelKind(name="email", title="E-mail", open=Email)
