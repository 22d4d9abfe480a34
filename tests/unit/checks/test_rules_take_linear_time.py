"""Twice the code takes twice the work: the calls of functions are counted, not seconds."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from types import FrameType

import pytest
from checkouts import check, checkout, messages, skips

from holdfast.checks.engine.catalogue import rule, rules
from holdfast.checks.engine.running import run_checks

Files = Mapping[str, str]
VARIABLES = 'variable "secret" {\n  sensitive = true\n}\nvariable "plain" {}\n'
STACKS = "version: 1\nenvironments: { dev: { match: [dev] } }\nstacks:\n"
MODULE = (
    'variable "x" {}\nlocals {\n  all = { for n in [1, 2] : n => var.x }\n}\n'
    'resource "aws_s3_bucket" "b" {\n  bucket = "${var.x}-b"\n}\noutput "o" {\n  value = local.all\n}\n'
    'resource "aws_iam_policy" "p" {\n  policy = jsonencode({ Statement = '
    '[{ Effect = "Allow", Action = "s3:*", Resource = var.x }] })\n}\n'
)


def used(local: str, *, policy: bool = True) -> str:
    """Where the rules look: an output, and a policy."""
    output = f'output "o" {{\n  value = {local}\n}}\n'
    statement = f'{{ Effect = "Allow", Action = {local} }}'
    document = (
        f'resource "aws_iam_policy" "p" {{\n  policy = jsonencode({{ Statement = [{statement}] }})\n}}\n'
    )
    return output + document if policy else output


def chain(first: str, following: str, *, policy: bool = True) -> Callable[[int], Files]:
    """Locals that each refer to the one before: `{}`."""

    def files(count: int) -> Files:
        lines = (f"  l{n} = {following.replace('{}', f'local.l{n - 1}')}\n" for n in range(1, count))
        code = f"{VARIABLES}locals {{\n  l0 = {first}\n{''.join(lines)}}}\n"
        return {"main.tf": code + used(f"local.l{count - 1}", policy=policy)}

    return files


def nested(inner: str, around: str) -> Callable[[int], Files]:
    """One expression around the other: `{}`, with the number of its level as `#`."""

    def files(count: int) -> Files:
        expression = inner
        for n in range(count):
            expression = around.replace("{}", expression).replace("#", str(n))
        return {"main.tf": f"{VARIABLES}locals {{\n  deep = {expression}\n}}\n{used('local.deep')}"}

    return files


def each(line: str, before: str = "", after: str = "", path: str = "main.tf") -> Callable[[int], Files]:
    """A text for each number: `#`, and the one before: `@`."""
    return lambda count: {
        "main.tf": VARIABLES,
        path: before
        + "".join(line.replace("#", str(n)).replace("@", str(max(0, n - 1))) for n in range(count))
        + after,
    }


def calls_of_calls(count: int) -> Files:
    """Each module calls the next one twice."""
    inner = "".join(f'module "{name}" {{\n  source = "../m#"\n  x = var.x\n}}\n' for name in "ab")
    body = f'variable "x" {{}}\n{inner}output "o" {{\n  value = "${{module.a.o}}${{module.b.o}}"\n}}\n'
    called = {f"m{n}/main.tf": body.replace("#", str(n + 1)) for n in range(count)}
    return {
        **called,
        f"m{count}/main.tf": 'variable "x" {}\noutput "o" {\n  value = var.x\n}\n',
        "holdfast.yaml": "version: 1\n",
    }


def many_calls(count: int) -> Files:
    call = 'module "m#" {\n  source = "./m"\n  x = "v#"\n}\noutput "o#" {\n  value = module.m#.o\n}\n'
    return {"main.tf": "".join(call.replace("#", str(n)) for n in range(count)), "m/main.tf": MODULE}


def shared_module(count: int) -> Files:
    entry = '  - { variables: "env/{name}.tfvars", module: m, environment: dev }\n'
    files = {f"env/s{n}.tfvars": f'x = "v{n}"\n' for n in range(count)}
    return {**files, "m/main.tf": MODULE, "holdfast.yaml": STACKS + entry}


def many_stacks(count: int) -> Files:
    body = 'module "m" {\n  source = "../../m"\n  x = "v#"\n}\noutput "o" {\n  value = module.m.o\n}\n'
    files = {f"live/s{n}/main.tf": body.replace("#", str(n)) for n in range(count)}
    entry = '  - { folder: "live/{name}", environment: dev }\n'
    return {**files, "m/main.tf": MODULE, "holdfast.yaml": STACKS + entry}


def json_code(count: int) -> Files:
    buckets = {f"b{n}": {"bucket": f"x${{var.plain}}{n}"} for n in range(count)}
    outputs = {f"o{n}": {"value": f"${{aws_s3_bucket.b{n}.arn}}"} for n in range(count)}
    return {
        "main.tf": VARIABLES,
        "a.tf.json": json.dumps({"resource": {"aws_s3_bucket": buckets}, "output": outputs}),
    }


MOST = 3_000_000
ATTRIBUTES = ", ".join(f"k{n} = v.k{n}" for n in range(12))
DOCUMENT = 'data "aws_iam_policy_document" "d#" {\n  statement {\n    actions = ["s3:*"]\n  }\n'
STATEMENT = (
    '  statement {\n    actions = ["s3:Get#*"]\n    resources = ["arn:aws:s3:::b#/*", var.plain]\n  }\n'
)
GROWING: dict[str, tuple[Callable[[int], Files], int]] = {
    "loops": (chain("{ a = var.plain }", f"{{ for k, v in {{}} : k => {{ {ATTRIBUTES} }} }}"), 6),
    "locals in a text": (chain("var.plain", '"${{}}-${{}}"'), 8),
    "locals in an object": (chain("{ a = var.plain }", "{ a = {}, b = {} }", policy=False), 8),
    "merged locals": (chain("{ a = var.plain }", "merge({}, { b = {}.a }, {})"), 8),
    "tried locals": (chain("{ a = var.plain }", "try({}.a, {}.b, {})"), 12),
    "locals in conditions": (chain("var.plain", 'var.plain == "x" ? {} : {}'), 8),
    "splats of locals": (chain("[{ a = var.plain }]", "[{ a = {}[*].a, b = {}[*].a }]"), 8),
    "nested loops": (nested("var.plain", "[for a# in {} : [a#.p, a#.q, a#]]"), 6),
    "nested conditions": (nested("var.plain", '(var.plain == "a#" ? "v#" : {})'), 10),
    "nested templates": (nested("var.plain", '"${{}}-#"'), 10),
    "nested calls of modules": (calls_of_calls, 3),
    "many calls of a module": (many_calls, 20),
    "stacks of one module": (shared_module, 20),
    "many stacks": (many_stacks, 20),
    "statements": (each(STATEMENT, 'data "aws_iam_policy_document" "d" {\n', "}\n"), 20),
    "policies of policies": (
        each(
            DOCUMENT
            + "  source_policy_documents = [for d in [data.aws_iam_policy_document.d@] : d.json]\n}\n"
        ),
        20,
    ),
    "lines of a literal": (
        each('  k# = { name = "n#", on = true }\n', "locals {\n  a = {\n", "  }\n}\n"),
        200,
    ),
    "a long line": (each('"password=hunter# -p #", ', "locals { a = [", "] }\n"), 100),
    "locals and outputs": (
        each('locals {\n  l# = { a = local.l@.a }\n}\noutput "o#" {\n  value = local.l#\n}\n'),
        50,
    ),
    "findings": (each('variable "password_#" {\n  default = "hunter#xQ"\n}\n', path="more.tf"), 50),
    "documents": (each('{"name":"TOKEN_#","value":"mysql -p x#"},', "[", "0]", "a.json"), 100),
    "scripts": (each("PGPASSWORD=hunter#x psql; docker login -p x#y\n", path="a.sh"), 100),
    "code in JSON": (json_code, 50),
}


def calls_of(files: Files) -> int:
    """How many functions all rules call on these files."""
    made = checkout(files, config=files.get("holdfast.yaml"))
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")
        if calls > MOST:  # A rule that would not end fails the test, and not the machine.
            raise RuntimeError

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run_checks(made, rules())
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("name", GROWING)
def test_twice_the_code_is_twice_the_work(name: str) -> None:
    """What two sizes have in common is subtracted, so that the growth itself is compared."""
    files, size = GROWING[name]
    calls_of(files(size))  # What is loaded and cached once does not count.
    small, medium, large = (calls_of(files(size * factor)) for factor in (1, 2, 4))
    assert large < MOST
    assert large - medium <= 2.6 * (medium - small) + 2000, (small, medium, large)


def test_what_cannot_be_followed_is_not_evaluated() -> None:
    """A value with more parts than can be followed is reported, and the next output is found."""
    files = chain("{ a = var.plain }", "try({}.a, {}.b, {})")(40)
    output = 'output "shown" {\n  value = var.secret\n}\n'
    the = rule("HF210")
    assert the is not None
    report = check(the, {"main.tf": files["main.tf"] + output})
    assert "the value of `o` is too complex to follow" in skips(report, the)
    assert messages(report, the) == [
        "`shown` contains var.secret and is not marked `sensitive`: Terraform fails here"
    ]
