"""The guard as a user meets it: what loses something in production stops, and one plan can be let through."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from people_made import approve_elsewhere, use_known_key
from program import Program

CODE = 'resource "terraform_data" "it" {{\n  count = {count}\n  input = "x"\n}}\n'


def repository(
    program: Program, *, guard: str = "{}", environment: str = "prod", use: str = "embedded"
) -> None:
    """A stack of two objects, applied; its code now wants one, under these rules."""
    _configure(program, "{}", environment, use)
    program.write("db/main.tf", CODE.format(count=2))
    program.ok("apply", "--yes")
    program.write("db/main.tf", CODE.format(count=1))
    _configure(program, guard, environment, use)


def _configure(program: Program, guard: str, environment: str, use: str) -> None:
    program.write(
        "holdfast.yaml",
        f"""
        version: 1
        environments: {{ dev: {{ match: [dev] }}, prod: {{ match: [prod], production: true }} }}
        stacks:
          - {{ name: db, module: db, environment: {environment} }}
        guard: {guard}
        engine: {{ use: {use} }}
        """,
    )


def digest_in(bundle: Path) -> str:
    return str(json.loads((bundle / "db" / "summary.json").read_text())["digest"])


@pytest.mark.parametrize("use", ["embedded", pytest.param("binary", marks=pytest.mark.long)])
def test_a_deletion_in_production_is_refused_and_overridden_for_one_plan(
    holdfast: Program, use: str, terraform_folder: Path, tmp_path: Path
) -> None:
    """Refused with its rule and the way on; the override names the plan, the person and the reason."""
    holdfast.environment["PATH"] = f"{terraform_folder}:{holdfast.environment['PATH']}"
    repository(holdfast, use=use)
    bundle = tmp_path / "bundle"
    planned = holdfast.ok("plan", "--out", str(bundle), code=3)
    digest = digest_in(bundle)
    assert "Refused: deletions in production (HF-GUARD-1)" in planned.text
    assert f"--plan {bundle} --override {digest}" in planned.text
    refused = holdfast.results("apply", "--plan", str(bundle), code=3)["db"]
    assert refused["status"] == "refused"
    assert refused["guard"]["decision"] == "deny"
    assert [one["code"] for one in refused["guard"]["reasons"]] == ["HF-GUARD-1"]
    other = "0" * 64
    holdfast.ok("apply", "--plan", str(bundle), "--override", other, "--reason", "why", code=3)
    assert len(holdfast.json("state", "list", "db")["resources"]) == 2
    overridden = holdfast.results(
        "apply", "--plan", str(bundle), "--override", digest, "--reason", "the second one is not used"
    )["db"]
    assert overridden["status"] == "applied"
    assert any("break-glass" in one and "not used" in one for one in overridden["notes"])
    record = holdfast.ok("audit", "show").text
    assert "the second one is not used" in record
    assert "BREAK GLASS" in record
    holdfast.ok("audit", "verify")
    holdfast.ok("apply", "--plan", str(bundle), "--override", digest, "--reason", "again", code=3)


def test_an_override_is_for_one_plan_and_not_for_the_next(holdfast: Program, tmp_path: Path) -> None:
    """The same change planned again is another plan, and is refused again."""
    repository(holdfast)
    first, second = tmp_path / "first", tmp_path / "second"
    holdfast.ok("plan", "--out", str(first), code=3)
    holdfast.ok("plan", "--out", str(second), code=3)
    override = ("--override", digest_in(first), "--reason", "why")
    assert "HF-APPR-4" in holdfast.ok("apply", "--plan", str(second), *override, code=3).text
    assert len(holdfast.json("state", "list", "db")["resources"]) == 2


@pytest.mark.long
def test_an_override_needs_a_plan_and_a_reason(holdfast: Program, tmp_path: Path) -> None:
    """Wrong usage, and nothing is run."""
    repository(holdfast)
    assert "HF-USE-18" in holdfast.ok("apply", "--yes", "--override", "a" * 64, "--reason", "x", code=64).text
    bundle = tmp_path / "bundle"
    holdfast.ok("plan", "--out", str(bundle), code=3)
    assert "HF-USE-19" in holdfast.ok("apply", "--plan", str(bundle), "--override", "a" * 64, code=64).text
    renamed = holdfast.ok("apply", "--plan", str(bundle), "--release", "a" * 64, code=64).text
    assert "HF-USE-1" in renamed
    assert "--override" in renamed


def test_elsewhere_a_deletion_is_a_warning(holdfast: Program) -> None:
    """It is said, and done."""
    repository(holdfast, environment="dev")
    applied = holdfast.results("apply", "--yes")["db"]
    assert applied["status"] == "applied"
    assert [(one["code"], one["effect"]) for one in applied["guard"]["reasons"]] == [("HF-GUARD-1", "warn")]


def test_a_plan_that_needs_approval_waits_for_it(holdfast: Program, tmp_path: Path) -> None:
    """Exit 5 with the three commands; approved by two people it is applied, that plan and no other."""
    use_known_key(holdfast)
    repository(holdfast, environment="dev", guard="{ environments: { dev: { approvals: 2 } } }")
    direct = holdfast.ok("apply", "--yes", code=5)
    for words in ("plan db --out", "runs approve", "apply --plan"):
        assert words in direct.text
    bundle = tmp_path / "bundle"
    run = holdfast.results("plan", "--out", str(bundle), code=5)["db"]["run"]
    assert "HF-USE-25" in holdfast.ok("runs", "reject", run, code=64).text
    ada = {"GITHUB_ACTIONS": "true", "GITHUB_ACTOR": "ada", "GITHUB_REPOSITORY": "acme/infra"}
    approved = holdfast.json("runs", "approve", run, env=ada)
    assert approved["digest"] == digest_in(bundle)
    assert "cannot check for self-approval" in approved["notes"][0]
    holdfast.ok("runs", "approve", run, "--reason", "and once more", env=ada)
    assert "1 approval is missing" in holdfast.ok("apply", "--plan", str(bundle), code=5).text
    approve_elsewhere(holdfast, run, approved["digest"], name="bob")
    assert holdfast.results("apply", "--plan", str(bundle))["db"]["status"] == "applied"
    assert "HF-APPR-2" in holdfast.ok("runs", "approve", run, "--reason", "late", code=3).text


@pytest.mark.long
def test_a_rejected_plan_stays_rejected(holdfast: Program, tmp_path: Path) -> None:
    """Whatever is approved or overridden afterwards."""
    repository(holdfast, environment="dev", guard="{ environments: { dev: { approvals: 1 } } }")
    bundle = tmp_path / "bundle"
    run = holdfast.results("plan", "--out", str(bundle), code=5)["db"]["run"]
    holdfast.ok("runs", "reject", run, "--reason", "not on a Friday")
    assert "was rejected" in holdfast.ok("runs", "approve", run, "--reason", "but still", code=3).text
    refused = holdfast.ok("apply", "--plan", str(bundle), code=3)
    assert "HF-GUARD-17" in refused.text
    assert "not on a Friday" in refused.text
    assert "--continue" not in refused.text
    assert "Nothing is left" in holdfast.ok("apply", "--continue", "--yes").text


@pytest.mark.long
def test_other_rules_are_another_plan(holdfast: Program, tmp_path: Path) -> None:
    """A bundle that was judged by other rules is not applied."""
    repository(holdfast, environment="dev")
    bundle = tmp_path / "bundle"
    holdfast.ok("plan", "--out", str(bundle))
    text = (holdfast.folder / "holdfast.yaml").read_text()
    (holdfast.folder / "holdfast.yaml").write_text(text.replace("guard: {}", "guard: { max_changes: 5 }"))
    refused = holdfast.ok("apply", "--plan", str(bundle), code=3)
    assert "its guard rules changed since the plan was made" in refused.text


def test_the_budget_of_a_change_is_for_all_its_stacks(holdfast: Program) -> None:
    """Two stacks that lose one object each are one too many together, in a plan and in an apply."""
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: { match: [dev] } }
        stacks: [{ folder: "stacks/{name}", environment: dev }]
        guard: { deletions: { per_change: 1 } }
        engine: { use: embedded }
        """,
    )
    for name in ("a", "b"):
        holdfast.write(f"stacks/{name}/main.tf", CODE.format(count=2))
    holdfast.ok("apply", "--yes")
    for name in ("a", "b"):
        holdfast.write(f"stacks/{name}/main.tf", CODE.format(count=1))
    for command in (("plan",), ("apply", "--yes")):
        found = holdfast.results(*command, code=3)
        assert {one["status"] for one in found.values()} == {"refused"}, command
        assert {one["error"]["code"] for one in found.values()} == {"HF-GUARD-5"}
    assert holdfast.results("apply", "stacks/a", "--yes")["stacks/a"]["status"] == "applied"


