"""A hostile author changes the rules in the same pull request as the code that they forbid."""

from __future__ import annotations

import base64
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from program import Program
from state_server import StateServer

CONFIG = """
    version: 1
    environments:
      prod: { match: ["live-*"], production: true }
      dev: { match: [dev] }
      budget: {}
      approved: {}
      checked: {}
    targets: { cloud: { owner: ci } }
    guard:
      protect: { addresses: [terraform_data.kept] }
      environments:
        budget: { deletions: { per_stack: 0 } }
        approved: { approvals: 2 }
        checked: { findings: deny }
    checks:
      rules: { HF112: off, HF601: off }
    stacks:
      - variables: "live/{name}.tfvars"
        module: app
        name: "live/{name}"
        environment: "{var.place}"
        backend: { type: local, settings: { path: "../states/{name}.tfstate" } }
      - { name: budget, module: budget, environment: budget }
      - { name: kept, module: kept, environment: dev }
      - { name: approved, module: approved, environment: approved }
      - { name: policy, module: policy-code, environment: dev }
      - { name: checked, module: checked, environment: checked }
    """
CODE = """
    variable "place" {
      type    = string
      default = "x"
    }
    resource "terraform_data" "it" {
      count = 2
      input = "x"
    }
    resource "terraform_data" "kept" {}
    """
POLICY = """
    package main
    deny contains msg if {
      some change in input.resource_changes
      change.change.after.input == "forbidden"
      msg := "forbidden input"
    }
    """
YAML = "holdfast.yaml"
MODULES = ("app", "budget", "kept", "approved", "policy-code", "checked")
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
DELETES = ("app/main.tf", "count = 2", "count = 1")
FORBIDDEN = ("policy-code/main.tf", 'input = "x"', 'input = "forbidden"')
SECRET = ("checked/main.tf", 'input = "x"', f'input = "{TOKEN}"')
WAIVED = (*SECRET[:2], f"{SECRET[2]} # holdfast:ignore HF207 until=2099-01-01 reason=fine")
WAIVER = "waivers: [{ rule: HF207, path: checked, owner: me, reason: none, until: 2099-01-01 }]"
MOVED = "environment prod (production) → dev"

Edit = tuple[str, str, str]
"""A file, a text in it, and what it becomes. Without a text, the file is removed."""
Attack = tuple[tuple[Edit, ...], dict[str, tuple[str, str]]]
"""The edits; by stack, the reason of the refusal and what is reported as weaker."""

