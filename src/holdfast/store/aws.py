"""Clients of S3 that speak for the caller, in whatever environment this process itself was born.

Who the caller is, is asked of a process that has the caller's variables (`aws_caller`); what it says is
enough to make a client that reads no environment and no file. When credentials run out, it is asked again.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError
from botocore.session import Session

from holdfast.kernel.values import dataclass, field
from holdfast.store import aws_caller
from holdfast.store.s3_errors import StoreUnreachable
from holdfast.system import clock, processes

_PROGRAM = Path(aws_caller.__file__)
_ASKING_SECONDS = 60.0
_EARLY = timedelta(minutes=5)
_RELATIVE = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CA_BUNDLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long S3 is waited for, and how often it is asked. Holdfast asks again, the library never does."""

    connect: float = 5.0
    read: float = 20.0
    tries: int = 4
    pause: float = 0.2

    def before(self, again: int) -> float:
        """The pause before the next try: longer each time, and no two the same."""
        return float(self.pause * 2 ** (again - 1) * (0.5 + clock.chance()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the caller's own session of AWS believes."""

    settings: Mapping[str, object] = field(repr=False)
    s3: Mapping[str, object]
    proxies_config: Mapping[str, object] = field(repr=False)
    endpoint: str | None
    proxies: Mapping[str, str] = field(repr=False)
    verify: str | None
    key: str = field(repr=False)
    secret: str = field(repr=False)
    token: str | None = field(repr=False)
    expires: str | None

    def document(self) -> dict[str, object]:
        return asdict(self)

    @property
    def over(self) -> bool:
        """Whether the credentials end so soon that new ones should be had first."""
        return self.expires is not None and clock.now() > datetime.fromisoformat(self.expires) - _EARLY


class AwsCaller:
    """One client at a time, made when it is first needed. Clients may be used by many threads."""

    def __init__(
        self, variables: Mapping[str, str], *, shown: str, patience: Patience, known: Known | None = None
    ) -> None:
        self.variables = _absolute({name: value for name, value in variables.items() if value})
        self._shown = shown
        self._patience = patience
        self._known = known
        self._client: Any = None
        self._lock = threading.Lock()

    @property
    def known(self) -> Known | None:
        return self._known

    def client(self) -> Any:
        with self._lock:
            if self._known is None or self._known.over:
                self._known, self._client = ask(self.variables, shown=self._shown), None
            if self._client is None:
                self._client = self._made(self._known)
            return self._client

    def _made(self, known: Known) -> Any:
        try:
            return _client(known, self._patience)
        except (BotoCoreError, ValueError) as error:
            raise StoreUnreachable(
                "HF-STORE-5",
                f"the run store {self._shown} cannot be reached: {error}",
                hint="Check AWS_ENDPOINT_URL_S3 (it begins with https://) and AWS_REGION.",
            ) from None

    def refused(self, client: Any) -> None:
        """Its credentials were refused as too old: the next one is made with new ones."""
        with self._lock:
            if client is self._client:
                self._known = self._client = None


def ask(variables: Mapping[str, str], *, shown: str) -> Known:
    environment = dict(variables)
    if region := variables.get("AWS_REGION"):
        # The library knows only the older name.
        environment["AWS_DEFAULT_REGION"] = region
    finished = processes.run(
        (sys.executable, "-I", "-S", str(_PROGRAM), os.pathsep.join(filter(None, sys.path))),
        folder=Path("/"),
        environment=environment,
        seconds=_ASKING_SECONDS,
    )
    try:
        found = json.loads(finished.out) if finished.code == 0 else {}
    except ValueError:
        found = {}
    said = found.get("error") or finished.err.decode(errors="replace").strip().rpartition("\n")[2]
    if "key" in found:
        known = Known(**found)
        if re.fullmatch(r"[!-~]+", f"{known.key}{known.secret}{known.token}"):
            return known
        # Such a value would be refused as a header, with an error that shows it.
        said = "one of the keys or the token holds a blank, a line break or something else that no key has"
    raise StoreUnreachable(
        "HF-STORE-6",
        f"no AWS credentials for the run store {shown}: {said or f'the search ended with {finished.code}'}",
        hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine a role.",
    )


def _client(known: Known, patience: Patience) -> Any:
    """Nothing is left for the library to look up: every setting it has is given, or is its own default."""
    values = {name: known.settings.get(name, default) for name, (_, _, default, _) in _variables()}
    values |= {"config_file": os.devnull, "credentials_file": os.devnull, "profile": None}
    session = Session(session_vars={name: (None, None, value, None) for name, value in values.items()})
    s3 = dict(known.s3)
    if known.endpoint is not None:
        # Few services other than Amazon's have a host name for each bucket.
        s3.setdefault("addressing_style", "path")
    return session.create_client(
        "s3",
        endpoint_url=known.endpoint,
        verify=known.verify or True,
        aws_access_key_id=known.key,
        aws_secret_access_key=known.secret,
        aws_session_token=known.token,
        config=Config(
            connect_timeout=patience.connect,
            read_timeout=patience.read,
            # An answer that says "somebody was first" to our own second try would not be believed rightly.
            retries={"total_max_attempts": 1, "mode": "standard"},
            max_pool_connections=32,
            ignore_configured_endpoint_urls=True,
            # Everything is encrypted, and notices changes itself; not every S3 knows the newer checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            proxies=dict(known.proxies),
            proxies_config=dict(known.proxies_config) or None,
            s3=s3,
        ),
    )


def _variables() -> list[tuple[str, tuple[Any, Any, Any, Any]]]:
    return list(Session.SESSION_VARIABLES.items())


def _absolute(variables: dict[str, str]) -> dict[str, str]:
    """Another process reads these files too, from another folder."""
    named = {name: variables[name] for name in _RELATIVE if not variables.get(name, "~").startswith("~")}
    return {**variables, **{name: str(Path(value).absolute()) for name, value in named.items()}}
