from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from holdfast.system.access_rules import ForbiddenFiles
from holdfast.system.environment import Environment
from holdfast.terraform.workdirs.created_files import archive_files, list_files, new_files, restore_files
from holdfast.terraform.workdirs.workdir import (
    WorkDirectory,
    copy_sources,
    hold_unsaved_states,
    hold_workdir,
    remove_state_copies,
)

NONE = ForbiddenFiles(Environment({"HOLDFAST_HOME": "/nowhere"}))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / "app").mkdir(parents=True)
    (folder / "app/main.tf").write_text("# code")
    (folder / "app/old.zip").write_bytes(b"from an earlier build")
    return folder


def laid_out(home: Path, root: Path) -> WorkDirectory:
    with hold_workdir(home, root, "a/b", "app") as work:
        copy_sources(work, root, ["app/main.tf", "app/old.zip"], everything=False, store=root / ".holdfast")
    return work


def test_files_that_a_plan_created_are_restored_for_the_apply(root: Path, tmp_path: Path) -> None:
    """An archive that a plan packs survives into another machine's apply. What it only touched is not new."""
    work = laid_out(tmp_path / "one", root)
    before = list_files(work)
    assert archive_files(work, new_files(work, root, before), NONE) is None
    (work.module / "build").mkdir()
    (work.module / "build/lambda.zip").write_bytes(b"packed")
    (work.module / "build/run.sh").write_text("#!/bin/sh")
    (work.module / "build/run.sh").chmod(0o700)
    (work.module / "old.zip").write_bytes(b"packed anew")
    (work.module / "main.tf").write_text("# code")
    (work.module / "holdfast.tfplan").write_bytes(b"the plan itself")
    (work.module / ".terraform").mkdir()
    (work.module / ".terraform/providers").write_bytes(b"not ours")
    names = new_files(work, root, before)
    assert sorted(names) == ["app/build/lambda.zip", "app/build/run.sh", "app/old.zip"]
    made = archive_files(work, names, NONE)
    assert made is not None
    again = laid_out(tmp_path / "two", root)
    assert (again.module / "old.zip").read_bytes() == b"from an earlier build"
    restore_files(again, made)
    assert (again.module / "build/lambda.zip").read_bytes() == b"packed"
    assert (again.module / "old.zip").read_bytes() == b"packed anew"
    assert os.access(again.module / "build/run.sh", os.X_OK)
    assert not (again.module / "holdfast.tfplan").exists()
    assert not (again.module / ".terraform").exists()


def test_a_key_behind_a_link_is_in_no_archive(root: Path, tmp_path: Path) -> None:
    """Code in a plan can leave a link to a file that it cannot read, and Holdfast can."""
    work = laid_out(tmp_path / "one", root)
    before = list_files(work)
    (tmp_path / "key").write_text("the key")
    (work.module / "link").symlink_to(tmp_path / "key")
    names = new_files(work, root, before)
    with pytest.raises(PermissionError, match="not a file for stacks"):
        archive_files(work, names, ForbiddenFiles(Environment({"HOLDFAST_HOME": str(tmp_path)})))


def test_kept_files_never_replace_those_of_the_repository(root: Path, tmp_path: Path) -> None:
    work = laid_out(tmp_path / "one", root)
    (work.module / "old.zip").write_bytes(b"kept")
    (work.module / "new.zip").write_bytes(b"kept")
    made = archive_files(work, ["app/old.zip", "app/new.zip"], NONE) or b""
    again = laid_out(tmp_path / "two", root)
    restore_files(again, made, replace=False)
    assert (again.module / "old.zip").read_bytes() == b"from an earlier build"
    assert (again.module / "new.zip").read_bytes() == b"kept"


def test_a_work_directory_keeps_only_terraforms_own_folder(root: Path, tmp_path: Path) -> None:
    """What an earlier run left cannot change a later one."""
    work = laid_out(tmp_path / "home", root)
    (work.module / ".terraform").mkdir()
    (work.module / ".terraform/kept").write_text("plugins")
    (work.module / "extra.tf").write_text("# made by something")
    (work.module / "link.tf").symlink_to("/etc/hostname")
    (work.tree / "other").mkdir()
    (work.tree / "other/file").write_text("")
    (root / "app/old.zip").unlink()
    again = laid_out(tmp_path / "home", root)
    assert again.folder == work.folder
    names = {str(path.relative_to(again.tree)) for path in again.tree.rglob("*")}
    assert names == {"app", "app/main.tf", "app/.terraform", "app/.terraform/kept"}


