"""How defaults are merged, and what is wrong with them before any stack is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.defaults import ENTRY_ONLY, EntryDefaults, effective_rule
from holdfast.config.read import parse
from holdfast.config.settings import Config
from holdfast.config.stack_rules import StackRule
from holdfast.kernel.errors import ConfigError, Problem


def read(text: str) -> Config:
    return parse("version: 1\n" + text, file="holdfast.yaml", root=Path("/r"), path=Path("/r/holdfast.yaml"))


def mistakes(text: str) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return list(caught.value.problems)


def merged(text: str, target: str | None = None, environment: str | None = None) -> StackRule:
    config = read(text)
    return effective_rule(config.stacks[0], config.shared.layers(target, environment))


LEVELS = """
env: { A: file-env, B: file-env, C: file-env, D: file-env, E: file-env }
defaults: { region: file, workspace: file, env: { B: file, C: file, D: file, E: file } }
targets: { aws: { defaults: { region: target, env: { C: target, D: target, E: target } } } }
environments: { dev: { defaults: { region: environment, env: { D: environment, E: environment } } } }
stacks: [{ name: a, env: { E: entry } }]
"""


def test_the_most_specific_wins() -> None:
    """File < target < environment < entry, and mappings merge by key."""
    rule = merged(LEVELS, "aws", "dev")
    assert (rule.region, rule.workspace, rule.name) == ("environment", "file", "a")
    assert dict(rule.env) == {
        "A": "file-env",
        "B": "file",
        "C": "target",
        "D": "environment",
        "E": "entry",
    }
    assert merged(LEVELS, "aws", "prod").region == "target"
    assert merged(LEVELS).region == "file"


def test_lists_replace_and_nested_mappings_merge() -> None:
    text = """
defaults:
  depends_on: [x, y]
  backend: { type: s3, settings: { bucket: b, endpoints: { s3: one, sts: two } } }
stacks:
  - name: a
    depends_on: [z]
    backend: { settings: { key: k, endpoints: { s3: three } } }
"""
    rule = merged(text)
    assert rule.depends_on == ("z",)
    assert rule.backend is not None
    assert rule.backend.type == "s3"
    assert rule.backend.settings == {"bucket": "b", "key": "k", "endpoints": {"s3": "three", "sts": "two"}}


def test_every_key_of_an_entry_is_a_default_but_those_that_find_stacks() -> None:
    """A key that is added to entries works in defaults without further code."""
    assert set(EntryDefaults.keys) == set(StackRule.keys) - ENTRY_ONLY
    (problem,) = mistakes("defaults: { target: aws }")
    assert (problem.code, problem.place is not None and problem.place.line) == ("HF-CONF-4", 2)


def test_a_required_key_may_come_from_a_default() -> None:
    """Only what no level gives is missing, and only where there are defaults is that known later."""
    text = "{}stacks: [{{ name: a, environment: x, credentials: {{ aws: {{ session_name: s }} }} }}]"
    assert [one.code for one in mistakes(text.format(""))] == ["HF-CONF-5"]
    rule = merged(text.format("defaults: { credentials: { aws: { role_arn: r } } }\n"))
    assert dict(rule.credentials["aws"]) == {"role_arn": "r", "session_name": "s"}
    hook = "stacks: [{ name: a, variables_files: [{ optional: true }] }]\ndefaults: { region: x }"
    assert [one.code for one in mistakes(hook)] == ["HF-CONF-5"]


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("defaults: { region: '{servce}' }\nstacks: [{ folder: 'a/{service}' }]", 9, 2, "{service}"),
        ("values: { domain: x }\ndefaults: { region: '{values.domian}' }", 9, 3, "{values.domain}"),
        ("defaults: { region: '{values.x.y}' }", 9, 2, "values: { x.y"),
        ("values: { a: '{values.b}', b: x }\nstacks: [{ name: a }]", 18, 3, "values → values"),
        ("defaults: { region: '{company}' }", 20, 2, "company: acme"),
        (
            "environments: {d: {defaults: {account: x}}}\nstacks: [{name: a, environment: '{account}'}]",
            *(18, 3, "environment → account → environment"),
        ),
        (
            "environments: { dev: { values: { e: x } } }\nstacks: [{ name: a, environment: '{values.e}' }]",
            *(18, 3, "environment → values → environment"),
        ),
        (
            "targets: { t: { defaults: { variables_files: [x] } } }\nstacks: [{ name: a, target: '{var.t}'}]",
            *(18, 3, "target → the variables files → target"),
        ),
        ("pass_env: [TF_LOG]", 14, 2, "log"),
        ("defaults: { pass_env: [HOLDFAST_KEY] }", 14, 2, "Holdfast"),
        ("stacks: [{ name: a, pass_env: ['A-B'] }]", 15, 2, "A-B"),
        ("env: { PATH: x }", 14, 2, "PATH"),
        ("reads: ['../a']", 16, 2, "inside the repository"),
        ("ignores: ['a[b]']", 16, 2, "`[`"),
        ("stacks: [{ name: a, ignores: ['a**'] }]", 16, 2, "between slashes"),
        ("stacks: [{ name: a, reads: ['{nope}/**'] }]", 9, 2, "nope"),
        ("stacks: [{ name: a, matrix: { e: [x] } }]", 17, 2, "{e}"),
        ("stacks: [{ folder: 'a/{e}', matrix: { e: [x] } }]", 17, 2, "folder"),
        ("stacks: [{ name: '{e}', matrix: { e: [] } }]", 6, 2, "not empty"),
        ("stacks: [{ name: '{e}', matrix: { e: [{ a: b }] } }]", 6, 2, "list of texts"),
        ("stacks: [{ name: '{e}', matrix: { e: [x], exclude: [x] } }]", 6, 2, "list of mappings"),
        ("stacks: [{ name: '{e}', matrix: { e: [x], exclude: [{ f: x }] } }]", 9, 2, "`e`"),
        ("stacks: [{ name: '{e}', matrix: { e: { folders: 'a/{f}' } } }]", 9, 2, "{e}"),
        ("stacks: [{ name: '{e}', matrix: { e: { files: 'a/b?' } } }]", 19, 2, "Patterns"),
    ],
)  # fmt: skip
def test_mistakes(text: str, code: int, line: int, words: str) -> None:
    """Each is reported once, with its line and what to do."""
    (problem,) = mistakes(text)
    assert (problem.code, problem.place and problem.place.line) == (f"HF-CONF-{code}", line)
    assert words in f"{problem.message} {problem.hint}"
