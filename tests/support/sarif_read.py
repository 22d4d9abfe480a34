"""SARIF as others read it: the schema of OASIS, and what GitHub's code scanning takes.

The schema lies in the package `schemastore`, as answers of the web that were kept. They are not loaded as the
objects that they once were: only their bytes are taken.
"""

from __future__ import annotations

import functools
import gzip
import json
import pickletools
import re
import sqlite3
from contextlib import closing
from importlib.metadata import distribution
from typing import Any

from jsonschema import Draft7Validator

_TITLE = b'"title": "Static Analysis Results Format (SARIF) Version 2.1.0 JSON Schema"'
_URI = re.compile(r"(?:[A-Za-z0-9._~/-]|%[0-9A-F]{2})+")
MOST = {"results": 5_000, "rules": 25_000, "tags": 10, "locations": 100, "text": 1_024, "bytes": 10_000_000}
"""What GitHub keeps or takes of each, of gzip's bytes ten megabytes."""


@functools.cache
def official() -> Draft7Validator:
    file = distribution("schemastore").locate_file("schemastore/cache.sqlite")
    with closing(sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)) as kept:
        ((answer,),) = kept.execute("select value from responses where instr(value, ?)", (_TITLE,)).fetchall()
    body = next(given for _, given, _ in pickletools.genops(answer) if isinstance(given, bytes))
    return Draft7Validator(json.loads(body))


def read(text: str) -> Any:
    """The one run of a document that is valid, and that GitHub takes as a whole."""
    document = json.loads(text)
    official().validate(document)
    (run,) = document["runs"]
    assert len(gzip.compress(text.encode(errors="replace"))) < MOST["bytes"]
    rules, results = run["tool"]["driver"]["rules"], run["results"]
    assert len(rules) <= MOST["rules"]
    assert len(results) <= MOST["results"]
    for rule in rules:
        assert len(rule["properties"]["tags"]) <= MOST["tags"]
        assert 0 < len(rule["shortDescription"]["text"]) <= MOST["text"]
        assert 0 < len(rule["fullDescription"]["text"]) <= MOST["text"]
        assert rule["help"]["text"]
    for result in results:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]
        assert result["partialFingerprints"]["primaryLocationLineHash"]
        assert 1 <= len(result["locations"]) <= MOST["locations"]
        place = result["locations"][0]["physicalLocation"]
        assert _URI.fullmatch(place["artifactLocation"]["uri"])
        assert 1 <= place["region"]["startLine"] <= place["region"]["endLine"]
        # GitHub does not know what is suppressed: it would open an alert.
        assert "suppressions" not in result
    return run
