"""How fast a channel may send, and how it is. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import structs

from holdfast.kernel.values import MaskedStruct


class ChannelState(MaskedStruct, frozen=True, kw_only=True):
    spent: float = 0.0
    """Messages, falling with time: `per_minute` of them are allowed at once."""
    counted: datetime | None = None
    paused_until: datetime | None = None
    delivered: datetime | None = None
    """Its last message. None: nothing is known of it yet."""
    failures: int = 0
    """In a row."""
    error: str | None = None


def free_at(state: ChannelState, per_minute: int) -> datetime | None:
    """When the limit allows the next message, if it was reached."""
    too_many = state.spent - (per_minute - 1)
    if state.counted is None or too_many <= 0:
        return None
    return state.counted + timedelta(seconds=too_many * 60 / per_minute)


def with_one_more(state: ChannelState, per_minute: int, now: datetime) -> ChannelState:
    passed = (now - state.counted).total_seconds() if state.counted is not None else 0.0
    left = max(0.0, state.spent - max(0.0, passed) * per_minute / 60)
    return structs.replace(state, spent=left + 1, counted=now)
