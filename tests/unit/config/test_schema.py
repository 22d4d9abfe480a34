"""The JSON Schema and the reader describe the same file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import config_documents as documents
from holdfast.config.read import parse
from holdfast.kernel.errors import ConfigError

SCHEMA = json.loads(documents.schema())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

VALID: tuple[dict[str, Any], ...] = (
    {"version": 1},
    {"version": 1, "company": "acme", "store": "/mnt/store", "work": {"max_age": 60, "max_size": "1.5GB"}},
    {"version": 1, "backups": {"keep": 1, "max_age": "0s"}, "redaction": {}},
    {"version": 1, "redaction": {"off": ["jwt"], "words": ["parole"], "entropy": 3}},
    {"version": 1, "redaction": {"entropy": 2.5}, "backups": {"max_age": "1d12h"}},
    {"version": 1, "environments": {"dev": {"match": "*-dev"}, "prod": {"match": ["a", "b"]}}},
    {"version": 1, "targets": {"aws": {"owner": "ci", "lane": "x"}, "local": {}}},
    {"version": 1, "engine": {"use": "tofu", "version": 1.9, "time_limits": {"init": "1h30m"}}},
    {"version": 1, "engine": {"time_limits": {"grace": "2h"}, "retries": {"attempts": 0, "wait": "0s"}}},
    {"version": 1, "engine": {"retries": {"also": ["so: it\nis"], "refused_creates": []}}},
    {
        "version": 1,
        "engine": {"retries": {"refused_creates": [{"provider": "x/y", "text": "error 429: no blobs"}]}},
    },
    {"version": 1, "stacks": [{"variables": "a/{x}.tfvars.json", "module": "{x}"}]},
    {"version": 1, "stacks": [{"folder": "a/{x}", "variables": {"v": [1, None, {"k": "z"}]}}]},
    {"version": 1, "stacks": [{"name": "a", "variables": {"secret": "a name, not a reference"}}]},
    {"version": 1, "stacks": [{"name": "a", "env": {"A": {"secret": "vault:kv/x#y"}, "B": True}}]},
    {"version": 1, "stacks": [{"name": "a", "credentials": {"aws": {"role_arn": {"secret": "env:R"}}}}]},
)

INVALID: tuple[Any, ...] = (
    {},
    [],
    {"version": 2},
    {"version": "1"},
    {"version": 1, "unknown": 1},
    {"version": 1, "company": "a b"},
    {"version": 1, "company": None},
    {"version": 1, "store": "gs://x"},
    {"version": 1, "work": {"max_age": "soon"}},
    {"version": 1, "work": {"max_size": "5 GB"}},
    {"version": 1, "engine": {"use": "pulumi"}},
    {"version": 1, "backups": {"keep": 0}},
    {"version": 1, "backups": {"keep": 1.5}},
    {"version": 1, "backups": {"max_age": "90 days"}},
    {"version": 1, "redaction": {"off": "jwt"}},
    {"version": 1, "redaction": {"off": ["A b"]}},
    {"version": 1, "redaction": {"words": ["id"]}},
    {"version": 1, "redaction": {"entropy": "much"}},
    {"version": 1, "redaction": {"entropy": 9}},
    {"version": 1, "redaction": {"entropy": True}},
    {"version": 1, "engine": {"parallelism": 65}},
    {"version": 1, "engine": {"retries": {"attempts": 11}}},
    {"version": 1, "engine": {"retries": {"also": [" "]}}},
    {"version": 1, "engine": {"retries": {"refused_creates": [{"text": "no blobs"}]}}},
    {"version": 1, "engine": {"retries": {"refused_creates": [{"provider": "x/y", "text": "429"}]}}},
    {
        "version": 1,
        "engine": {
            "retries": {
                "refused_creates": [{"provider": "x/y", "text": "HTTP status 429: Too Many Requests!"}]
            }
        },
    },
    {"version": 1, "environments": {"dev": {"production": "yes"}}},
    {"version": 1, "environments": {"a b": {}}},
    {"version": 1, "targets": {"aws": {"owner": "me"}}},
    {"version": 1, "stacks": [{}]},
    {"version": 1, "stacks": [{"module": "a"}]},
    {"version": 1, "stacks": [{"variables": "a.tfvars", "folder": "b"}]},
    {"version": 1, "stacks": [{"folder": "b", "module": "c"}]},
    {"version": 1, "stacks": [{"variables": "a.json"}]},
    {"version": 1, "stacks": [{"name": "a", "module": "../b"}]},
    {"version": 1, "stacks": [{"name": "a", "module": "/b"}]},
    {"version": 1, "stacks": [{"name": "a", "env": {"TF_LOG": "x"}}]},
    {"version": 1, "stacks": [{"name": "a", "env": {"A-B": "x"}}]},
    {"version": 1, "stacks": [{"name": "a", "env": {"A": ["x"]}}]},
    {"version": 1, "stacks": [{"name": "a", "env": {"A": {"secret": "gcp:x"}}}]},
    {"version": 1, "stacks": [{"name": "a", "variables": {"v": {"secret": "env:A", "more": 1}}}]},
    {"version": 1, "stacks": [{"name": "a", "credentials": {}}]},
    {"version": 1, "stacks": [{"name": "a", "matrix": {"x": {"files": "a/*", "file": "b"}}}]},
    {"version": 1, "defaults": {"name": "a"}},
    {"version": 1, "stacks": [{"name": "a", "credentials": {"azure": {"client_secret": "x"}}}]},
    {"version": 1, "stacks": [{"name": "a", "backend": {"type": "s4"}}]},
    {"version": 1, "stacks": [{"name": "a", "backend": {"settings": {"a": None}}}]},
    {"version": 1, "stacks": [{"name": "a", "depends_on": "b"}]},
)


def accepted(document: Any) -> bool:
    text = yaml.safe_dump(document)
    try:
        parse(text, file="holdfast.yaml", root=Path("/r"), path=Path("/r/holdfast.yaml"))
    except ConfigError:
        return False
    return True


def test_the_schema_is_a_schema() -> None:
    """What is committed for editors is valid draft 2020-12."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("document", VALID, ids=str)
def test_both_accept(document: Any) -> None:
    """What the reader takes, an editor does not mark."""
    assert accepted(document)
    assert list(VALIDATOR.iter_errors(document)) == []


@pytest.mark.parametrize("document", INVALID, ids=str)
def test_both_refuse(document: Any) -> None:
    """What the reader refuses for its shape, an editor marks."""
    assert not accepted(document)
    assert not VALIDATOR.is_valid(document)


def test_every_key_is_described_in_the_schema() -> None:
    """An editor explains each key."""
    described = documents.schema().count('"description"')
    assert described >= len(list(documents.keys_once()))
