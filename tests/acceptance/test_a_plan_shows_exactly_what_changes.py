"""The diff of a plan: on a screen, in full, in a comment, as JSON, and later from the run history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from program import Program

SECRET = "hunter2-very-secret"
CODE = """
variable "password" {
  default   = "hunter2-very-secret"
  sensitive = true
}
resource "terraform_data" "policy" {
  input = jsonencode({ Statement = [{ Sid = "read", Action = ["s3:ListBucket", "s3:GetObject"] }] })
}
resource "terraform_data" "script" {
  input = join("\\n", [for number in range(41) : "echo ${number}"])
}
resource "terraform_data" "long" {
  input            = join("X", [replace(format("%060d", 0), "0", "abcdefghij"), "klmnopqrst"])
  triggers_replace = "one"
}
resource "terraform_data" "tags" {
  input = { owner = "team", list = ["a", "b", "c"], secret = var.password }
}
resource "terraform_data" "old_name" {
  input = "keep me"
}
output "url" {
  value = "http://a.example"
}
output "password" {
  value     = var.password
  sensitive = true
}
"""
CHANGES = {
    '"s3:GetObject"': '"s3:*"',
    '"echo ${number}"': 'number == 37 ? "shutdown" : "echo ${number}"',
    'join("X"': 'join("Y"',
    '"one"': '"two"',
    '"team"': '"Team"',
    '["a", "b", "c"]': '["b", "c"]',
    "hunter2-very-secret": "hunter2-very-secret-2",
    "old_name": "new_name",
    "http://a.": "http://b.",
}
NEW = """
resource "terraform_data" "many" {
  count = 20
  input = { number = count.index, password = var.password, text = "first\\nsecond\\n" }
}
"""


def configure(program: Program) -> None:
    program.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: { match: [dev] } }
        stacks: [{ name: a, module: a, environment: dev }]
        """,
    )


def changed(program: Program) -> None:
    """A stack that is applied, and code that changes it."""
    configure(program)
    program.write("a/main.tf", CODE)
    assert '+ input "keep me"' in squeezed(program.ok("apply", "--yes").text)
    code = CODE
    for before, after in CHANGES.items():
        assert before in code
        code = code.replace(before, after)
    program.write("a/main.tf", code + NEW)


