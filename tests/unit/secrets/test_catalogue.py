"""Every scheme of the configuration has exactly one secret source, and any other scheme is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.secret_refs import SCHEMES, SecretRef
from holdfast.kernel.errors import UsageError
from holdfast.secrets.reader import SecretReader
from holdfast.secrets.sources.interface import (
    CATALOGUE,
    SourceEntry,
    Timeouts,
    is_local,
    open_source,
    source_for,
)
from holdfast.system.environment import Environment

EMPTY = Environment(variables={})


def test_each_scheme_has_one_source() -> None:
    """A scheme without a source, or with two, would be noticed only when a run needs it."""
    assert sorted(scheme for entry in CATALOGUE for scheme in entry.schemes) == sorted(SCHEMES)


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.module)
def test_each_source_can_be_opened(entry: SourceEntry, tmp_path: Path) -> None:
    """The catalogue names its class; opening asks nothing."""
    source = open_source(entry, EMPTY, tmp_path, Timeouts(), identify=False)
    assert isinstance(source.batches, bool)
    assert source.fetch([]) == {}


def test_an_unknown_scheme_is_served_by_no_source(tmp_path: Path) -> None:
    """It is an error for that reference alone, and never sent to another source."""
    unknown = SecretRef(scheme="gcp", locator="a/b#c")
    present = SecretRef(scheme="env", locator="TOKEN")
    with pytest.raises(UsageError, match="HF-SEC-1"):
        source_for(unknown)
    reader = SecretReader(Environment(variables={"TOKEN": "hunter2"}), tmp_path)
    answers = reader.read_all([unknown, present])
    assert isinstance(answers[unknown], UsageError)
    assert reader.read(present).reveal() == "hunter2"
    assert is_local(present)
