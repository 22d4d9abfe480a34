from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from program import ROOT, Program
from small import on_a_terminal


def test_the_accounts_example_is_applied_and_then_unchanged(holdfast: Program) -> None:
    """A team with one variables file per stack plans, applies, and has nothing to do the second time."""
    shutil.copytree(ROOT / "examples/accounts", holdfast.folder, dirs_exist_ok=True)
    planned = holdfast.results("plan")
    assert len(planned) == 12
    assert {one["status"] for one in planned.values()} == {"planned"}
    applied = holdfast.results("apply", "--yes")
    assert {one["status"] for one in applied.values()} == {"applied"}
    role = applied["acme-prod-1/role/reader"]
    assert role["outputs"] == {"role_name": {"value": "acme-prod-1-role-reader", "sensitive": False}}
    assert role["production"] is True
    database = applied["acme-dev-1/database/orders"]
    assert database["outputs"]["password"] == {"value": None, "sensitive": True}
    again = holdfast.json("plan", "--detailed-exitcode")
    assert {one["status"] for one in again["stacks"]} == {"unchanged"}
    assert again["summary"]["unchanged"] == 12


@pytest.mark.parametrize("example", ["accounts", "regions", "services"])
def test_the_examples_are_as_the_checks_want_them(holdfast: Program, example: str) -> None:
    """Not even a note; in the plans neither."""
    shutil.copytree(ROOT / "examples" / example, holdfast.folder, dirs_exist_ok=True)
    holdfast.ok("check", "--engine", "--fail-on", "note")
    planned = holdfast.json("plan")
    assert [one for one in planned["checks"]["findings"] if not one["waived"]] == []


def test_the_services_example_is_shorter_than_with_terragrunt(holdfast: Program) -> None:
    """Twelve stacks with outputs as inputs, in order; the page states the lines of both configurations."""
    shutil.copytree(ROOT / "examples/services", holdfast.folder, dirs_exist_ok=True)
    applied = holdfast.results("apply", "--yes")
    assert len(applied) == 12
    assert {one["status"] for one in applied.values()} == {"applied"}
    site = applied["prod/web"]["outputs"]["site"]["value"]
    assert site == "https://prod.acme.example in vpc-prod with https://api.prod.acme.example"
    assert {one["status"] for one in holdfast.results("plan").values()} == {"unchanged"}
    ours = _lines(holdfast.folder / "holdfast.yaml")
    theirs = _lines(*(holdfast.folder / "terragrunt").rglob("*.hcl"))
    assert len(ours) * 3 < len(theirs)
    page = (ROOT / "docs/terragrunt.md").read_text()
    assert f"| {len(ours)} | {len(theirs)} |" in page
    assert f"| {_characters(ours):,} | {_characters(theirs):,} |" in page


def _lines(*files: Path) -> list[str]:
    """Without comments and blank lines."""
    lines = (line.strip() for file in files for line in file.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _characters(lines: list[str]) -> int:
    return sum(len("".join(line.split())) for line in lines)


@pytest.mark.long
def test_the_regions_example_is_applied_in_order_and_then_unchanged(holdfast: Program) -> None:
    """Folders, a stack by hand, settings from the configuration and dependencies, in one repository."""
    shutil.copytree(ROOT / "examples/regions", holdfast.folder, dirs_exist_ok=True)
    document = holdfast.json("stacks")
    by_name = {one["name"]: one for one in document["stacks"]}
    assert len(by_name) == 9
    assert by_name["prod/eu-west-1/app"]["depends_on"] == ["prod/eu-west-1/network"]
    assert by_name["prod/eu-west-1/app"]["backend"] == {"type": "local"}
    assert by_name["bootstrap"]["backend"] == {"type": "holdfast"}
    assert by_name["bootstrap"]["variables"] == ["common.tfvars"]
    applied = holdfast.results("apply", "--yes")
    assert {one["status"] for one in applied.values()} == {"applied"}
    assert applied["dev/us-east-1/app"]["outputs"]["greeting"]["value"] == "hello from us-east-1"
    states = holdfast.folder / "states/acme-prod-tfstate-eu-west-1"
    assert sorted(path.name for path in states.iterdir()) == ["app", "network"]
    assert {one["status"] for one in holdfast.results("plan").values()} == {"unchanged"}


def test_a_terminal_shows_progress_and_keeps_what_it_asked(holdfast: Program) -> None:
    """On a terminal a live table comes and goes; the plan that was shown before the question stays."""
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: { match: [dev] } }
        stacks: [{ folder: "s/{name}", environment: dev }]
        """,
    )
    for name in "ab":
        holdfast.write(f"s/{name}/main.tf", 'resource "terraform_data" "x" { input = 1 }\n')
    code, shown, _ = on_a_terminal(holdfast, ["apply"], answers=["y"])
    assert code == 0
    assert "running" in shown
    assert "2 applied" in shown
    after_the_question = shown.split("Apply 2 stacks? [y/N]", 1)[1].split("applying", 1)[0]
    assert "\x1b[1A" not in after_the_question
