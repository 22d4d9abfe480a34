from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from facts_made import ENVIRONMENT, USER, bare, commits, content, edit, git, platform
from git_server import GitHost, git_host
from program import Program, eventually


@pytest.fixture
def host(tmp_path: Path) -> Iterator[GitHost]:
    folder = tmp_path / "host"
    bare(folder / "facts.git")
    with git_host(folder, USER) as started:
        yield started


def test_facts_are_built_published_and_verified(holdfast: Program, host: GitHost) -> None:
    """Typed values per environment, one commit; again: nothing; a change: only its file; all are audited."""
    platform(holdfast, host.url)
    facts = host.folder / "facts.git"
    built = holdfast.json("facts", "build")
    assert [part["environment"] for part in built["targets"][0]["environments"]] == ["dev", "prod"]
    assert built["targets"][0]["environments"][0]["facts"] == {
        "gateway.address": "192.0.2.1",
        "gateway.port": 443,
        "zones": ["a", "b"],
    }
    assert (
        holdfast.json("facts", "verify", code=3, env=ENVIRONMENT)["targets"][0]["files"][0]["status"]
        == "missing"
    )

    published = holdfast.json("facts", "publish", "aws", env=ENVIRONMENT)["targets"][0]
    assert [file["status"] for file in published["files"]] == ["published", "published"]
    assert published["commit"] == git("rev-parse", "main", folder=facts)
    assert yaml.safe_load(content(facts, "aws/dev.yaml")) == {
        "gateway": {"address": "192.0.2.1", "port": 443},
        "zones": ["a", "b"],
    }
    assert "tester@" in content(facts, "aws/prod.yaml") or "root@" in content(facts, "aws/prod.yaml")
    assert holdfast.json("facts", "publish", env=ENVIRONMENT)["targets"][0]["commit"] is None
    assert commits(facts) == 1

    holdfast.write("vars/dev.tfvars", 'address = "192.0.2.9"\n')
    holdfast.ok("apply", "dev/cluster", "--yes")
    assert holdfast.ok("facts", "verify", env=ENVIRONMENT).code == 0
    stale = holdfast.json("facts", "verify", "--outputs", code=3, env=ENVIRONMENT)["targets"][0]
    assert [(file["status"], file["facts"]) for file in stale["files"]] == [
        ("different", ["gateway.address"]),
        ("ok", []),
    ]
    again = holdfast.ok("facts", "publish", env=ENVIRONMENT)
    assert "aws/dev.yaml  published" in again.out
    assert "(1 fact changed)" in again.out
    assert "aws/prod.yaml  unchanged" in again.out
    assert commits(facts) == 2
    assert holdfast.json("facts", "verify", "--outputs", env=ENVIRONMENT)["targets"][0]["good"]

    acts = holdfast.ok("audit", "show", "--json").out
    assert acts.count('"what": "facts-publish"') == 4
    for text in (built, published, again.text, acts):
        assert USER.partition(":")[2] not in str(text)
        assert "hunter2" not in str(text)
    assert holdfast.ok("audit", "verify").code == 0


def test_an_edit_by_hand_is_found_with_its_author(holdfast: Program, host: GitHost, tmp_path: Path) -> None:
    """Which facts, in which commit, by whom, exit 3; also a deleted file; the next publish replaces both."""
    platform(holdfast, host.url)
    facts = host.folder / "facts.git"
    holdfast.ok("facts", "publish", env=ENVIRONMENT)
    edit(facts, "aws/dev.yaml", "192.0.2.1", "192.0.2.66", folder=tmp_path / "ada")
    edit(facts, "aws/prod.yaml", "", "", folder=tmp_path / "ada")
    found = holdfast.ok("facts", "verify", code=3, env=ENVIRONMENT)
    assert "aws/dev.yaml  edited by hand (gateway.address)" in found.out
    assert "Ada <ada@acme.example>" in found.out
    assert "aws/prod.yaml  deleted by hand" in found.out
    document = holdfast.json("facts", "verify", code=3, env=ENVIRONMENT)["targets"][0]
    assert [len(file["edits"]) for file in document["files"]] == [1, 1]
    again = holdfast.ok("facts", "publish", env=ENVIRONMENT)
    assert "aws/dev.yaml had been edited by hand" in again.text
    assert holdfast.ok("facts", "verify", "--outputs", env=ENVIRONMENT).code == 0


