"""A process of its own that reads secrets from AWS as the caller: `python aws_reading.py PATHS` prints JSON.

Every way there is to get credentials reads the environment and the files of its process. This one is born
with the caller's, so nothing is guessed, and the keys never come to the one who asked. What is wanted stands
in the variable HOLDFAST_WANTED; what was found goes back through a pipe.
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
_AT_ONCE = 8
_SIGN_IN = frozenset({"NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "ConfigParseError"})
_SIGN_IN_PARTS = ("Credential", "SSO", "Token", "Metadata", "InvalidConfig", "ConfigNotFound")
_SLOW = frozenset({"ConnectTimeoutError", "ReadTimeoutError"})


def main() -> None:
    sys.path[:0] = [path for path in sys.argv[1].split(os.pathsep) if path not in sys.path]
    wanted = json.loads(os.environ.pop(WANTED))  # noqa: TID251 - its own environment is what this process is started for
    try:
        import botocore.session  # noqa: PLC0415 - the paths come first
    except ModuleNotFoundError:
        found: dict[str, Any] = {"failed": {"kind": "library"}}
    else:
        found = _Reading(botocore.session.Session(), wanted).document()
    sys.stdout.write(json.dumps(found))


class _Reading:
    def __init__(self, session: Any, wanted: dict[str, Any]) -> None:
        self._session = session
        self._wanted = wanted
        self._clients: dict[tuple[str, str | None], Any] = {}

    def document(self) -> dict[str, Any]:
        """One answer for each wish, in their order, and who asked where that is wanted or was refused."""
        failed = self._caught(self._prove)
        if failed is not None:
            return {"failed": failed, "who": self._who(ask=False)}
        answers = self._answers()
        ask = self._wanted["named"] or any("code" in answer for answer in answers)
        return {"answers": answers, "who": self._who(ask=ask)}

    def _prove(self) -> None:
        """Keys that would be refused as a header are refused here: the library's own error shows them."""
        from botocore.exceptions import NoCredentialsError  # noqa: PLC0415

        credentials = self._session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        keys = credentials.get_frozen_credentials()
        if not re.fullmatch(r"[!-~]+", f"{keys.access_key}{keys.secret_key}{keys.token or ''}"):
            raise ValueError("one of the keys or the token holds a blank, a line break or no letter of ASCII")

    def _answers(self) -> list[dict[str, Any]]:
        """Clients are made one after the other: only then may many threads use them."""
        wishes = self._wanted["wishes"]
        failed = [self._caught(partial(self._client, wish["service"], wish["region"])) for wish in wishes]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(self._answer, wishes, failed))

    def _answer(self, wish: dict[str, Any], failed: dict[str, Any] | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        return failed or self._caught(lambda: found.update(self._value(wish))) or found

    def _value(self, wish: dict[str, Any]) -> dict[str, Any]:
        client = self._client(wish["service"], wish["region"])
        if wish["service"] == "ssm":
            return {
                "text": client.get_parameter(Name=wish["name"], WithDecryption=True)["Parameter"]["Value"]
            }
        version = wish["version"] or "AWSCURRENT"
        by_id = re.fullmatch(r"[0-9A-Fa-f-]{32,64}", version) is not None
        given = {"VersionId" if by_id else "VersionStage": version}
        answer = client.get_secret_value(SecretId=wish["name"], **given)
        if (text := answer.get("SecretString")) is not None:
            return {"text": text}
        try:
            return {"text": answer.get("SecretBinary", b"").decode()}
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

    def _who(self, *, ask: bool) -> dict[str, Any]:
        who: dict[str, Any] = {"profile": self._session.profile, "arn": None, "method": None}

        def look() -> None:
            credentials = self._session.get_credentials()
            who["method"] = credentials.method if credentials is not None else None
            if ask:
                region = self._wanted["wishes"][0]["region"]
                who["arn"] = self._client("sts", region).get_caller_identity()["Arn"]

        self._caught(look)
        return who

    def _caught(self, work: Callable[[], object]) -> dict[str, Any] | None:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
        from botocore.parsers import ResponseParserError  # noqa: PLC0415

        try:
            work()
        except ClientError as error:
            told = error.response.get("Error", {})
            return {"kind": "answer", "code": str(told.get("Code")), "said": str(told.get("Message"))}
        except BotoCoreError as error:
            return {"kind": _kind(type(error).__name__), "said": str(error)}
        except ResponseParserError:
            return {"kind": "wrong", "said": "what it answers is not what AWS would"}
        except ValueError as error:
            return {"kind": "identity", "said": str(error)}
        return None


def _kind(name: str) -> str:
    if name == "NoRegionError":
        return "region"
    if name in _SLOW:
        return "slow"
    if name in _SIGN_IN or any(part in name for part in _SIGN_IN_PARTS):
        return "identity"
    return "wrong" if name == "ParamValidationError" else "unreachable"


if __name__ == "__main__":
    main()
