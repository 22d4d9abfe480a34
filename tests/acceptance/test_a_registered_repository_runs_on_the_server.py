"""A server runs the code of a registered repository: from a real Git host, over https, with a password."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Program
from registered_repository import PASSWORD, registered_repository

from holdfast.kernel.errors import UsageError

CONFIGURATION = """\
version: 1
stacks:
  - {name: net, module: net, environment: dev}
"""
RESOURCE = 'resource "terraform_data" "x" {\n  input = "%s"\n}\n'


def test_a_revision_is_planned_and_applied(holdfast: Program, tmp_path: Path) -> None:
    """Exactly that revision; what cannot be fetched fails with a reason, and nothing shows the password."""
    holdfast.write("holdfast.yaml", CONFIGURATION)
    holdfast.write("net/main.tf", RESOURCE % "first")
    with registered_repository(holdfast, tmp_path) as repository:
        holdfast.write("net/main.tf", RESOURCE % "second")
        second = repository.push("feature", "refs/tags/v2")
        plan = ""
        for revision, value in (("feature", "second"), ("v2", "second"), (second, "second"), (None, "first")):
            plan = repository.run("plan", "net", revision)
            assert repository.end(plan)["status"] == "planned"
            (resource,) = repository.send("GET", f"runs/{plan}/plan")["resources"]
            assert resource["after"]["input"] == value
        shown = repository.send("GET", f"runs/{plan}/plan")
        # The findings that `holdfast plan` shows.
        local = holdfast.json("plan")["checks"]
        finding = next(finding for finding in shown["checks"]["findings"] if finding["rule"] == "HF709")
        assert finding in local["findings"]
        assert shown["checks"]["summary"]["rules"] == local["summary"]["rules"]

        assert repository.end(repository.run("apply", "net", second))["status"] == "applied"
        assert repository.end(repository.run("plan", "net", "v2"))["status"] == "unchanged"

        for revision, reason in (
            ("no-such-branch", "has no branch or tag no-such-branch"),
            ("0" * 40, f"has no commit {'0' * 40}"),
        ):
            failed = repository.run("plan", "net", revision)
            error = repository.end(failed)["error"]
            log = repository.send("GET", f"runs/{failed}/log")["lines"]
            assert log == [f"HF-SRC-4 {error['message']}", error["hint"]]
            assert (error["code"], reason in error["message"]) == ("HF-SRC-4", True), error
            assert "that it was pushed" in error["hint"]
        with pytest.raises(UsageError, match="HF-RUN-29"):
            repository.run("plan", "net", name="other")

        repository.credentials.write_text("wrong-password-of-mine")
        holdfast.write("net/main.tf", RESOURCE % "third")
        refused = repository.end(repository.run("plan", "net", repository.push("main")))["error"]
        assert refused["code"] == "HF-SRC-6"
        assert "did not accept the credentials" in refused["message"]
        repository.credentials.unlink()
        missing = repository.end(repository.run("plan", "net", "feature"))["error"]
        assert str(repository.credentials) in missing["message"], missing
        everything = repr((shown, refused, missing, repository.send("GET", "audit")))
        assert PASSWORD not in everything
        assert "wrong-password-of-mine" not in everything
