"""No registered secret is in any document as a key, and what was distinct stays distinct."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.secrets.encodings import SHORTEST, is_maskable
from holdfast.secrets.redact import OURS, TERRAFORM, Redactor, clean_document
from holdfast.terraform.addresses import key_text
from holdfast.terraform.plan.diff import differences_of

secrets = st.lists(
    st.text(st.sampled_from('aB1"\\\n${é\u00a0[]'), min_size=SHORTEST, max_size=9).filter(is_maskable),
    min_size=1,
    max_size=4,
    unique=True,
)


@st.composite
def secrets_and_keys(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Keys with secrets in them, alone, twice or beside other text."""
    registered = draw(secrets)
    part = st.sampled_from(registered) | st.sampled_from(["", "x", "1", "2", "eu-", "a.b", ")", "(1"])
    key = st.lists(part, min_size=1, max_size=3).map("".join)
    return registered, draw(st.lists(key, min_size=1, max_size=6, unique=True))


def hides(registered: list[str], text: str) -> bool:
    """Neither as it is nor as JSON, as Terraform or Holdfast write it."""
    return not any(
        written in text
        for secret in registered
        for written in (secret, json.dumps(secret)[1:-1], key_text(secret)[2:-2])
    )


@settings(max_examples=300)
@given(secrets_and_keys())
def test_documents_hide_secrets_in_keys_and_keep_them_apart(drawn: tuple[list[str], list[str]]) -> None:
    """In addresses, in instance keys, in keys of values, and in messages about addresses."""
    registered, keys = drawn
    redactor = Redactor(registered)
    addresses = [f"module.m{key_text(key)}.x.y" for key in keys]
    resources = [{"address": address, "actions": ["create"]} for address in addresses]
    ours = {
        "resources": resources,
        "removed_resources": addresses,
        "notes": [f"{address} would be deleted" for address in addresses],
        "outputs": {"o": {"value": {key: {"nested": {key: 1}} for key in keys}}},
    }
    terraform = {
        "resource_changes": [
            {"address": address, "index": key, "change": {"after": {key: "x"}, "after_unknown": {key: True}}}
            for address, key in zip(addresses, keys, strict=True)
        ]
    }
    for document, structure in ((ours, OURS), (terraform, TERRAFORM)):
        cleaned = clean_document(redactor, document, structure)
        assert hides(registered, json.dumps(cleaned, ensure_ascii=False))
        assert clean_document(redactor, cleaned, structure) == cleaned
    shown: Any = clean_document(redactor, ours)
    changes: Any = clean_document(redactor, terraform, TERRAFORM)["resource_changes"]
    for distinct in (
        [resource["address"] for resource in shown["resources"]],
        shown["removed_resources"],
        shown["notes"],
        list(shown["outputs"]["o"]["value"]),
        [change["index"] for change in changes],
    ):
        assert len(set(distinct)) == len(keys)


@given(secrets_and_keys())
def test_texts_hide_secrets_in_keys_and_keep_them_apart(drawn: tuple[list[str], list[str]]) -> None:
    """A line of progress, and the difference of two maps, on a screen or in a comment."""
    registered, keys = drawn
    redactor = Redactor(registered)
    lines = [redactor.clean(f"  x.y{key_text(key)}: Creating...") for key in keys]
    assert len(set(lines)) == len(keys)
    assert hides(registered, "\n".join(lines))
    differences = differences_of(
        b"{}",
        json.dumps({"tags": dict.fromkeys(keys, "v")}).encode(),
        before_mask=False,
        after_mask=False,
        clean=redactor.clean_field,
        at_most=99,
    )
    paths = [redactor.clean(difference.path) for difference in differences.shown]
    assert hides(registered, "\n".join(paths))
    assert len(set(paths)) == len(paths)