def test_a_race_is_won_or_repeated(holdfast: Program, host: GitHost, tmp_path: Path) -> None:
    """A push in between is not lost: facts are read again, with what was applied since, on top of it."""
    platform(holdfast, host.url)
    facts = host.folder / "facts.git"
    rival = tmp_path / "rival"
    git("clone", "--quiet", str(facts), str(rival), folder=tmp_path)
    (rival / "other.yaml").write_text("a: 1\n")
    git("add", "other.yaml", folder=rival)
    git("commit", "--quiet", "--message=Rival", folder=rival)
    git("push", "--quiet", "origin", "HEAD:refs/heads/rival", folder=rival)
    hook = facts / "hooks/pre-receive"
    reached, go_on = tmp_path / "reached", tmp_path / "go-on"
    hook.write_text(
        "#!/bin/sh\nunset GIT_QUARANTINE_PATH\n"
        f"if ! test -e {reached}; then touch {reached}; until test -e {go_on}; do sleep 0.02; done; "
        "git update-ref refs/heads/main refs/heads/rival; fi\n"
    )
    hook.chmod(0o755)
    process = holdfast.start("facts", "publish", env=ENVIRONMENT)
    eventually(reached.exists, what="the host is asked")
    holdfast.write("vars/dev.tfvars", 'address = "192.0.2.9"\n')
    holdfast.ok("apply", "dev/cluster", "--yes")
    go_on.touch()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert commits(facts) == 2
    assert content(facts, "other.yaml") == "a: 1\n"
    assert "192.0.2.9" in content(facts, "aws/dev.yaml")


def test_a_host_that_refuses_is_an_answer(holdfast: Program, host: GitHost) -> None:
    """A hook, wrong credentials, an unknown repository: each with its reason; nothing is published."""
    platform(holdfast, host.url)
    facts = host.folder / "facts.git"
    hook = facts / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    refused = holdfast.ok("facts", "publish", code=3, env=ENVIRONMENT)
    assert "HF-FACT-5" in refused.err
    assert "pre-receive hook declined" in refused.err
    wrong = holdfast.ok("facts", "publish", code=1, env={"FACTS_TOKEN": "robot:wrong-token-0123456789"})
    assert "HF-SRC-6" in wrong.err
    assert "wrong-token" not in wrong.text
    shutil.rmtree(facts)
    assert "HF-SRC-5" in holdfast.ok("facts", "publish", code=1, env=ENVIRONMENT).err


def test_what_cannot_be_a_fact_is_refused(holdfast: Program, host: GitHost) -> None:
    """Sensitive outputs, secrets that no one marked, outputs that do not exist: all at once, exit 3."""
    platform(holdfast, host.url, applied=False)
    file = holdfast.folder / "holdfast.yaml"
    more = "        password: password\n        key: key\n        gone: nothing\n"
    file.write_text(file.read_text().replace("        zones: zones\n", more))
    holdfast.write("module/main.tf", (holdfast.folder / "module/main.tf").read_text() + KEY_OUTPUT)
    unapplied = holdfast.json("facts", "build", code=3)["errors"]
    assert {error["code"] for error in unapplied} == {"HF-FACT-2"}
    holdfast.ok("apply", "--yes", "--no-color")
    refused = holdfast.json("facts", "publish", code=3, env=ENVIRONMENT)["errors"]
    assert sorted({error["code"] for error in refused}) == ["HF-FACT-1", "HF-FACT-2"]
    assert "password" in refused[0]["message"]
    assert not (host.folder / "facts.git/refs/heads/main").exists()
    assert "ghp_" not in str(refused)


