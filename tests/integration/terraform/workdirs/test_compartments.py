"""A change has its files in a compartment, and loses none of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.config.settings import Work
from holdfast.system import orphans
from holdfast.terraform.argv import UNSAVED_FILE
from holdfast.terraform.workdirs.compartments import Compartments
from holdfast.terraform.workdirs.gc import GarbageCollector
from holdfast.terraform.workdirs.workdir import hold_unsaved_states, hold_workdir


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def compartments(home: Path, tmp_path: Path) -> Compartments:
    (tmp_path / "scratch").mkdir()
    return Compartments(home, 1, tmp_path / "scratch")


def test_a_work_directory_is_in_its_compartment_only_while_it_is_used(
    compartments: Compartments, home: Path, tmp_path: Path
) -> None:
    """What an earlier run left in it comes along, and what it leaves goes back."""
    with hold_workdir(home, tmp_path, "site", ".") as place:
        place.tree.mkdir()
        (place.tree / "earlier").touch()
        with compartments.hold("a") as compartment, compartment.hold_tree(place) as work:
            assert work.folder == place.folder
            assert compartment.folder in work.module.parents
            assert (work.module / "earlier").exists()
            (work.module / "later").touch()
            path = work.module
        assert not place.tree.is_symlink()
        assert sorted(path.name for path in place.tree.iterdir()) == ["earlier", "later"]
        assert list(compartment.folder.iterdir()) == []
        compartment.spoiled = True
        with (
            compartments.hold("b"),
            compartments.hold("a") as other,
            other.hold_tree(place) as work,
        ):
            assert (other, work.module) == (other, path), "the path of the module changed"
            assert other is not compartment


def test_changes_beside_each_other_share_nothing_and_later_ones_the_same(compartments: Compartments) -> None:
    """Engines stay loaded for the next change. Temporary files of the last one are gone."""
    with compartments.hold("a") as first, compartments.hold("a") as second:
        assert not set(first.folders) & set(second.folders)
        (first.scratch / "credentials").mkdir()
        (first.scratch / "left").touch()
        kept = first.scratch / f"p{os.getpid()}"
        kept.mkdir()
        (first.scratch / "p999999999").mkdir()
    with compartments.hold("a") as again:
        assert again is first
        assert list(first.scratch.iterdir()) == [kept]


def test_code_of_others_never_runs_beside_providers_that_stay(compartments: Compartments) -> None:
    """Warm providers of one blueprint see only its devices."""
    with compartments.hold("x", "a") as first:
        pass
    with compartments.hold("x", "b") as second, compartments.hold("x") as third:
        assert len({first, second, third}) == 3
    with compartments.hold("x", "a") as again:
        assert again is first


def test_what_may_still_have_a_program_in_it_is_not_used_again(compartments: Compartments) -> None:
    """Nor its folders under the same names: rules name the folders themselves."""
    with compartments.hold("a") as spoiled:
        spoiled.spoiled = True
    assert not spoiled.folder.exists()
    assert not spoiled.scratch.exists()
    with compartments.hold("a") as next_one:
        assert not set(next_one.folders) & set(spoiled.folders)


KILLED = """
import os, sys
from pathlib import Path
from holdfast.terraform.workdirs.compartments import Compartments
from holdfast.terraform.workdirs.workdir import hold_workdir
home, root, scratch = map(Path, sys.argv[1:])
with (
    hold_workdir(home, root, "site", ".") as place,
    Compartments(home, 1, scratch).hold("a") as compartment,
    compartment.hold_tree(place) as work,
):
    (work.module / "errored.tfstate").write_text("{}")
    print(compartment.folder, flush=True)
    os._exit(9)
"""


def test_what_a_killed_worker_left_is_found(home: Path, tmp_path: Path) -> None:
    """An unsaved state above all: the tree is still in the compartment, whose name nobody else takes."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    program = [sys.executable, "-c", KILLED, str(home), str(tmp_path), str(scratch)]
    killed = subprocess.run(program, check=False, capture_output=True, text=True)
    assert (killed.returncode, killed.stderr) == (9, "")
    folder = Path(killed.stdout.strip())
    with Compartments(home, 1, scratch).hold("a") as other:
        assert other.folder != folder
    with hold_unsaved_states(home, tmp_path, "site") as states:
        assert [state.read_text() for state in states] == ["{}"]
    collector = GarbageCollector(home=home, limits=Work())
    assert "could not be saved" in collector.collect(everything=True).kept[0].why
    with hold_workdir(home, tmp_path, "site", ".") as again:
        assert (again.module / UNSAVED_FILE).read_text() == "{}"
        assert not again.tree.is_symlink()
        (again.module / UNSAVED_FILE).unlink()
    assert not folder.exists()
    assert collector.collect(everything=True).removed


DAEMON = (
    "import os, time\nif not os.fork():\n os.setsid()\n if not os.fork():\n  time.sleep(600)\n os._exit(0)\n"
)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_what_a_program_leaves_running_is_ended() -> None:
    """Also a daemon, which is no child and in no session of this process; but nothing that is kept."""
    code = (
        "import subprocess, sys\n"
        "from holdfast.system import orphans\n"
        "orphans.adopt()\n"
        "kept = subprocess.Popen(['sleep', '600'])\n"
        f"subprocess.run([sys.executable, '-c', {DAEMON!r}])\n"
        "while len(orphans._children()) < 2: pass\n"
        "assert orphans.end_children({kept.pid})\n"
        "assert orphans._children() == orphans._children_of_all() == {kept.pid}\n"
        "assert kept.poll() is None\n"
        "kept.kill()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], timeout=60, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert orphans.end_children(keep=orphans._children())
