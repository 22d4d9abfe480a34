"""A program that prints the caller's AWS settings and credentials as JSON: `python aws_caller.py PATHS`.

It starts with the caller's environment: see `aws_programs`. The variable HOLDFAST_SERVICE names the service.
"""

from __future__ import annotations

import json
import os
import sys

SERVICE = "HOLDFAST_SERVICE"


def main() -> None:
    sys.path[:0] = [path for path in sys.argv[1].split(os.pathsep) if path not in sys.path]
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - after the import paths are set

    try:
        result = session_document(os.environ)
    except (BotoCoreError, ClientError) as error:
        result = {"error": str(error)}
    sys.stdout.write(json.dumps(result))


def session_document(variables: os._Environ[str]) -> dict[str, object]:
    from botocore.session import Session  # noqa: PLC0415 - after the import paths are set
    from botocore.utils import get_environ_proxies  # noqa: PLC0415

    session, service = Session(), variables[SERVICE]
    credentials = session.get_credentials()
    if credentials is None:
        return {"error": "the environment, the AWS files and this machine have none"}
    keys = credentials.get_frozen_credentials()
    expires = getattr(credentials, "_expiry_time", None)
    settings = {name: session.get_config_variable(name) for name in Session.SESSION_VARIABLES}
    scoped = session.get_scoped_config()
    services = session.full_config.get("services", {}).get(scoped.get("services"), {})
    endpoint = (
        variables.get(f"AWS_ENDPOINT_URL_{service.upper()}")
        or variables.get("AWS_ENDPOINT_URL")
        or services.get(service, {}).get("endpoint_url")
        or scoped.get("endpoint_url")
    )
    if settings.get("ignore_configured_endpoint_urls"):
        endpoint = None
    region = settings.get("region") or "us-east-1"
    return {
        "settings": settings,
        "s3": session.get_config_variable("s3") or {},
        "proxies_config": session.get_config_variable("proxies_config") or {},
        "endpoint": endpoint,
        "proxies": get_environ_proxies(endpoint or f"https://{service}.{region}.amazonaws.com"),
        "verify": settings.get("ca_bundle") or variables.get("REQUESTS_CA_BUNDLE"),
        "key": keys.access_key,
        "secret": keys.secret_key,
        "token": keys.token,
        "expires": expires.isoformat() if expires is not None else None,
    }


if __name__ == "__main__":
    main()