KEY_OUTPUT = """
output "key" {
  value = "ghp_0123456789abcdefABCDEF0123456789abcd"
}
"""


def test_only_ci_publishes_what_ci_owns(holdfast: Program, host: GitHost) -> None:
    """A person's machine may build and verify the facts of a CI-owned target, and not publish them."""
    platform(holdfast, host.url)
    platform(holdfast, host.url, owner="ci", applied=False)
    refused = holdfast.ok("facts", "publish", code=3, env=ENVIRONMENT)
    assert "HF-OWN-1" in refused.err
    assert "192.0.2.1" in holdfast.ok("facts", "build", "aws").out
    holdfast.ok("facts", "verify", code=3, env=ENVIRONMENT)


APPLICATION = """
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {{ name: web }}
spec:
  sources:
    - {{ repoURL: "{url}/Facts", path: charts/web, targetRevision: {revision} }}
    - {{ repoURL: "https://charts.example", chart: redis, targetRevision: 1.0.0 }}
"""


def test_a_second_revision_that_argo_cd_would_refuse_is_refused(holdfast: Program, host: GitHost) -> None:
    """With the Application and the reason; the same branch, or another repository, is fine."""
    platform(holdfast, host.url)
    git("init", "--quiet", folder=holdfast.folder)
    holdfast.write("gitops/web.yaml", APPLICATION.format(url=host.url, revision="release"))
    refused = holdfast.ok("facts", "publish", code=3, env=ENVIRONMENT)
    assert "HF-FACT-6" in refused.err
    assert "web (gitops/web.yaml)" in refused.err
    holdfast.write("gitops/web.yaml", APPLICATION.format(url=host.url, revision="main"))
    holdfast.write("gitops/template.yaml", "{{- if .Values.x }}\napiVersion: argoproj.io/v1alpha1\n")
    assert "gitops/template.yaml" in holdfast.ok("facts", "publish", env=ENVIRONMENT).text


def test_a_file_that_people_wrote_is_not_replaced(holdfast: Program, host: GitHost, tmp_path: Path) -> None:
    """Nothing is published over it; files of an environment that is gone are removed."""
    platform(holdfast, host.url)
    facts = host.folder / "facts.git"
    holdfast.ok("facts", "publish", env=ENVIRONMENT)
    (holdfast.folder / "vars/dev.tfvars").unlink()
    left = holdfast.json("facts", "verify", code=3, env=ENVIRONMENT)["targets"][0]["files"]
    assert [(file["environment"], file["status"]) for file in left] == [("prod", "ok"), ("dev", "left")]
    removed = holdfast.json("facts", "publish", env=ENVIRONMENT)["targets"][0]["files"]
    assert [(file["environment"], file["status"]) for file in removed] == [
        ("prod", "unchanged"),
        ("dev", "removed"),
    ]
    assert git("ls-tree", "-r", "--name-only", "main", folder=facts) == "aws/prod.yaml"
    edit(facts, "aws/prod.yaml", "# holdfast-facts:", "# facts:", folder=tmp_path / "ada")
    assert "HF-FACT-7" in holdfast.ok("facts", "publish", code=3, env=ENVIRONMENT).err


def test_a_publish_that_is_killed_changed_all_or_nothing(
    holdfast: Program, host: GitHost, tmp_path: Path
) -> None:
    """Killed while the host is deciding; the next publish needs no cleaning up."""
    platform(holdfast, host.url)
    facts = host.folder / "facts.git"
    reached, go_on = tmp_path / "reached", tmp_path / "go-on"
    hook = facts / "hooks/pre-receive"
    hook.write_text(f"#!/bin/sh\ntouch {reached}\nuntil test -e {go_on}; do sleep 0.02; done\n")
    hook.chmod(0o755)
    process = holdfast.start("facts", "publish", env=ENVIRONMENT)
    eventually(reached.exists, what="the host is asked")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (facts / "refs/heads/main").exists()
    go_on.touch()
    holdfast.ok("facts", "publish", env=ENVIRONMENT)
    assert holdfast.json("facts", "verify", "--outputs", env=ENVIRONMENT)["targets"][0]["good"]
    assert commits(facts) == 1
    assert holdfast.ok("audit", "verify").code == 0


