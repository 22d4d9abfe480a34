"""The only SMTP client: one message over TLS whose certificate is verified, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.system.environment import Environment
from holdfast.system.http import HttpError, tls_context

if TYPE_CHECKING:
    import smtplib
    from email.message import EmailMessage

_PERMANENT: Final = 500


class SmtpError(Exception):
    """The message was not accepted. Contains no address, password or content."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final
        """A retry would fail too."""


def send(
    message: EmailMessage,
    *,
    host: str,
    port: int,
    immediate_tls: bool,
    login: tuple[str, str] | None,
    environment: Environment,
    seconds: float,
) -> str:
    """What the server answered. With some of the recipients it is sent: the others would get it again."""
    import smtplib  # noqa: PLC0415 - only for a message

    try:
        with _connect(host, port, immediate_tls, environment, seconds) as client:
            if login is not None:
                client.login(*login)
            refused = client.send_message(message)
    except smtplib.SMTPAuthenticationError as error:
        raise SmtpError(f"the server refused the login ({error.smtp_code})", final=True) from None
    except smtplib.SMTPNotSupportedError:
        raise SmtpError("the server does not offer what is needed: TLS or a login", final=True) from None
    except smtplib.SMTPRecipientsRefused as error:
        codes = sorted({code for code, _ in error.recipients.values()})
        raise SmtpError(
            f"the server refused the recipients ({', '.join(map(str, codes))})",
            final=all(code >= _PERMANENT for code in codes),
        ) from None
    except smtplib.SMTPResponseException as error:
        final = error.smtp_code >= _PERMANENT
        raise SmtpError(f"the server answered {error.smtp_code}", final=final) from None
    except HttpError as error:
        raise SmtpError(error.reason, final=True) from None
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise SmtpError(_reason(error)) from None
    left_out = f", but not for {len(refused)} of the recipients" if refused else ""
    return f"the server accepted the message{left_out}"


def _connect(
    host: str,
    port: int,
    immediate_tls: bool,  # noqa: FBT001
    environment: Environment,
    seconds: float,
) -> smtplib.SMTP:
    import smtplib  # noqa: PLC0415

    context = tls_context(host, environment)
    if immediate_tls:
        return smtplib.SMTP_SSL(host, port, timeout=seconds, context=context)
    client = smtplib.SMTP(host, port, timeout=seconds)
    try:
        client.starttls(context=context)
        client.ehlo()
    except BaseException:
        client.close()
        raise
    return client


def _reason(error: Exception) -> str:
    import ssl  # noqa: PLC0415

    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case ssl.SSLError():
            return "TLS failed"
        case TimeoutError():
            return "no response in time"
        case OSError() if error.strerror:
            return error.strerror
        case _:
            return type(error).__name__
