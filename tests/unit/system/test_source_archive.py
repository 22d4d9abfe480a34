"""What is packed, and what an archive of a stranger can do: nothing outside of its folder."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.kernel.errors import HoldfastError, UsageError
from holdfast.system.source_archive import Limits, pack, unpack


def tree(root: Path) -> dict[str, object]:
    """Everything below a folder: content and whether it can be executed, or the target of a link."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = (path.read_bytes(), os.access(path, os.X_OK))
    return found


def archive_of(*members: tuple[tarfile.TarInfo, bytes], format_: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=format_) as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def member(name: str, *, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, kind=tarfile.SYMTYPE, target=target), b""


def test_what_is_packed_is_unpacked_again(tmp_path: Path) -> None:
    root, goal = tmp_path / "root", tmp_path / "goal"
    long = "deep/" + "/".join(["folder-with-a-long-name"] * 12) + "/größe.tf"
    (root / long).parent.mkdir(parents=True)
    (root / long).write_text("# long")
    (root / "run.sh").write_text("#!/bin/sh")
    (root / "run.sh").chmod(0o755)
    (root / "big.bin").write_bytes(bytes(700_000))
    (root / "link.tf").symlink_to("run.sh")
    packed = pack(root, [*tree(root), "gone.tf"])
    unpack(io.BytesIO(packed.content), goal)
    assert tree(goal) == tree(root)
    assert (packed.files, packed.left_out) == (4, ())
    assert goal.stat().st_mode & 0o777 == 0o700
    (root / "run.sh").touch()
    assert pack(root, list(reversed([*tree(root)]))).content == packed.content


def test_links_that_lead_out_and_keys_are_left_out(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)
    (root / "outside").symlink_to("../elsewhere")
    (root / "absolute").symlink_to(tmp_path)
    (root / "a/b/up").symlink_to("..")
    (root / "chain").symlink_to("a/b/up/../../..")
    (root / "key").write_text("secret")
    about = (root / "key").stat()
    packed = pack(root, ["outside", "absolute", "a/b/up", "chain", "key"], forbidden=[about])
    assert packed.left_out == ("absolute", "chain", "key", "outside")
    unpack(io.BytesIO(packed.content), tmp_path / "goal")
    assert tree(tmp_path / "goal") == {"a/b/up": ".."}


def test_the_largest_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "image.iso").write_bytes(os.urandom(3_000_000))
    (tmp_path / "main.tf").write_text("")
    for limits in (Limits(content=1_000_000), Limits(packed=1_000_000), Limits(files=1)):
        with pytest.raises(UsageError, match="too large to upload") as raised:
            pack(tmp_path, ["image.iso", "main.tf"], limits=limits)
        assert "image.iso (3.0 MB), main.tf" in str(raised.value.problem.hint)