def test_an_address_must_be_the_reserved_one(holdfast: Program, host: GitHost, tmp_path: Path) -> None:
    """Of the environment, in its account; anything else publishes nothing."""
    platform(holdfast, host.url)
    file = holdfast.folder / "holdfast.yaml"
    text = file.read_text()
    rules = (
        '      reserved: {{ gateway.address: "{}" }}\n      accounts: {{ dev: "111111111111" }}\n      map:\n'
    )
    file.write_text(text.replace("      map:\n", rules.format("aws_eip.gateway")))
    missing = holdfast.json("facts", "publish", code=3, env=ENVIRONMENT)["errors"]
    assert [error["code"] for error in missing] == ["HF-FACT-11", "HF-FACT-11"]
    for name, address in (("dev", "192.0.2.1"), ("prod", "gateway.acme.example")):
        state = json.loads(holdfast.ok("state", "pull", f"{name}/cluster").out)
        attributes = {
            "id": "eipalloc-1",
            "public_ip": "192.0.2.1",
            "public_dns": address,
            "arn": "arn:aws:ec2:eu-west-1:111111111111:elastic-ip/eipalloc-1",
        }
        state["serial"] += 1
        state["resources"] = [
            {
                "mode": "managed",
                "type": "aws_eip",
                "name": "gateway",
                "provider": 'provider["registry.terraform.io/hashicorp/aws"]',
                "instances": [{"schema_version": 0, "attributes": attributes}],
            }
        ]
        (tmp_path / "state.json").write_text(json.dumps(state))
        holdfast.ok("state", "push", f"{name}/cluster", str(tmp_path / "state.json"), "--yes")
    built = holdfast.ok("facts", "build").out
    assert "gateway.address is reserved: aws_eip.gateway of dev/cluster, in 111111111111" in built
    assert "aws_eip.gateway of prod/cluster, its account was not compared" in built
    file.write_text(file.read_text().replace("111111111111", "222222222222"))
    wrong = holdfast.json("facts", "publish", code=3, env=ENVIRONMENT)["errors"]
    assert [error["code"] for error in wrong] == ["HF-FACT-13"]
    assert not (host.folder / "facts.git/refs/heads/main").exists()
    file.write_text(text.replace("      map:\n", rules.format("aws_instance.x")))
    assert "HF-CONF" in holdfast.json("facts", "build", code=64)["errors"][0]["code"]


def test_a_value_copied_from_a_fact_is_found(holdfast: Program, host: GitHost) -> None:
    """In the files that GitOps reads, with its line; facts that were published there are no copies."""
    platform(holdfast, host.url)
    file = holdfast.folder / "holdfast.yaml"
    file.write_text(file.read_text().replace("      map:\n", '      gitops: ["gitops"]\n      map:\n'))
    holdfast.write("gitops/web.yaml", "replicas: 2\nhost: gateway.acme.example\n")
    holdfast.write("elsewhere.yaml", "host: gateway.acme.example\n")
    findings = holdfast.json("check", code=3)["findings"]
    copies = [finding for finding in findings if finding["rule"] == "HF404"]
    assert [(finding["file"], finding["line"]) for finding in copies] == [("gitops/web.yaml", 2)]
    assert "`gateway.address` of prod" in copies[0]["message"]
    holdfast.ok("facts", "publish", env=ENVIRONMENT)
    holdfast.write("gitops/web.yaml", content(host.folder / "facts.git", "aws/prod.yaml"))
    assert "HF404" not in holdfast.run("check").out
