"""opa, conftest and checkov as programs: how they are called, and that nonsense is an error.

The programs here are small ones of ours that answer as the real ones do; `make test-interop` asks the real.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tool_requests import program, tool_findings, tool_request, tool_skips

from holdfast.checks.model.interface import Finding
from holdfast.checks.tools import checkov
from holdfast.checks.tools.rego import tool
from holdfast.checks.tools.rego.policy_tests import Outcome, read_opa_tests
from holdfast.config.checks import Use
from holdfast.system.processes import Finished

POLICY = "package main\nimport rego.v1\ndeny contains 1 if input.resource\n"
FILES = {"main.tf": 'resource "aws_x" "a" {\n  acl = "public"\n}\n', "policy/a.rego": POLICY}

OPA = """
import json, pathlib, sys
if sys.argv[1] == "capabilities":
    names = ["count", "http.send", "json.match_schema", "time.now_ns", "new.way_out"]
    print(json.dumps({"builtins": [{"name": n, "nondeterministic": n != "count"} for n in names]}))
    raise SystemExit
documents = json.load(sys.stdin)
assert sys.argv[1] == "eval" and "--data=policy/a.rego" in sys.argv, sys.argv
(file,) = [one.partition("=")[2] for one in sys.argv if one.startswith("--capabilities=")]
given = json.loads(pathlib.Path(file).read_text())
assert [one["name"] for one in given["builtins"]] == ["count", "time.now_ns"], given
assert given["allow_net"] == [], given
value = {str(n): {"deny": ["seen " + ",".join(one)]} for n, one in enumerate(documents)}
print(json.dumps({"result": [{"expressions": [{"value": [value]}]}]}))
"""
CONFTEST = """
import json, pathlib, sys
assert sys.argv[2].startswith("--namespace=holdfast_") and sys.argv[-1] == "-", sys.argv
policies = [one.partition("=")[2] for one in sys.argv if one.startswith("--policy=")]
if "parse_module" in pathlib.Path(policies[0]).read_text():
    names = {path: ["data.x"] for path in json.loads(json.load(sys.stdin)["documents"][0])}
    print(json.dumps([{"failures": [{"msg": json.dumps(names)}]}]))
    raise SystemExit
