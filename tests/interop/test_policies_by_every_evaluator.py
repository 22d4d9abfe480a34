"""The same policies by the real opa, the real conftest, and regopy: the same findings.

Where regopy cannot give the right answer it must give an error, and never silence.
"""

from __future__ import annotations

import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import other_tools
import pytest
from program import Program
from tool_requests import tool_request

from holdfast.checks.model.interface import Finding, Skipped
from holdfast.checks.tools.rego import tool
from holdfast.checks.tools.source_documents import document_from_source

REPOSITORY = Path(__file__).parents[2]
HEAD = "package main\nimport rego.v1\n"
AFTER: dict[str, Any] = {
    "s": 'quote " backslash \\ line\nend é',
    "e": "é",
    "n": "n-12",
    "j": json.dumps({"Statement": [{"Effect": "Allow", "Action": "*"}]}),
    "big": 9223372036854775807,
    "huge": 2**70,
    "f": 1.5,
    "html": "a<b>&c",
    "l": [1, 2, 30],
    "o": {"k": "v", "é": 1},
    "none": None,
    "t": True,
    "tab": "a\tb",
    "face": "😀",
    "rules": [{"name": "abc", "ports": [80, 443]}, {"name": "xyz", "ports": [22]}],
    "computed": "${var.port}",
    "b64": "YSJi",
}
SAME = {
    # Texts are what they are.
    'a.s == "quote \\" backslash \\\\ line\\nend é"': True,
    'contains(a.s, "\\" back")': True,
    'json.unmarshal(a.j).Statement[0].Action == "*"': True,
    'split(a.s, "\\n")[1] == "end é"': True,
    'replace(a.tab, "\\t", "-") == "a-b"': True,
    'a.html == "a<b>&c"': True,
    "count(a.face) == 1": True,
    'a.o["é"] == 1': True,
    'endswith(a.s, "é")': True,
    'substring(a.face, 0, 1) == "😀"': True,
    'sprintf("%s", [a.s]) == a.s': True,
    'sprintf("%v %v %d", [a.l, a.t, 7]) == "[1, 2, 30] true 7"': True,
    'sprintf("%05d|%.1f|%x", [7, a.f, 255]) == "00007|1.5|ff"': True,
    'sprintf("%v", [{"k": "q\\"q"}]) == "{\\"k\\": \\"q\\\\\\"q\\"}"': True,
    'concat(",", {"b", "é", "a"}) == "a,b,é"': True,
    "regex.match(`^n-\\d+$`, a.n)": True,
    'upper(a.n) == "N-12"': True,
    'glob.match("n-*", [], a.n)': True,
    # Numbers, and values of two kinds.
    "a.big == 9223372036854775807": True,
    "a.big == 9223372036854775806": False,
    "a.huge == 1180591620717411303424": True,
    "a.huge == 1180591620717411303425": False,
    "0.1 + 0.2 == 0.3": True,
    "a.computed > 1024": True,
    "a.computed <= 1024": False,
    "a.none < 1": True,
    "a.l > 5": True,
    "a.t > 5": False,
    "not a.n < 100": True,
    "count(a.l) >= 3": True,
    "a.l[0] + 1 > 1": True,
    # What is not there.
    "a.missing == 1": False,
    "a.missing > 1": False,
    "not a.missing": True,
    'object.get(a, "missing", "d") == "d"': True,
    "data.main.nothing.x == 1": False,
    "is_null(a.none)": True,
    # Going through things.
    'startswith(a.rules[_].name, "x")': True,
    'startswith(a.rules[i].name, "x")': True,
    'some i; startswith(a.rules[i].name, "q")': False,
    "count(a.rules[i].ports) == 1; i == 1": True,
    'sprintf("%s-%d", [a.rules[i].name, a.rules[i].ports[0]]) == "xyz-22"': True,
    "a.l[_] > 5": True,
    "a.l[i] < a.l[j]; i == 1; j == 0": False,
    "a.rules[i].name != a.rules[j].name": True,
    '{i | startswith(a.rules[i].name, "x")} == {1}': True,
    '{a.rules[i].name | true} == {"abc", "xyz"}': True,
    "22 in a.rules[_].ports": True,
    "some rule in a.rules; every p in rule.ports { p < 25 }": True,
    'some k, v in a.o; k == "é"; v == 1': True,
    '[_, v] := walk(a); v == "xyz"': True,
    "walk(a.rules[_], [_, v]); v == 443": True,
    'named(a.rules[i]) == "xyz"': True,
    "x := [y | some y in a.l; y > 1]; x == [2, 30]": True,
}
DOUBTFUL = (
    "count(a.s) == 30",
    "regex.match(`backslash \\\\ line`, a.s)",
    "regex.match(`^.$`, a.e)",
    'upper(a.e) == "É"',
    'base64.decode(a.b64) == "a\\"b"',
    'sprintf("%q", [a.n]) == "\\"n-12\\""',
    'sprintf("%s", [a.l]) == "[1, 2, 30]"',
    'sprintf("%d", ["text"]) == "%!d(string=text)"',
    'hex.encode(a.e) == "c3a9"',
    'urlquery.encode("a b") == "a+b"',
    'net.cidr_contains("10.0.0.0/8", "10.1.1.1")',
    'a.tab < "b"',
)
"""All of these hold. regopy would say that some do not."""


