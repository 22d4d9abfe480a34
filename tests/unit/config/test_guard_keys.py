"""What `guard:` says becomes rules, or every mistake at once with its place."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

import config_documents as documents
from holdfast.config.guard import ANY, Budget, Effect, Freeze, GuardRules, GuardSettings, RequiredApprovals
from holdfast.config.read import parse
from holdfast.guard.policy import policy_for
from holdfast.kernel.errors import ConfigError

VALIDATOR = jsonschema.Draft202012Validator(json.loads(documents.schema()))
FULL = """\
version: 1
environments: { dev: {}, prod: {} }
guard:
  deletions: { per_stack: 3, per_change: 10% }
  protect:
    addresses: [module.db, "aws_*.main"]
    types: [lab_object]
    tags: { protected: true, tier: [gold, "plat*"], n: 1.10 }
  removed_outputs: deny
  actions: deny
  provisioners: allow
  destroy: approve
  target: warn
  max_changes: 100
  approvals: 1
  freeze:
    - { from: fri 16:00, to: mon 07:00, zone: Europe/Berlin, why: weekend }
    - { from: 1970-01-06, to: 1970-01-06, zone: UTC, effect: deny }
    - { from: 22:00, to: 06:00, zone: UTC }
  environments:
    prod:
      deletions: { per_stack: any }
      protect: { except_types: [aws_eip] }
      approvals: { count: 2, verified: true }
