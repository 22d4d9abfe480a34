"""Files that somebody wrote to keep a check from its end: each is done with while one waits."""

from __future__ import annotations

import pytest
from checkouts import check, messages, the

from holdfast.checks.code.argument_values import named_texts
from holdfast.checks.code.pins import loose_module
from holdfast.checks.engine.waivers import LineWaiver, read_waivers
from holdfast.checks.model.contents import holds_key
from holdfast.checks.secrets.known_secrets import known_in
from holdfast.checks.tools.rego.forbidden_calls import find_forbidden_calls
from holdfast.checks.tools.rego.policies import PolicyFile, unknown_data

MANY = 20_000
FEWER = MANY // 10


@pytest.mark.parametrize(
    "hostile",
    ["<<A\n" * MANY, "<<A\nx " * MANY, "# " + '"\\' * MANY, "# " + '"\\ ' * MANY],
    ids=["heredocs", "heredocs of one line", "quotes", "quotes and gaps"],
)
def test_texts_that_code_hands_on(hostile: str) -> None:
    """What opens and never ends is looked for once, and what stands before it is found."""
    code = f'locals {{\n  user_data = "PGPASSWORD=hunter42x psql"\n}}\n{hostile}'
    report = check(the("HF209"), {"main.tf": code})
    assert "`PGPASSWORD` is hard-coded" in messages(report)


def test_texts_below_many_conditions() -> None:
    """However deep a text lies, it is found."""
    code = f'locals {{\n  password = {"var.a ? var.b : " * MANY}"hunter42x"\n}}\n'
    assert messages(check(the("HF209"), {"main.tf": code})) == ["`password` is hard-coded"]
    deep: object = "text"
    for _ in range(FEWER):
        deep = {"a": [deep]}
    assert [text for _, text in named_texts(deep)] == ["text"]


def test_a_document_of_many_levels_given_as_a_secret() -> None:
    """It is no reason to break."""
    nested = '{\\"a\\":' * MANY + "1" + "}" * MANY
    code = f'resource "aws_secretsmanager_secret_version" "a" {{\n  secret_string = "{nested}"\n}}\n'
    assert messages(check([the("HF208"), the("HF209")], {"main.tf": code})) == []


def test_policies_that_grow_out_of_local_values() -> None:
    """A few lines can ask for more text than there is memory: the rest of it counts as not known."""
    grown = "\n".join(f'  l{n} = "${{local.l{n - 1}}}${{local.l{n - 1}}}"' for n in range(1, 30))
    code = (
        f'variable "v" {{}}\nlocals {{\n  l0 = "${{var.v}}{"x" * MANY}"\n{grown}\n}}\n'
        'resource "aws_iam_policy" "p" {\n  policy = jsonencode({ Statement = [\n'
        '    { Effect = "Allow", Action = local.l29, Resource = "*" },\n'
        '    { Effect = "Allow", Action = "*", Resource = "*" },\n  ] })\n}\n'
    )
    assert len(messages(check(the("HF504"), {"main.tf": code}))) == 1


def test_policies_with_many_keys() -> None:
    """Merged objects are put together key by key."""
    one, other = (",".join(f"{letter}{n} = 1" for n in range(FEWER)) for letter in "ab")
    code = f'resource "aws_iam_policy" "p" {{\n  policy = jsonencode(merge({{{one}}}, {{{other}}}))\n}}\n'
    assert len(messages(check(the("HF501"), {"main.tf": code}))) == 2 * FEWER + 1


def test_words_of_policies_in_rego() -> None:
    """Each name is told once for each file, with its first line."""
    text = "package main\n" + "deny contains 1 if data.regions == http.send({})\n" * MANY
    policy = PolicyFile(path="policy/a.rego", text=text)
    assert list(unknown_data([policy])) == ["`data.regions` (policy/a.rego:2)"]
    assert str(find_forbidden_calls([policy])).endswith(": `http.send` (policy/a.rego:2)")


def test_other_texts() -> None:
    """Keys with headers without end, versions, gaps in waivers, many secrets of one kind."""
    assert not holds_key(b"-----BEGIN PRIVATE KEY-----\n" + b"a:  " * MANY + b"!")
    assert holds_key(b"-----BEGIN PRIVATE KEY-----\n" + b"a:  b\n" * MANY + b"A" * 20)
    assert loose_module(f"git::https://host/a.git?ref={'-v1' * MANY}!", None) is not None
    line = f"# holdfast:ignore HF101 until=2027-01-31 reason=a{' ' * MANY}b"
    waivers = read_waivers("main.tf", [line], frozenset({"HF101"}))
    assert [one.waiver.reason for one in waivers if isinstance(one, LineWaiver)] == ["a b"]
    keys = "\n".join(f"AKIA{number:016d}" for number in range(FEWER))
    assert {one.what for one in known_in(keys)} == {one.what for one in known_in("AKIA0000000000004711")}
