"""Where documents are found: arguments, heredocs, data sources, files; and what is only known later."""

from __future__ import annotations

import json

import pytest
from checkouts import checkout

from holdfast.checks.iam.collect import policies_of_module, policies_of_variables
from holdfast.checks.iam.document import Node, flatten, is_fully_known
from holdfast.checks.iam.grammar import grammar_issues
from holdfast.checks.iam.policies import IamPolicy, Policies
from holdfast.checks.iam.policy_types import PolicyKind as Kind
from holdfast.checks.iam.policy_types import guess_use

HEREDOC = """\
resource "aws_iam_role" "a" {
  assume_role_policy = <<-EOF
    {
      "Version": "2012-10-17",
      "Statement": [
        {
          "Effect": "Allow",
          "Principal": {"AWS": "arn:aws:iam::${var.account}:root"},
          "Action": ${jsonencode(var.actions)},
          "Condition": {"StringEquals": {"sts:ExternalId": "${local.id}"}}
        }
      ]
    }
  EOF
}
locals { id = "abc" }
"""
STATEMENT = '{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}'
FILE = f'{{"Version": "2012-10-17", "Statement": [{STATEMENT}]}}'
TRUST = (
    '{"Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "111122223333"}}]}'
)


def policies(code: str, **files: str) -> Policies:
    made = checkout({"main.tf": code, **{name.replace("__", "."): text for name, text in files.items()}})
    return policies_of_module(made.module("."))


def only(found: Policies) -> IamPolicy:
    (one,) = found.policies
    return one


def statement(policy: IamPolicy, index: int = 0) -> Node:
    listed = policy.document.fields.get("Statement")
    assert listed is not None
    return listed.items[index]


def test_a_heredoc_has_its_own_lines_and_holes() -> None:
    """What is constant is filled in; what is not is a hole, inside quotes and out of them."""
    policy = only(policies(HEREDOC))
    assert policy.kind is Kind.TRUST
    assert policy.address == "aws_iam_role.a"
    fields = statement(policy).fields
    effect, action, condition = (fields.get(name) for name in ("Effect", "Action", "Condition"))
    assert effect is not None
    assert action is not None
    assert condition is not None
    assert effect.line == 7
    assert not action.known
    assert is_fully_known(condition)
    assert list(grammar_issues(policy.document, policy.kind, policy.text)) == []


def test_jsonencode_keeps_the_places_of_its_parts() -> None:
    """A finding stands on the line of the value, not of the argument."""
    code = (
        'resource "aws_kms_key" "a" {\n  policy = jsonencode({\n    Statement = [\n'
        '      { Effect = "Allow", Resource = "*" },\n    ]\n  })\n}\n'
    )
    policy = only(policies(code))
    assert policy.kind is Kind.KEY
    assert statement(policy).line == 4


def test_lists_that_are_put_together_keep_what_is_known() -> None:
    """`concat` of one's own statements and of others'."""
    code = (
        'resource "aws_iam_policy" "a" {\n  policy = jsonencode({ Statement = concat([{ Effect = "Deny" }], '
        "var.more) })\n}\n"
    )
    listed = only(policies(code)).document.fields.get("Statement")
    assert listed is not None
    assert [item.known for item in listed.items] == [True, False]


def test_a_local_is_followed_and_found_once() -> None:
    """It is of the kind that its user makes it."""
    code = (
        'resource "aws_s3_bucket_policy" "a" {\n  policy = local.policy\n}\n'
        'locals {\n  policy = jsonencode({ Statement = [{ Effect = "Allow", Action = "s3:*" }] })\n}\n'
    )
    assert only(policies(code)).kind is Kind.BUCKET


def test_both_sides_of_a_condition_are_checked() -> None:
    """Each may be what is applied."""
    code = (
        'resource "aws_iam_policy" "a" {\n  policy = var.b ? jsonencode({ Statement = [] }) : '
        "jsonencode({ Statement = [{}] })\n}\n"
    )
    assert len(policies(code).policies) == 2


def test_a_file_is_found_by_its_use_and_not_again_by_its_name() -> None:
    """`file("${path.module}/trust.json")`: one document, of the kind of the argument, at its own place."""
    code = 'resource "aws_iam_policy" "a" {\n  policy = file("${path.module}/trust.json")\n}\n'
    policy = only(policies(code, trust__json=FILE))
    assert (policy.file, policy.kind, policy.address) == ("trust.json", Kind.IDENTITY, None)


