"""The log of the server, with uvicorn's messages."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

from holdfast.server.edge import CLIENT, Log


def configure_log() -> Log:
    """JSON lines on standard error; on a terminal, lines for people."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    people = [without_control_characters, structlog.dev.ConsoleRenderer()]
    structlog.configure(
        processors=[*shared, *(people if sys.stderr.isatty() else [structlog.processors.JSONRenderer()])],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    log: Log = structlog.get_logger()
    uvicorn_log = logging.getLogger("uvicorn")
    uvicorn_log.handlers = [_ForwardedLog(log)]
    uvicorn_log.setLevel(logging.WARNING)
    uvicorn_log.propagate = False
    return log


def without_control_characters(_: object, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """A terminal would obey those in a path or a name."""
    return {
        name: value if not isinstance(value, str) or value.isprintable() else ascii(value)[1:-1]
        for name, value in event.items()
    }


class _ForwardedLog(logging.Handler):
    """Uvicorn's messages. Of an exception only its type is logged: its text may contain what it is about."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[0] if record.exc_info else None
        if error is not None and issubclass(error, asyncio.CancelledError):
            return
        message = record.getMessage().strip().partition("\n")[0]
        client = {"client": CLIENT.get()} if CLIENT.get() else {}
        self._log.error(
            "uvicorn", message=message, error=error.__name__ if error is not None else None, **client
        )
