"""After `check --baseline write` only new findings fail; a change cannot add to it in its own review."""

from __future__ import annotations

import json
from typing import Any

import pytest
from program import Program

BASELINE = "holdfast.baseline.json"
CONFIG = """
version: 1
stacks:
  - { name: app, module: app, environment: dev }
checks:
  rules: { "HF*": off, HF207: error, HF211: error, HF9*: error }
guard: { findings: deny }
"""
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
OTHER = TOKEN.replace("a1B2", "z9Y8")
CODE = f"""
variable "api_token" {{
  default = null
}}
resource "terraform_data" "it" {{
  input = "{TOKEN}"
}}
"""


@pytest.fixture
def main(holdfast: Program) -> Program:
    """A repository with two known findings."""
    holdfast.write("holdfast.yaml", CONFIG)
    holdfast.write("app/main.tf", CODE)
    holdfast.write(".gitignore", ".holdfast\n")
    holdfast.git("init", "--quiet", "--initial-branch", "main")
    assert holdfast.run("check").code == 3
    written = holdfast.ok("check", "--baseline", "write")
    assert "wrote holdfast.baseline.json: 2 known findings (2 added, 0 removed)" in written.text
    assert "1 known error about secrets: rotate" in written.text
    holdfast.commit_all()
    holdfast.git("switch", "--quiet", "--create", "change")
    return holdfast


def summary(program: Program, *arguments: str, code: int) -> dict[str, Any]:
    document = program.json("check", *arguments, code=code)
    active = [
        (finding["rule"], finding["file"], finding["line"])
        for finding in document["findings"]
        if finding["novelty"] == "new"
    ]
    return {**document["summary"]["baseline"], "active": active}


def test_known_findings_are_counted_and_fixed_ones_are_dropped(main: Program) -> None:
    """In check and plan alike, however the lines move; the file has no secret, and is stable."""
    written = (main.folder / BASELINE).read_text()
    assert TOKEN not in written
    main.write("app/main.tf", "# moved down\n" + CODE)
    assert "no new findings · 2 known (baseline)" in main.ok("check").out
    main.ok("check", "--baseline", "write")
    assert (main.folder / BASELINE).read_text() == written
    planned = main.ok("plan")
    assert "checks: no new findings · 2 known (baseline)" in planned.text
    results = json.loads(main.ok("check", "--format", "sarif").out)["runs"][0]["results"]
    assert {result["baselineState"] for result in results} == {"unchanged"}
    assert "::error" not in main.ok("check", "--format", "github").out
    main.write("app/main.tf", CODE.replace("default = null", "default = null\n  sensitive = true"))
    assert summary(main, code=0) == {"known": 1, "new": 0, "fixed": 1, "active": []}
    assert "1 fixed" in main.ok("check").out
    main.ok("check", "--baseline", "write")
    assert '"HF211"' not in (main.folder / BASELINE).read_text()
    main.write("app/main.tf", CODE)
    assert summary(main, code=3)["active"] == [("HF211", "app/main.tf", 1)]
    refused = main.run("plan", "app")
    assert refused.code == 3
    assert "HF-GUARD-19" in refused.text
    assert "HF211" in refused.text
    assert "HF207" not in refused.text


def test_a_change_cannot_add_to_the_baseline_that_it_is_reviewed_with(main: Program) -> None:
    """With a base, entries count as often as there: check and plan refuse what the change brings."""
    main.write(
        "app/more.tf",
        'variable "new_token" {\n  default = null\n}\nresource "terraform_data" "b" {\n  input = "x"\n}\n',
    )
    # The same secret rule at the same address: the entry would need a higher count.
    main.write("app/main.tf", CODE.replace("input =", f'triggers_replace = "{OTHER}"\n  input ='))
    main.ok("check", "--baseline", "write")
    main.ok("check")
    found = summary(main, "--since", "main", code=3)
    assert ("HF211", "app/more.tf", 1) in found["active"]
    assert [rule for rule, *_ in found["active"]].count("HF207") == 1
    assert found["known"] == 2
    planned = main.run("plan", "--since", "main")
    assert planned.code == 3
    assert f"This change weakens the guard: {BASELINE} accepts 2 more findings" in planned.text
    assert "HF-GUARD-19" in planned.text
    assert "new_token" in planned.text


def test_only_what_the_change_brings_is_shown_with_a_base(main: Program) -> None:
    """A secret that is replaced on a known line is new, and so is a finding that it causes elsewhere."""
    main.write("app/main.tf", CODE.replace(TOKEN, OTHER))
    main.ok("check")  # The baseline knows no values.
    assert summary(main, "--since", "main", code=3) == {
        "known": 1,
        "new": 1,
        "fixed": 0,
        "active": [("HF207", "app/main.tf", 5)],
    }
    main.write("app/main.tf", CODE)
    main.git("rm", "--quiet", BASELINE)
    main.commit_all()
    main.git("switch", "--quiet", "--create", "again")
    main.write("app/other.tf", "# nothing wrong\n")
    shown = main.ok("check", "--since", "change")
    assert "no new findings · 2 existing (not from this change)" in shown.out
    assert main.run("check").code == 3


def test_a_baseline_is_written_for_the_whole_repository_and_read_only_if_it_is_valid(main: Program) -> None:
    """Anything else is refused with what to do, also by plan."""
    for arguments in (("app", "--baseline", "write"), ("--baseline", "read")):
        assert "HF-CHECK-8" in main.ok("check", *arguments, code=64).text
    for text in ("{", '{"version": 2, "findings": []}', '{"version": 1, "findings": [{"rule": "HF207"}]}'):
        main.write(BASELINE, text)
        assert "HF-CHECK-7" in main.ok("check", code=64).text
    assert "HF-CHECK-7" in main.ok("plan", code=64).text
    main.ok("check", "--baseline", "write")