def test_a_template_file_has_holes() -> None:
    """What `templatefile` fills in is not known."""
    code = 'resource "aws_iam_policy" "a" {\n  policy = templatefile("p.json", { a = var.a })\n}\n'
    policy = only(policies(code, p__json=FILE.replace('"*"', '"${a}"')))
    resource = statement(policy).fields.get("Resource")
    assert resource is not None
    assert resource.text is None


@pytest.mark.parametrize(
    "expression",
    [
        "jsonencode(merge({ Version = 1 }, var.rest))",
        "jsonencode({ Statement = [for a in var.b : a] })",
        "var.policy",
        "module.a.json",
        'file("/etc/policy.json")',
        'file("missing.json")',
        "aws_iam_policy.b.policy",
    ],
)
def test_what_only_terraform_knows_is_reported_as_unresolved(expression: str) -> None:
    """Never a finding, never silence."""
    found = policies(f'resource "aws_iam_role_policy" "a" {{\n  policy = {expression}\n}}\n')
    assert found == Policies(unresolved=(("main.tf", "aws_iam_role_policy.a"),))


def test_an_argument_that_is_missing_or_null_is_nothing() -> None:
    """A bucket without a policy has none."""
    assert (
        policies('resource "aws_s3_bucket" "a" {}\nresource "aws_kms_key" "b" { policy = null }\n')
        == Policies()
    )


def test_text_that_is_no_json_is_broken_unless_a_hole_may_be_why() -> None:
    """A hole may hold anything, half an object too."""
    code = 'resource "aws_iam_policy" "a" {\n  policy = "{ %s"\n}\n'
    (wrong,) = policies(code % "oops").malformed
    assert wrong.error.line == 2
    assert policies(code % "${var.a}").malformed == ()


DATA = """\
data "aws_iam_policy_document" "a" {
  statement {
    sid       = "One"
    actions   = ["s3:GetObject"]
    resources = ["arn:aws:s3:::a/&{aws:username}/*"]
    principals {
      type        = "AWS"
      identifiers = ["arn:aws:iam::111122223333:root", var.other]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = ["111122223333"]
    }
  }
  dynamic "statement" {
    for_each = var.more
    content {
      actions = statement.value.actions
    }
  }
}
resource "aws_s3_bucket_policy" "a" {
  policy = data.aws_iam_policy_document.a.json
}
"""


def test_a_data_source_is_the_document_that_it_makes() -> None:
    """With the provider's defaults, and of the kind of whoever uses it."""
    policy = only(policies(DATA))
    assert policy.kind is Kind.BUCKET
    fields = statement(policy).fields
    effect, action, resource = (fields.get(name) for name in ("Effect", "Action", "Resource"))
    assert effect is not None
    assert action is not None
    assert resource is not None
    assert (effect.text, action.text, action.line) == ("Allow", "s3:GetObject", 4)
    assert resource.text == "arn:aws:s3:::a/${aws:username}/*"
    (dynamic,) = flatten(statement(policy, 1))
    made = dynamic.fields.get("Action")
    assert made is not None
    assert not made.known
    assert [one.sure for one in policy.statements] == [True, False]


def test_a_data_source_in_json_syntax_is_the_same() -> None:
    """There blocks are objects."""
    code = {
        "data": {
            "aws_iam_policy_document": {
                "a": {"statement": [{"actions": ["*"], "principals": {"type": "*", "identifiers": ["*"]}}]}
            }
        }
    }
    made = checkout({"main.tf.json": json.dumps(code)})
    fields = statement(only(policies_of_module(made.module(".")))).fields
    action, who = fields.get("Action"), fields.get("Principal")
    assert action is not None
    assert who is not None
    assert (action.text, who.text) == ("*", "*")


def test_statements_of_other_documents_are_a_hole() -> None:
    """`source_policy_documents` brings them along."""
    code = 'data "aws_iam_policy_document" "a" {\n  source_policy_documents = [var.a]\n  statement {}\n}\n'
    assert not statement(only(policies(code)), 1).known


CONFIG = "version: 1\nstacks:\n  - variables: live/{name}.tfvars\n    module: modules/role\n"


def test_json_beside_a_variables_file_and_named_by_it() -> None:
    """From the file's own folder, the root module's, or the root; what is no policy is left alone."""
    made = checkout(
        {
            "live/a.tfvars": 'trust = "policies/one.json"\nother = ["two.json", "none.json"]\n',
            "live/beside-trust.json": TRUST,
            "live/settings.json": '{"a": 1}',
            "policies/one.json": TRUST,
            "modules/role/two.json": FILE,
            "modules/role/main.tf": "",
        },
        config=CONFIG,
    )
    found = policies_of_variables(made.variables_files[0])
    assert {one.file: one.kind for one in found.policies} == {
        "policies/one.json": Kind.TRUST,
        "modules/role/two.json": Kind.IDENTITY,
        "live/beside-trust.json": Kind.TRUST,
    }


