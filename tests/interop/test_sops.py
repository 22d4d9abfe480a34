"""Files of the bridge and the real `sops`: each reads what the other writes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyrage
import pytest
from facts_made import ENVIRONMENT, USER, bare, commits, content, edit, git, platform
from git_server import git_host
from other_tools import real
from program import Program

from holdfast.secrets import sops

VALUES = {
    "egress_ips": ["192.0.2.1", "192.0.2.2"],
    "password": "hunter2\n ü\u2028",
    "empty": "",
    "nothing": None,
    "number": 7,
    "big": 9007199254740993,
    "float": 1.5,
    "large": 1e21,
    "on": True,
    "yes": "yes",
    "octal": "0o14",
    "exponent": "1e21",
    "name_unencrypted": "still secret",
    "nested": {"a": {"b": [{"c": False}, [], {}]}},
}
DATA_KEY = bytes(range(32))
BRIDGE = """
    bridge:
      - repository: "{url}/gitops.git"
        path: platform/egress/{{environment}}.yaml
        outputs: [zones, port, password]
        credentials: {{ secret: "env:FACTS_TOKEN" }}
stacks:
"""


def run(*argv: str, folder: Path, identity: str, code: int = 0) -> str:
    ran = subprocess.run(
        argv,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "SOPS_AGE_KEY": identity},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code, ran.stderr
    return ran.stdout


@pytest.fixture
def identity() -> Any:
    return pyrage.x25519.Identity.generate()


def test_sops_reads_what_we_write(tmp_path: Path, identity: Any) -> None:
    """Every type of value comes back, the digest is verified, and no value is in clear."""
    recipient = str(identity.to_public())
    text = sops.seal(
        VALUES,
        data_key=DATA_KEY,
        recipients={recipient: sops.sealed_key(DATA_KEY, recipient)},
        modified="2026-01-02T03:04:05Z",
    )
    assert not list(sops.clear_values(sops.read(text)))
    (tmp_path / "values.yaml").write_text(text)
    program = str(real("sops"))
    opened = run(
        program, "decrypt", "--output-type", "json", "values.yaml", folder=tmp_path, identity=str(identity)
    )
    assert json.loads(opened) == VALUES
    (tmp_path / "values.yaml").write_text(
        text.replace(f"  - {json.dumps(sops.read(text)['egress_ips'][1])}\n", "")
    )
    run(program, "decrypt", "values.yaml", folder=tmp_path, identity=str(identity), code=51)


def test_we_read_what_sops_writes(tmp_path: Path, identity: Any) -> None:
    """With the data key that the age identity opens; a swapped value is noticed."""
    (tmp_path / "plain.yaml").write_text(json.dumps(VALUES))
    recipient = str(identity.to_public())
    arguments = ("encrypt", "--age", recipient, "--encrypted-regex", ".*", "plain.yaml")
    text = run(str(real("sops")), *arguments, folder=tmp_path, identity="")
    document = sops.read(text)
    assert sops.recipients_of(document) == {("age", repr([("recipient", recipient)]))}
    key = pyrage.decrypt(document["sops"]["age"][0]["enc"].encode(), [identity])
    assert sops.unseal(text, key) == VALUES
    first, second = document["egress_ips"]
    swapped = text.replace(first, "?").replace(second, first).replace("?", second)
    with pytest.raises(sops.SopsError):
        sops.unseal(swapped, key)


def test_other_recipients_are_those_of_the_rules(holdfast: Program, tmp_path: Path, identity: Any) -> None:
    """KMS and age by `.sops.yaml`: readable with either, unchanged if nothing changed, another key is not."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    holdfast.environment["PATH"] += f":{real('sops').parent}"
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        aws = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test-secret-of-aws",
            "AWS_REGION": "eu-west-1",
        }
        import boto3  # noqa: PLC0415

        kms = boto3.client(
            "kms",
            region_name="eu-west-1",
            endpoint_url=aws["AWS_ENDPOINT_URL"],
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        arn = kms.create_key()["KeyMetadata"]["Arn"]
        gitops = bare(tmp_path / "host/gitops.git")
        rules = (
            f"creation_rules:\n  - path_regex: egress/.*\n    kms: {arn}\n    age: {identity.to_public()}\n"
        )
        seed = tmp_path / "seed"
        git("clone", "--quiet", str(gitops), str(seed), folder=tmp_path)
        (seed / ".sops.yaml").write_text(rules)
        git("add", ".sops.yaml", folder=seed)
        git("commit", "--quiet", "--message=Rules", folder=seed)
        git("push", "--quiet", "origin", "HEAD:main", folder=seed)
        with git_host(tmp_path / "host", USER) as started:
            platform(holdfast, started.url)
            config = holdfast.folder / "holdfast.yaml"
            config.write_text(
                config.read_text().replace("stacks:\n", BRIDGE.format(url=started.url).lstrip("\n"), 1)
            )
            env = {**ENVIRONMENT, **aws}
            published = holdfast.ok("facts", "seal", env=env)
            assert commits(gitops) == 2
            text = content(gitops, "platform/egress/dev.yaml")
            assert arn in text
            (tmp_path / "dev.yaml").write_text(text)
            sops_ = (str(real("sops")), "decrypt", "--output-type", "json", "dev.yaml")
            plain = json.loads(run(*sops_, folder=tmp_path, identity=str(identity)))
            assert plain == {"zones": ["a", "b"], "port": 443, "password": "hunter2-of-the-output"}
            assert holdfast.json("facts", "seal", env=env)["bridges"][0]["commit"] is None
            other = kms.create_key()["KeyMetadata"]["Arn"]
            edit(gitops, ".sops.yaml", arn, other, folder=seed)
            again = holdfast.json("facts", "seal", env=env)["bridges"][0]
            assert [file["status"] for file in again["files"]] == ["published", "published"]
            assert other in content(gitops, "platform/egress/dev.yaml")
            edit(gitops, ".sops.yaml", "    kms", "    encrypted_regex: ^zones$\n    kms", folder=seed)
            clear = holdfast.ok("facts", "seal", code=3, env=env)
            assert "HF-SEAL-7" in clear.err
            assert "hunter2" not in published.text + clear.text + str(again)
    finally:
        server.stop()
