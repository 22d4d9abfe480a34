from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyrage
import pytest
import yaml
from facts_made import ENVIRONMENT, USER, bare, commits, content, edit, git, platform
from git_server import GitHost, git_host
from program import Program

from holdfast.secrets import sops

IDENTITY = pyrage.x25519.Identity.generate()
BRIDGE = """
    bridge:
      - repository: "{url}/gitops.git"
        path: "platform/{{environment}}/egress-values.yaml"
        outputs: [zones, password]
        age: ["{recipient}"]
        credentials: {{ secret: "env:FACTS_TOKEN" }}
stacks:
"""
FILE = "platform/dev/egress-values.yaml"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[GitHost]:
    folder = tmp_path / "host"
    bare(folder / "gitops.git")
    with git_host(folder, USER) as started:
        yield started


def with_bridge(program: Program, host: GitHost, recipient: str = str(IDENTITY.to_public())) -> None:
    file = program.folder / "holdfast.yaml"
    bridge = BRIDGE.format(url=host.url, recipient=recipient)
    file.write_text(file.read_text().replace("stacks:\n", bridge.lstrip("\n"), 1))


def opened(text: str) -> dict[str, object]:
    key = pyrage.decrypt(yaml.safe_load(text)["sops"]["age"][0]["enc"].encode(), [IDENTITY])
    return sops.unseal(text, key)


def test_named_outputs_and_no_others_are_published_encrypted(
    holdfast: Program, host: GitHost, tmp_path: Path
) -> None:
    """The same values leave the file as it is, byte for byte; another value or recipient does not."""
    platform(holdfast, host.url)
    with_bridge(holdfast, host)
    gitops = host.folder / "gitops.git"
    first = holdfast.json("facts", "seal", env=ENVIRONMENT)["bridges"][0]
    assert [file["status"] for file in first["files"]] == ["published", "published"]
    text = content(gitops, FILE)
    assert opened(text) == {"zones": ["a", "b"], "password": "hunter2-of-the-output"}
    assert holdfast.json("facts", "seal", "aws", env=ENVIRONMENT)["bridges"][0]["commit"] is None
    assert content(gitops, FILE) == text
    assert commits(gitops) == 1

    code = holdfast.folder / "module/main.tf"
    code.write_text(code.read_text().replace("hunter2-of", "hunter3-of"))
    holdfast.ok("apply", "dev/cluster", "--yes")
    again = holdfast.ok("facts", "seal", env=ENVIRONMENT)
    assert f"{FILE}  published (zones, password)" in again.out
    assert "platform/prod/egress-values.yaml  unchanged" in again.out
    assert opened(content(gitops, FILE))["password"] == "hunter3-of-the-output"

    edit(gitops, FILE, "type:str", "type:int", folder=tmp_path / "ada")
    assert holdfast.json("facts", "seal", env=ENVIRONMENT)["bridges"][0]["commit"] is not None
    assert opened(content(gitops, FILE))["password"] == "hunter3-of-the-output"

    config = holdfast.folder / "holdfast.yaml"
    other = str(pyrage.x25519.Identity.generate().to_public())
    config.write_text(config.read_text().replace(str(IDENTITY.to_public()), other))
    assert holdfast.json("facts", "seal", env=ENVIRONMENT)["bridges"][0]["commit"] is not None
    assert other in content(gitops, FILE)

    acts = holdfast.ok("audit", "show", "--json").out
    everything = git("log", "--all", "--patch", folder=gitops)
    for shown in (str(first), again.text, acts, everything):
        assert "of-the-output" not in shown
        assert USER.partition(":")[2] not in shown
    kept = [file for file in [*holdfast.folder.rglob("*"), *holdfast.home.rglob("*")] if file.is_file()]
    assert not [
        file for file in kept if b"hunter2-of-the-output" in file.read_bytes() and file.name != "main.tf"
    ]


def test_what_cannot_be_sealed_is_refused(holdfast: Program, host: GitHost, tmp_path: Path) -> None:
    """A missing output, a file that people wrote, no rules: each with what to do; nothing is published."""
    platform(holdfast, host.url)
    with_bridge(holdfast, host)
    gitops = host.folder / "gitops.git"
    config = holdfast.folder / "holdfast.yaml"
    text = config.read_text()
    config.write_text(text.replace("outputs: [zones, password]", "outputs: [zones, gone]"))
    refused = holdfast.json("facts", "seal", code=3, env=ENVIRONMENT)["errors"]
    assert {error["code"] for error in refused} == {"HF-SEAL-2"}
    config.write_text(text.replace("{environment}/egress", "egress"))
    code = holdfast.folder / "module/main.tf"
    code.write_text(code.read_text().replace("hunter2", "${var.address}"))
    holdfast.ok("apply", "--yes")
    assert "HF-SEAL-3" in holdfast.ok("facts", "seal", code=3, env=ENVIRONMENT).err
    config.write_text(text.replace(f'        age: ["{IDENTITY.to_public()}"]\n', ""))
    assert "HF-SEAL-6" in holdfast.ok("facts", "seal", code=64, env=ENVIRONMENT).err
    assert not (gitops / "refs/heads/main").exists()

    config.write_text(text)
    holdfast.ok("facts", "seal", env=ENVIRONMENT)
    edit(gitops, FILE, "sops:", "sop:", folder=tmp_path / "ada")
    assert "HF-SEAL-4" in holdfast.ok("facts", "seal", code=3, env=ENVIRONMENT).err
    config.write_text(text.replace("owner: developers", "owner: ci"))
    assert "HF-OWN-1" in holdfast.ok("facts", "seal", code=3, env=ENVIRONMENT).err
