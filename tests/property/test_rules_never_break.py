"""Whatever code looks like: no rule breaks, nothing else does, and every finding has its place in a file."""

from __future__ import annotations

from checkouts import checkout
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.checks.engine import catalogue
from holdfast.checks.engine.pages import rule_details
from holdfast.checks.engine.running import run_checks
from holdfast.checks.formats.interface import FORMATS, FormatInput, format_of
from holdfast.kernel.errors import ConfigError

RULES = catalogue.rules()
CONFIG = """
version: 1
company: acme
targets: { aws: { owner: ci, contract: {} } }
stacks:
  - { name: root, module: ., environment: prod, target: aws, account: "111122223333", region: eu-west-1 }
checks:
  names: { "*": "{company}-{environment}-*" }
  tags: { Owner: "*" }
  platforms: [linux_amd64, darwin_arm64]
  accounts: { other: "444455556666" }
"""
FOUND_IN_THE_WILD = (
    """\
resource "aws_instance" "a" {
  user_data = <<-EOT
    %{ for x in var.l ~}
    ${x}
    %{ endfor ~}
  EOT
  dynamic "c" {
    for_each = var.l
    iterator = i
    content {
      d = i.value
    }
  }
}
""",
    """\
locals {
  a = { for k, v in var.m : k => v... if can(v.x) }
  b = var.l[*].id
  c = aws_x.y.*.z.0
  d = provider::aws::arn_parse("a").account
}
removed {
  from = a.b
}
""",
    """\
data "terraform_remote_state" "a" {
  for_each = toset(["x"])
  backend  = "s3"
  config   = { key = each.key }
}
module "m" {
  source    = "./m"
  providers = { aws = aws.b }
}
import {
  to = a.b["c"]
  id = "d"
}
""",
    """\
check "c" {
  data "http" "d" {
    url = "https://x"
  }
}
ephemeral "random_password" "e" {}
""",
)
EXAMPLES = sorted({*(code for rule in RULES for code in rule_details(rule)[:2]), *FOUND_IN_THE_WILD} - {""})
BYTES = st.sampled_from(
    (
        b"\0", b"\xe9", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\xed\xa0\x80", b"\xe2\x80\xa8", b'"', b"${", b"%{",
        b"{", b"}", b"[", b"]", b"(", b")", b"<<EOF\n", b"/*", b"*/", b"#", b"=", b",", b"[*]", b"...", b"\\",
        b"::", b"null", b"1e9", b"\\ud800", b"\\u0000", b"var.", b"local.a", b"each.key", b"data.", b"-1",
        b"9" * 30, b"{}", b'""',
    )
)  # fmt: skip


@st.composite
def codes(draw: st.DrawFn) -> bytes:
    """An example, or some of them together, with pieces cut out, put in and moved."""
    pieces = draw(st.lists(st.sampled_from(EXAMPLES), min_size=1, max_size=3))
    code = "".join(pieces).encode()
    for _ in range(draw(st.integers(0, 4))):
        start, end = sorted((draw(st.integers(0, len(code))), draw(st.integers(0, len(code)))))
        match draw(st.sampled_from(("cut", "put", "double", "end", "lines", "quotes"))):
            case "cut":
                code = code[:start] + code[min(end, start + 40) :]
            case "put":
                code = code[:start] + draw(BYTES) + code[start:]
            case "double":
                code = code[:end] + code[start:]
            case "end":
                code = code[:start]
            case "lines":
                code = code.replace(b"\n", draw(st.sampled_from((b"\r\n", b"\r", b" "))))
            case _:
                parts = code.split(b'"')
                code = b'"'.join(parts[1:] + parts[:1])
    return code.decode(errors="replace").encode("utf-16") if draw(st.integers(0, 19)) == 0 else code


NAMES = st.sampled_from(("main.tf", "main.tofu", "main.tf.json", "a_override.tf"))


@settings(max_examples=120, deadline=None)
@given(codes(), codes(), NAMES)
def test_no_code_breaks_a_rule(first: bytes, second: bytes, name: str) -> None:
    """A rule answers or says that it could not look; reports of all formats can be made of it."""
    files: dict[str, str | bytes] = {
        "z.tf": "",
        name: first,
        "terraform.tfvars": second,
        "key-policy.json": second,
    }
    try:
        made = checkout(files, config=CONFIG)
    except ConfigError:  # two backends on one state, say: the program tells that as a finding
        return
    report = run_checks(made, RULES)
    assert [one.message for one in report.findings if one.rule.id == "HF905"] == []
    for one in report.findings:
        if one.file is not None and one.file != "holdfast.yaml":
            assert (one.line or 1) <= len(made.lines(one.file)) + 1
            assert one.file in files
    shown = FormatInput(report=report, version="1", verbose=True)
    assert all(format_of(format_)(shown) for format_ in FORMATS)