ATTACKS: dict[str, Attack] = {
    "production, budget, protection, approvals, a policy, a rule": (
        (
            DELETES,
            (YAML, "production: true", "production: false"),
            ("budget/main.tf", "count = 2", "count = 1"),
            (YAML, "per_stack: 0", "per_stack: any"),
            ("kept/main.tf", 'resource "terraform_data" "kept" {}\n', ""),
            (YAML, "addresses: [terraform_data.kept]", "addresses: []"),
            ("approved/main.tf", 'input = "x"', 'input = "y"'),
            (YAML, "approvals: 2", "approvals: 0"),
            FORBIDDEN,
            ("policy/main.rego", '"forbidden"\n', '"never"\n'),
            SECRET,
            (YAML, "HF601: off }", "HF601: off, HF207: off }"),
        ),
        {
            "live/a": ("HF-GUARD-1", "environments.prod.production true → false"),
            "budget": ("HF-GUARD-1", "guard.environments.budget.deletions.per_stack 0 → any"),
            "kept": ("HF-GUARD-6", "guard.protect.addresses without terraform_data.kept"),
            "approved": ("HF-GUARD-14", "guard.environments.approved.approvals 2 → 0"),
            "policy": ("HF-GUARD-18", "policy/main.rego changed"),
            "checked": ("HF-GUARD-19", "checks.rules.HF207 error → off"),
        },
    ),
    "match, a removed policy, a waiver in a comment": (
        (
            *(DELETES, (YAML, '["live-*"]', "[]"), (YAML, "match: [dev]", 'match: [dev, "live-*"]')),
            *(FORBIDDEN, ("policy/main.rego", "", "")),
            WAIVED,
        ),
        {
            "live/a": ("HF-GUARD-1", f"{MOVED} (live/a)"),
            "policy": ("HF-GUARD-18", "policy/main.rego removed"),
            "checked": ("HF-GUARD-19", "checked/main.tf:7 waiver of HF207 added"),
        },
    ),
    "the variables, Rego switched off, a waiver in the configuration": (
        (
            *(DELETES, ("live/a.tfvars", "live-1", "dev")),
            *(FORBIDDEN, (YAML, "checks:\n", "checks:\n  tools: { rego: off }\n")),
            *(SECRET, (YAML, "checks:\n", f"checks:\n  {WAIVER}\n")),
        ),
        {
            "live/a": ("HF-GUARD-1", f"{MOVED} (live/a)"),
            "policy": ("HF-GUARD-18", "checks.tools.rego auto → off"),
            "checked": ("HF-GUARD-19", "checks.waivers with HF207 until 2099-01-01"),
        },
    ),
    "another name for the same state, the effects of policies and findings": (
        (
            *(DELETES, (YAML, 'name: "live/{name}"', 'name: "x/{name}"'), (YAML, '"{var.place}"', "dev")),
            *(FORBIDDEN, (YAML, "guard:\n", "guard:\n  policies: warn\n")),
            *(SECRET, (YAML, "checked: { findings: deny }", "checked: { findings: warn }")),
        ),
        {
            "x/a": ("HF-GUARD-1", f"{MOVED} (x/a)"),
            "policy": ("HF-GUARD-18", "guard.policies deny → warn"),
            "checked": ("HF-GUARD-19", "guard.environments.checked.findings deny → warn"),
        },
    ),
    "values that decide the environment": (
        (
            *(DELETES, (YAML, '"{var.place}"', '"{values.place}"')),
            (YAML, "targets:", "values: { place: dev, tier: dev }\ntargets:"),
            ("approved/main.tf", 'input = "x"', 'input = "y"'),
            (YAML, "environment: approved }", 'environment: "{values.tier}" }'),
        ),
        {
            "live/a": ("HF-GUARD-1", f"{MOVED} (live/a)"),
            "approved": ("HF-GUARD-14", "environment approved → dev (approved)"),
        },
    ),
    "an entry removed and added again, a stack in another environment": (
        (
            *(DELETES, (YAML, 'variables: "live/{name}.tfvars"', "variables_files: [live/a.tfvars]")),
            *((YAML, 'name: "live/{name}"', "name: fresh"), (YAML, '"{var.place}"', "dev")),
            (YAML, '"../states/{name}.tfstate"', "../states/a.tfstate"),
            ("approved/main.tf", 'input = "x"', 'input = "y"'),
            (YAML, "module: approved, environment: approved", "module: approved, environment: dev"),
        ),
        {
            "fresh": ("HF-GUARD-1", f"{MOVED} (fresh)"),
            "approved": ("HF-GUARD-14", "environment approved → dev (approved)"),
        },
    ),
}


def edit(program: Program, *edits: Edit) -> None:
    for file, old, new in edits:
        path = program.folder / file
        if not old:
            path.unlink()
            continue
        text = path.read_text()
        assert old in text, (file, old)
        path.write_text(text.replace(old, new))


@pytest.fixture
def main(holdfast: Program) -> Program:
    """The main branch, applied: three resources in each stack."""
    holdfast.write(YAML, CONFIG)
    holdfast.write("live/a.tfvars", 'place = "live-1"\n')
    for module in MODULES:
        holdfast.write(f"{module}/main.tf", CODE)
    holdfast.write("policy/main.rego", POLICY)
    holdfast.write(".gitignore", ".holdfast/\nstates/\n")
    edit(holdfast, (YAML, "approvals: 2", "approvals: 0"))
    holdfast.ok("apply", "--yes")
    holdfast.write(YAML, CONFIG)
    holdfast.commit_all("main")
    return holdfast


def branch(program: Program, name: str, *edits: Edit) -> None:
    """A pull request with these edits."""
    program.git("checkout", "--quiet", "--force", "-B", "pull-request", "main")
    edit(program, *edits)
    program.commit_all(name)


