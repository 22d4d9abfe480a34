"""The standard error of a command, or the log of the server."""

from __future__ import annotations

from typing import Final

from holdfast.notify.alerts.notice import Notice
from holdfast.notify.channels.interface import Access, ChannelKind, Sent
from holdfast.system.markup import escape_line


class Console:
    def __init__(self, settings: None, access: Access) -> None:
        del settings
        self._say = access.say

    def send(self, notice: Notice, handle: str | None, *, again: bool) -> Sent:  # noqa: ARG002 - it only prints
        for line in lines_of(notice):
            self._say(line)
        return Sent(answer="printed", handle=notice.id)


def lines_of(notice: Notice) -> tuple[str, ...]:
    facts = ", ".join(f"{name.lower()} {value}" for name, value in notice.facts)
    lines = (
        f"{notice.severity}: {notice.headline} ({notice.times})",
        *((f"  {facts}",) if facts else ()),
        *(f"  {line}" for line in notice.lines),
        *((f"  Next: {notice.next_step}",) if notice.next_step else ()),
        *((f"  {notice.link}",) if notice.link else ()),
    )
    return tuple(map(escape_line, lines))


CONSOLE: Final = ChannelKind(name="console", title="Console", open=Console)
