"""OpenTofu's library without Holdfast: one process runs many commands, and none affects another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import engines  # noqa: F401 - makes HOLDFAST_TOOLS/libtofu known
import pytest

from holdfast.terraform.engine import worker
from holdfast.terraform.engine.interface import Product
from holdfast.terraform.engine.pool import library_path

LIBRARY = library_path(Product.TOFU)
pytestmark = pytest.mark.skipif(
    LIBRARY is None, reason="no libtofu: make libtofu, or a folder with libtofu/ in HOLDFAST_TOOLS"
)

CALLS = """
import json, os, sys, tempfile
sys.path.insert(0, {source!r})
from holdfast.terraform.engine.worker import Embedded
engine, answers = Embedded({library!r}), []
os.environ["TF_VAR_word"] = "set after the start"
for number, (folder, *argv) in enumerate(json.load(sys.stdin)):
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    if number == {cancelled}:
        engine.cancel(str(number))
    code = engine.run(str(number), argv, folder, os.dup(out.fileno()), os.dup(err.fileno()))
    assert os.getcwd() == "/"
    out.seek(0), err.seek(0)
    answers.append((code, out.read().decode(), err.read().decode()))
json.dump((answers, len(os.listdir("/dev/fd"))), sys.stdout)
"""
ENCRYPTED = """
terraform {
  encryption {
    key_provider "pbkdf2" "key" {
      passphrase = "%s"
      iterations = 200000
    }
    method "aes_gcm" "cipher" { keys = key_provider.pbkdf2.key }
    state { method = method.aes_gcm.cipher }
    plan { method = method.aes_gcm.cipher }
  }
}
"""
HELLO = 'resource "terraform_data" "a" { input = "hello" }\noutput "o" { value = terraform_data.a.output }\n'
Answer = tuple[int, str, str]


def run(folder: Path, *calls: tuple[str, ...], cancelled: int = -1) -> list[Answer]:
    """All calls (folder and arguments) in one process. The one at `cancelled` is cancelled beforehand."""
    source = str(Path(worker.__file__).parents[3])
    ran = subprocess.run(
        [sys.executable, "-c", CALLS.format(source=source, library=str(LIBRARY), cancelled=cancelled)],
        input=json.dumps([(str(folder / name), *argv) for name, *argv in calls]),
        env={"HOME": str(folder), "TF_CLI_CONFIG_FILE": "/dev/null", "TF_VAR_word": "set at the start"},
        capture_output=True,
        text=True,
        check=True,
    )
    answers, descriptors = json.loads(ran.stdout)
    assert descriptors < 20
    return [tuple(answer) for answer in answers]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def applied(folder: str, *options: str) -> list[tuple[str, ...]]:
    return [
        (folder, "init", "-input=false", *options),
        (folder, "apply", "-auto-approve", "-input=false", *options),
        (folder, "output", "-json", *options),
    ]


def output(answer: Answer) -> Any:
    return json.loads(answer[1])["o"]["value"]


def test_different_encryptions_do_not_mix(tmp_path: Path) -> None:
    """Two passphrases and none, in turn: each state stays readable for its own stack, and for no other."""
    for name, code in (("a", ENCRYPTED % ("a" * 20)), ("b", ENCRYPTED % ("b" * 20)), ("plain", "")):
        write(tmp_path / name / "main.tofu", code + HELLO)
    answers = run(tmp_path, *(call for name in ("a", "b", "plain", "a") for call in applied(name)))
    assert [code for code, *_ in answers] == [0] * 12
    assert {output(answer) for answer in answers[2::3]} == {"hello"}
    states = {name: (tmp_path / name / "terraform.tfstate").read_text() for name in ("a", "b", "plain")}
    assert ["encrypted_data" in states[name] for name in states] == [True, True, False]
    write(tmp_path / "b/terraform.tfstate", states["a"])
    write(tmp_path / "plain/terraform.tfstate", states["a"])
    answers = run(tmp_path, *((name, "plan", "-no-color") for name in ("b", "plain")))
    assert [code for code, *_ in answers] == [1, 1]
    assert "decrypt" in answers[0][2]


def test_features_of_opentofu_work_warm(tmp_path: Path) -> None:
    """.tofu files, variables in backend and module source, `enabled`, and the environment of the start."""
    write(tmp_path / "files/main.tf", 'output "o" { value = "tf" }')
    write(tmp_path / "files/main.tofu", 'output "o" { value = "tofu" }')
    write(tmp_path / "early/modules/m/main.tf", 'output "m" { value = "module" }')
    write(
        tmp_path / "early/main.tofu",
        """
        variable "at" {}
        variable "word" {}
        terraform {
          backend "local" { path = "${var.at}.tfstate" }
        }
        module "m" { source = "./modules/${var.at}" }
        output "o" { value = "${module.m.m} ${var.word}" }
        """,
    )
    write(
        tmp_path / "enabled/main.tf",
        'variable "on" {}\nresource "terraform_data" "a" {\n  lifecycle { enabled = var.on }\n}\n'
        'output "o" { value = terraform_data.a == null ? "off" : "on" }\n',
    )
    answers = run(
        tmp_path,
        *(*applied("files"), *applied("early", "-var=at=m")),
        *(*applied("enabled", "-var=on=true"), *applied("enabled", "-var=on=false"), *applied("files")),
    )
    assert [output(answer) for answer in answers[2::3]] == [
        "tofu",
        "module set at the start",
        "on",
        "off",
        "tofu",
    ]
    assert (tmp_path / "early/m.tfstate").is_file()


def test_functions_belong_to_their_command(tmp_path: Path) -> None:
    """Tables of functions are shared: each command still reads its own files, and has a time of its own."""
    code = """
        output "o" {
          value = [file("text"), templatefile("text", {}), plantimestamp(), core::upper("x"), try(uuid(), "")]
        }
        resource "terraform_data" "next_second" {
          input = timestamp()
          provisioner "local-exec" {
            command = "now=$(date +%s); while [ $(date +%s) = $now ]; do sleep 0.1; done"
          }
        }
        """
    for name in ("a", "b"):
        write(tmp_path / name / "main.tofu", code)
        write(tmp_path / name / "text", f"of {name}")
    answers = run(tmp_path, *(call for name in ("a", "b", "a") for call in applied(name)))
    assert [code for code, *_ in answers] == [0] * 9
    values = [output(answer) for answer in answers[2::3]]
    assert [value[0:2] for value in values] == [["of a"] * 2, ["of b"] * 2, ["of a"] * 2]
    assert {value[3] for value in values} == {"X"}
    assert [len({value[number] for value in values}) for number in (2, 4)] == [len(values)] * 2


def test_excluded_resources_are_excluded_once(tmp_path: Path) -> None:
    write(tmp_path / "a/main.tf", 'resource "terraform_data" "a" {}\nresource "terraform_data" "b" {}\n')
    excluded, all_of_them = "-exclude=terraform_data.b", ("a", "state", "list")
    calls = [("a", "init"), ("a", "apply", "-auto-approve", excluded), all_of_them]
    answers = run(tmp_path, *calls, ("a", "apply", "-auto-approve"), all_of_them)
    assert answers[2][1].split() == ["terraform_data.a"]
    assert answers[4][1].split() == ["terraform_data.a", "terraform_data.b"]


def test_a_cancel_before_its_command_reaches_only_this_command(tmp_path: Path) -> None:
    write(tmp_path / "a/main.tf", HELLO)
    apply = ("apply", "-auto-approve", "-no-color")
    elsewhere = ("a", "-chdir=nowhere", *apply)
    answers = run(tmp_path, ("a", "init"), ("a", *apply), ("a", *apply), elsewhere, cancelled=1)
    assert [code for code, *_ in answers] == [0, 1, 0, 1]
    assert "execution halted" in answers[1][2]
    assert "Error handling -chdir option" in answers[3][2]