def _reading(program: Program, reads: str) -> None:
    program.write("app/main.tf", f'output "x" {{\n  value = data.terraform_remote_state.net.{reads}\n}}\n')


def _with_an_output_less(holdfast: Program, reads: str) -> None:
    """A stack in production whose one output is applied and no longer in its code; another one reads it."""
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        stacks:
          - { name: net, module: net, environment: prod }
          - { name: app, module: app, environment: prod, depends_on: [net] }
        engine: { use: embedded }
        """,
    )
    _reading(holdfast, reads)
    holdfast.write("net/main.tf", 'output "id" {\n  value = 1\n}\n')
    holdfast.ok("apply", "net", "--yes")
    holdfast.write("net/main.tf", "")


@pytest.mark.parametrize(
    ("reads", "codes"),
    [
        ("outputs.id", ["HF-GUARD-2"]),
        ('outputs["id"]', ["HF-GUARD-2"]),
        ("outputs", ["HF-GUARD-2"]),
        ("outputs.other", []),
    ],
)
def test_an_output_that_others_read_is_not_taken_away(
    holdfast: Program, reads: str, codes: list[str]
) -> None:
    """In production, by name, by key or all together; one that nobody reads may go."""
    _with_an_output_less(holdfast, reads)
    planned = holdfast.results("plan", "net", code=3 if codes else 0)["net"]
    assert [one["code"] for one in planned["guard"]["reasons"]] == codes


def test_a_rejection_outlasts_what_it_was_about(holdfast: Program, tmp_path: Path) -> None:
    """Nothing else speaks against the plan any more: a person's no still does."""
    _with_an_output_less(holdfast, "outputs.id")
    bundle = tmp_path / "bundle"
    run = holdfast.results("plan", "net", "--out", str(bundle), code=3)["net"]["run"]
    holdfast.ok("runs", "reject", run, "--reason", "somebody may read it")
    _reading(holdfast, "outputs.other")
    refused = holdfast.results("apply", "--plan", str(bundle), code=3)["net"]
    assert refused["error"]["code"] == "HF-GUARD-17"
    assert holdfast.json("output", "net")["outputs"]["id"]["value"] == 1
