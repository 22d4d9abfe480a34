"""One branch of a real Git host: pushes that others overtake, and answers that get lost."""

from __future__ import annotations

import os
from pathlib import Path

from facts_made import bare, git
from git_server import git_host

from holdfast.system.git_branch import Author, GitBranch

ME = Author(name="Holdfast", email="holdfast@localhost")


def opened(url: str, folder: Path) -> GitBranch:
    return GitBranch(folder, f"{url}/facts.git", "main", {"PATH": os.environ["PATH"]})


def test_a_push_that_was_overtaken_changes_nothing(tmp_path: Path) -> None:
    """Whoever read the branch before another push must read it again, whether it existed or not."""
    facts = bare(tmp_path / "host/facts.git")
    with git_host(tmp_path / "host") as host:
        first, second = opened(host.url, tmp_path / "a.git"), opened(host.url, tmp_path / "b.git")
        for number in (1, 2):
            old, same = first.tip(), second.tip()
            assert old == same
            slow = first.commit(old, {"a/b.yaml": b"slow"}, "slow", ME)
            fast = second.commit(same, {"c.yaml": f"{number}".encode()}, "fast", ME)
            assert second.push(fast, expected=same) is None
            assert first.push(slow, expected=old) is not None
            assert git("rev-parse", "main", folder=facts) == fast
        tip = first.tip()
        again = first.commit(tip, {"a/b.yaml": b"again", "c.yaml": None}, "again", ME)
        assert first.push(again, expected=tip) is None
        assert first.push(again, expected=tip) is None, "the answer to the first push was lost"
        assert first.files(first.tip()) == ("a/b.yaml",)
        assert first.read(again, "a/b.yaml") == b"again"
        assert [commit.subject for commit in first.commits(first.full_tip() or "", "c.yaml")] == [
            *("again", "fast", "fast"),
        ]
        assert first.default_branch() == "main"
