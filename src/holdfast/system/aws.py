"""Clients of S3 and KMS with the caller's identity, whatever the environment of this process is.

A process with the caller's variables (`aws_caller`) reports settings and credentials. They are all that a
client needs: it reads no environment and no file. When the credentials expire, the process is started again.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError
from botocore.session import Session
from msgspec import Struct
from msgspec.structs import asdict

from holdfast.kernel.values import MaskedStruct
from holdfast.system import aws_caller, aws_programs, clock

_PROGRAM = Path(aws_caller.__file__)
_LOGIN_SECONDS = 60.0
_RENEW_EARLY = timedelta(minutes=5)
_FILE_VARIABLES = (
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CA_BUNDLE",
)


class S3Timeouts(Struct, frozen=True, kw_only=True):
    """How long to wait for the service and how often to try. Holdfast retries S3 itself."""

    connect: float = 5.0
    read: float = 20.0
    tries: int = 4
    pause: float = 0.2

    def pause_after(self, tries: int) -> float:
        """Longer each time, with jitter."""
        return float(self.pause * 2 ** (tries - 1) * (0.5 + clock.chance()))


class AwsSettings(MaskedStruct, frozen=True, kw_only=True):
    """Settings and credentials of the caller's own AWS session."""

    settings: Mapping[str, object]
    s3: Mapping[str, object]
    proxies_config: Mapping[str, object]
    endpoint: str | None
    proxies: Mapping[str, str]
    verify: str | None
    key: str
    secret: str
    token: str | None
    expires: str | None

    def document(self) -> dict[str, object]:
        return asdict(self)

    @property
    def expired(self) -> bool:
        """Or about to: new credentials should be fetched first."""
        return self.expires is not None and clock.now() > datetime.fromisoformat(self.expires) - _RENEW_EARLY


class AwsError(Exception):
    """The adapter that uses the client turns it into an error of its own."""


class NoCredentialsError(AwsError):
    pass


class InvalidEndpointError(AwsError):
    pass


class AwsCaller:
    """One client at a time, created when it is first needed. Many threads may use a client."""

    def __init__(
        self,
        variables: Mapping[str, str],
        *,
        timeouts: S3Timeouts,
        known: AwsSettings | None = None,
        service: str = "s3",
        region: str | None = None,
    ) -> None:
        """`region`: that of the settings, unless given."""
        self.variables = _absolute({name: value for name, value in variables.items() if value})
        self._timeouts = timeouts
        self._known = known
        self._service, self._region = service, region
        self._client: Any = None
        self._lock = threading.Lock()

    @property
    def known(self) -> AwsSettings | None:
        return self._known

    def client(self) -> Any:
        with self._lock:
            if self._known is None or self._known.expired:
                self._known, self._client = log_in(self.variables, self._service), None
            if self._client is None:
                try:
                    self._client = _client(self._known, self._timeouts, self._service, self._region)
                except (BotoCoreError, ValueError) as error:
                    raise InvalidEndpointError(str(error)) from None
            return self._client

    def discard(self, client: Any) -> None:
        """Its credentials have expired: the next client gets new ones."""
        with self._lock:
            if client is self._client:
                self._known = self._client = None


def log_in(variables: Mapping[str, str], service: str = "s3") -> AwsSettings:
    extra = {aws_caller.SERVICE: service}
    finished = aws_programs.run_program(
        _PROGRAM, variables, folder=Path("/"), seconds=_LOGIN_SECONDS, extra=extra
    )
    try:
        result = json.loads(finished.out) if finished.code == 0 else {}
    except ValueError:
        result = {}
    reason = result.get("error") or finished.err.decode(errors="replace").strip().rpartition("\n")[2]
    if "key" in result:
        known = AwsSettings(**result)
        if re.fullmatch(r"[!-~]+", f"{known.key}{known.secret}{known.token}"):
            return known
        # The library refuses such a value as a header, with an error that shows it.
        reason = "a key or the token contains whitespace or a character outside ASCII"
    raise NoCredentialsError(reason or f"the AWS process exited with code {finished.code}")


def _client(known: AwsSettings, timeouts: S3Timeouts, service: str, region: str | None) -> Any:
    """Sets every setting of the library, so that it looks up nothing itself."""
    variables: dict[str, tuple[Any, Any, Any, Any]] = Session.SESSION_VARIABLES
    values = {name: known.settings.get(name, default) for name, (_, _, default, _) in variables.items()}
    values |= {"config_file": os.devnull, "credentials_file": os.devnull, "profile": None}
    session = Session(session_vars={name: (None, None, value, None) for name, value in values.items()})
    s3 = dict(known.s3)
    if known.endpoint is not None:
        # Few services other than Amazon's have a host name per bucket.
        s3.setdefault("addressing_style", "path")
    return session.create_client(
        service,
        region_name=region,
        endpoint_url=known.endpoint,
        verify=known.verify or True,
        aws_access_key_id=known.key,
        aws_secret_access_key=known.secret,
        aws_session_token=known.token,
        config=Config(
            connect_timeout=timeouts.connect,
            read_timeout=timeouts.read,
            # In S3, the library cannot tell its own earlier attempt from another writer.
            retries={"total_max_attempts": 1 if service == "s3" else timeouts.tries, "mode": "standard"},
            max_pool_connections=32,
            ignore_configured_endpoint_urls=True,
            # Blobs are authenticated anyway, and not every S3 service supports the newer checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            proxies=dict(known.proxies),
            proxies_config=dict(known.proxies_config) or None,
            s3=s3,
        ),
    )


def _absolute(variables: dict[str, str]) -> dict[str, str]:
    """Another process reads these files too, from another folder."""
    files = {
        name: variables[name] for name in _FILE_VARIABLES if not variables.get(name, "~").startswith("~")
    }
    return {**variables, **{name: str(Path(value).absolute()) for name, value in files.items()}}
