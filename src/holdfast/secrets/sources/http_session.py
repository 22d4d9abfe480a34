"""HTTP requests for one reference: retried when there is no answer, within one time limit."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import Failed
from holdfast.secrets.sources import errors
from holdfast.secrets.sources.interface import Timeouts
from holdfast.system import clock, http
from holdfast.system.environment import Environment

_RETRIED = frozenset({429, 500, 502, 503, 504})


class HttpSession:
    """The requests for one reference share one time limit."""

    def __init__(
        self, ref: SecretRef, environment: Environment, timeouts: Timeouts, *, ca_file: str | None = None
    ) -> None:
        self.ref = ref
        self.environment = environment
        self._timeouts = timeouts
        self._ca_file = ca_file
        self._started = clock.monotonic()

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        tries: int | None = None,
        seconds: float | None = None,
    ) -> http.Response:
        """A request that must not be repeated has `tries=1`."""
        left = tries or self._timeouts.tries
        while True:
            left -= 1
            try:
                response = http.request(
                    method,
                    url,
                    environment=self.environment,
                    headers=headers,
                    body=body,
                    seconds=max(min(seconds or self._timeouts.request, self._remaining()), 0.1),
                    ca_file=self._ca_file,
                )
            except http.HttpError as error:
                if not left or error.final or self._remaining() <= 0:
                    raise self._error(error) from None
            else:
                if response.status not in _RETRIED or not left or self._remaining() <= 0:
                    return response
            clock.pause(min(self._timeouts.pause * (0.5 + clock.chance()), max(self._remaining(), 0.0)))

    def _remaining(self) -> float:
        return self._started + self._timeouts.total - clock.monotonic()

    def _error(self, error: http.HttpError) -> Failed:
        if error.timed_out:
            return errors.slow(
                self.ref, place=error.host, seconds=round(clock.monotonic() - self._started, 1)
            )
        return errors.unreachable(self.ref, place=error.host, reason=error.reason)
