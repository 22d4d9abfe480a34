"""Policies in Rego, evaluated by the real regopy in a process: where it goes wrong, that is an error."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from tool_requests import tool_findings, tool_request, tool_skips

from holdfast.checks.model.interface import Finding, Severity
from holdfast.checks.tools.interface import run_tool
from holdfast.checks.tools.rego import tool
from holdfast.checks.tools.rego.by_regopy import Regopy
from holdfast.checks.tools.rego.interface import Document, EvaluationError
from holdfast.checks.tools.rego.policies import PolicyFile
from holdfast.checks.tools.rego.policy_tests import Outcome, run_tests
from holdfast.config.checks import Use

pytest.importorskip("regopy", reason="the extra `rego` is not installed")

HEAD = "package main\nimport rego.v1\n"
CODE = {"main.tf": 'resource "aws_x" "a" {\n  acl = "public"\n}\n'}
AWKWARD = 'quote " backslash \\ line\nend é'


def plan(**after: object) -> bytes:
    change: dict[str, object] = {"actions": ["create"], "before": None, "after": after, "after_unknown": {}}
    change |= {"before_sensitive": False, "after_sensitive": {}}
    one: dict[str, object] = {
        "address": "aws_x.a",
        "mode": "managed",
        "type": "aws_x",
        "name": "a",
        "change": change,
    }
    one["provider_name"] = "registry.terraform.io/hashicorp/aws"
    document = {"format_version": "1.2", "terraform_version": "1.11.4", "resource_changes": [one]}
    return json.dumps(document).encode()


def of_plan(tmp_path: Path, rules: str, **after: object) -> list[tuple[str, str]]:
    files = {"main.tf": "", "policy/a.rego": HEAD + rules}
    return tool_findings(
        tool.check, tool_request("rego", files, root=tmp_path, plans={"root": plan(**after)})
    )


AFTER = "some r in input.resource_changes; a := r.change.after"


def test_code_and_plans_are_evaluated(tmp_path: Path) -> None:
    """Each file by itself, each plan by itself; every package that denies or warns."""
    policy = (
        f"package team.a\nimport rego.v1\n"
        'deny_acl contains msg if { some n, bs in input.resource.aws_x; bs[_].acl == "public"; msg := n }\n'
        f'warn contains "planned" if {{ {AFTER}; a.acl == "private" }}\n'
    )
    about = tool_request(
        "rego", {**CODE, "policy/a.rego": policy}, root=tmp_path, plans={"root": plan(acl="private")}
    )
    assert tool_findings(tool.check, about) == [
        ("rego.team.a.warn", "planned"),
        ("rego.team.a.deny_acl", "a"),
    ]


def test_metadata_has_place_and_hint(tmp_path: Path) -> None:
    """An address leads to its block; what else is told stands with the message."""
    rules = (
        'deny contains {"msg": "no", "address": "aws_x.a", "hint": "Mend it.", "severity": "note", '
        '"team": "core"} if input.resource\n'
    )
    about = tool_request("rego", {**CODE, "policy/a.rego": HEAD + rules}, root=tmp_path)
    (one,) = [one for _, one in run_tool(tool.check, about) if isinstance(one, Finding)]
    assert (one.message, one.hint, one.address) == ("no (team: core)", "Mend it.", "aws_x.a")
    assert one.severity is Severity.NOTE
    assert one.place is not None
    assert (one.place.file, one.place.line) == ("main.tf", 1)


def test_every_needs_no_braces(tmp_path: Path) -> None:
    """The library only reads it in braces."""
    rules = 'deny contains "all" if every r in input.resource_changes { r.type == "aws_x" }\n'
    assert of_plan(tmp_path, rules) == [("rego.main.deny", "all")]


def test_an_exception_is_a_skip_with_its_reason(tmp_path: Path) -> None:
    """It is counted and shown, and fails nothing."""
    rules = 'deny_x contains "no" if input.resource\nexception contains rules if { rules := ["x"] }\n'
    about = tool_request("rego", {**CODE, "policy/a.rego": HEAD + rules}, root=tmp_path)
    assert tool_findings(tool.check, about) == []
    assert ("rego.main.deny_x", "exempted by the policy: no") in tool_skips(tool.check, about)


def test_without_a_plan_that_is_reported(tmp_path: Path) -> None:
    """Policies about plans looked at nothing."""
    about = tool_request(
        "rego", {**CODE, "policy/a.rego": HEAD + "deny contains 1 if input.x\n"}, root=tmp_path
    )
    assert [id_ for id_, _ in tool_skips(tool.check, about)] == ["rego"]


# Where the library is right, also about texts with escapes.


RIGHT = (
    'a.s == "quote \\" backslash \\\\ line\\nend é"',
    'contains(a.s, "\\" back")',
    'startswith(a.s, "quote \\"")',
    'json.unmarshal(a.j).Statement[0].Effect == "Allow"',
    'split(a.s, "\\n")[1] == "end é"',
    'sprintf("%s", [a.s]) == a.s',
    "a.big == 9223372036854775807",
    'a.html == "a<b>&c"',
    "count(a.l) == 2",
    "regex.match(`^n-\\d+$`, a.name)",
    'upper(a.name) == "N-12"',
    "a.name > 1024",
    "null < a.l[0]",
    "startswith(a.rows[_].name, `x`)",
    "count(a.rows[i].ports) == 1; i == 1",
    "a.rows[i].name != a.rows[j].name",
    "22 in a.rows[_].ports",
    "[_, v] := walk(a); v == 443",
    'concat(",", {"b", "a"}) == "a,b"',
)


def test_texts_are_what_they_are(tmp_path: Path) -> None:
    """A rule over embedded JSON, quotes, line ends or other letters than ASCII does fire."""
    rules = "".join(
        f'deny_{number} contains "fires" if {{ {AFTER}; {condition} }}\n'
        for number, condition in enumerate(RIGHT)
    )
    said = of_plan(
        tmp_path,
        rules,
        s=AWKWARD,
        j=json.dumps({"Statement": [{"Effect": "Allow"}]}),
        big=9223372036854775807,
        html="a<b>&c",
        l=[1, 2],
        name="n-12",
        rows=[{"name": "abc", "ports": [80, 443]}, {"name": "xyz", "ports": [22]}],
    )
    assert dict(said) == {f"rego.main.deny_{number}": "fires" for number in range(len(RIGHT))}


# Where it is not, that is an error.


WRONG = (
    "count(a.s) > 1000",
    'substring(a.s, 0, 1) == "x"',
    'indexof(a.s, "end") == 0',
    "regex.match(`^never$`, a.s)",
    'upper(a.u) == "x"',
    'base64.encode(a.s) == "x"',
    'crypto.sha256(a.s) == "x"',
    'trim(a.s, "q") == "x"',
    'base64.decode(a.b) == "x"',
    'sprintf("%d", ["text"]) == "x"',
    'sprintf("%s %s", ["one"]) == "x"',
    'net.cidr_contains("10.0.0.0/8", "10.1.1.1")',
    "to_number(a.u) == 1",
    "regex.match(`^.$`, a.u)",
    'glob.match("?", [], a.u)',
    'hex.encode(a.u) == "x"',
    'sprintf("%q", [a.u]) == "x"',
    'sprintf("%s", [[1]]) == "x"',
    'a.s < "x"',
    'urlquery.encode("a b") == "x"',
)


def test_a_wrong_answer_is_an_error(tmp_path: Path) -> None:
    """Each of these would silently not fire, or fire wrongly. Every rule is named, and none is passed."""
    rules = "".join(
        f'deny_{number} contains "fires" if {{ {AFTER}; {condition} }}\n'
        for number, condition in enumerate(WRONG)
    )
    said = of_plan(tmp_path, rules, s=AWKWARD, u="é", b="YSJi")
    assert {id_ for id_, _ in said} == {"HF908"}
    named = {message.split(": ")[1] for _, message in said}
    assert named == {f"rego.main.deny_{number}" for number in range(len(WRONG))}


def test_one_broken_rule_does_not_silence_the_others(tmp_path: Path) -> None:
    """What the others find is still told."""
    rules = f'deny contains "found" if {{ {AFTER} }}\nwarn_x contains "x" if {{ {AFTER}; count(a.s) > 1 }}\n'
    assert [id_ for id_, _ in of_plan(tmp_path, rules, s=AWKWARD)] == ["HF908", "rego.main.deny"]


def test_control_characters_are_an_error_where_they_would_be_counted(tmp_path: Path) -> None:
    """They cannot be looked for in Rego; a policy that only compares is right about them."""
    doubtful = of_plan(tmp_path, f'deny contains "x" if {{ {AFTER}; count(a.s) > 99 }}\n', s="a\u0001b")
    assert [id_ for id_, _ in doubtful] == ["HF908"]
    plain = of_plan(tmp_path, f'deny contains "x" if {{ {AFTER}; a.s == "a" }}\n', s="a\u0001b")
    assert plain == []


def test_rego_before_1_is_refused(tmp_path: Path) -> None:
    """It would parse, and mean something else."""
    (one,) = of_plan(tmp_path, 'deny[msg] { msg := "x" }\n')
    assert one[0] == "HF908"
    assert "policy/a.rego:3" in one[1]


def test_a_policy_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """And not a repository without findings. Its place is told, for its own words are a tree."""
    ((id_, message),) = of_plan(tmp_path, 'deny contains msg if { msg := \nwarn contains "x" if true\n')
    assert id_ == "HF908"
    assert "regopy cannot read the policies" in message
    ((_, message),) = of_plan(tmp_path, "x := 1\n\ndeny contains msg if { msg := = 1 }\n")
    assert message == "rego: regopy cannot read the policies: Invalid assignment operator (policy/a.rego:5)"


def test_a_name_without_a_value_is_an_error(tmp_path: Path) -> None:
    """The library would take the rule for one that does not fire."""
    ((id_, message),) = of_plan(tmp_path, 'deny contains "x" if inptu.resource_changes\n')
    assert (id_, message) == ("HF908", "rego: this name has no value: `inptu` (policy/a.rego:3)")


DYING = {
    "abort": "import regopy; regopy.Interpreter().query('data.nothing').binding('x')",
    "silence": "pass",
    "nonsense": "print('hello')",
    "less": "print('{\"results\": []}')",
    "crash": "raise SystemExit(3)",
}


@pytest.mark.parametrize("how", DYING)
def test_a_process_that_dies_is_an_error(tmp_path: Path, how: str) -> None:
    """The library takes its whole process with it (`binding` of an undefined result): ours stays."""
    program = (sys.executable, "-c", f"import sys; sys.stdin.read(); {DYING[how]}")
    dying = Regopy(tmp_path, {"PATH": ""}, program)
    policy = PolicyFile(path="policy/a.rego", text=HEAD + "deny contains 1 if input.x\n")
    with pytest.raises(EvaluationError, match="signal 6" if how == "abort" else "regopy"):
        dying.evaluate([policy], [Document(value={})])


ONE_FILE = """
bucket := {"resource": {"aws_x": {"a": [{"acl": "public"}]}}}