def reasons(document: dict[str, Any], stack: str) -> set[str]:
    """Why a stack is not applied."""
    (result,) = (one for one in document["stacks"] if one["name"] == stack)
    return {one["code"] for one in result["guard"]["reasons"] if one["effect"] in {"deny", "approve"}}


@pytest.mark.parametrize("name", ATTACKS)
def test_no_change_to_its_rules_gets_a_change_through(main: Program, tmp_path: Path, name: str) -> None:
    """Each stack is refused by the plan and by the apply of its bundle, for the reason that main gives."""
    edits, refused = ATTACKS[name]
    branch(main, name, *edits)
    bundle = str(tmp_path / "bundle")
    planned = main.json("plan", "--since", "main", "--out", bundle, code=3)
    applied = main.json("apply", "--plan", bundle, code=3)
    assert applied["summary"]["applied"] == 0
    for stack, (code, weakened) in refused.items():
        assert code in reasons(planned, stack), (stack, planned["stacks"])
        assert code in reasons(applied, stack), (stack, applied["stacks"])
        assert weakened in planned["summary"]["weakened"], planned["summary"]
        assert weakened in applied["summary"]["weakened"]


def test_the_report_starts_with_what_is_weaker(main: Program, tmp_path: Path) -> None:
    """On the terminal, in the comment and in the audit log; also if no stack is affected."""
    branch(main, "only the rules", (YAML, "approvals: 2", "approvals: 1"))
    weaker = "guard.environments.approved.approvals 2 → 1"
    shown = main.ok("plan", "--since", "main")
    assert f"! This change weakens the guard: {weaker}. Judged by the rules of main." in shown.text
    told = main.ok("plan", "--since", "main", "--format", "markdown").out
    assert told.startswith("## ⚠️ May be merged, with care: the guard becomes weaker\n\n**⚠️ This change weak")
    assert "- `guard.environments.approved.approvals` 2 → 1" in told
    edit(main, ("approved/main.tf", 'input = "x"', 'input = "y"'))
    main.ok("plan", "--since", "main", code=5)
    entries = main.json("audit", "show", "--stack", "approved")["entries"]
    assert {"weakened": weaker} in [entry["details"] for entry in entries if entry["what"] == "plan"]
    # In Actions, the base of a pull request counts without --since.
    actions = {"GITHUB_ACTIONS": "true", "GITHUB_BASE_REF": "main", "RUNNER_TEMP": str(tmp_path)}
    assert "HF-GIT-6" in main.ok("plan", "--github", code=64, env=actions).text
    main.git("update-ref", "refs/remotes/origin/main", "main")
    assert weaker in main.run("plan", "approved", "--github", env=actions).text


def test_a_branch_that_is_behind_is_judged_by_the_rules_of_today(main: Program) -> None:
    """An author cannot start from a commit in which the rules were weaker."""
    main.git("branch", "old")
    edit(main, (YAML, "match: [dev] }", "match: [dev], production: true }"))
    main.commit_all("stricter")
    main.git("checkout", "--quiet", "old")
    edit(main, ("kept/main.tf", "count = 2", "count = 1"))
    main.commit_all("delete")
    document = main.json("plan", "--since", "main", code=3)
    assert "HF-GUARD-1" in reasons(document, "kept")
    assert "environments.dev.production true → false" in document["summary"]["weakened"]


def test_a_tag_with_the_name_of_the_base_is_not_the_base(main: Program, tmp_path: Path) -> None:
    """Git prefers tags to branches, and an author who can push can create one for the own commit."""
    main.git("update-ref", "refs/remotes/origin/main", "main")
    branch(main, "tagged", DELETES, (YAML, "production: true", "production: false"))
    for name in ("main", "origin/main"):
        main.git("tag", name)
        ran = main.ok("plan", "--since", name, code=64)
        assert "HF-GIT-7" in ran.text
        assert f"git show-ref {name}" in ran.text
    actions = {"GITHUB_ACTIONS": "true", "GITHUB_BASE_REF": "main", "RUNNER_TEMP": str(tmp_path)}
    for arguments in (("live/a", "--github"), ("--since", "refs/remotes/origin/main")):
        assert "HF-GUARD-1" in reasons(main.json("plan", *arguments, env=actions, code=3), "live/a")