def test_a_policy_in_a_variables_file_itself() -> None:
    """A heredoc there has its own lines too."""
    text = f"key_policy = <<EOF\n{TRUST}\nEOF\n"
    made = checkout({"live/a.tfvars": text, "modules/role/main.tf": ""}, config=CONFIG)
    policy = only(policies_of_variables(made.variables_files[0]))
    assert (policy.kind, policy.address, statement(policy).line) == (Kind.KEY, "var.key_policy", 2)


def test_a_file_called_a_policy_that_is_no_json_is_broken() -> None:
    """With its place; other JSON is not our business."""
    made = checkout(
        {
            "live/a.tfvars": "",
            "live/trust-policy.json": '{\n "Statement": [}\n',
            "live/notes.json": "{",
            "modules/role/main.tf": "",
        },
        config=CONFIG,
    )
    (wrong,) = policies_of_variables(made.variables_files[0]).malformed
    assert (wrong.file, wrong.error.line) == ("live/trust-policy.json", 2)


@pytest.mark.parametrize("content", [b"{", '{"Statement": []}'.encode("utf-16"), b'{"Statement": "\xff"'])
def test_a_broken_policy_beside_the_code_is_found_too(content: bytes) -> None:
    """Whatever its bytes; a template is no JSON before it is rendered."""
    made = checkout({"main.tf": "", "key-policy.json": content, "policy.json": "{ ${a} }", "b.json": "{"})
    assert [one.file for one in policies_of_module(made.modules[0]).malformed] == ["key-policy.json"]


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("trust-policy.json", FILE, Kind.TRUST),
        ("assume_role.json", TRUST, Kind.TRUST),
        ("assume_role_elsewhere.json", FILE, Kind.IDENTITY),
        ("a.json", TRUST, Kind.TRUST),
        ("key-policy.json", TRUST, Kind.KEY),
        ("key-policy.json", FILE, Kind.KEY),
        ("bucket_policy.json", FILE, Kind.BUCKET),
        ("kms-key-policy.json", FILE, Kind.IDENTITY),
        ("bucket-policy.json", TRUST, Kind.BUCKET),
        ("scp-deny.json", FILE, Kind.ORGANIZATION),
        ("descp.json", FILE, Kind.IDENTITY),
        ("a.json", '{"Statement": [{"Effect": "Allow"}]}', Kind.UNCLEAR),
    ],
)
def test_a_kind_is_guessed_by_name_and_by_form(name: str, text: str, kind: Kind) -> None:
    """A name that may mean two things gives way to the form."""
    made = checkout({"live/a.tfvars": "", f"live/{name}": text, "modules/role/main.tf": ""}, config=CONFIG)
    policy = only(policies_of_variables(made.variables_files[0]))
    assert guess_use(name, policy.document).kind is policy.kind is kind


def test_what_is_null_in_a_data_source_is_not_there() -> None:
    """Modules write out every argument; a value that is not known may be null, too."""
    code = """\
data "aws_iam_policy_document" "a" {
  policy_id     = null
  version       = null
  override_json = null
  statement {
    sid           = null
    effect        = null
    actions       = lookup(var.a, "actions", null)
    not_actions   = lookup(var.a, "not_actions", null)
    resources     = ["*"]
    not_resources = []
    dynamic "principals" {
      for_each = var.b
      content {
        type        = principals.value.type
        identifiers = principals.value.identifiers
      }
    }
  }
}
resource "aws_iam_policy" "a" {
  policy = data.aws_iam_policy_document.a.json
}
"""
    policy = only(policies(code))
    assert policy.kind is Kind.IDENTITY
    assert list(grammar_issues(policy.document, policy.kind, policy.text)) == []


def test_numbers_in_a_data_source_are_strings() -> None:
    """Terraform converts them, because the provider declares these arguments as strings."""
    code = """\
data "aws_iam_policy_document" "a" {
  statement {
    sid       = 0
    actions   = ["s3:GetObject"]
    resources = ["*"]
    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = [true]
    }
  }
}
resource "aws_iam_policy" "a" {
  policy = data.aws_iam_policy_document.a.json
}
"""
    policy = only(policies(code))
    sid = statement(policy).fields.get("Sid")
    assert sid is not None
    assert sid.text == "0"
    assert list(grammar_issues(policy.document, policy.kind, policy.text)) == []
