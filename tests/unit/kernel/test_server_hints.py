"""Hints of code that does not know that it runs on a server name commands that work there."""

from __future__ import annotations

import pytest

from holdfast.kernel.server_hints import on_server

URL = "--server https://hf.example"


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("Plan again: holdfast plan net", "Plan again: holdfast plan net --server"),
        ("New: holdfast plan net --out DIR", "New: holdfast plan net --server"),
        ("Or holdfast apply a b. To plan: x", "Or holdfast apply a b --server. To plan: x"),
        ("Run `holdfast destroy net`, remove it", "Run `holdfast destroy net --server`, remove it"),
        ("Run holdfast plan before the next apply.", "Run holdfast plan --server before the next apply."),
        ("Its run: holdfast runs list", "Its run: holdfast runs list --server"),
        ("Do: holdfast runs reconcile 01R", "Do: holdfast runs reconcile 01R"),
        ("holdfast apply net --server --yes, then", "holdfast apply net --server --yes, then"),
        ("Do: holdfast events retry 01E", "Do: holdfast events retry 01E"),
        ("holdfast plan --lockfile update", "holdfast plan --lockfile update"),
        ("Restore (holdfast state versions net): x", "Restore (holdfast state versions net): x"),
        ("First comment `holdfast plan`, read", "First comment `holdfast plan`, read"),
        ("No command at all.", "No command at all."),
        ("", ""),
    ],
)
def test_a_command_runs_on_the_server(hint: str, shown: str) -> None:
    assert on_server(hint) == shown
    assert on_server(shown) == shown


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("Do: holdfast runs show 01R --plan, then", f"Do: holdfast runs show 01R --plan {URL}, then"),
        ("holdfast apply net --server --yes, then", f"holdfast apply net {URL} --yes, then"),
        ("Wait: holdfast events wait 01E", f"Wait: holdfast events wait 01E {URL}"),
        ("holdfast blueprints rollout site --server", f"holdfast blueprints rollout site {URL}"),
        (f"holdfast runs watch 01R {URL}", f"holdfast runs watch 01R {URL}"),
    ],
)
def test_a_server_that_is_not_known_otherwise_is_named(hint: str, shown: str) -> None:
    assert on_server(hint, URL) == shown
