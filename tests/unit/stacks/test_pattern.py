"""Path patterns: what matches, which values come out, and where a walk goes."""

from __future__ import annotations

import pytest

from holdfast.stacks.listing import ListedTree, Listing
from holdfast.stacks.pattern import compile_pattern, matching_paths


@pytest.mark.parametrize(
    ("pattern", "path", "values"),
    [
        ("A/{account}/{name}.tfvars", "A/x/y.tfvars", {"account": "x", "name": "y"}),
        ("A/{account}/{name}.tfvars", "A/x/y.z.tfvars", {"account": "x", "name": "y.z"}),
        ("A/{account}/{name}.tfvars", "A/x/y/z.tfvars", None),
        ("A/{account}/{name}.tfvars", "A/x/.tfvars", None),
        ("A/{account}/{name}.tfvars", "A/x/y.tfvars.json", None),
        ("A/{account}/{name}.tfvars", "B/A/x/y.tfvars", None),
        ("{a}-{b}", "x-y-z", {"a": "x", "b": "y-z"}),
        ("{a}-{b}/{b}", "x-y-z/z", {"a": "x-y", "b": "z"}),
        ("{a}/{a}.tfvars", "x/x.tfvars", {"a": "x"}),
        ("{a}/{a}.tfvars", "x/y.tfvars", None),
        ("a/*/b", "a/x/b", {}),
        ("a/*/b", "a/x/y/b", None),
        ("a/**/b", "a/b", {}),
        ("a/**/b", "a/x/y/b", {}),
        ("a/**", "a/x/y", {}),
        ("a/**", "a", None),
        ("{a}", ".git", None),
        ("**/{a}.tfvars", ".terraform/x.tfvars", None),
        ("**/{a}.tfvars", "node_modules/x.tfvars", None),
        ("**/{a}.tfvars", "m/node_modules2/x.tfvars", {"a": "x"}),
        (".hidden/{a}", ".hidden/x", {"a": "x"}),
        ("a.b/{x}", "aXb/y", None),
        ("{{a}}/{x}", "{a}/y", {"x": "y"}),
    ],
)
def test_matching(pattern: str, path: str, values: dict[str, str] | None) -> None:
    """A path that need not exist gives the values, or none."""
    assert compile_pattern(pattern).match(path) == values


FILES = (
    "main.tf",
    "A/x/one.tfvars",
    "A/x/two.tfvars",
    "A/x/deep/three.tfvars",
    "A/.git/four.tfvars",
    "A/y/readme.md",
    "B/x/five.tfvars",
)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("A/{a}/{n}.tfvars", {"A/x/one.tfvars", "A/x/two.tfvars"}),
        ("A/x/one.tfvars", {"A/x/one.tfvars"}),
        ("**/{n}.tfvars", {"A/x/one.tfvars", "A/x/two.tfvars", "A/x/deep/three.tfvars", "B/x/five.tfvars"}),
        (
            "**/x/**/{n}.tfvars",
            {"A/x/one.tfvars", "A/x/two.tfvars", "A/x/deep/three.tfvars", "B/x/five.tfvars"},
        ),
        ("C/{n}.tfvars", set()),
    ],
)
def test_walking_files(pattern: str, found: set[str]) -> None:
    """A walk finds each file that matches, once, and no other."""
    paths = [path for path, _ in matching_paths(compile_pattern(pattern), ListedTree(FILES), folders=False)]
    assert len(paths) == len(set(paths))
    assert set(paths) == found


def test_walking_folders() -> None:
    """Folders are found by the same patterns."""
    found = {path for path, _ in matching_paths(compile_pattern("A/**"), ListedTree(FILES), folders=True)}
    assert found == {"A/x", "A/x/deep", "A/y"}


class Watched:
    """A tree that records which folders were listed."""

    def __init__(self) -> None:
        self.tree = ListedTree(FILES)
        self.seen: set[str] = set()

    def listing(self, folder: str) -> Listing | None:
        self.seen.add(folder)
        return self.tree.listing(folder)


def test_a_walk_goes_only_where_a_match_can_be() -> None:
    """Folders that cannot lead to a match are not read."""
    watched = Watched()
    list(matching_paths(compile_pattern("A/{a}/{n}.tfvars"), watched, folders=False))
    assert watched.seen == {".", "A", "A/x", "A/y"}
