"""Defaults, whatever the levels contain: each value is that of the most specific level that has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.defaults import effective_rule
from holdfast.config.read import parse

NAMES = st.sampled_from(["A", "B", "C"])
WORDS = st.sampled_from(["x", "y", "z"])
SETTINGS = st.dictionaries(NAMES, WORDS)
LEVEL = st.fixed_dictionaries(
    {},
    optional={
        "region": WORDS,
        "depends_on": st.lists(WORDS, max_size=2),
        "env": SETTINGS,
        "backend": st.fixed_dictionaries({}, optional={"settings": SETTINGS}),
        "credentials": st.fixed_dictionaries(
            {"azure": st.dictionaries(st.sampled_from(["client_id"]), WORDS)}
        ),
    },
)


def leaves(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """A list is one value."""
    if not isinstance(value, dict):
        return {path: value}
    return {key: leaf for name, item in value.items() for key, leaf in leaves(item, (*path, name)).items()}


@given(levels=st.lists(LEVEL, min_size=4, max_size=4))
def test_the_most_specific_level_wins(levels: list[dict[str, Any]]) -> None:
    file, target, environment, entry = levels
    document = {
        "version": 1,
        "defaults": file,
        "targets": {"t": {"defaults": target}},
        "environments": {"e": {"defaults": environment}},
        "stacks": [{"name": "a", **entry}],
    }
    config = parse(json.dumps(document), file="holdfast.yaml", root=Path("/r"), path=Path("/r/holdfast.yaml"))
    rule = effective_rule(config.stacks[0], config.shared.layers("t", "e"))
    expected: dict[tuple[str, ...], Any] = {}
    for level in levels:
        expected.update(leaves(level))
    assert rule.region == expected.get(("region",))
    assert list(rule.depends_on) == expected.get(("depends_on",), [])
    assert dict(rule.env) == {path[1]: value for path, value in expected.items() if path[0] == "env"}
    settings = {path[2]: value for path, value in expected.items() if path[:2] == ("backend", "settings")}
    assert dict(rule.backend.settings if rule.backend is not None else {}) == settings
    assert rule.credentials.get("azure", {}).get("client_id") == expected.get(
        ("credentials", "azure", "client_id")
    )
