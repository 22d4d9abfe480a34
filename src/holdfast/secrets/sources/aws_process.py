"""A program that reads AWS secrets with the caller's identity: `python aws_process.py PATHS` prints JSON.

Every way to get credentials reads the environment and the files of its process. This one starts with the
caller's, and Holdfast itself never sees the keys. The variable HOLDFAST_WANTED holds the requests.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

WANTED = "HOLDFAST_WANTED"
_THREADS = 8
_LOGIN_ERRORS = frozenset(
    {"NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "ConfigParseError"}
)
_LOGIN_ERROR_PARTS = ("Credential", "SSO", "Token", "Metadata", "InvalidConfig", "ConfigNotFound")
_TIMEOUTS = frozenset({"ConnectTimeoutError", "ReadTimeoutError"})


def main() -> None:
    sys.path[:0] = [path for path in sys.argv[1].split(os.pathsep) if path not in sys.path]
    wanted = json.loads(os.environ.pop(WANTED))  # noqa: TID251 - started for its own environment
    try:
        import botocore.session  # noqa: PLC0415 - after the import paths are set
    except ModuleNotFoundError:
        result: dict[str, Any] = {"failed": {"kind": "library"}}
    else:
        result = _AwsReader(botocore.session.Session(), wanted).document()
    sys.stdout.write(json.dumps(result))


class _AwsReader:
    def __init__(self, session: Any, wanted: dict[str, Any]) -> None:
        self._session = session
        self._wanted = wanted
        self._clients: dict[tuple[str, str | None], Any] = {}

    def document(self) -> dict[str, Any]:
        """One answer per request, in order, and the identity if it was asked for or a request was refused."""
        failed = self._error_of(self._check_credentials)
        if failed is not None:
            return {"failed": failed, "identity": self._identity(ask=False)}
        answers = self._answers()
        ask = self._wanted["identify"] or any("code" in answer for answer in answers)
        return {"answers": answers, "identity": self._identity(ask=ask)}

    def _check_credentials(self) -> None:
        """Refuses keys that cannot be sent as a header: the library's own error would show them."""
        from botocore.exceptions import NoCredentialsError  # noqa: PLC0415

        credentials = self._session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        keys = credentials.get_frozen_credentials()
        if not re.fullmatch(r"[!-~]+", f"{keys.access_key}{keys.secret_key}{keys.token or ''}"):
            raise ValueError("a key or the token contains whitespace or a character outside ASCII")

    def _answers(self) -> list[dict[str, Any]]:
        """Creating clients is not thread-safe; using them is."""
        requests = self._wanted["requests"]
        failed = [
            self._error_of(partial(self._client, request["service"], request["region"]))
            for request in requests
        ]
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(self._answer, requests, failed))

    def _answer(self, request: dict[str, Any], failed: dict[str, Any] | None) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        return failed or self._error_of(lambda: answer.update(self._value(request))) or answer

    def _created(self, request: dict[str, Any]) -> dict[str, Any]:
        client = self._client(request["service"], request["region"])
        (text,) = json.loads(sys.stdin.buffer.read())
        if request["service"] == "ssm":
            client.put_parameter(Name=request["name"], Value=text, Type="SecureString", Overwrite=False)
        else:
            client.create_secret(Name=request["name"], SecretString=text)
        return {"created": True}

    def _value(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("create"):
            return self._created(request)
        client = self._client(request["service"], request["region"])
        if request["service"] == "ssm":
            parameter = client.get_parameter(Name=request["name"], WithDecryption=True)["Parameter"]
            return {"text": parameter["Value"], "version": parameter.get("Version")}
        version = request["version"] or "AWSCURRENT"
        by_id = re.fullmatch(r"[0-9A-Fa-f-]{32,64}", version) is not None
        selected = {"VersionId" if by_id else "VersionStage": version}
        answer = client.get_secret_value(SecretId=request["name"], **selected)
        read = {"version": answer.get("VersionId")}
        if (text := answer.get("SecretString")) is not None:
            return read | {"text": text}
        try:
            return read | {"text": answer.get("SecretBinary", b"").decode()}
        except UnicodeDecodeError:
            return {"kind": "binary"}

    def _client(self, service: str, region: str | None) -> Any:
        from botocore.config import Config  # noqa: PLC0415

        if (service, region) not in self._clients:
            self._clients[service, region] = self._session.create_client(
                service,
                region_name=region,
                config=Config(
                    connect_timeout=self._wanted["seconds"],
                    read_timeout=self._wanted["seconds"],
                    retries={"total_max_attempts": self._wanted["tries"], "mode": "standard"},
                ),
            )
        return self._clients[service, region]

    def _identity(self, *, ask: bool) -> dict[str, Any]:
        identity: dict[str, Any] = {"profile": self._session.profile, "arn": None, "method": None}

        def look() -> None:
            credentials = self._session.get_credentials()
            identity["method"] = credentials.method if credentials is not None else None
            if ask:
                region = self._wanted["requests"][0]["region"]
                identity["arn"] = self._client("sts", region).get_caller_identity()["Arn"]

        self._error_of(look)
        return identity

    def _error_of(self, work: Callable[[], object]) -> dict[str, Any] | None:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
        from botocore.parsers import ResponseParserError  # noqa: PLC0415

        try:
            work()
        except ClientError as error:
            details = error.response.get("Error", {})
            return {"kind": "answer", "code": str(details.get("Code")), "detail": str(details.get("Message"))}
        except BotoCoreError as error:
            return {"kind": _kind(type(error).__name__), "detail": str(error)}
        except ResponseParserError:
            return {"kind": "wrong", "detail": "the response is not a valid AWS response"}
        except ValueError as error:
            return {"kind": "identity", "detail": str(error)}
        return None


def _kind(name: str) -> str:
    if name == "NoRegionError":
        return "region"
    if name in _TIMEOUTS:
        return "slow"
    if name in _LOGIN_ERRORS or any(part in name for part in _LOGIN_ERROR_PARTS):
        return "identity"
    return "wrong" if name == "ParamValidationError" else "unreachable"


if __name__ == "__main__":
    main()
