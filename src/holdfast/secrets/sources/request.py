"""Asking a service over HTTP for one reference: again when it gives no answer, never longer than it may."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.config.valid import SecretRef
from holdfast.kernel.errors import Failed
from holdfast.secrets.sources import failures
from holdfast.secrets.sources.interface import Patience
from holdfast.system import clock, http
from holdfast.system.environment import Environment

_AGAIN = frozenset({429, 500, 502, 503, 504})


class Asking:
    """The questions for one reference, under one time limit together."""

    def __init__(
        self, ref: SecretRef, environment: Environment, patience: Patience, *, ca_file: str | None = None
    ) -> None:
        self.ref = ref
        self.environment = environment
        self._patience = patience
        self._ca_file = ca_file
        self._begun = clock.monotonic()

    def ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        tries: int | None = None,
        seconds: float | None = None,
    ) -> http.Response:
        """Reading changes nothing and may be asked again; what may not has `tries=1`."""
        left = tries or self._patience.tries
        while True:
            left -= 1
            try:
                answer = self._once(method, url, headers, body, seconds)
            except http.HttpError as error:
                if not left or error.final or self._remaining() <= 0:
                    raise self._failed(error) from None
            else:
                if answer.status not in _AGAIN or not left or self._remaining() <= 0:
                    return answer
            clock.pause(min(self._patience.pause * (0.5 + clock.chance()), max(self._remaining(), 0.0)))

    def _once(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        body: bytes | None,
        seconds: float | None,
    ) -> http.Response:
        limit = min(seconds or self._patience.request, self._remaining())
        return http.request(
            method,
            url,
            environment=self.environment,
            headers=headers,
            body=body,
            seconds=max(limit, 0.1),
            ca_file=self._ca_file,
        )

    def _remaining(self) -> float:
        return self._begun + self._patience.whole - clock.monotonic()

    def _failed(self, error: http.HttpError) -> Failed:
        if error.timed_out:
            return failures.slow(
                self.ref, place=error.host, seconds=round(clock.monotonic() - self._begun, 1)
            )
        return failures.unreachable(self.ref, place=error.host, reason=error.reason)


def document(answer: http.Response) -> dict[str, Any]:
    """What the answer holds; nothing where it holds no JSON object."""
    try:
        found = json.loads(answer.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
