"""A folder on disk and a list of paths answer alike; links do not lead astray."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.kernel.errors import Failed
from holdfast.stacks.listing import FolderTree, ListedTree, Listing, Tree, has_file
from holdfast.stacks.pattern import compile_pattern, matching_paths

FILES = ("main.tf", "a/x.tfvars", "a/b/y.tfvars", "c/z.txt")


def on_disk(root: Path) -> Tree:
    for file in FILES:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return FolderTree(root)


@pytest.fixture(params=["disk", "list"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return on_disk(tmp_path) if request.param == "disk" else ListedTree(FILES)


def test_both_trees_say_the_same(tree: Tree) -> None:
    """What is tested with a list of paths holds on disk."""
    assert tree.listing(".") == Listing(files=frozenset({"main.tf"}), folders=frozenset({"a", "c"}))
    assert tree.listing("a") == Listing(files=frozenset({"x.tfvars"}), folders=frozenset({"b"}))
    assert tree.listing("gone") is None
    assert tree.listing("main.tf") is None
    assert (has_file(tree, "a/b/y.tfvars"), has_file(tree, "a/b"), has_file(tree, "gone/x")) == (
        True,
        False,
        False,
    )


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    """A link to a folder above, directly or by way of another, does not make a walk endless."""
    tree = on_disk(tmp_path)
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "to_c").symlink_to(tmp_path / "c")
    (tmp_path / "c" / "to_a").symlink_to(tmp_path / "a")
    found = {path for path, _ in matching_paths(compile_pattern("**/{n}.tfvars"), tree, folders=False)}
    assert found == {"a/x.tfvars", "a/b/y.tfvars", "c/to_a/x.tfvars", "c/to_a/b/y.tfvars"}


def test_links_to_nothing_are_left_out(tmp_path: Path) -> None:
    """Links to themselves, directly or by way of another, and broken ones."""
    tree = on_disk(tmp_path)
    for name, target in {"self": "self", "one": "two", "two": "one", "broken": "gone"}.items():
        (tmp_path / "a" / name).symlink_to(target)
    assert tree.listing("a") == Listing(files=frozenset({"x.tfvars"}), folders=frozenset({"b"}))


def test_links_do_not_lead_out_of_the_root(tmp_path: Path) -> None:
    """What is elsewhere is not part of the repository."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (outside / "x.tfvars").write_text("")
    tree = on_disk(root)
    (root / "link").symlink_to(outside)
    assert list(matching_paths(compile_pattern("link/{n}.tfvars"), tree, folders=False)) == []
    assert tree.listing("link") is None


def test_a_link_to_nothing_is_nothing(tmp_path: Path) -> None:
    """A dead link is neither file nor folder."""
    tree = on_disk(tmp_path)
    (tmp_path / "c" / "dead.tfvars").symlink_to(tmp_path / "nowhere")
    assert not has_file(tree, "c/dead.tfvars")


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """Stacks could be in it: it is never taken as empty."""
    name = "n" * 300
    with pytest.raises(Failed) as caught:
        on_disk(tmp_path).listing(name)
    assert caught.value.problem.code == "HF-STACK-12"
