"""The reader of the configuration: any text gives a Config or mistakes with places, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import config_documents as documents
from holdfast.config.declarations import walk
from holdfast.config.read import parse
from holdfast.config.settings import Config
from holdfast.kernel.errors import ConfigError
from holdfast.stacks.discover import discover
from holdfast.stacks.listing import ListedTree

VALIDATOR = jsonschema.Draft202012Validator(json.loads(documents.schema()))
EXAMPLE = """\
version: 1
company: acme
environments: { prod: { match: ["*-prod-*"], production: true }, dev: {} }
targets: { aws: { owner: ci, lane: aws } }
stacks:
  - variables: A/{account}/{name}.tfvars
    name: "{account}/{name}"
    environment: "{account}"
    target: aws
    backend: { type: s3, settings: { bucket: "{company}-{environment}", key: "{name}" } }
    credentials: { aws: { role_arn: "arn", external_id: { secret: "env:X" } } }
  - folder: live/{environment}/{component}
    depends_on: ["live/{environment}/network"]
  - name: boot
    variables: { a: [1, { b: null }] }
engine: { use: auto, version: ">= 1.9", time_limits: { init: 30m } }
"""
WORDS = sorted({part.strip("[]*") for path, _ in walk(Config) for part in path.split(".")} - {""})
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 100)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(("{name}", "{account}", "{", "a/{x}.tfvars", "..", "env:X", "s3", "auto", "1h", "5GB"))
    | st.text(max_size=8)
)
KEYS = st.sampled_from(WORDS) | st.text(max_size=5)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def read(text: str) -> Config | None:
    """The configuration, or None after looking at the mistakes."""
    try:
        return parse(text, file="holdfast.yaml", root=Path("/r"), path=Path("/r/holdfast.yaml"))
    except ConfigError as caught:
        problems = caught.problems
    lines = [(one.place.line or 0, one.place.column or 0) for one in problems if one.place is not None]
    assert len(lines) == len(problems) > 0
    assert lines == sorted(lines)
    assert all(line >= 1 for line, _ in lines)
    assert all(one.code.startswith("HF-CONF-") for one in problems)
    return None


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    """Text of any kind."""
    read(text)


@settings(max_examples=200)
@given(st.dictionaries(KEYS, TREES, max_size=5))
def test_any_document(document: dict[str, Any]) -> None:
    """Documents made of the right words in the wrong places; what is accepted, the schema accepts."""
    document = {"version": 1, **document}
    text = yaml.safe_dump(document)
    if read(text) is not None:
        assert list(VALIDATOR.iter_errors(yaml.safe_load(text))) == []


@settings(max_examples=300)
@given(
    start=st.integers(0, len(EXAMPLE)),
    length=st.integers(0, 12),
    put=st.text("{}[]:,-& *'\"\n\tabc/.1", max_size=6),
)
def test_a_valid_file_with_one_wound(start: int, length: int, put: str) -> None:
    """A file that somebody is in the middle of editing; if it is accepted, stacks can be looked for."""
    config = read(EXAMPLE[:start] + put + EXAMPLE[start + length :])
    if config is None:
        return
    tree = ListedTree(["main.tf", "A/x-prod-1/s.tfvars", "live/dev/network/main.tf", "live/dev/app/main.tf"])
    try:
        stacks = discover(config, files=tree, read_values=lambda _: {}, code_backend=lambda _: None)
    except ConfigError as caught:
        problems = caught.problems
    else:
        assert [one.name for one in stacks] == sorted({one.name for one in stacks})
        return
    assert all(one.place is not None for one in problems)


def test_the_example_itself_is_valid() -> None:
    """The wounds are what makes it wrong."""
    assert read(EXAMPLE) is not None
