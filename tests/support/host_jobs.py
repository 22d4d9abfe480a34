"""Jobs of each code host on a pull request, against a server of that host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from azure_server import AzureServer
from github_server import GithubServer
from gitlab_server import GitlabServer
from host_server import TOKEN, HostServer

SERVERS: dict[str, type[HostServer]] = {"github": GithubServer, "gitlab": GitlabServer, "azure": AzureServer}
NAME = "Plan/aws"


@contextmanager
def open_server(name: str) -> Iterator[HostServer]:
    with SERVERS[name]() as server:
        yield server


def job(
    name: str, server: HostServer, folder: Path, number: int | None = 7, *, run: int = 5, commit: str = ""
) -> dict[str, str]:
    """The variables of one job. `number` is that of the pull request; None: after a merge."""
    if name == "github":
        event = folder / f"event-{number}.json"
        event.write_text(json.dumps({"pull_request": {"number": number}} if number else {}))
        return {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": server.api,
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_REPOSITORY": "acme/infra",
            "GITHUB_RUN_NUMBER": str(run),
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_SHA": commit,
            "GITHUB_ACTOR": "ada",
            "HOLDFAST_COMMENT": NAME,
        }
    if name == "gitlab":
        return {
            "CI": "true",
            "GITLAB_CI": "true",
            "CI_API_V4_URL": server.api,
            "GITLAB_TOKEN": TOKEN,
            "CI_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_IID": str(number or ""),
            "CI_PIPELINE_ID": str(run),
            "CI_JOB_ID": "1",
            "CI_COMMIT_SHA": commit,
            "GITLAB_USER_LOGIN": "ada",
            "HOLDFAST_COMMENT": NAME,
        }
    return {
        "CI": "true",
        "TF_BUILD": "True",
        "SYSTEM_COLLECTIONURI": f"{server.api}/acme/",
        "SYSTEM_TEAMPROJECT": "My Project",
        "SYSTEM_ACCESSTOKEN": TOKEN,
        "BUILD_REPOSITORY_ID": "0a1b-2c",
        "BUILD_REPOSITORY_PROVIDER": "TfsGit",
        "SYSTEM_PULLREQUEST_PULLREQUESTID": str(number or ""),
        "BUILD_BUILDID": str(run),
        "SYSTEM_JOBATTEMPT": "1",
        "BUILD_SOURCEVERSION": commit,
        "BUILD_REQUESTEDFOR": "ada",
        "HOLDFAST_COMMENT": NAME,
    }
