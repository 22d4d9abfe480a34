"""Calls of Cato's API as its SDK makes them: headers, operation names, variables, and retries."""

from __future__ import annotations

import json
import re
import time
from typing import Any, NamedTuple

from sdwan.client import Unreachable, send

Values = dict[str, Any]

_RATE_LIMIT = re.compile(r"rate[- ]?limit", re.IGNORECASE)
_TOO_MANY = 429
_REFUSED = 400


class CatoError(Exception):
    """What the API answered instead of data."""


class Retries(NamedTuple):
    attempts: int = 5
    wait_min: float = 1
    wait_max: float = 30


class CatoClient:
    """Calls that were refused for their rate are tried again; nothing else is."""

    def __init__(self, baseurl: str, token: str, account: str, *, version: str, retries: Retries) -> None:
        self.account = account
        self._baseurl = baseurl
        self._retries = retries
        self._headers = {
            "Content-Type": "application/json",
            "User-Agent": f"cato-terraform-{version}",
            "x-api-key": token,
            "x-account-id": account,
        }

    def call(self, operation: str, **variables: Any) -> Values:
        body = json.dumps({"operationName": operation, "query": f"# {operation}", "variables": variables})
        status, text = self._send(body)
        for attempt in range(self._retries.attempts):
            if status != _TOO_MANY and not any(map(_RATE_LIMIT.search, _messages(text))):
                break
            time.sleep(min(self._retries.wait_max, self._retries.wait_min * 2**attempt))
            status, text = self._send(body)
        messages = _messages(text)
        if status >= _REFUSED or messages:
            raise CatoError(f"{operation}: {status}: {'; '.join(messages) or text.strip()}")
        try:
            data: Values = json.loads(text)["data"]
        except (ValueError, KeyError) as error:
            raise CatoError(f"{operation}: the answer has no data") from error
        return data

    def lookup(self, kind: str, *, site: str | None = None, ids: list[str] | None = None) -> list[Values]:
        parent = None if site is None else {"id": site, "type": "site"}
        data = self.call("entityLookup", accountID=self.account, type=kind, parent=parent, entityIDs=ids)
        items: list[Values] = data["entityLookup"]["items"]
        return items

    def _send(self, body: str) -> tuple[int, str]:
        try:
            return send("POST", self._baseurl, self._headers, body.encode())
        except Unreachable as error:
            raise CatoError(str(error)) from error


def _messages(text: str) -> list[str]:
    try:
        errors = json.loads(text).get("errors") or ()
    except (ValueError, AttributeError):
        return []
    return [str(each.get("message")) for each in errors]
