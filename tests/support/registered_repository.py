"""A repository on a Git host that asks for a password, registered on a server that runs as a process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from certificates import write_certificate
from git_server import git_host
from program import Program
from served import serving
from server_runs_made import ServerRuns, server_runs, worker

from holdfast.identity.client import ServerClient, login_for
from holdfast.system.environment import Environment

PASSWORD = "sesame-opens-it"


class RegisteredRepository:
    def __init__(
        self, program: Program, client: ServerClient, runs: ServerRuns, url: str, credentials: Path
    ) -> None:
        self.program, self.client, self.runs, self.url = program, client, runs, url
        self.credentials = credentials

    def send(self, method: str, path: str, document: object = None) -> dict[str, Any]:
        return self.client.send(method, f"/api/v1/{path}", document)

    def push(self, *names: str) -> str:
        """Commit everything, to these branches or tags. The commit."""
        self.program.commit_all()
        self.program.git("push", "--quiet", "--force", "origin", *(f"HEAD:{name}" for name in names))
        return self.program.git("rev-parse", "HEAD").strip()

    def run(self, operation: str, stack: str, revision: str | None = None, name: str = "infra") -> str:
        source = {"repository": name, **({"revision": revision} if revision else {})}
        document = {"operation": operation, "stack": stack, "source": source}
        return str(self.send("POST", "runs", document)["id"])

    def end(self, run: str) -> dict[str, Any]:
        """Of a run: what the server shows when it is over."""
        self.runs.wait(self.send("GET", f"runs/{run}")["run"]["change"])
        return dict(self.send("GET", f"runs/{run}")["run"])


@contextmanager
def registered_repository(program: Program, folder: Path) -> Iterator[RegisteredRepository]:
    """With a worker. The files of the program are its first commit."""
    data, certificate = folder / "data", write_certificate(folder)
    hosted = folder / "git" / "infra.git"
    hosted.mkdir(parents=True)
    program.git("init", "--quiet", "--bare", "--initial-branch=main", str(hosted))
    program.environment["GIT_SSL_CAINFO"] = str(certificate[0])
    password = folder / "password"
    password.write_text(f"{PASSWORD}\n")
    with (
        git_host(folder / "git", f"x-access-token:{PASSWORD}", certificate=certificate) as host,
        serving(program, data) as client,
        server_runs(program, data) as runs,
        worker(program, data),
    ):
        program.commit_all()
        program.git("remote", "add", "origin", str(hosted))
        environment = Environment(variables={name: str(value) for name, value in client.items()})
        server = ServerClient(login_for(environment, None), environment)
        made = RegisteredRepository(program, server, runs, f"{host.url}/infra.git", password)
        made.push("main")
        added = program.json(
            *("repository", "add", "infra", made.url, "--credentials", f"file:{password}"), env=client
        )
        assert PASSWORD not in json.dumps(added)
        yield made