def test_a_base_that_cannot_be_read_is_not_weaker(main: Program) -> None:
    """A configuration under another name is judged as if nothing was ever configured."""
    main.git("checkout", "--quiet", "-b", "pull-request")
    (main.folder / YAML).rename(main.folder / "other.yaml")
    edit(main, ("kept/main.tf", "count = 2", "count = 1"))
    main.commit_all("another name")
    document = main.json("plan", "--since", "main", "--config", "other.yaml", code=3)
    assert "HF-GUARD-1" in reasons(document, "kept")
    assert document["summary"]["weakened"][0].startswith("main has no readable other.yaml")


def test_what_ci_owns_stays_with_ci(main: Program, tmp_path: Path) -> None:
    """Neither another owner nor another target lets a developer apply the change that says so."""
    edit(main, (YAML, "module: kept, environment: dev", "module: kept, environment: dev, target: cloud"))
    main.commit_all("owned")
    branch(
        *(main, "taken", ("kept/main.tf", 'input = "x"', 'input = "y"')),
        (YAML, "cloud: { owner: ci }", "cloud: { owner: developers }"),
    )
    main.ok("plan", "--since", "main", "--out", str(tmp_path / "bundle"))
    for ran in (
        main.ok("apply", "--since", "main", "--yes", code=3),
        main.ok("apply", "--plan", str(tmp_path / "bundle"), code=3),
    ):
        assert "HF-OWN-1" in ran.text
        assert "targets.cloud.owner ci → developers" in ran.text


def test_a_change_cannot_waive_the_proof_of_ci(main: Program) -> None:
    """The base asks for proof, so `CI=true` is not enough, whatever the change says."""
    edit(main, (YAML, "module: kept, environment: dev", "module: kept, environment: dev, target: cloud"))
    edit(main, (YAML, "cloud: { owner: ci }", "cloud: { owner: ci, proof: required }"))
    main.write(YAML, f"{(main.folder / YAML).read_text()}\nstore: .holdfast\n")
    main.environment["HOLDFAST_KEY"] = (main.home / "key").read_text().strip()
    main.commit_all("owned")
    branch(
        *(main, "waived", ("kept/main.tf", 'input = "x"', 'input = "y"')),
        (YAML, "owner: ci, proof: required", "owner: ci"),
    )
    ran = main.ok("apply", "--since", "main", "--yes", code=3, env={"CI": "true"})
    assert "HF-OWN-2" in ran.text, ran.out[-900:]
    assert "targets.cloud.proof required → none" in ran.text


def test_checks_count_as_in_the_base(main: Program) -> None:
    """`holdfast check` of a change reports what the change itself waives or turns off."""
    branch(main, "waived", WAIVED)
    assert "HF207" in main.ok("check", "--since", "main", code=3).text
    main.ok("check")
    main.git("checkout", "--quiet", "main")
    main.git("merge", "--quiet", "pull-request")
    branch(main, "another line", ("checked/main.tf", "count = 2", "count = 3"))
    # A waiver of the base counts, wherever its line is now.
    edit(
        main,
        (
            "checked/main.tf",
            'variable "place" {',
            'variable "more" {\n  type = string\n}\nvariable "place" {',
        ),
    )
    main.ok("check", "--since", "main")


LOWERED = "HF-GUARD-20"


