"""A browser for login pages: cookies and forms, no scripts. It opens one page, and follows nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import urlencode, urljoin, urlsplit

from holdfast.kernel.secret import masked_repr
from holdfast.system.environment import Environment
from holdfast.system.http import request

_MOST_BYTES = 2 * 1024 * 1024
_REDIRECTS = (301, 302, 303, 307, 308)
_NAMES = ("text", "email", "username", "tel", "")
"""Types of inputs that take the name of a user."""


class Form(NamedTuple):
    action: str
    method: str
    hidden: Mapping[str, str]
    names: tuple[str, ...]
    passwords: tuple[str, ...]

    def filled(self, user: str, password: str) -> dict[str, str]:
        return {**self.hidden, **dict.fromkeys(self.names, user), **dict.fromkeys(self.passwords, password)}


class Page(NamedTuple):
    url: str
    status: int
    location: str | None
    """Where it redirects to."""
    body: bytes

    def __repr__(self) -> str:
        return masked_repr(self)

    @property
    def forms(self) -> tuple[Form, ...]:
        parser = _Forms(self.url)
        parser.feed(self.body.decode(errors="replace"))
        parser.close()
        return tuple(parser.forms)


class Browser:
    """`left`: how many seconds are left for the whole login."""

    def __init__(
        self, environment: Environment, left: Callable[[], float], ca_file: str | None = None
    ) -> None:
        self._environment = environment
        self._left = left
        self._ca_file = ca_file
        self._cookies: dict[str, dict[str, str]] = {}
        """By host: a cookie goes only to the host that set it."""

    def open(
        self,
        url: str,
        form: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Page:
        """Get a page, or post a form. Raises HttpError."""
        host, sent = urlsplit(url).netloc, dict(headers or {})
        if cookies := self._cookies.get(host):
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
        if form is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        response = request(
            "GET" if form is None else "POST",
            url.partition("#")[0],
            environment=self._environment,
            headers=sent,
            body=urlencode(form).encode() if form is not None else None,
            seconds=max(self._left(), 0.1),
            max_bytes=_MOST_BYTES,
            ca_file=self._ca_file,
        )
        self._keep(host, response.headers.get("set-cookie", ""))
        location = response.headers.get("location")
        redirects = location is not None and response.status in _REDIRECTS
        return Page(
            url=url,
            status=response.status,
            location=urljoin(url, location) if redirects and location is not None else None,
            body=response.body,
        )

    def _keep(self, host: str, lines: str) -> None:
        cookies = self._cookies.setdefault(host, {})
        for line in filter(None, lines.split("\n")):
            pair, *attributes = (part.strip() for part in line.split(";"))
            name, _, value = pair.partition("=")
            if any(attribute.lower() == "max-age=0" for attribute in attributes):
                cookies.pop(name, None)
            else:
                cookies[name] = value


class _Forms(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.forms: list[Form] = []
        self._url = url
        self._open: tuple[str, str] | None = None
        self._fields: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._finish()
            self._open = urljoin(self._url, given.get("action", "")), given.get("method", "get").lower()
        elif tag in {"input", "button"} and self._open is not None and given.get("name"):
            kind = given.get("type", "submit" if tag == "button" else "").lower()
            if kind not in {"checkbox", "radio"} or "checked" in given:
                self._fields.append((given["name"], kind, given.get("value", "")))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._finish()

    def close(self) -> None:
        super().close()
        self._finish()

    def _finish(self) -> None:
        if self._open is None:
            return
        buttons = [field for field in self._fields if field[1] in {"submit", "image"}][:1]
        kept = [field for field in self._fields if field[1] in {"hidden", "checkbox", "radio"}]
        self.forms.append(
            Form(
                action=self._open[0],
                method=self._open[1],
                hidden={name: value for name, _, value in (*kept, *buttons)},
                names=tuple(name for name, kind, _ in self._fields if kind in _NAMES),
                passwords=tuple(name for name, kind, _ in self._fields if kind == "password"),
            )
        )
        self._open, self._fields = None, []