deny contains "public" if {
  some name, blocks in input.resource.aws_x
  blocks[_].acl == "public"
}

test_literal if {
  count(deny) == 1 with input as {"resource": {"aws_x": {"a": [{"acl": "public"}]}}}
}

todo_test_later if count(deny) == 2 with input as bucket

test_rule if count(deny) == 1 with input as bucket

warn contains "code" if input.resource
"""


def test_a_policy_may_have_its_tests_in_the_same_file(tmp_path: Path) -> None:
    """A loaded test with `with input as` would crash regopy."""
    about = tool_request("rego", {**CODE, "policy/a.rego": HEAD + ONE_FILE}, root=tmp_path)
    assert tool_findings(tool.check, about) == [("rego.main.deny", "public"), ("rego.main.warn", "code")]


def test_the_examples_of_the_page_work_in_one_file_and_in_two(tmp_path: Path) -> None:
    """docs/policies.md: what it finds in code, and its test."""
    page = (Path(__file__).parents[3] / "docs" / "policies.md").read_text("utf-8")
    policy, tests = re.findall(r"```rego\n(.*?)```", page, re.DOTALL)
    one_file = {"policy/a.rego": policy + tests.partition("import rego.v1\n")[2]}
    for files in (one_file, {"policy/a.rego": policy, "policy/a_test.rego": tests}):
        code = 'resource "aws_s3_bucket" "b" {\n  acl = "public-read"\n}\n'
        about = tool_request("rego", {"main.tf": code, **files}, root=tmp_path)
        assert tool_findings(tool.check, about) == [("rego.main.deny_public", "anyone can read the bucket b")]
        report = run_tests(
            tmp_path, about.environment, [PolicyFile(path=path, text=text) for path, text in files.items()]
        )
        assert report is not None
        assert [(test.name, test.outcome) for test in report.tests] == [("test_public", Outcome.PASSED)]


def test_a_crash_of_regopy_suggests_opa(tmp_path: Path) -> None:
    """The policy is correct: fixing it would not help."""
    rules = (
        'deny contains "x" if { always }\n'
        "always if { count(input.resource) == 1 with input as input.other }\n"
    )
    about = tool_request("rego", {**CODE, "policy/a.rego": HEAD + rules}, root=tmp_path)
    (finding,) = [result for _, result in run_tool(tool.check, about) if isinstance(result, Finding)]
    assert finding.message.startswith("rego: regopy crashed")
    assert "Install `opa`" in str(finding.hint)
    assert "Fix" not in str(finding.hint)


def test_no_credential_of_the_caller_reaches_the_process(tmp_path: Path) -> None:
    """`opa.runtime().env` and the like must find nothing."""
    about = tool_request("rego", CODE, root=tmp_path)
    from holdfast.checks.tools.interface import child_variables  # noqa: PLC0415 - only here

    assert set(child_variables(about.environment)) == {"PATH", "HOME"}


def test_a_plan_that_is_too_large_is_an_error(tmp_path: Path) -> None:
    """Regopy would need gigabytes of memory."""
    big = Document(value={"text": ["x" * 1000] * 21_000}, stack="a")
    policy = PolicyFile(path="policy/a.rego", text=HEAD + "deny contains 1 if input[_] == 1\n")
    with pytest.raises(EvaluationError, match="21 MB"):
        Regopy(tmp_path, {}).evaluate([policy], [big])


# Whether there is anything to ask, and anybody.


def test_without_policies_nothing_is_reported(tmp_path: Path) -> None:
    """Most repositories have none; one that wants them asked is told."""
    assert tool_findings(tool.check, tool_request("rego", CODE, root=tmp_path)) == []
    ((id_, _),) = tool_findings(tool.check, tool_request("rego", CODE, root=tmp_path, use=Use.ON))
    assert id_ == "HF908"


def test_a_broken_file_is_skipped_with_its_name(tmp_path: Path) -> None:
    """Nobody can ask policies about it; HF904 says what is wrong with it."""
    files = {"main.tf": "resource {{{\n", "policy/a.rego": HEAD + "deny contains 1 if input.resource\n"}
    about = tool_request("rego", files, root=tmp_path)
    assert ("rego", "the file has syntax errors") in tool_skips(tool.check, about)