assert policies[0].endswith("/policy/a.rego") and "data.main" in pathlib.Path(policies[1]).read_text()
documents = map(json.loads, json.load(sys.stdin)["documents"])
value = [{str(n): {"deny": ["seen " + ",".join(one)]} for n, one in enumerate(documents)}]
print(json.dumps([{"filename": "", "failures": [{"msg": json.dumps(value)}]}]))
"""


def test_opa_is_preferred_and_runs_once_for_all(tmp_path: Path) -> None:
    """Every document in one process, in order."""
    path = program(tmp_path / "bin", "opa", OPA)
    program(tmp_path / "bin", "conftest", "raise SystemExit(9)")
    about = tool_request("rego", FILES, root=tmp_path, path=path)
    assert tool_findings(tool.check, about) == [("rego.main.deny", "seen resource")]


def test_conftest_evaluates_the_same(tmp_path: Path) -> None:
    """By a policy of ours, and not where a `conftest.toml` could say otherwise."""
    about = tool_request("rego", FILES, root=tmp_path, path=program(tmp_path / "bin", "conftest", CONFTEST))
    assert tool_findings(tool.check, about) == [("rego.main.deny", "seen resource")]


@pytest.mark.parametrize("name", ["opa", "conftest"])
@pytest.mark.parametrize(
    "text",
    [
        *("print('[]')", "print('{}')", "raise SystemExit(1)", "print('nonsense')", "import os; os.abort()"),
        """print('[{"failures": [{"msg": "{}"}]}]')""",
        """print('[{"failures": []}]')""",
    ],
)
def test_an_evaluator_that_gives_no_answer_is_an_error(tmp_path: Path, name: str, text: str) -> None:
    """Whatever it prints: policies that were not evaluated are never passed."""
    about = tool_request("rego", FILES, root=tmp_path, path=program(tmp_path / "bin", name, text))
    assert [id_ for id_, _ in tool_findings(tool.check, about)] == ["HF908"]


def test_an_error_of_opa_is_reported_with_its_place(tmp_path: Path) -> None:
    """A person must know which line to mend."""
    error = {"errors": [{"message": "unsafe var", "location": {"file": "policy/a.rego", "row": 3}}]}
    can = '{"builtins": [{"name": "count"}]}'
    text = f"""
        import sys
        asked = sys.argv[1] == "eval"
        print({json.dumps(error)!r} if asked else {can!r})
        raise SystemExit(2 if asked else 0)
        """
    about = tool_request("rego", FILES, root=tmp_path, path=program(tmp_path / "bin", "opa", text))
    assert tool_findings(tool.check, about) == [("HF908", "rego: opa: unsafe var (policy/a.rego:3)")]


def test_tests_of_opa_are_read() -> None:
    """Each with its end; what is no list of tests is no answer."""
    document = [
        {"package": "data.main", "name": "test_a", "location": {"file": "policy/a_test.rego"}},
        {"package": "data.main", "name": "test_b", "fail": True},
        {"package": "data.main", "name": "todo_test_c", "skip": True},
        {"package": "data.main", "name": "test_d", "error": {"message": "broke"}},
    ]
    tests = read_opa_tests(Finished(code=2, out=json.dumps(document).encode(), err=b""))
    assert [(one.name, one.outcome) for one in tests] == [
        ("test_a", Outcome.PASSED),
        ("test_b", Outcome.FAILED),
        ("todo_test_c", Outcome.SKIPPED),
        ("test_d", Outcome.BROKEN),
    ]
    assert tests[3].message == "broke"


# Checkov

CHECKOV = """
import json, pathlib, sys
here = pathlib.Path.cwd()
assert not (here / "main.tf").exists(), "run where the code is"
assert f"--external-checks-dir={{here}}/checks" in sys.argv and (here / "checks/seen.yaml").is_file()
pathlib.Path("{folder}/argv").write_text(json.dumps(sys.argv))
check = {{"check_id": "CKV_X_1", "check_name": "Ensure x", "file_path": "/main.tf", "file_line_range": [1, 3],
         "resource": "aws_x.a", "guideline": "https://example.invalid/1", "severity": {severity!r}}}