"""


def read(text: str) -> GuardSettings:
    return parse(text, file="holdfast.yaml", root=Path("/r"), path=Path("/r/holdfast.yaml")).guard


def test_the_whole_key_is_believed_as_written() -> None:
    """Every key reaches its field, with its type."""
    found = read(FULL)
    assert found.rules == GuardRules(
        per_stack=Budget(number=3),
        per_change=Budget(percent=10),
        addresses=("module.db", "aws_*.main"),
        types=("lab_object",),
        tags=(("protected", ("true",)), ("tier", ("gold", "plat*")), ("n", ("1.10",))),
        removed_outputs=Effect.DENY,
        actions=Effect.DENY,
        provisioners=Effect.ALLOW,
        destroy=Effect.APPROVE,
        target=Effect.WARN,
        max_changes=100,
        approvals=(RequiredApprovals(count=1),),
        freeze=(
            Freeze(
                start=4 * 1440 + 960,
                end=7 * 1440 + 420,
                every=7 * 1440,
                zone="Europe/Berlin",
                text="fri 16:00 to mon 07:00",
                why="weekend",
            ),
            Freeze(
                start=1440,
                end=2880,
                every=None,
                zone="UTC",
                text="1970-01-06 to 1970-01-06",
                effect=Effect.DENY,
            ),
            Freeze(start=1320, end=1800, every=1440, zone="UTC", text="22:00 to 06:00 every day"),
        ),
    )
    approvals = RequiredApprovals(count=2, verified=True)
    assert found.environments == {
        "prod": GuardRules(per_stack=ANY, except_types=("aws_eip",), approvals=approvals)
    }


def test_without_the_key_nothing_is_said() -> None:
    """The built-in rules hold."""
    assert read("version: 1\n") == read("version: 1\nguard: {}\n") == GuardSettings()


@pytest.mark.parametrize(
    ("inside", "code", "says", "hint"),
    [
        ("deletions: { per_stack: -1 }", "HF-CONF-6", "per_stack is `-1`", ""),
        ("deletions: { per_change: 101% }", "HF-CONF-6", "a share such as `10%`", ""),
        ("protect: { addresses: ['*********'] }", "HF-CONF-6", "up to eight `*`", ""),
        ("protect: { except_types: [aws_eip] }", "HF-CONF-4", "except_types", "guard.environments.*.protect"),
        ("protect: { tags: { a: null } }", "HF-CONF-6", "guard.protect.tags.a has no value", ""),
        ("actions: maybe", "HF-CONF-7", "guard.actions cannot be `maybe`", "`approve`"),
        ("approvals: 11", "HF-CONF-21", "from 0 to 10", ""),
        ("approvals: { count: 11 }", "HF-CONF-21", "guard.approvals.count is 11", ""),
        ("approvals: { verified: true }", "HF-CONF-5", "needs the key `count`", ""),
        ("approvals: { count: 1, verifed: true }", "HF-CONF-4", "verifed", "`verified`"),
        ("approvals: { count: 1, verified: 1 }", "HF-CONF-6", "guard.approvals.verified must be", ""),
        ("environments: { prodd: {} }", "HF-CONF-23", "names `prodd`", "Did you mean `prod`?"),
        ("environments: { far: {} }", "HF-CONF-23", "names `far`", "Add it"),
        ("freeze: [{ from: sat, to: sun }]", "HF-CONF-5", "needs the key `zone`", ""),
        ("freeze: [{ from: sat, to: sun, zone: Europe/Berln }]", "HF-CONF-24", "Berln", "`Europe/Berlin`"),
        ("freeze: [{ from: sat, to: sun, zone: Europe }]", "HF-CONF-24", "`Europe`", ""),
        ("freeze: [{ from: sat, to: '07:00', zone: UTC }]", "HF-CONF-25", "two kinds", "Write both"),
        (
            "freeze: [{ from: 2026-02-30, to: 2026-03-01, zone: UTC }]",
            "HF-CONF-25",
            "no day `2026-02-30`",
            "",
        ),
        ("freeze: [{ from: 2026-03-02, to: 2026-03-01, zone: UTC }]", "HF-CONF-25", "is not after", ""),
        ("freeze: [{ from: '22:00', to: '22:00', zone: UTC }]", "HF-CONF-25", "is not after", ""),
        ("freeze: [{ from: friday, to: sun, zone: UTC }]", "HF-CONF-6", "a time such as", ""),
        (
            "environments: { prod: { freeze: [{ from: sat, to: sat 00:00, zone: X/Y }] } }",
            "HF-CONF-24",
            "guard.environments.prod.freeze[0].zone",
            "",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_place(inside: str, code: str, says: str, hint: str) -> None:
    """A rule that silently does not hold would be worse than none."""
    text = f"version: 1\nenvironments: {{ dev: {{}}, prod: {{}} }}\nguard:\n  {inside}\n"
    with pytest.raises(ConfigError) as caught:
        read(text)
    (problem,) = caught.value.problems
    assert problem.code == code
    assert says in problem.message
    assert hint in (problem.hint or "")
    assert problem.place is not None
    assert problem.place.line == 4


def test_built_in_names_of_production_need_no_entry() -> None:
    """They are environments without being listed."""
    assert set(read("version: 1\nguard: { environments: { live: { approvals: 1 } } }\n").environments) == {
        "live"
    }


def test_an_editor_accepts_what_the_reader_accepts() -> None:
    """The schema knows the same keys and values; numbers and flags of tags without quotes, too."""
    document = {
        "version": 1,
        "environments": {"prod": {}},
        "guard": {
            "deletions": {"per_stack": 0, "per_change": "any"},
            "protect": {"tags": {"a": True, "b": [1, "x*"]}, "addresses": ["module.a[0]"], "types": ["a_*"]},
            "freeze": [{"from": "sat", "to": "sun 12:00", "zone": "UTC", "why": "rest", "effect": "deny"}],
            "environments": {"prod": {"protect": {"except_types": ["aws_eip"]}, "destroy": "warn"}},
        },
    }
    assert list(VALIDATOR.iter_errors(document)) == []
    read(yaml.safe_dump(document))
    for wrong in ({"deletions": {"per_stack": "5 %"}}, {"target": "no"}, {"freeze": [{"from": "sat"}]}):
        assert not VALIDATOR.is_valid({"version": 1, "guard": wrong})


def test_approvals_are_a_number_a_mapping_or_a_list() -> None:
    """Of a list all must be met: the policy has the largest number, and who must be among them."""
    two, dba = RequiredApprovals(count=2), RequiredApprovals(count=1, group="dba")
    for text, expected in (
        ("2", (two,)),
        ("{ count: 2 }", two),
        ("[2, { count: 1, group: dba }]", (two, dba)),
        ("{ count: 1, role: approver }", RequiredApprovals(count=1, role="approver")),
    ):
        assert read(f"version: 1\nguard:\n  approvals: {text}\n").rules.approvals == expected
    policy = policy_for(
        GuardSettings(rules=GuardRules(approvals=(two, dba))), environment="dev", production=False
    )
    assert (policy.approvals, policy.verified, policy.approvers) == (2, True, (dba,))
