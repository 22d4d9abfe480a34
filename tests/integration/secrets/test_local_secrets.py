from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import UsageError
from holdfast.secrets.reader import SecretReader
from holdfast.secrets.sources.interface import MAX_BYTES
from holdfast.system.environment import Environment

EMPTY = Environment(variables={})


def value(text: str, root: Path, environment: Environment = EMPTY) -> str:
    scheme, _, locator = text.partition(":")
    return SecretReader(environment, root).read(SecretRef(scheme=scheme, locator=locator)).reveal()


def mistake(text: str, root: Path, environment: Environment = EMPTY) -> str:
    with pytest.raises(UsageError) as caught:
        value(text, root, environment)
    assert caught.value.problem.hint
    assert "hunter2" not in str(caught.value)
    return caught.value.problem.code


def test_a_variable_of_the_environment(tmp_path: Path) -> None:
    """`env:` is the caller's variable; unset and empty are the same mistake."""
    environment = Environment(variables={"TOKEN": "hunter2", "NOTHING": ""})
    assert value("env:TOKEN", tmp_path, environment) == "hunter2"
    assert mistake("env:NOTHING", tmp_path, environment) == "HF-SEC-2"
    assert mistake("env:UNSET", tmp_path, environment) == "HF-SEC-2"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"hunter2", "hunter2"),
        (b"hunter2\n", "hunter2"),
        (b"hunter2\r\n", "hunter2"),
        (b"two\nlines\n\n", "two\nlines\n"),
        (b" kept ", " kept "),
        ("pässwort".encode(), "pässwort"),
    ],
)
def test_a_file_without_its_last_line_break(tmp_path: Path, content: bytes, expected: str) -> None:
    """`file:` is the content; one line break at the end belongs to the editor, the rest to the secret."""
    (tmp_path / "secret").write_bytes(content)
    assert value("file:secret", tmp_path) == expected
    assert value(f"file:{tmp_path}/secret", Path("/nowhere")) == expected


def test_a_file_that_gives_no_secret_is_a_mistake(tmp_path: Path) -> None:
    """Missing, empty, too large, not text, a folder: each has its code and its hint."""
    (tmp_path / "empty").write_bytes(b"\n")
    (tmp_path / "large").write_bytes(b"x" * (MAX_BYTES + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "folder").mkdir()
    assert mistake("file:absent", tmp_path) == "HF-SEC-3"
    assert mistake("file:folder", tmp_path) == "HF-SEC-4"
    assert mistake("file:a\0b", tmp_path) == "HF-SEC-4"
    assert mistake("file:empty", tmp_path) == "HF-SEC-5"
    assert mistake("file:large", tmp_path) == "HF-SEC-6"
    assert mistake("file:binary", tmp_path) == "HF-SEC-6"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("TOKEN=hunter2", "hunter2"),
        ("export TOKEN = hunter2 # why", "hunter2"),
        ("TOKEN='single # kept \\n'  # gone", "single # kept \\n"),
        ('TOKEN="a \\"b\\" \\n c"', 'a "b" \n c'),
        ("TOKEN=with#hash", "with#hash"),
        ("TOKEN=a=b=c", "a=b=c"),
        ("TOKEN=old\nTOKEN=new", "new"),
        ("# TOKEN=commented\nTOKEN=real", "real"),
        ("TOKEN=$HOME", "$HOME"),
    ],
)
def test_a_line_of_a_dotenv_file(tmp_path: Path, line: str, expected: str) -> None:
    """Quotes, comments and `export` are understood, and nothing is expanded."""
    (tmp_path / ".env").write_text(f"OTHER=x\n{line}\nLAST=y\n")
    assert value("dotenv:.env#TOKEN", tmp_path) == expected


@pytest.mark.parametrize("line", ["", "TOKEN=", 'TOKEN="hunter2', "TOKEN='hunter2\"", "#TOKEN=hunter2"])
def test_a_dotenv_file_without_the_name_is_a_mistake(tmp_path: Path, line: str) -> None:
    """No line, no value, an open quote: no half of a secret is ever used."""
    (tmp_path / ".env").write_text(f"{line}\n")
    assert mistake("dotenv:.env#TOKEN", tmp_path) == "HF-SEC-8"


def test_a_dotenv_reference_names_file_and_variable(tmp_path: Path) -> None:
    """Without either there is nothing to look for."""
    assert mistake("dotenv:.env", tmp_path) == "HF-SEC-7"
    assert mistake("dotenv:#NAME", tmp_path) == "HF-SEC-7"
    assert mistake("dotenv:.env#", tmp_path) == "HF-SEC-7"
    assert mistake("dotenv:absent#NAME", tmp_path) == "HF-SEC-3"


@pytest.mark.parametrize("scheme", ["aws-sm", "aws-ssm", "azure-kv", "vault"])
def test_a_source_behind_a_network_needs_a_whole_reference(tmp_path: Path, scheme: str) -> None:
    """What a placeholder made of a reference is looked at before anybody is asked."""
    assert mistake(f"{scheme}:what can this be?", tmp_path) == "HF-SEC-9"


def test_an_unknown_scheme_is_an_error(tmp_path: Path) -> None:
    """An unknown scheme is an error that lists the known ones."""
    assert mistake("gcp:somewhere", tmp_path) == "HF-SEC-1"


@pytest.mark.parametrize("text", ["env:HOLDFAST_KEY", "env:HOLDFAST_TOKEN"])
def test_variables_of_holdfast_are_not_for_stacks(tmp_path: Path, text: str) -> None:
    """Placeholders can hide the name from the check of the configuration."""
    environment = Environment(variables={"HOLDFAST_KEY": "hunter2", "HOLDFAST_TOKEN": "hunter2"})
    assert mistake(text, tmp_path, environment) == "HF-SEC-20"


def test_no_reference_leads_to_a_key_or_a_process(tmp_path: Path) -> None:
    """By whatever name: /proc, dots, symbolic and hard links, and another way through /proc/self/root."""
    home = tmp_path / "home"
    home.mkdir()
    named = tmp_path / "named"
    for file in (home / "key", home / "token", named):
        file.write_text("hunter2")
    environment = Environment(variables={"HOLDFAST_HOME": str(home), "HOLDFAST_KEY_FILE": str(named)})
    (tmp_path / "link").symlink_to(home / "key")
    (tmp_path / "folder").symlink_to(home)
    (tmp_path / "process").symlink_to("/proc/self")
    (tmp_path / "hard").hardlink_to(named)
    up = "../" * 40
    for path in (
        "home/key", "home/token", "named", "link", "folder/key", "hard", "home/../named", f"{home}/key",
        "/proc/self/environ", f"{up}proc/self/environ", "//proc/1/environ", "/proc/../proc/self/status",
        "process/status", f"/proc/self/root{home}/key", "/dev/../proc/version",
    ):  # fmt: skip
        assert mistake(f"file:{path}", tmp_path, environment) == "HF-SEC-20", path
        assert mistake(f"dotenv:{path}#KEY", tmp_path, environment) == "HF-SEC-20", path
    (tmp_path / "own").write_text("fine")
    assert value("file:own", tmp_path, environment) == "fine"