@pytest.mark.parametrize("format_", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_archives_of_other_programs_are_read(tmp_path: Path, format_: int) -> None:
    name = "a" * 90 + "/" + "b" * 60 if format_ == tarfile.USTAR_FORMAT else "a" * 200
    folder = member("./dir/", kind=tarfile.DIRTYPE)
    content = archive_of((folder, b""), (member(name), b"x"), link("l", "dir"), format_=format_)
    unpack(io.BytesIO(content), tmp_path / "goal")
    assert tree(tmp_path / "goal") == {name: (b"x", False), "l": "dir"}


def test_an_archive_of_gnu_tar_is_read(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "modules").mkdir(parents=True)
    (root / "modules/main.tf").write_text("# x")
    packed = subprocess.run(["tar", "-cz", "-C", root, "."], capture_output=True, check=True)
    unpack(io.BytesIO(packed.stdout), tmp_path / "goal")
    assert tree(tmp_path / "goal") == tree(root)


HOSTILE = {
    "absolute": [(member("/etc/x"), b"")],
    "parent": [(member("a/../../x"), b"")],
    "hidden parent": [(member("./../x"), b"")],
    "git": [(member("sub/.GIT/config"), b"[core]")],
    "link out": [link("l", "../x")],
    "absolute link": [link("l", "/etc/passwd")],
    "empty link": [link("l", "")],
    "chain of links": [link("a/b/up", ".."), link("l", "a/b/up/../../..")],
    "through a link": [link("l", "."), (member("l/x"), b"")],
    "link over a folder": [(member("l/x"), b""), link("l", ".")],
    "twice": [(member("x"), b"1"), (member("x"), b"2")],
    "link twice": [link("x", "a"), link("x", "b")],
    "file as folder": [(member("x"), b""), (member("x/y"), b"")],
    "device": [(member("d", kind=tarfile.CHRTYPE), b"")],
    "pipe": [(member("p", kind=tarfile.FIFOTYPE), b"")],
    "hard link": [(member("h", kind=tarfile.LNKTYPE, target="/etc/passwd"), b"")],
    "long path": [(member("x/" * 100 + "y"), b"")],
    "long header": [(member("x" * 20_000), b"")],
    "too much": [(member("x"), bytes(2_000_000))],
    "too many": [(member(f"f{number}"), b"") for number in range(60)],
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_archive_leaves_nothing(
    tmp_path: Path, members: Iterable[tuple[tarfile.TarInfo, bytes]]
) -> None:
    content = archive_of(*members)
    with pytest.raises(UsageError, match="was refused"):
        unpack(io.BytesIO(content), tmp_path / "goal", limits=Limits(files=50, content=1_000_000))
    assert list(tmp_path.iterdir()) == []


def test_a_small_archive_does_not_become_large(tmp_path: Path) -> None:
    """A header that claims little, and one that claims more than there is."""
    bomb = gzip.compress(bytes(20_000_000), compresslevel=1)
    entry = member("x")
    entry.size = 10**12
    claims = gzip.compress(entry.tobuf() + bytes(20_000_000), compresslevel=1)
    padded = gzip.compress(member("x").tobuf() + b"\1" + bytes(10_000))
    for content in (claims, padded, b"no archive", b"", archive_of((member("x"), b"y"))[:-30]):
        with pytest.raises(UsageError, match="was refused"):
            unpack(io.BytesIO(content), tmp_path / "goal", limits=Limits(content=1_000_000))
    unpack(io.BytesIO(bomb), tmp_path / "goal")  # Two empty blocks are the end.
    assert tree(tmp_path / "goal") == {}


names = st.lists(st.sampled_from(["a", "b", "..", ".", "", ".git", "ü"]), min_size=1, max_size=4).map(
    "/".join
)
members = st.tuples(
    names,
    st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE]),
    names,
    st.binary(max_size=600),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(entries=st.lists(members, max_size=6))
def test_nothing_is_ever_written_outside(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[str, bytes, str, bytes]]
) -> None:
    """Whatever the names and links: it is refused, or everything is inside."""
    place = tmp_path_factory.mktemp("place")
    content = archive_of(
        *(
            (member(name, kind=kind, target=target), data if kind == tarfile.REGTYPE else b"")
            for name, kind, target, data in entries
        )
    )
    try:
        unpack(io.BytesIO(content), place / "goal")
    except HoldfastError:
        assert list(place.iterdir()) == []
        return
    assert [path.name for path in place.iterdir()] == ["goal"]
    for path in (place / "goal").rglob("*"):
        assert Path(os.path.realpath(path)).is_relative_to(place / "goal")
        assert ".git" not in path.parts


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.binary(max_size=3000), place=st.integers(0, 2000))
def test_damaged_archives_are_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, place: int
) -> None:
    whole = gzip.decompress(archive_of((member("a" * 200), b"x" * 500), link("l", "a")))
    damaged = gzip.compress(whole[:place] + data + whole[place + len(data) :])
    folder = tmp_path_factory.mktemp("damaged")
    try:
        unpack(io.BytesIO(damaged), folder / "goal")
    except HoldfastError:
        assert list(folder.iterdir()) == []
