"""Policies in real folders: links, submodules, what is missing, and what their messages say of places."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tool_requests import program, tool_findings, tool_request, tool_skips

from holdfast.checks.model.interface import Finding
from holdfast.checks.tools.interface import run_tool
from holdfast.checks.tools.rego import forbidden_calls, tool
from holdfast.checks.tools.rego.policies import PolicyFiles, policy_files
from holdfast.hcl.eval.code import Code

POLICY = "package main\n\ndeny contains 1 if true\n"
CODE = 'resource "aws_x" "a" {\n  name = "hunter2"\n}\n'


def write(file: Path, text: str = POLICY) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def of(root: Path) -> PolicyFiles:
    return policy_files(Code(root))


def test_links_are_followed_wherever_they_lead(tmp_path: Path) -> None:
    """Policies that somebody else keeps are policies: none of them may be passed over without a word."""
    write(tmp_path / "shared/a.rego")
    write(tmp_path / "shared/team/b.rego")
    (tmp_path / "shared/team/up").symlink_to("..")
    whole, part = tmp_path / "whole", tmp_path / "part"
    whole.mkdir()
    (whole / "policy").symlink_to("../shared")
    assert of(whole).paths == ("policy/a.rego", "policy/team/b.rego")
    write(part / "policy/own.rego")
    (part / "policy/shared").symlink_to(tmp_path / "shared/team")
    assert of(part).paths == ("policy/own.rego", "policy/shared/b.rego", "policy/shared/up/a.rego")


def test_a_folder_counts_once_however_many_links_lead_to_it(tmp_path: Path) -> None:
    """Two links in each of 30 folders are more ways than there is time for."""
    folder = tmp_path / "policy/deep"
    for number in range(30):
        here = tmp_path / f"shared/d{number}"
        here.mkdir(parents=True)
        (here / "x").symlink_to(f"../d{number + 1}")
        (here / "y").symlink_to(f"../d{number + 1}")
    write(tmp_path / "shared/d30/a.rego")
    folder.mkdir(parents=True)
    (folder / "z").symlink_to(tmp_path / "shared/d0")
    assert of(tmp_path).paths == (f"policy/deep/z/{'x/' * 30}a.rego",)


def test_an_empty_policy_folder_is_an_error(tmp_path: Path) -> None:
    """A submodule that nobody fetched is an empty folder; a folder that only lies there is nothing."""
    assert of(tmp_path) == PolicyFiles()
    (tmp_path / "policy").mkdir()
    assert of(tmp_path).empty == ("policy",)
    write(tmp_path / "policy/a.rego")
    (tmp_path / "policy/idle").mkdir()
    (tmp_path / "policy/shared").mkdir()
    (tmp_path / "policy/lost").symlink_to("nowhere")
    write(tmp_path / ".gitmodules", '[submodule "s"]\n\tpath = policy/shared\n\turl = ../s\n')
    assert of(tmp_path) == PolicyFiles(
        paths=("policy/a.rego",), empty=("policy/shared",), broken_links=("policy/lost",)
    )
    (tmp_path / "other").mkdir()
    write(tmp_path / "other/policy", "a file of that name")
    assert of(tmp_path / "other") == PolicyFiles()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("deny contains 1 if true\n", "rego: no package in policy/a.rego"),
        (
            'package main\n\ndeny[msg] { msg := "x" }\n',
            "rego: syntax before Rego 1.0: policy/a.rego:3",
        ),
        (
            "package main\nimport data.lib\n\ndeny contains 1 if data.regions[_] == input.region\n",
            "rego: no policy defines `data.regions` (policy/a.rego:4), and no other data is loaded",
        ),
        (
            'package main\ndeny contains http.send({"url": "x"}).body\n',
            f"rego: {forbidden_calls.message([('`http.send`', 'policy/a.rego:2')])}",
        ),
    ],
)
def test_policies_that_would_never_fire_or_lead_out_are_errors(
    tmp_path: Path, text: str, message: str
) -> None:
    """Whoever evaluates them here: it is not asked."""
    files = {"main.tf": CODE, "policy/a.rego": text, "policy/lib/b.rego": "package lib.b\n\nx := 1\n"}
    path = program(tmp_path / "bin", "opa", "raise SystemExit('nobody may be asked')")
    assert tool_findings(tool.check, tool_request("rego", files, root=tmp_path, path=path)) == [
        ("HF908", message)
    ]


def test_policies_that_say_nothing_are_a_skip(tmp_path: Path) -> None:
    """They are there, and nothing was held against them."""
    files = {"main.tf": CODE, "policy/a.rego": "package main\n\nallow := true\n"}
    about = tool_request("rego", files, root=tmp_path)
    assert tool_skips(tool.check, about) == [("rego", "no policy in `policy/` denies or warns")]


CHANGE = {"actions": ["create"], "before": None, "after": {"name": "hunter2"}, "after_unknown": {}}
PLAN = {
    "format_version": "1.2",
    "terraform_version": "1.11.4",
    "resource_changes": [
        {
            "address": "aws_x.a",
            "mode": "managed",
            "type": "aws_x",
            "name": "a",
            "provider_name": "registry.terraform.io/hashicorp/aws",
            "change": {**CHANGE, "before_sensitive": False, "after_sensitive": {"name": True}},
        }
    ],
}


def findings(tmp_path: Path, *, plan: bool, **metadata: object) -> Finding:
    """What a policy says with this metadata of the plan, or of the code."""
    said = {"deny": [{"msg": "no", **metadata}]}
    value = [{"0": said, "1": {"deny": []}}]
    answer = {"result": [{"expressions": [{"value": value}]}]}
    text = f"""
        import sys
        print({json.dumps(answer)!r} if sys.argv[1] == "eval" else '{{"builtins": [{{"name": "count"}}]}}')
        """
    path = program(tmp_path / "bin", "opa", text)
    files = {"main.tf": CODE, "policy/a.rego": POLICY}
    plans = {"root": json.dumps(PLAN).encode()} if plan else None
    about = tool_request("rego", files, root=tmp_path, path=path, plans=plans)
    (one,) = [answer for _, answer in run_tool(tool.check, about) if isinstance(answer, Finding)]
    return one


def test_an_address_is_one_of_the_plan(tmp_path: Path) -> None:
    """It leads to an object: what is none is told with the message, as is what only calls itself one."""
    one = findings(tmp_path, plan=True, address="aws_x.a", severity="HIGH")
    assert (one.address, one.message) == ("aws_x.a", "no (severity: HIGH)")
    one = findings(tmp_path, plan=True, address="hunter2", hint=["x"])
    assert (one.address, one.hint, one.message) == (None, None, 'no (address: hunter2, hint: ["x"])')
    one = findings(tmp_path, plan=False, address="the bucket hunter2")
    assert (one.address, one.message) == (None, "no (address: the bucket hunter2)")


def test_a_place_is_one_of_the_repository(tmp_path: Path) -> None:
    """The line is shown: no other file of the machine may be named, and no line that is not there."""
    (tmp_path.parent / "outside.txt").write_text("not yours\n")
    for file in ("../outside.txt", str(tmp_path.parent / "outside.txt")):
        assert str(findings(tmp_path, plan=False, file=file, line=1).place) == "main.tf:1"
        assert findings(tmp_path, plan=True, file=file, line=1).place is None
    assert str(findings(tmp_path, plan=False, line=99).place) == "main.tf"
    assert str(findings(tmp_path, plan=False, address="aws_x.a").place) == "main.tf:1:1"