def squeezed(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


EVERYWHERE = (
    '~ Statement[0].Action[1] "s3:GetObject" → "s3:*"',
    "@@ line 36\necho 35\necho 36\n- echo 37\n+ shutdown\necho 38",
    '~ triggers_replace "one" → "two" forces replacement',
    '- input.list[0] "a"',
    '~ input.owner "team" → "Team"',
    "~ input.secret (sensitive) → (sensitive, changed)",
    "+ terraform_data.many[0]",
    "+ input.number 0",
    "+ input.password (sensitive)",
    '~ output url "http://a.example" → "http://b.example"',
    "~ output password (sensitive) → (sensitive, changed)",
    "moved {\nfrom = terraform_data.old_name\nto = terraform_data.new_name\n}",
)


def test_every_kind_of_change_is_shown_and_can_be_shown_again(holdfast: Program) -> None:
    """On a screen a part, with the command for the rest; in full everything; the same later, as stored."""
    changed(holdfast)
    shown = squeezed(holdfast.ok("plan").text)
    for text in EVERYWHERE:
        assert text in shown
    assert "~ input (611 characters)\n- …" in shown
    assert "ghijXklm" in shown
    assert "ghijYklm" in shown
    assert "+ id, output (known after apply)" in shown
    assert "more resources" in shown
    assert ": holdfast plan a --full" in shown
    assert "+ terraform_data.many[19]" not in shown

    full = squeezed(holdfast.ok("plan", "--full").text)
    for text in (*EVERYWHERE, "+ terraform_data.many[19]", "+ input.number 19", "+ first\n+ second"):
        assert text in full
    assert "abcdefghij" * 60 + "Yklmnopqrst" in full
    assert " more resources" not in full
    assert " more attributes" not in full
    assert " shortened value" in shown
    assert " shortened value" not in full

    run = holdfast.json("runs", "list")["runs"][0]["id"]
    stored = squeezed(holdfast.ok("runs", "show", run, "--plan").text)
    assert stored.split("\n", 1)[1] in full
    for text in (shown, full, stored, holdfast.ok("plan", "--format", "markdown").text):
        assert SECRET not in text


def test_documents_have_the_values_of_both_sides(holdfast: Program) -> None:
    """A sensitive value is null, an unknown one is marked; the stored plan says the same."""
    changed(holdfast)
    ran = holdfast.ok("plan", "--json")
    (result,) = json.loads(ran.out)["stacks"]
    resources = {resource["address"]: resource for resource in result["resources"]}
    tags = resources["terraform_data.tags"]
    assert tags["before"]["input"] == {"owner": "team", "list": ["a", "b", "c"], "secret": None}
    assert tags["after"]["input"] == {"owner": "Team", "list": ["b", "c"], "secret": None}
    assert tags["after"]["output"] == {"unknown": True}
    assert resources["terraform_data.new_name"]["before"] is None
    assert resources["terraform_data.new_name"]["after"]["id"] == {"unknown": True}
    assert resources["terraform_data.old_name"]["after"] is None
    assert not any(resource["drift"] for resource in resources.values())
    assert result["output_changes"] == {
        "password": {"actions": ["update"], "sensitive": True, "before": None, "after": None},
        "url": {
            "actions": ["update"],
            "sensitive": False,
            "before": "http://a.example",
            "after": "http://b.example",
        },
    }
    (suggestion,) = result["suggestions"]
    assert (suggestion["from"], suggestion["to"]) == ("terraform_data.old_name", "terraform_data.new_name")
    stored = holdfast.ok("runs", "show", result["run"], "--plan", "--json")
    document = json.loads(stored.out)
    assert {name: document[name] for name in ("changes", "output_changes", "suggestions")} == {
        name: result[name] for name in ("changes", "output_changes", "suggestions")
    }
    assert [resource["address"] for resource in document["resources"]] == list(resources)
    assert document["left_out"] == 0
    assert SECRET not in ran.text + stored.text
    # The suggested block keeps the resource.
    code = holdfast.folder / "a/main.tf"
    code.write_text(f"{code.read_text()}\n{suggestion['code']}\n")
    (moved,) = holdfast.json("plan")["stacks"]
    assert (moved["changes"]["delete"], moved["changes"]["move"]) == (0, 1)
    assert moved["suggestions"] == []


LAB = """
terraform {
  required_providers {
    lab = { source = "holdfast.dev/labs/lab", version = "1.0.0" }
  }
}
variable "objects" {}
provider "lab" {
  directory = var.objects
}
resource "lab_object" "reverted" {
  name = "reverted"
  body = "ours"
}
resource "lab_object" "ignored" {
  name = "ignored"
  body = "ours"
  lifecycle {
    ignore_changes = [body]
  }
}
resource "lab_object" "gone" {
  name = "gone"
}
"""


def test_what_changed_outside_terraform_is_marked(with_lab: Program) -> None:
    """What the plan reverts, what it leaves alone, and what it makes again; in the document too."""
    configure(with_lab)
    with_lab.write("a/main.tf", LAB)
    with_lab.ok("apply", "--yes")
    for file in Path(with_lab.environment["TF_VAR_objects"]).iterdir():
        stored: dict[str, Any] = json.loads(file.read_text())
        if stored["name"] == "gone":
            file.unlink()
        else:
            file.write_text(json.dumps({**stored, "body": "theirs"}))
    with_lab.write("a/main.tf", LAB.replace('name = "reverted"', 'name = "renamed"'))
    shown = squeezed(with_lab.ok("plan").text)
    assert '~ body "theirs" → "ours" changed outside Terraform\n~ name "reverted" → "renamed"\n' in shown
    assert "+ lab_object.gone created, was deleted outside Terraform" in shown
    assert (
        "Changed outside Terraform, no action planned:\n"
        '≠ lab_object.ignored\n~ body "ours" → "theirs"' in shown
    )
    (result,) = with_lab.json("plan")["stacks"]
    drift = {
        resource["address"]: (resource["actions"], resource["drift"]) for resource in result["resources"]
    }
    assert drift == {
        "lab_object.gone": (["create"], True),
        "lab_object.ignored": (["no-op"], True),
        "lab_object.reverted": (["update"], True),
    }
    comment = with_lab.ok("plan", "--format", "markdown").text
    assert '+     body: "ours"   (changed outside Terraform)' in comment
    with_lab.ok("plan", "--out", "out")
    applied = with_lab.ok("apply", "--plan", "out")
    assert '~ body "theirs" → "ours" changed outside Terraform' in squeezed(applied.text)
    unchanged = with_lab.ok("plan").text
    assert "no changes" in unchanged
