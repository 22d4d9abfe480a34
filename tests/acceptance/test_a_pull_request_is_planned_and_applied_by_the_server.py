"""A webhook, a real Git host, a server and its worker: a pull request is planned, shown, and applied."""

from __future__ import annotations

from pathlib import Path

from github_server import TOKEN, GithubServer, MadeRequest, comment_event, event_headers, request_event
from program import Program, eventually
from registered_repository import RegisteredRepository, registered_repository

from holdfast.system import clock, http
from holdfast.system.environment import Environment

CONFIGURATION = """\
version: 1
guard:
  environments:
    prod: {approvals: 1}
stacks:
  - {name: dev/net, module: net, environment: dev}
  - {name: prod/db, module: db, environment: prod}
  - {name: dev/old, module: old, environment: dev}
"""
RESOURCE = 'resource "terraform_data" "%s" {\n  input = "%s"\n}\n'
SECRET = f"ghp_{'Ab3' * 12}"


class Hooked:
    def __init__(self, repository: RegisteredRepository, github: GithubServer) -> None:
        self.repository, self.github = repository, github
        document = {"project": "acme/infra", "token": TOKEN, "api": github.api}
        self._webhook = repository.send("PUT", "repositories/infra/webhook", document)
        self._deliveries = 0

    def send(self, body: bytes, event: str) -> None:
        self._deliveries += 1
        headers = event_headers(body, self._webhook["secret"], event=event, delivery=f"d-{self._deliveries}")
        url = f"{self.repository.client.url}{self._webhook['path']}"
        answer = http.request("POST", url, environment=Environment({}), headers=headers, body=body)
        assert answer.status == 202, answer

    def comments(self, number: int) -> list[str]:
        """When there are so many."""
        eventually(lambda: len(self.github.bodies(7)) >= number, what=f"{number} comments")
        return self.github.bodies(7)


def test_a_comment_has_the_plan_and_another_applies_it(holdfast: Program, tmp_path: Path) -> None:
    """The comment is the report of `holdfast plan --pull-request`, and has no secret."""
    holdfast.write("holdfast.yaml", CONFIGURATION)
    for name in ("net", "db", "old"):
        holdfast.write(f"{name}/main.tf", RESOURCE % ("kept", name))
    with GithubServer() as github, registered_repository(holdfast, tmp_path) as repository:
        base = holdfast.git("rev-parse", "HEAD").strip()
        for stack in ("dev/net", "dev/old"):
            assert repository.end(repository.run("apply", stack))["status"] == "applied"
        hooked = Hooked(repository, github)
        holdfast.write("holdfast.yaml", "\n".join(CONFIGURATION.splitlines()[:-1]))
        holdfast.write("net/main.tf", RESOURCE % ("kept", "changed") + RESOURCE % ("new", SECRET))
        holdfast.write("db/main.tf", RESOURCE % ("kept", "other"))
        head = repository.push("feature")
        request = github.requests[7] = MadeRequest(head=head, base=base)
        hooked.send(request_event(request, 7, "opened", at=clock.now().isoformat()), "pull_request")
        (comment,) = hooked.comments(1)
        first, context = comment.splitlines()[0], comment.splitlines()[2]
        assert first == "## ✋ Approval needed: 1 of 3 stacks needs one before apply"
        assert f"2 of 2 stacks are affected by 3 changed files · commit `{head[:10]}`" in context
        for text in (
            "- To apply `prod/db`: comment `holdfast apply`. The apply then waits for an approval.",
            "- still in the state: `terraform_data.kept`",
            "| ✅ `dev/net` | 1 change, 1 new | ready |",
            '-     input: "net"\n+     input: "changed"',
            "`HF709` `net/main.tf:1` `net` has no `required_version`",
            "`HF207` `net/main.tf:",
            "Comment `holdfast apply` to apply these plans",
        ):
            assert text in comment, comment
        assert SECRET not in comment
        assert "HF111" not in comment  # The state is not on one machine.
        # The comment is recorded, then the status is set: who wrote before has not seen the plan.
        eventually(lambda: github.statuses[head][-1][0] != "pending", what="the status of the plan")
        hooked.send(comment_event(7, "holdfast apply dev/net", at=clock.now().isoformat()), "issue_comment")
        applied = hooked.comments(2)[1]
        assert applied.startswith("## ✅ Applied: 1 change, 1 new in 1 stack"), applied
        hooked.send(comment_event(7, "holdfast apply prod/db", at=clock.now().isoformat()), "issue_comment")
        *before, waiting = hooked.comments(3)
        assert before == [comment, applied]
        assert waiting.startswith("## ✋ Not applied yet")
        assert "holdfast runs approve" in waiting
