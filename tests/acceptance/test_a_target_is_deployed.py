from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from answering import Answer, Answering
from facts_made import ENVIRONMENT, USER, bare, commits
from git_server import GitHost, git_host
from kubernetes_contract import APPLICATIONS
from kubernetes_server import SmallCluster, small_cluster
from program import Program, eventually

from holdfast.runs.stages import NAMES

ROOT = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Application",
    "metadata": {"name": "root"},
    "spec": {"project": "default"},
}
MODULE = """
resource "terraform_data" "cluster" {
  provisioner "local-exec" { command = "until [ -e FREE ]; do sleep 0.1; done" }
}
output "address" { value = "192.0.2.1" }
output "kube_context" { value = "small" }
"""


class Platform:
    """A target with everything: each stage can be held, and let go."""

    def __init__(self, holdfast: Program, cluster: SmallCluster, host: GitHost, url: str) -> None:
        self.holdfast, self.cluster, self.host = holdfast, cluster, host
        self.free_apply = holdfast.folder.parent / "free"
        self.free_apply.touch()
        module = MODULE.replace("FREE", str(self.free_apply))
        holdfast.write("cluster/main.tf", module)
        documents = [json.dumps(APPLICATIONS), json.dumps(ROOT)]
        holdfast.write("gitops/argocd.yaml", "\n---\n".join(reversed(documents)))
        holdfast.write(
            "holdfast.yaml",
            f"""
            version: 1
            environments: {{ dev: {{}} }}
            targets:
              aws:
                kubernetes: {{ context: "{{outputs.kube_context}}", kubeconfig: kubeconfig }}
                facts:
                  repository: "{host.url}/facts.git"
                  map: {{ gateway.address: address }}
                  credentials: {{ secret: "env:FACTS_TOKEN" }}
                bootstrap: {{ manifests: [ {{ file: gitops/argocd.yaml }} ] }}
                gates:
                  - {{ name: portal, http: {{ url: "{url}" }}, deadline: 60s, interval: 1s }}
            stacks:
              - {{ name: dev/cluster, environment: dev, module: cluster, target: aws }}
            """,
        )

    def deploy(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        ran = self.holdfast.ok("deploy", "aws", "--yes", "--json", *arguments, code=code, env=ENVIRONMENT)
        document: dict[str, Any] = json.loads(ran.out)
        return document

    def statuses(self, document: dict[str, Any]) -> list[str]:
        return [stage["status"] for stage in document["stages"]]


@pytest.fixture
def server() -> Iterator[Answering]:
    with Answering(lambda _: Answer()) as started:
        yield started


@pytest.fixture
def platform(holdfast: Program, tmp_path: Path, server: Answering) -> Iterator[Platform]:
    bare(tmp_path / "host" / "facts.git")
    with git_host(tmp_path / "host", USER) as host, small_cluster(holdfast.folder) as (cluster, _):
        yield Platform(holdfast, cluster, host, server.url)


def test_every_stage_of_a_deploy_is_done_and_recorded(platform: Platform) -> None:
    """Apply, facts, cluster, bootstrap, gates; again, nothing changes. The run history has each stage."""
    document = platform.deploy()
    assert platform.statuses(document) == ["done"] * len(NAMES)
    cluster = platform.cluster
    assert ("argoproj.io/v1alpha1", "applications", "argocd", "root") in cluster.resources
    before = {key: json.dumps(one["spec"]) for key, one in cluster.resources.items() if "spec" in one}
    assert commits(platform.host.folder / "facts.git") == 1
    again = platform.deploy()
    assert platform.statuses(again) == ["done"] * len(NAMES)
    assert commits(platform.host.folder / "facts.git") == 1
    assert {key: json.dumps(one["spec"]) for key, one in cluster.resources.items() if "spec" in one} == before
    run = platform.holdfast.json("runs", "show", document["run"])["run"]
    assert (run["operation"], run["target"], run["status"]) == ("deploy", "aws", "applied")
    assert [stage["name"] for stage in run["stages"]] == list(NAMES)
    assert run["gates"][0]["result"] == "passed"
    refused = platform.holdfast.ok("deploy", "aws", "--yes", "--continue", code=64, env=ENVIRONMENT)
    assert "HF-DEPLOY-1" in refused.err


def test_a_failed_stage_stops_the_deploy_and_is_continued(platform: Platform) -> None:
    """What follows is not begun; `--continue` repeats nothing that is done, and not for other code."""
    platform.cluster.fail = 503
    failed = platform.deploy(code=1)
    assert platform.statuses(failed) == ["done", "done", "failed", "pending", "pending"]
    assert "the test says so" in failed["stages"][2]["summary"]
    platform.cluster.fail = None
    applies = platform.holdfast.json("runs", "list")["runs"]
    done = platform.deploy("--continue")
    assert platform.statuses(done) == ["done"] * len(NAMES)
    after = platform.holdfast.json("runs", "list")["runs"]
    assert [run["operation"] for run in after[: len(after) - len(applies)]] == ["deploy"]
    platform.cluster.fail = 503
    platform.deploy(code=1)
    with (platform.holdfast.folder / "gitops/argocd.yaml").open("a") as file:
        file.write("\n---\n")
    refused = platform.holdfast.ok("deploy", "aws", "--yes", "--continue", code=64, env=ENVIRONMENT)
    assert "HF-DEPLOY-2" in refused.err


def test_a_missing_secret_stops_a_deploy_before_it_begins(platform: Platform) -> None:
    """Nothing is applied, published or recorded; with the secret it goes on."""
    file = platform.holdfast.folder / "holdfast.yaml"
    secret = 'aws:\n    secrets: [ { name: coder, secret: "env:CODER_PASSWORD" } ]'
    file.write_text(file.read_text().replace("aws:", secret, 1))
    error = platform.holdfast.json("deploy", "aws", "--yes", code=1, env=ENVIRONMENT)["errors"][0]
    assert "aws/coder" in error["message"]
    assert platform.holdfast.json("runs", "list")["runs"] == []
    env = {**ENVIRONMENT, "CODER_PASSWORD": "known-to-nobody-17"}
    ran = platform.holdfast.ok("deploy", "aws", "--yes", "--json", env=env)
    assert platform.statuses(json.loads(ran.out)) == ["done"] * 5
    assert "known-to-nobody-17" not in ran.text


def test_only_ci_deploys_what_ci_owns(platform: Platform) -> None:
    """Refused before anything is done, and nothing is sent to the cluster."""
    file = platform.holdfast.folder / "holdfast.yaml"
    file.write_text(file.read_text().replace("  aws:\n", "  aws:\n    owner: ci\n", 1))
    for arguments in ((), ("--continue",)):
        refused = platform.holdfast.ok("deploy", "aws", "--yes", *arguments, code=3, env=ENVIRONMENT)
        assert "HF-OWN-1" in refused.err
    assert platform.cluster.asked == []


def test_nothing_configured_is_skipped_and_said(holdfast: Program) -> None:
    """A stage that was not done is never reported as done."""
    holdfast.write("m/main.tf", 'output "x" { value = 1 }\n')
    holdfast.write(
        "holdfast.yaml",
        "version: 1\ntargets: { aws: {} }\n"
        "stacks: [ { name: dev/m, environment: dev, module: m, target: aws } ]\n",
    )
    shown = holdfast.ok("deploy", "aws", "--yes").out
    assert "- gates       the target has no gates: nothing was verified" in shown
    assert shown.count("  - ") == 4


def hold(platform: Platform, server: Answering, stage: str) -> tuple[Callable[[], bool], Callable[[], None]]:
    """Make a stage wait: whether it does, and how it goes on."""
    held, free = threading.Event(), threading.Event()
    match stage:
        case "apply":
            platform.free_apply.unlink()

            def applies() -> bool:
                runs = platform.holdfast.json("runs", "list")["runs"]
                return any(run["operation"] == "apply" and run["status"] is None for run in runs)

            return applies, platform.free_apply.touch
        case "facts":
            allows = platform.host.allows

            def wait(header: str | None) -> bool:
                held.set()
                free.wait()
                return allows(header)

            platform.host.allows = wait  # type: ignore[method-assign]
            return held.is_set, free.set
        case "gates":
            server.hold()
            return lambda: bool(server.asked), server._free.set
        case _:
            platform.cluster.hold_on = "GET /version" if stage == "cluster" else "PATCH /apis/argoproj.io"
            return platform.cluster.held.is_set, platform.cluster.free.set


@pytest.mark.parametrize(
    "stage", [pytest.param(name, marks=[] if name == "bootstrap" else pytest.mark.long) for name in NAMES]
)
def test_a_deploy_that_is_killed_continues_at_its_stage(
    platform: Platform, server: Answering, stage: str
) -> None:
    """Killed in each stage: what was done before is not repeated, and everything is done in the end."""
    is_held, free = hold(platform, server, stage)
    started = platform.holdfast.start("deploy", "aws", "--yes", env=ENVIRONMENT)
    eventually(is_held, what=f"the stage {stage} is held")
    started.send_signal(signal.SIGKILL)
    started.communicate()
    first = platform.holdfast.json("runs", "list")["runs"]
    deploy = next(run for run in first if run["operation"] == "deploy")
    stages = platform.holdfast.json("runs", "show", deploy["id"])["run"]["stages"]
    at = NAMES.index(stage)
    assert [one["status"] for one in stages[: at + 1]] == ["done"] * at + ["running"]
    free()
    done = platform.deploy("--continue", "--wait", "60s")
    assert platform.statuses(done) == ["done"] * len(NAMES)
    runs = platform.holdfast.json("runs", "list")["runs"]
    assert sum(run["operation"] == "apply" for run in runs) <= 1 + (stage == "apply")
    assert next(run for run in runs if run["id"] == deploy["id"])["status"] == "failed"
    assert commits(platform.host.folder / "facts.git") == 1