def test_the_store_remembers_what_a_stack_was_applied_as(holdfast: Program, tmp_path: Path) -> None:
    """Without a base: what was production is not applied as less, under any name, without one override."""
    config = """
        version: 1
        environments: {{ prod: {{ production: true }}, dev: {{}} }}
        targets: {{ cloud: {{ owner: developers }} }}
        guard: {{ environments: {{ {environment}: {{ approvals: 0, protect: {{ addresses: [{kept}] }} }} }} }}
        checks: {{ rules: {{ HF112: off }} }}
        stacks:
          - name: {name}
            module: app
            environment: {environment}
            backend: {{ type: local, settings: {{ path: ../states/a.tfstate }} }}
        """
    holdfast.write(YAML, config.format(name="a", environment="prod", kept="terraform_data.kept"))
    holdfast.write("app/main.tf", CODE)
    holdfast.ok("apply", "--yes")
    edit(holdfast, ("app/main.tf", 'input = "x"', 'input = "y"'))
    for name in ("a", "b"):
        holdfast.write(YAML, config.format(name=name, environment="dev", kept=""))
        refused = holdfast.json("apply", "--yes", code=3)
        assert LOWERED in reasons(refused, name)
        (reason,) = (one for one in refused["stacks"][0]["guard"]["reasons"] if one["code"] == LOWERED)
        assert "production (prod) → dev" in reason["message"]
        assert "protect.addresses without terraform_data.kept" in reason["message"]
    holdfast.write(YAML, config.format(name="a", environment="dev", kept=""))
    bundle = tmp_path / "bundle"
    digest = holdfast.json("plan", "--out", str(bundle), code=3)["stacks"][0]["digest"]
    holdfast.ok("apply", "--plan", str(bundle), "--override", digest, "--reason", "it moved to dev")
    edit(holdfast, ("app/main.tf", 'input = "y"', 'input = "z"'))
    holdfast.ok("apply", "--yes")


def test_another_spelling_of_its_location_makes_no_other_state(holdfast: Program) -> None:
    """A new name, a new folder and another address of the same state: its lineage tells what it is."""
    config = """
        version: 1
        environments: {{ prod: {{ production: true }}, dev: {{}} }}
        stacks:
          - name: {name}
            module: {name}
            environment: {environment}
            backend:
              type: http
              settings: {{ address: "{address}", lock_address: "{address}", unlock_address: "{address}" }}
        """
    backend = 'terraform {\n  backend "http" {}\n}\n'
    with StateServer() as server:
        address = server.address("net")
        holdfast.write(YAML, config.format(name="network", environment="prod", address=address))
        holdfast.write("network/main.tf", backend + dedent(CODE))
        holdfast.ok("apply", "--yes")
        holdfast.commit_all()
        (holdfast.folder / "network/main.tf").unlink()
        holdfast.write("test/main.tf", backend + 'resource "terraform_data" "other" {}\n')
        for alias in (address.replace("http:", "HTTP:"), address.replace("127.0.0.1", "localhost")):
            holdfast.write(YAML, config.format(name="test", environment="dev", address=alias))
            for since in ((), ("--since", "main")):
                assert LOWERED in reasons(holdfast.json("plan", *since, code=3), "test"), alias


def test_a_state_is_not_changed_under_weaker_rules(holdfast: Program, tmp_path: Path) -> None:
    """A colleague edits holdfast.yaml on a laptop: what CI applied as production is still that."""
    config = f"""
        version: 1
        store: {tmp_path}/store
        environments: {{{{ prod: {{{{ production: {{production}} }}}} }}}}
        targets: {{{{ cloud: {{{{ owner: {{owner}} }}}} }}}}
        stacks: [{{{{ name: db, module: app, environment: prod, target: cloud }}}}]
        """
    holdfast.environment["HOLDFAST_KEY"] = base64.b64encode(bytes(32)).decode()
    holdfast.write(YAML, config.format(production="true", owner="ci"))
    holdfast.write("app/main.tf", CODE)
    for count in ("count = 2", "count = 3"):
        edit(holdfast, ("app/main.tf", "count = 2", count))
        holdfast.ok("apply", "--yes", env={"CI": "true"})
    holdfast.write(YAML, config.format(production="false", owner="developers"))
    rollback = holdfast.ok("state", "rollback", "db", "1", "--yes", code=3).text
    assert f"{LOWERED}  db: its rules are weaker than at its last apply: production (prod) → not" in rollback
    older = ("state", "adopt", "db", "--accept-older", "--reason", "mine")
    assert "CI owned its target when it was last applied" in holdfast.ok(*older, code=3).text
    assert len(holdfast.json("state", "versions", "db")["versions"]) == 2
    digest = rollback.partition("--override ")[2].split()[0]
    override = ("--override", digest, "--reason", "it is a test now")
    assert "restored version 1" in holdfast.run("state", "rollback", "db", "1", "--yes", *override).text
