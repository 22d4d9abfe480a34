"""`holdfast tools`: nothing is started or kept that was not verified, and each stack has its own version."""

from __future__ import annotations

import hashlib
import json
import stat
import sys
import zipfile
from pathlib import Path

import pytest
from program import HERE, Program


def program_of(version: str, *, mark: Path | None = None) -> bytes:
    """A program that runs the embedded Terraform and says that it is another version."""
    touch = f'echo started >> "{mark}"\n' if mark is not None else ""
    text = (
        f'#!/bin/sh\n{touch}[ "$1" = version ] && echo \'{{"terraform_version": "{version}"}}\' && exit\n'
        f'exec "{sys.executable}" -I -S "{HERE / "launch.py"}" "$@"\n'
    )
    return text.encode()


def sum_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A folder with what somebody fetched."""
    folder = tmp_path / "given"
    folder.mkdir()
    return folder


def plain(folder: Path, version: str = "1.9.8", name: str = "terraform", mark: Path | None = None) -> Path:
    file = folder / name
    file.write_bytes(program_of(version, mark=mark))
    return file


def zipped(folder: Path, members: dict[str, bytes], name: str = "terraform_1.9.8_linux_amd64.zip") -> Path:
    with zipfile.ZipFile(folder / name, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return folder / name


def refused(program: Program, file: Path, code: str, *more: str, exit_code: int = 3) -> dict[str, str]:
    """The error; and nothing was kept, not even half of it."""
    (error,) = program.json("tools", "add", str(file), *more, code=exit_code)["errors"]
    assert error["code"] == code
    tools = program.home / "tools"
    assert not tools.exists() or [one for one in tools.rglob("*") if one.is_file()] == []
    return dict(error)


def test_a_program_with_the_right_sum(holdfast: Program, given: Path) -> None:
    """It is kept by product and version, private, and engines are found there."""
    file = plain(given)
    document = holdfast.json("tools", "add", str(file), "--sha256", sum_of(file).upper())
    kept = holdfast.home / "tools/terraform/1.9.8/terraform"
    assert document == {
        "version": 1,
        "added": True,
        "tool": {
            "product": "terraform",
            "version": "1.9.8",
            "path": str(kept),
            "bytes": file.stat().st_size,
        },
    }
    assert kept.read_bytes() == file.read_bytes()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert list((holdfast.home / "tools").iterdir()) == [holdfast.home / "tools/terraform"]
    holdfast.write("holdfast.yaml", json.dumps({"version": 1, "stacks": [{"name": "a", "module": "a"}]}))
    holdfast.write("a/main.tf", "")
    assert str(kept) in [one["path"] for one in holdfast.json("doctor")["engines"]]


@pytest.mark.parametrize(
    ("product", "archive", "sums"),
    [
        ("terraform", "terraform_1.9.8_linux_amd64.zip", "terraform_1.9.8_SHA256SUMS"),
        ("tofu", "tofu_1.9.8_linux_amd64.zip", "tofu_1.9.8_SHA256SUMS"),
        ("tofu", "tofu_1.9.8_linux_amd64.zip", "SHA256SUMS"),
    ],
)
def test_the_vendors_zip_with_its_sums(
    holdfast: Program, given: Path, product: str, archive: str, sums: str
) -> None:
    """The sum stands in the file beside it; only the program is taken from the archive."""
    file = zipped(given, {"LICENSE.txt": b"words", product: program_of("1.9.8")}, archive)
    (given / sums).write_text(f"{'0' * 64}  other.zip\n{sum_of(file)}  {archive}\n")
    said = holdfast.ok("tools", "add", str(file)).out
    assert f"{product} 1.9.8: added" in said
    kept = holdfast.home / f"tools/{product}/1.9.8"
    assert [one.name for one in kept.iterdir()] == [product]


def test_a_wrong_sum_is_refused_before_anything_is_started(
    holdfast: Program, given: Path, tmp_path: Path
) -> None:
    """What is not what it should be is never run, not even to ask for its version."""
    mark = tmp_path / "user/mark"
    file = plain(given, mark=mark)
    refused(holdfast, file, "HF-TOOL-2", "--sha256", "0" * 64)
    (given / "SHA256SUMS").write_text(f"{'1' * 64}  terraform\n")
    refused(holdfast, file, "HF-TOOL-2")
    assert not mark.exists()
    holdfast.ok("tools", "add", str(file), "--sha256", sum_of(file))
    assert mark.exists()


def test_without_a_sum_it_is_refused(holdfast: Program, given: Path, tmp_path: Path) -> None:
    """Neither given nor beside it, or a file of sums that does not name it."""
    mark = tmp_path / "user/mark"
    file = plain(given, mark=mark)
    assert "--sha256" in refused(holdfast, file, "HF-TOOL-1")["hint"]
    (given / "SHA256SUMS").write_text(f"{sum_of(file)}  terraform2\n{sum_of(file)} my terraform\n")
    refused(holdfast, file, "HF-TOOL-1")
    assert not mark.exists()
    refused(holdfast, given / "missing", "HF-TOOL-9", exit_code=64)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"#!/bin/sh\necho hello\n", "HF-TOOL-3"),
        (b"\x7fELF not really", "HF-TOOL-3"),
        (b"", "HF-TOOL-3"),
        (program_of("1.4.9"), "HF-TOOL-7"),
        (program_of("1.9/../../x"), "HF-TOOL-3"),
    ],
    ids=["another program", "damaged", "empty", "too old", "a version that is a path"],
)
def test_what_is_no_terraform_is_refused(holdfast: Program, given: Path, content: bytes, code: str) -> None:
    """Verified, and still not a program that can run a stack."""
    file = given / "terraform"
    file.write_bytes(content)
    refused(holdfast, file, code, "--sha256", sum_of(file))


@pytest.mark.parametrize(
    "members",
    [
        {"../terraform": b"x"},
        {"bin/terraform": b"x", "terraform": b"x"},
        {"terraform": b"x", "tofu": b"x"},
        {"README": b"x"},
    ],
    ids=["a way out", "folders", "two programs", "no program"],
)
def test_strange_archives_are_refused(holdfast: Program, given: Path, members: dict[str, bytes]) -> None:
    """Nothing is unpacked from an archive that is not as vendors make them."""
    file = zipped(given, members)
    refused(holdfast, file, "HF-TOOL-4", "--sha256", sum_of(file))


def test_a_link_in_an_archive_is_refused(holdfast: Program, given: Path) -> None:
    """A link named terraform is no program."""
    member = zipfile.ZipInfo("terraform")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    file = given / "terraform.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(member, "/bin/sh")
    refused(holdfast, file, "HF-TOOL-4", "--sha256", sum_of(file))


def test_a_damaged_archive_is_refused(holdfast: Program, given: Path) -> None:
    """A zip whose content does not fit its own check sums."""
    file = zipped(given, {"terraform": program_of("1.9.8")})
    file.write_bytes(file.read_bytes().replace(b"#!/bin/sh", b"#!/bin/zz"))
    refused(holdfast, file, "HF-TOOL-4", "--sha256", sum_of(file))


def test_mistakes_on_the_command_line(holdfast: Program, given: Path) -> None:
    """No such file, a name that says nothing, a sum that is none: nothing was run."""
    refused(holdfast, given / "terraform", "HF-TOOL-9", "--sha256", "0" * 64, exit_code=64)
    file = plain(given, name="program")
    refused(holdfast, file, "HF-TOOL-9", "--sha256", sum_of(file), exit_code=64)
    refused(holdfast, file, "HF-TOOL-8", "--sha256", "abc", exit_code=64)


def test_the_same_again_and_another(holdfast: Program, given: Path) -> None:
    """Adding it twice is fine; another content under the same version is refused, and the first stays."""
    file = plain(given)
    holdfast.ok("tools", "add", str(file), "--sha256", sum_of(file))
    assert holdfast.json("tools", "add", str(file), "--sha256", sum_of(file))["added"] is False
    kept = holdfast.home / "tools/terraform/1.9.8/terraform"
    before = kept.read_bytes()
    file.write_bytes(file.read_bytes() + b"# changed\n")
    (error,) = holdfast.json("tools", "add", str(file), "--sha256", sum_of(file), code=3)["errors"]
    assert error["code"] == "HF-TOOL-5"
    assert kept.read_bytes() == before


@pytest.mark.long
def test_list_and_remove(holdfast: Program, given: Path) -> None:
    """Versions stand side by side, the newest first; one is taken away and the others stay."""
    assert holdfast.json("tools", "list") == {"version": 1, "tools": []}
    for name, version in (("terraform", "1.9.8"), ("terraform", "1.10.2"), ("tofu", "1.8.0")):
        file = plain(given, version, name)
        holdfast.ok("tools", "add", str(file), "--sha256", sum_of(file))
    found = [(one["product"], one["version"]) for one in holdfast.json("tools", "list")["tools"]]
    assert found == [("terraform", "1.10.2"), ("terraform", "1.9.8"), ("tofu", "1.8.0")]
    assert "removed" in holdfast.ok("tools", "remove", "terraform", "1.9.8").out
    shown = holdfast.ok("tools", "list").out
    assert "terraform 1.10.2" in shown
    assert "1.9.8" not in shown
    for words in (("terraform", "1.9.8"), ("terraform", ".."), ("../tools/tofu", "1.8.0")):
        (error,) = holdfast.json("tools", "remove", *words, code=64)["errors"]
        assert error["code"] == "HF-TOOL-6"
    assert len(holdfast.json("tools", "list")["tools"]) == 2


@pytest.mark.binary
def test_each_stack_runs_with_its_own_version(
    holdfast: Program, given: Path, tmp_path: Path, terraform_folder: Path
) -> None:
    """Two versions side by side, each stack pinned to one: each is run by its own."""
    real = (terraform_folder / "terraform").resolve()
    mark = tmp_path / "user/mark"
    other = plain(given, "1.10.7", mark=mark)
    versions = []
    for file in (real, other):
        document = holdfast.json("tools", "add", str(file), "--sha256", sum_of(file))
        versions.append(document["tool"]["version"])
    entries = [
        {"name": name, "module": "module", "engine": {"use": "binary", "version": f"= {version}"}}
        for name, version in zip(("a", "b"), versions, strict=True)
    ]
    holdfast.write("holdfast.yaml", json.dumps({"version": 1, "stacks": entries}))
    holdfast.write("module/main.tf", 'resource "terraform_data" "it" {\n  input = 1\n}\n')
    mark.unlink()
    results = holdfast.results("plan")
    assert {name: one["status"] for name, one in results.items()} == {"a": "planned", "b": "planned"}
    assert [results[name]["engine"]["version"] for name in ("a", "b")] == versions
    assert mark.exists()
    mark.unlink()
    holdfast.ok("plan", "a")
    assert not mark.exists()