def plan(after: dict[str, Any] | None = None, **more: object) -> bytes:
    change = {"actions": ["create"], "before": None, "after": after or AFTER, "after_unknown": {}}
    one = {
        "address": "aws_x.a",
        "mode": "managed",
        "type": "aws_x",
        "name": "a",
        "provider_name": "registry.terraform.io/hashicorp/aws",
        "change": {**change, "before_sensitive": False, "after_sensitive": {}},
    }
    whole = {"format_version": "1.2", "terraform_version": "1.11.4", "resource_changes": [one], **more}
    return json.dumps(whole).encode()


class Evaluator:
    """One of the three, and nothing else on PATH."""

    def __init__(self, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = name
        self.path = other_tools.only(name, folder / "bin") if name != "regopy" else str(folder / "bin")
        self._root = folder / "repository"
        self._root.mkdir()
        monkeypatch.setenv("PATH", self.path)

    def said(self, files: dict[str, str], plans: dict[str, bytes] | None = None) -> list[tuple[str, Any]]:
        """Through the tool's own way in, with plans as a run hands them over."""
        about = tool_request("rego", files, root=self._root, plans=plans)
        return [(rule.id, one) for rule, one in tool.TOOL.run(about.checkout, about.plans)]

    def findings(self, files: dict[str, str], plans: dict[str, bytes] | None = None) -> list[tuple[str, str]]:
        said = self.said(files, plans)
        return sorted((id_, one.message) for id_, one in said if isinstance(one, Finding))

    def fires(self, conditions: list[str]) -> dict[str, str]:
        """How a rule with each condition comes out over the plan."""
        bodies = [f"some r in input.resource_changes; a := r.change.after; {one}" for one in conditions]
        rules = [f'deny_{n} contains "fires" if {{ {body} }}\n' for n, body in enumerate(bodies)]
        text = f"{HEAD}named(r) := r.name\n{''.join(rules)}"
        found = self.findings({"main.tf": "", "policy/a.rego": text}, {"root": plan()})
        ends = {id_: message for id_, message in found if id_ != "HF908"}
        errors = [message for id_, message in found if id_ == "HF908"]
        return {
            one: ends.get(f"rego.main.deny_{n}")
            or ("error" if any(f"rego.main.deny_{n}: " in error for error in errors) else "; ".join(errors))
            for n, one in enumerate(conditions)
        }


@pytest.fixture(params=["opa", "conftest", "regopy"])
def evaluator(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evaluator:
    if request.param == "regopy":
        pytest.importorskip("regopy", reason="the extra `rego` is not installed")
    return Evaluator(request.param, tmp_path, monkeypatch)


def test_a_condition_holds_for_all_or_for_none(evaluator: Evaluator) -> None:
    """Escapes, letters beyond ASCII, large numbers, what is undefined, iteration, order between kinds."""
    assert evaluator.fires(list(SAME)) == {one: "fires" if holds else "" for one, holds in SAME.items()}


def test_where_regopy_is_wrong_it_is_an_error(evaluator: Evaluator) -> None:
    """Each of these fires by the real ones."""
    expected = "error" if evaluator.name == "regopy" else "fires"
    assert evaluator.fires(list(DOUBTFUL)) == dict.fromkeys(DOUBTFUL, expected)


CODE = 'resource "aws_s3_bucket" "logs" {\n  bucket = "q \\" ${var.x}"\n  acl    = "public-read"\n}\n'
POLICIES = {
    "policy/main.rego": """package main

import rego.v1

import data.lib

deny_public contains {"msg": msg, "address": address, "hint": "Mend it.", "team": "core", "ids": [1, 2]} if {
	some name, blocks in input.resource.aws_s3_bucket
	lib.public(blocks[_].acl)
	address := sprintf("aws_s3_bucket.%s", [name])
	msg := sprintf("%s is public: %v", [name, blocks[_].bucket])
}

violation contains "planned — é" if {
	some r in input.resource_changes
	startswith(r.change.after.n, "n-")
}

# METADATA
# title: resources
warn_many contains "has resources" if count(input.resource) > 0

deny_spared contains "spared" if input.resource

exception contains rules if {
	rules := ["spared", "other"]
}
""",
    "policy/lib.rego": 'package lib\n\nimport rego.v1\n\npublic(acl) if startswith(acl, "public-")\n',
    "policy/team/more.rego": """package team.more

deny contains {"msg": "noted", "severity": "note", "file": "b.tf.json", "line": 1} if input.locals

warn := {msg | msg := sprintf("%s by %s", [input.output[name].value, name])}
""",
    "policy/main_test.rego": "package main\n\nimport rego.v1\n\ndeny contains 1 if true\n",
}
FILES = {
    **POLICIES,
    "main.tf": CODE,
    "b.tf.json": '{"locals": {"a": 1}, "output": {"o": {"value": "${local.a}"}}}',
    "c.tofu": 'locals {\n  a = "$${x}"\n}\n',
    # What Conftest would heed where the code is.
    "conftest.toml": 'namespace = ["other"]\ncombine = true\npolicy = ["nowhere"]\n',
    "policy/data.json": '{"lib": {"more": 1}}',
}


def test_findings_are_the_same_in_every_field(evaluator: Evaluator) -> None:
    """Code and plans, several packages, metadata, exceptions, sets that are no partial rules."""
    said = evaluator.said(FILES, {"root": plan()})
    rows = {
        (id_, one.message, str(one.place), one.address, one.hint, one.stack, str(one.severity))
        for id_, one in said
        if isinstance(one, Finding)
    }
    assert rows == {
        (
            *("rego.main.deny_public", 'logs is public: q " ${var.x} (ids: [1, 2], team: core)'),
            *("main.tf:1:1", "aws_s3_bucket.logs", "Mend it.", None, "error"),
        ),
        ("rego.main.violation", "planned — é", "None", None, None, "root", "error"),
        ("rego.main.warn_many", "has resources", "main.tf", None, None, None, "warning"),
        ("rego.team.more.deny", "noted", "b.tf.json:1", None, None, None, "note"),
        ("rego.team.more.warn", "${local.a} by o", "b.tf.json", None, None, None, "warning"),
        ("rego.team.more.deny", "noted", "b.tf.json:1", None, None, None, "note"),
    }
    skips = {(id_, one.reason, one.file) for id_, one in said if isinstance(one, Skipped)}
    assert skips == {("rego.main.deny_spared", "exempted by the policy: spared", "main.tf")}


@pytest.mark.parametrize(
    "rules",
    [
        "deny contains x if { y }",
        "deny contains msg if {",
        'deny[msg] { msg := "as before 1.0" }',
        'warn[msg] if { msg := "an object" }',
        "deny contains 1 if input.resource",
        'deny contains {"text": "no msg"} if input.resource',
        "deny contains {1} if input.resource",
        "deny := 5 if input.resource",
        'deny contains x if { x := two }\ntwo := "a" if input.resource\ntwo := "b" if input.resource',
        "deny contains no_such_function(1)",
    ],
)
def test_policies_that_say_neither_yes_nor_no_are_errors(evaluator: Evaluator, rules: str) -> None:
    """Broken, old, of an unexpected shape, in conflict with themselves: none of them passes."""
    found = evaluator.findings({"main.tf": CODE, "policy/a.rego": f"{HEAD}{rules}\n"})
    assert {id_ for id_, _ in found} == {"HF908"}


OUT = (
    'http.send({"method": "GET", "url": url}).status_code == 200',
    'http["send"]({"method": "GET", "url": url}).status_code == 200',
    'http["\\u0073end"]({"method": "GET", "url": url}).status_code == 200',
    '$"{http.send({"method": "GET", "url": url})}" != ""',
    'count({"method": "GET", "url": url}) with count as http.send',
    'every x in [1] { http["send"]({"method": "GET", "url": url}).status_code == x }',
    '[1 | http["send"]({"method": "GET", "url": url})] != []',
    'json["match_schema"]({}, {"$ref": url})[0]',
    'json["verify_schema"]({"$ref": url})[0]',
    'opa["runtime"]().env.PATH',
    'net["lookup_ip_addr"]("localhost")',
    "parse_config_file(`/etc/os-release`)",
)


@pytest.fixture
def visits() -> Iterator[tuple[str, list[str]]]:
    """A server that nobody may ask: its address, and who did."""
    seen: list[str] = []

    class Door(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Nothing on the screen."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("condition", OUT)
def test_no_policy_has_a_way_out(evaluator: Evaluator, visits: tuple[str, list[str]], condition: str) -> None:
    """However the call is written: nobody is asked, and it is an error. A plan holds secrets."""
    address, seen = visits
    rule = f'deny contains "out" if {{ url := sprintf("{address}/%s", [input.format_version]); {condition} }}'
    found = evaluator.findings({"main.tf": "", "policy/a.rego": f"{HEAD}{rule}\n"}, {"root": plan()})
    assert {id_ for id_, _ in found} == {"HF908"}
    assert not seen


def test_no_annotation_has_a_way_out(evaluator: Evaluator, visits: tuple[str, list[str]]) -> None:
    """A schema of the input would be fetched while the policy is read."""
    address, seen = visits
    schema = f'# METADATA\n# schemas:\n# - input: {{"$ref": "{address}/s"}}\n'
    evaluator.findings(
        {"main.tf": CODE, "policy/a.rego": f'{HEAD}{schema}deny contains "x" if input.resource\n'}
    )
    assert not seen


def test_no_test_of_a_policy_has_a_way_out(
    holdfast: Program, tmp_path: Path, visits: tuple[str, list[str]]
) -> None:
    """By both real ones, and also where the call is hidden."""
    address, seen = visits
    holdfast.write("holdfast.yaml", "version: 1\nstacks: [{ name: a, module: . }]\n")
    test = f'test_out if http["send"]({{"method": "GET", "url": "{address}"}}).status_code == 200'
    holdfast.write("policy/a_test.rego", f"{HEAD}{test}\n")
    path = holdfast.environment["PATH"]
    for name in ("opa", "conftest"):
        holdfast.environment["PATH"] = f"{other_tools.only(name, tmp_path / name)}:{path}"
        ran = holdfast.run("policy", "test", "--json")
        assert ran.code == 1, ran.text
        (error,) = json.loads(ran.out)["errors"]
        assert error["code"] == "HF-POL-4"
        assert "http.send" in error["message"]
    assert not seen


def test_a_package_is_called_as_it_is_written(evaluator: Evaluator) -> None:
    """Also where its name is no word."""
    text = 'package teams["data-lake"].s3\n\nimport rego.v1\n\ndeny if input.resource\n'
    found = evaluator.findings({"main.tf": CODE, "policy/a.rego": text})
    assert found == [('rego.teams["data-lake"].s3.deny', "deny is true")]


def test_a_text_that_is_no_set_is_a_finding(evaluator: Evaluator) -> None:
    """Conftest by itself would pass over it."""
    found = evaluator.findings({"main.tf": CODE, "policy/a.rego": f'{HEAD}deny := "no" if input.resource\n'})
    assert found == [("rego.main.deny", "no")]


TESTS = """package main

import rego.v1

bucket := {"resource": {"aws_s3_bucket": {"a": [{"acl": "public-read", "bucket": "é \\" x"}]}}}

test_found if count(deny_public) == 1 with input as bucket

test_message if {
	some found in deny_public with input as bucket
	found.msg == "a is public: é \\" x"
}

test_wrong if count(deny_public) == 1 with input as {}

test_undefined if input.nothing.x == 1 with input as bucket

todo_test_later if false
"""


@pytest.mark.parametrize("name", ["opa", "conftest", "regopy"])
def test_tests_of_policies_end_the_same(holdfast: Program, tmp_path: Path, name: str) -> None:
    """`holdfast policy test`, by each."""
    if name != "regopy":
        tools = other_tools.only(name, tmp_path / "bin")
        holdfast.environment["PATH"] = f"{tools}:{holdfast.environment['PATH']}"
    holdfast.write("holdfast.yaml", "version: 1\nstacks: [{ name: a, module: . }]\n")
    for file, text in {**FILES, "policy/main_test.rego": TESTS}.items():
        holdfast.write(file, text)
    ran = holdfast.run("policy", "test", "--json")
    assert ran.code == 1, ran.text
    said = json.loads(ran.out)
    assert said["evaluator"] == name
    assert {one["name"]: (one["status"], one["file"], one["package"]) for one in said["tests"]} == {
        "test_found": ("passed", "policy/main_test.rego", "main"),
        "test_message": ("passed", "policy/main_test.rego", "main"),
        "test_wrong": ("failed", "policy/main_test.rego", "main"),
        "test_undefined": ("failed", "policy/main_test.rego", "main"),
        "todo_test_later": ("skipped", "policy/main_test.rego", "main"),
    }
    holdfast.write("policy/broken_test.rego", "package main\n\ntest_x if {\n")
    ran = holdfast.run("policy", "test", "--json")
    assert (ran.code, json.loads(ran.out)["errors"][0]["code"]) == (1, "HF-POL-4")


SYNTAX = r"""
terraform {
  required_providers {
    aws = { source = "hashicorp/aws", version = "~> 5.0" }
  }
  backend "s3" {}
}
variable "a" {
  type    = map(object({ x = string, y = optional(number, 3) }))
  default = null
}
locals {
  numbers    = [-1, 1.50, - 2, !true, -(1), (3)]
  escapes    = "quote \" back \\ tab \t $${x} %%{y} é \u00e9"
  template   = "a ${var.a}${"b"}${1} ${var.a ? "yes" : "no"}"
  alone      = "${var.a}"
  computed   = [(1 + 2) *  3, var.a  ?  1 :   2, !var.b, var.a[*].id, var.a.*.id, var.a.0.b]
  calls      = [f(1,  [var.x]...), g("a", { b = var.c })]
  loops      = { list = [for x in var.l : upper(x) if x != ""], map = { for k, v in var.m : k => v... } }
  keys       = { a = 1, "b c" = 2, (var.k) = 3, "${var.k}-x" = 4, d : 5, 6 = 7, true = 8, null = 9, e.f = 10 }
  directives = "x %{ if var.a ~} yes%{ else }no%{ endif }%{ for i in var.l }${i},%{ endfor }"
  stripped   = "a ${~ var.x ~} b"
  heredoc    = <<EOT
line ${var.x}
  "quotes" \n $${not}
EOT
  indented   = <<-EOT
    line

      deeper ${var.x}
    %{ if true }yes%{ endif }
  EOT
  call       = jsonencode({
    a = 1 # said
  })
  own        = provider::x::y(1)
}
resource "aws_x" "a" {
  rule { port = 1 }
  rule {
    port = 2
    deep {}
  }
  dynamic "set" {
    for_each = var.s
    content { v = set.value }
  }
}
resource "aws_x" "b" {}
provider "aws" {}
provider "aws" { alias = "two" }
"""


def test_code_is_to_policies_what_conftest_makes_of_it(tmp_path: Path) -> None:
    """Every kind of expression, and the examples of this repository."""
    conftest = other_tools.real("conftest")
    odd = tmp_path / "odd.tf"
    odd.write_text(SYNTAX)
    examples = sorted((REPOSITORY / "examples").rglob("*.tf"))
    assert examples
    files = [odd, *examples]
    for file in files:
        parsed = subprocess.run(
            [str(conftest), "parse", "--parser=hcl2", str(file)], capture_output=True, check=True
        )
        assert document_from_source(file.read_bytes(), str(file)) == json.loads(parsed.stdout), file
