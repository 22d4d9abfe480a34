"""holdfast.yaml on disk, and the files that are made from its description."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import config_documents as documents
from holdfast.config.declarations import walk
from holdfast.config.read import find, load
from holdfast.config.settings import Config
from holdfast.config.yaml import MAX_BYTES
from holdfast.kernel.errors import ConfigError, Exit, UsageError

ROOT = Path(__file__).parents[3]


def run_generate(arguments: list[str], root: Path) -> Any:
    tool = runpy.run_path(str(ROOT / "tools" / "generate.py"), run_name="generate")
    return tool["main"](arguments, root)


def test_the_file_is_found_from_any_folder_below(tmp_path: Path) -> None:
    """The nearest one above counts."""
    (tmp_path / "holdfast.yaml").write_text("version: 1\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find(below) == tmp_path / "holdfast.yaml"
    (tmp_path / "a" / "holdfast.yaml").write_text("version: 1\n")
    assert find(below) == tmp_path / "a" / "holdfast.yaml"


def test_without_a_file_the_way_to_one_is_shown(tmp_path: Path) -> None:
    """No configuration: exit 64, and `holdfast init`."""
    with pytest.raises(UsageError) as caught:
        find(tmp_path)
    assert (caught.value.problem.code, caught.value.exit) == ("HF-CONF-1", Exit.USAGE)
    assert "holdfast init" in (caught.value.problem.hint or "")


def test_a_file_with_the_other_ending_is_seen(tmp_path: Path) -> None:
    """`holdfast.yml` is not read, but not overlooked either."""
    (tmp_path / "holdfast.yml").write_text("version: 1\n")
    with pytest.raises(UsageError) as caught:
        find(tmp_path)
    assert "Rename" in (caught.value.problem.hint or "")


def test_the_root_is_the_folder_of_the_file(tmp_path: Path) -> None:
    """Paths in the file are relative to its folder."""
    (tmp_path / "holdfast.yaml").write_text("version: 1\ncompany: acme\n")
    config = load(tmp_path / "holdfast.yaml")
    assert (config.root, config.file, config.company) == (tmp_path, tmp_path / "holdfast.yaml", "acme")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"version: 1\ncompany: \xff\n", "HF-CONF-22"),
        (b"# " + b"x" * MAX_BYTES + b"\n", "HF-CONF-11"),
        (b"# " + "é".encode() * MAX_BYTES, "HF-CONF-11"),
        (b"\x00\x01\x02", "HF-CONF-3"),
    ],
)
def test_a_file_that_is_no_text(tmp_path: Path, content: bytes, code: str) -> None:
    """Any bytes at all give a code, never a traceback."""
    file = tmp_path / "holdfast.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert [one.code for one in caught.value.problems] == [code]


@pytest.mark.parametrize("make", [Path.mkdir, lambda _path: None])
def test_a_file_that_cannot_be_read(tmp_path: Path, make: object) -> None:
    """A folder of that name, or nothing: exit 64."""
    file = tmp_path / "holdfast.yaml"
    assert callable(make)
    make(file)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert (caught.value.problem.code, caught.value.exit) == ("HF-CONF-2", Exit.USAGE)


def test_the_committed_schema_is_what_the_code_generates() -> None:
    """`make docs` would change nothing."""
    assert (ROOT / "docs" / "holdfast.schema.json").read_text() == documents.schema()


def test_the_committed_page_is_what_the_code_generates() -> None:
    """`make docs` would change nothing."""
    assert (ROOT / "docs" / "configuration-keys.md").read_text() == documents.keys_page()


def test_every_key_is_on_the_page_once() -> None:
    """A key that users can write is documented, and one that is repeated elsewhere is not repeated here."""
    page = (ROOT / "docs" / "configuration-keys.md").read_text()
    listed = {path for path, _ in documents.keys_once()}
    assert [path for path in listed if page.count(f"| `{path}` |") != 1] == []
    assert {key.doc for _, key in walk(Config)} == {key.doc for _, key in documents.keys_once()}


def test_the_example_of_the_page_is_valid(tmp_path: Path) -> None:
    """What a reader copies works."""
    page = (ROOT / "docs" / "configuration.md").read_text()
    example = page.split("## A whole example")[1].split("```yaml\n")[1].split("```")[0]
    (tmp_path / "holdfast.yaml").write_text(example)
    assert len(load(tmp_path / "holdfast.yaml").stacks) == 3


def test_stale_files_are_named_and_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--check writes nothing and exits 1; without it the file is made, and then nothing is stale."""
    assert run_generate(["--check"], tmp_path) == 1
    assert "docs/holdfast.schema.json" in capsys.readouterr().err
    assert not (tmp_path / "docs").exists()
    assert run_generate([], tmp_path) == 0
    assert run_generate(["--check"], tmp_path) == 0
