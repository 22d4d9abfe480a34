"""`holdfast scaffold`: what is generated works, follows holdfast.yaml, and replaces nobody's work."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from program import Program
from scaffold_made import BUCKET, CODE, SERVER

FOLDER = ".github/workflows"


@pytest.fixture
def repository(holdfast: Program) -> Program:
    holdfast.write("holdfast.yaml", BUCKET)
    holdfast.write("code/main.tf", CODE)
    return holdfast


def workflow(repository: Program, name: str) -> dict[str, object]:
    document = yaml.safe_load((repository.folder / FOLDER / f"holdfast-{name}.yml").read_text())
    assert isinstance(document, dict)
    return document


def test_workflows_follow_the_configuration(repository: Program) -> None:
    """A file for each target that CI owns, in its lane; the second time nothing changes."""
    first = repository.json("scaffold", "workflows")
    names = {file["path"] for file in first["files"]}
    assert names == {
        *(f"holdfast-{name}.yml" for name in ("plan", "break-glass", "force-unlock", "drift")),
        *(f"holdfast-{name}-{target}.yml" for name in ("apply", "destroy") for target in ("aws", "azure")),
    }
    assert {file["status"] for file in first["files"]} == {"created"}
    assert {file["status"] for file in repository.json("scaffold", "workflows")["files"]} == {"unchanged"}
    assert repository.json("scaffold", "workflows", "--check")["files"]
    azure = workflow(repository, "apply-azure")
    assert azure["concurrency"] == {"group": "holdfast-blue", "cancel-in-progress": False, "queue": "max"}
    for name in names:
        text = (repository.folder / FOLDER / name).read_text()
        used = re.findall(r"uses: (\S+)", text)
        assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in used), used
        assert workflow(repository, name[9:-4])["permissions"] == {}
        assert "HOLDFAST_KEY" in text or name == "holdfast-plan.yml" or "drift" in name


def test_only_jobs_of_an_environment_get_the_key(repository: Program) -> None:
    """Who opens a pull request must not get the key that approves and applies."""
    repository.ok("scaffold", "workflows")
    for path in (repository.folder / FOLDER).iterdir():
        jobs = yaml.safe_load(path.read_text())["jobs"]
        for job in jobs.values():
            assert ("secrets.HOLDFAST_KEY" in json.dumps(job)) == ("environment" in job), path


def test_with_a_server_no_secret_is_stored(repository: Program) -> None:
    repository.write("holdfast.yaml", SERVER)
    settings = repository.json("scaffold", "workflows")["settings"]
    assert any("server-tokens" in line for line in settings)
    for path in (repository.folder / FOLDER).iterdir():
        text = path.read_text()
        assert "secrets." not in text, path
        assert "HOLDFAST_URL: https://holdfast.example.com" in text, path


def test_drift_is_told_where_there_are_routes(repository: Program) -> None:
    drift = repository.folder / FOLDER / "holdfast-drift.yml"
    repository.ok("scaffold", "workflows")
    assert "holdfast drift --format" in drift.read_text()
    text = (repository.folder / "holdfast.yaml").read_text()
    route = "notify: { channels: { ci: { console: true } }, routes: [ { what: drift, channel: ci } ] }"
    repository.write("holdfast.yaml", f"{text}\n{route}\n")
    repository.ok("scaffold", "workflows")
    assert "holdfast drift --notify --format" in drift.read_text()


def test_edited_files_are_not_replaced(repository: Program) -> None:
    """All files are written or none; --check says what differs; --force replaces."""
    repository.ok("scaffold", "workflows")
    plan = repository.folder / FOLDER / "holdfast-plan.yml"
    edited = plan.read_text() + "# mine\n"
    plan.write_text(edited)
    drift = repository.folder / FOLDER / "holdfast-drift.yml"
    drift.unlink()
    error = repository.json("scaffold", "workflows", code=3)["errors"][0]
    assert error["code"] == "HF-SCAF-1"
    assert plan.read_text() == edited
    assert not drift.exists()
    shown = repository.ok("scaffold", "workflows", "--check", code=3).text
    assert re.search(r"edited\s+\S*holdfast-plan\.yml", shown)
    assert re.search(r"missing\s+\S*holdfast-drift\.yml", shown)
    repository.ok("scaffold", "workflows", "--force")
    assert plan.read_text() != edited


def test_files_of_a_removed_target_are_named(repository: Program) -> None:
    repository.ok("scaffold", "workflows")
    text = (repository.folder / "holdfast.yaml").read_text()
    repository.write("holdfast.yaml", text.replace("azure: { owner: ci", "azure: { owner: developers"))
    files = {file["path"]: file["status"] for file in repository.json("scaffold", "workflows")["files"]}
    assert files["holdfast-apply-azure.yml"] == "obsolete"
    assert repository.json("scaffold", "workflows", "--check", code=3)["files"]


@pytest.mark.parametrize("branch", ["main]\n  x: y", "a b", "${{ github.token }}"])
def test_a_branch_cannot_add_to_a_workflow(repository: Program, branch: str) -> None:
    error = repository.json("scaffold", "workflows", "--branch", branch, code=64)["errors"][0]
    assert error["code"] == "HF-SCAF-4"
    assert not (repository.folder / FOLDER).exists()


def test_a_stack_is_handed_to_tofu_controller(repository: Program) -> None:
    """Manual approval, the lock file as it is, no readable plans, and secrets only by reference."""
    options = ("tofu-controller", "network", "--source", "infra")
    text = repository.ok("scaffold", *options).out
    resource = yaml.safe_load(text)
    assert resource["apiVersion"] == "infra.contrib.fluxcd.io/v1alpha2"
    spec = resource["spec"]
    assert (spec["path"], spec["approvePlan"], spec["upgradeOnInit"]) == ("./code", "", False)
    assert (spec["storeReadablePlan"], spec["destroyResourcesOnDeletion"]) == ("none", False)
    backend = spec["backendConfig"]["customConfiguration"]
    assert backend == 'backend "s3" {\n  bucket = "states"\n  key = "a/b"\n  region = "eu-west-1"\n}'
    assert spec["vars"] == [{"name": "size", "value": "3"}, {"name": "word", "value": '"${x}"'}]
    assert spec["varsFrom"] == [{"kind": "Secret", "name": "network-variables", "varsKeys": ["token"]}]
    assert "TOKEN" not in text
    assert "full id" in text
    repository.ok("scaffold", *options, "--approve", "drift-only", "--out", "flux/network.yaml")
    written = yaml.safe_load((repository.folder / "flux/network.yaml").read_text())
    assert written["spec"]["approvePlan"] == "disable"
    wrong = repository.json("scaffold", *options, "--approve", "yes", code=64)["errors"][0]
    assert wrong["code"] == "HF-USE-22"


def test_what_the_controller_cannot_do_is_refused(repository: Program) -> None:
    """A managed state would be started again from nothing."""
    text = (repository.folder / "holdfast.yaml").read_text()
    hooks = "environment: dev, hooks: [ { when: before_plan, run: [make] } ] }"
    lines = [line.replace("environment: dev }", hooks) for line in text.splitlines()]
    repository.write("holdfast.yaml", "\n".join(lines))
    options = ("tofu-controller", "mine", "--source", "infra")
    error = repository.json("scaffold", *options, code=3)["errors"][0]
    assert error["code"] == "HF-SCAF-5"
    assert "state is managed by Holdfast" in error["message"]
    assert "hooks" in error["message"]


def test_facts_are_layered_over_values(repository: Program) -> None:
    """The facts win, and a missing file is an error of Argo CD: nothing is deployed without its facts."""
    text = (repository.folder / "holdfast.yaml").read_text()
    facts = (
        'facts: { repository: "https://git.example/facts.git", map: { size: x }, environments: [dev, prod] }'
    )
    repository.write("holdfast.yaml", text.replace("aws: { owner: ci }", f"aws: {{ owner: ci, {facts} }}"))
    chart = ("--repository", "https://git.example/gitops.git", "--path", "charts/web")
    values = ("--values", "values.yaml", "--values", "values-{environment}.yaml")
    generated = yaml.safe_load(repository.ok("scaffold", "argocd", "aws", *chart, *values).out)
    assert (generated["kind"], generated["spec"]["goTemplate"]) == ("ApplicationSet", True)
    elements = generated["spec"]["generators"][0]["list"]["elements"]
    assert elements == [{"environment": name, "facts": f"aws/{name}.yaml"} for name in ("dev", "prod")]
    template = generated["spec"]["template"]["spec"]
    mine, published = template["sources"]
    files = ["values.yaml", "values-{{ .environment }}.yaml", "$facts/{{ .facts }}"]
    assert mine["helm"] == {"valueFiles": files}
    assert published == {"repoURL": "https://git.example/facts.git", "targetRevision": "main", "ref": "facts"}
    text = (repository.folder / "holdfast.yaml").read_text()
    repository.write("holdfast.yaml", text.replace("[dev, prod]", "[prod]"))
    single = yaml.safe_load(repository.ok("scaffold", "argocd", "aws", *chart).out)
    assert (single["kind"], single["metadata"]["name"]) == ("Application", "web-prod")
    assert single["spec"]["sources"][0]["helm"]["valueFiles"] == ["values.yaml", "$facts/aws/prod.yaml"]
    same = ("--repository", "https://git.example/Facts", "--path", "web", "--revision", "v1")
    refused = repository.json("scaffold", "argocd", "aws", *same, code=3)["errors"][0]
    assert refused["code"] == "HF-FACT-6"
    assert repository.json("scaffold", "argocd", "azure", *chart, code=64)["errors"][0]["hint"]


@pytest.mark.parametrize("kind", ["aws", "azure", "local"])
def test_a_new_target_passes_its_checks(holdfast: Program, kind: str) -> None:
    """Its outputs satisfy the contract, and its backend is only a type in the code."""
    created = holdfast.json("scaffold", "target", kind, "--name", "platform-a")
    assert created["folder"] == "targets/platform-a"
    holdfast.write("holdfast.yaml", f"version: 1\n{created['configuration']}")
    findings = holdfast.json("check")["findings"]
    assert [one for one in findings if one["severity"] != "note"] == []
    code = (holdfast.folder / "targets/platform-a/main.tf").read_text()
    backends = re.findall(r'backend "(\w+)" \{(.*?)\}', code)
    assert backends == {"aws": [("s3", "")], "azure": [("azurerm", "")], "local": []}[kind]
    again = holdfast.json("scaffold", "target", kind, "--name", "platform-a", code=64)["errors"][0]
    assert again["code"] == "HF-SCAF-7"
    wrong = holdfast.json("scaffold", "target", kind, "--name", 'a"b', code=64)["errors"][0]
    assert wrong["code"] == "HF-SCAF-8"


def test_the_local_target_is_applied(holdfast: Program) -> None:
    """k3d is called once to create the cluster, beside its configuration. It stands for the real one here."""
    created = holdfast.json("scaffold", "target", "local")
    holdfast.write("holdfast.yaml", f"version: 1\n{created['configuration']}")
    calls = holdfast.folder / "calls"
    tool = holdfast.write(
        "bin/k3d", f'#!/bin/sh\necho "$*" >> {calls}\n[ "$2" != list ] && [ -f k3d.yaml ]\n'
    )
    tool.chmod(0o755)
    path = f"{tool.parent}:{holdfast.environment['PATH']}"
    calls.touch()
    result = holdfast.results("apply", "--yes", env={"PATH": path})["local/platform"]
    assert result["status"] == "applied"
    assert result["outputs"]["kube_context"]["value"] == "k3d-local"
    assert calls.read_text().splitlines() == ["cluster list local", "cluster create --config k3d.yaml"]
    assert holdfast.json("check")["findings"] == []