spared = {{**check, "check_id": "CKV_X_2", "check_result": {{"suppress_comment": "known"}}}}
seen = [{{"check_id": "HOLDFAST_SEEN", "file_path": "/" + one}} for one in {seen!r}]
results = {{"failed_checks": [check], "passed_checks": seen, "skipped_checks": [spared]}}
print(json.dumps({{"check_type": "terraform", "results": results, "summary": {{"resource_count": 1}}}}))
raise SystemExit(1)
"""


def checkov_path(tmp_path: Path, *, severity: str | None = None, seen: tuple[str, ...] = ("main.tf",)) -> str:
    text = CHECKOV.format(severity=severity, seen=seen, folder=tmp_path)
    return program(tmp_path / "bin", "checkov", text)


def test_checkovs_findings_keep_their_ids(tmp_path: Path) -> None:
    """With place, address and where to read more."""
    about = tool_request("checkov", FILES, root=tmp_path, path=checkov_path(tmp_path))
    rule, one = next(iter(checkov.check(about)))
    assert isinstance(one, Finding)
    assert (rule.id, rule.fix) == ("CKV_X_1", "See https://example.invalid/1")
    assert getattr(one, "address", None) == "aws_x.a"
    assert str(getattr(one, "place", None)) == "main.tf:1"


def test_checkov_that_saw_nothing_is_an_error(tmp_path: Path) -> None:
    """It ends well where it looked at nothing."""
    about = tool_request("checkov", FILES, root=tmp_path, path=checkov_path(tmp_path, seen=()))
    assert tool_findings(checkov.check, about) == [
        ("HF908", "checkov: found no resources, although the code has some")
    ]


def test_what_checkov_passes_over_is_reported(tmp_path: Path) -> None:
    """A check that a comment in the code skips, and a file that it does not look at."""
    files = {**FILES, "b.tf": FILES["main.tf"]}
    about = tool_request("checkov", files, root=tmp_path, path=checkov_path(tmp_path))
    assert tool_skips(checkov.check, about) == [
        ("checkov", "Checkov did not check this file"),
        ("CKV_X_2", "skipped by a comment in the code: known"),
    ]


def test_settings_of_the_repository_do_not_run_code_nor_hide_anything(tmp_path: Path) -> None:
    """What chooses checks is passed on and told; what would be run, sent or written elsewhere is not."""
    settings = """
        skip-check: [CKV_A_1, "CKV_A_2,CKV_A_3"]
        check: CKV_A_9
        skip-path: [old/]
        soft-fail: true
        output-file-path: elsewhere
        external-checks-dir: [code, data, ../outside]
        bc-api-key: abc
        """
    files = {**FILES, ".checkov.yaml": settings, "code/a.py": "", "data/a.yaml": ""}
    about = tool_request("checkov", files, root=tmp_path, path=checkov_path(tmp_path))
    reasons = dict.fromkeys(tool_skips(checkov.check, about))
    assert list(reasons)[:7] == [
        *((f"CKV_A_{number}", "skipped in the settings of Checkov") for number in (1, 2, 3)),
        ("checkov", "its settings select only these checks: CKV_A_9"),
        ("checkov", "the checks in code are not run: the folder contains code"),
        ("checkov", "the checks in ../outside are not run: the folder contains code"),
        ("checkov", "its setting `bc-api-key` is ignored"),
    ]
    given = json.loads((tmp_path / "argv").read_text())
    assert given[given.index(f"--external-checks-dir={tmp_path}/data") + 1 :] == [
        *("--check=CKV_A_9,HOLDFAST_SEEN", "--skip-check=CKV_A_1,CKV_A_2,CKV_A_3", "--skip-path=old/"),
        *(f"--directory={tmp_path}", "--framework=terraform"),
    ]
    assert not [one for one in given if "soft" in one or "elsewhere" in one or "abc" in one]


def test_settings_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    """Nobody knows what they wanted."""
    files = {**FILES, ".checkov.yml": "skip-check: ["}
    about = tool_request("checkov", files, root=tmp_path, path=checkov_path(tmp_path))
    assert [id_ for id_, _ in tool_findings(checkov.check, about)] == ["HF908"]


def test_a_missing_checkov_is_a_skip_or_an_error(tmp_path: Path) -> None:
    """On `auto` a skip with its reason; on `on` an error."""
    assert tool_skips(checkov.check, tool_request("checkov", FILES, root=tmp_path)) == [
        ("checkov", "`checkov` is not on PATH")
    ]
    ((id_, message),) = tool_findings(
        checkov.check, tool_request("checkov", FILES, root=tmp_path, use=Use.ON)
    )
    assert id_ == "HF908"
    assert "`checks.tools.checkov` is `on`" in message


def test_a_checkov_that_crashes_is_an_error(tmp_path: Path) -> None:
    """With what it said last."""
    text = "import sys; sys.stderr.write('no memory'); raise SystemExit(2)"
    path = program(tmp_path / "bin", "checkov", text)
    assert tool_findings(checkov.check, tool_request("checkov", FILES, root=tmp_path, path=path)) == [
        ("HF908", "checkov: failed with exit code 2: no memory")
    ]


def test_a_tool_that_breaks_in_our_hands_is_an_error(tmp_path: Path) -> None:
    """One tool never silences the report."""

    def look(_: object) -> list[object]:
        raise KeyError("secret text")

    ((id_, message),) = tool_findings(look, tool_request("x", FILES, root=tmp_path))  # type: ignore[arg-type] # on purpose
    assert id_ == "HF908"
    assert "secret text" not in message
