from __future__ import annotations

from program import Program

CONFIG = """
    version: 1
    environments: { dev: { match: [dev] } }
    stacks: [{ name: one, module: one, environment: dev }]
    """


def test_a_warning_of_the_plan_is_shown_with_its_place(holdfast: Program) -> None:
    """A check that fails is a warning of Terraform's: the plan goes on, and the person reads it."""
    holdfast.write("holdfast.yaml", CONFIG)
    holdfast.write(
        "one/main.tf",
        """
        resource "terraform_data" "x" { input = 1 }
        check "always" {
          assert {
            condition     = terraform_data.x.input == 2
            error_message = "one is not two"
          }
        }
        """,
    )
    found = holdfast.results("plan")["one"]
    assert found["status"] == "planned"
    assert [note for note in found["notes"] if "one is not two" in note and "one/main.tf:4" in note]
    assert "one is not two" in holdfast.ok("plan").out


def test_a_plan_of_an_older_state_is_refused(holdfast: Program) -> None:
    """A state that moved on makes a bundle stale: refused, exit 3, and nothing is applied."""
    holdfast.write("holdfast.yaml", CONFIG)
    holdfast.write("one/main.tf", 'resource "terraform_data" "x" { input = uuid() }\n')
    holdfast.ok("apply", "--yes")
    holdfast.ok("plan", "--out", "bundle")
    holdfast.ok("apply", "--yes")
    before = holdfast.ok("state", "pull", "one").out
    refused = holdfast.results("apply", "--plan", "bundle", code=3)["one"]
    assert refused["status"] == "refused"
    assert refused["error"]["code"] == "HF-BUND-11"
    assert holdfast.ok("state", "pull", "one").out == before


def test_a_relative_path_out_of_the_repository_is_refused(holdfast: Program) -> None:
    """No work directory can hold it, and a missing file must never change a plan."""
    holdfast.write("holdfast.yaml", CONFIG)
    holdfast.write("one/main.tf", 'output "x" { value = fileexists("../../outside.json") }\n')
    (holdfast.folder.parent / "outside.json").write_text("{}")
    refused = holdfast.results("plan", code=3)["one"]
    assert refused["error"]["code"] == "HF-WORK-3"
    assert "one/main.tf:1" in refused["error"]["message"]


def test_a_link_that_leads_to_no_file_is_refused(holdfast: Program) -> None:
    """Code that is not there on this machine is no reason to plan without it: that plan would delete."""
    holdfast.write("holdfast.yaml", CONFIG)
    holdfast.write("one/main.tf", 'resource "terraform_data" "x" {}\n')
    (holdfast.folder / "one/shared.tf").symlink_to("../not/checked/out.tf")
    refused = holdfast.results("plan", code=3)["one"]
    assert refused["error"]["code"] == "HF-WORK-3"
    assert "one/shared.tf is a broken symbolic link" in refused["error"]["message"]
    found = holdfast.json("check", code=3)["findings"]
    assert [one["file"] for one in found if one["rule"] == "HF904"] == ["one/shared.tf"]


def test_variables_that_terraform_reads_by_itself_are_no_stacks(holdfast: Program) -> None:
    """`terraform.tfvars` beside the code belongs to every stack of it."""
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: { match: [dev] } }
        stacks: [{ variables: "{environment}.tfvars" }]
        """,
    )
    holdfast.write(
        "main.tf", 'variable "a" {}\nvariable "b" {}\noutput "ab" { value = "${var.a}${var.b}" }\n'
    )
    holdfast.write("terraform.tfvars", 'a = "shared-"\n')
    holdfast.write("common.auto.tfvars", "")
    holdfast.write("dev.tfvars", 'b = "dev"\n')
    assert list(holdfast.results("stacks")) == ["dev"]
    assert holdfast.results("apply", "--yes")["dev"]["outputs"]["ab"]["value"] == "shared-dev"


def test_waiting_for_a_stack_that_is_being_applied(holdfast: Program) -> None:
    """A wait that is no duration is a mistake on the command line."""
    holdfast.write("holdfast.yaml", CONFIG)
    holdfast.write("one/main.tf", "")
    document = holdfast.json("apply", "--yes", "--wait", "soon", code=64)
    assert document["errors"][0]["code"] == "HF-USE-12"