def test_a_file_and_a_folder_may_change_places(root: Path, tmp_path: Path) -> None:
    """The layout follows the source, whatever lay under a name before."""
    home, store = tmp_path / "home", root / ".holdfast"
    with hold_workdir(home, root, "s", "app") as work:
        (root / "app/thing").write_text("a file")
        copy_sources(work, root, ["app/thing"], everything=False, store=store)
        (root / "app/thing").unlink()
        (root / "app/thing").mkdir()
        (root / "app/thing/inner").write_text("in a folder")
        copy_sources(work, root, ["app/thing/inner"], everything=False, store=store)
        assert (work.module / "thing/inner").read_text() == "in a folder"
        (root / "app/thing/inner").unlink()
        (root / "app/thing").rmdir()
        (root / "app/thing").write_text("a file again")
        copy_sources(work, root, ["app/thing"], everything=False, store=store)
        assert (work.module / "thing").read_text() == "a file again"


def test_the_digest_names_content_place_and_executability(root: Path, tmp_path: Path) -> None:
    """Equal trees have equal digests; every difference that Terraform could see makes another."""
    reached = ["app/main.tf"]
    with hold_workdir(tmp_path / "home", root, "s", "app") as work:
        seen = [
            copy_sources(work, root, reached, everything=False, store=root / ".holdfast"),
            copy_sources(work, root, reached, everything=False, store=root / ".holdfast"),
        ]
        assert len(set(seen)) == 1
        (root / "app/main.tf").chmod(0o755)
        seen.append(copy_sources(work, root, reached, everything=False, store=root / ".holdfast"))
        (root / "app/main.tf").write_text("# c0de")
        seen.append(copy_sources(work, root, reached, everything=False, store=root / ".holdfast"))
        (root / "app/main.tf").rename(root / "app/moved.tf")
        seen.append(copy_sources(work, root, ["app/moved.tf"], everything=False, store=root / ".holdfast"))
    assert len(set(seen)) == 4


def test_the_whole_tree_comes_without_git_states_and_our_own_record(root: Path, tmp_path: Path) -> None:
    """Links are followed; the stack's own state stays away, and no copy of another outlives the run."""
    left_out = (".git/config", ".holdfast/store.json", "app/terraform.tfstate", "app/mine.tfstate")
    for name in (*left_out, "net/terraform.tfstate"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("{}")
    (root / "shared").mkdir()
    (root / "shared/x.txt").write_text("x")
    (root / "app/linked").symlink_to("../shared")
    (root / "near").symlink_to("shared")
    (root / "dangling").symlink_to("nowhere")
    (root / "round").symlink_to(".")
    with hold_workdir(tmp_path / "home", root, "s", "app") as work:
        copy_sources(
            work, root, [], everything=True, store=root / ".holdfast", state=root / "app/mine.tfstate"
        )
        (work.module / "errored.tfstate").write_text("{}")
        before = {str(path.relative_to(work.tree)) for path in work.tree.rglob("*") if path.is_file()}
        remove_state_copies(work)
        after = {str(path.relative_to(work.tree)) for path in work.tree.rglob("*") if path.is_file()}
    kept = {
        "app/main.tf",
        "app/old.zip",
        "shared/x.txt",
        "near/x.txt",
        "app/linked/x.txt",
        "app/errored.tfstate",
    }
    assert before == {*kept, "net/terraform.tfstate"}
    assert after == kept


def test_two_runs_of_one_stack_never_share_a_directory(root: Path, tmp_path: Path) -> None:
    """A directory has one holder at a time; names with slashes are not nested in each other."""
    home = tmp_path / "home"
    with (
        hold_workdir(home, root, "a", "app") as first,
        hold_workdir(home, root, "a", "app") as second,
        hold_workdir(home, root, "a/b", "app") as third,
    ):
        folders = [first.folder, second.folder, third.folder]
        assert len({*folders}) == 3
        assert not any(one in other.parents for one in folders for other in folders)
        assert {stat.S_IMODE(one.stat().st_mode) for one in folders} == {0o700}
    with hold_workdir(home, root, "a", "app") as again:
        assert again.folder == first.folder


def test_an_unsaved_state_is_found_unless_its_run_is_still_at_work(root: Path, tmp_path: Path) -> None:
    """What a killed run left can be taken over; the directory of a running one cannot."""
    home = tmp_path / "home"
    with hold_workdir(home, root, "a", "app") as work:
        copy_sources(work, root, ["app/main.tf"], everything=False, store=root / ".holdfast")
        (work.module / "errored.tfstate").write_text("{}")
        with hold_unsaved_states(home, root, "a") as found:
            assert found == ()
    with hold_unsaved_states(home, root, "a") as found:
        assert found == (work.module / "errored.tfstate",)
    with hold_unsaved_states(home, root, "b") as found:
        assert found == ()
