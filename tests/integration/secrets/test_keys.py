from __future__ import annotations

import base64
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.kernel.errors import Failed, UsageError
from holdfast.secrets.keys import Key, is_key_configured, load_or_create_key
from holdfast.system.environment import Environment

GIVEN = base64.b64encode(bytes(range(32))).decode()


def environment(home: Path, **more: str) -> Environment:
    return Environment(variables={"HOLDFAST_HOME": str(home), **more})


def test_the_variable_wins_and_nothing_is_written(tmp_path: Path) -> None:
    """A configured key leaves no key file behind."""
    found = load_or_create_key(environment(tmp_path / "home", HOLDFAST_KEY=GIVEN))
    assert found.key == Key.of(bytes(range(32)))
    assert (found.created, found.file) == (False, None)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    "text", ["short", "!" * 44, base64.b64encode(b"x" * 31).decode(), GIVEN + GIVEN, "é" * 40]
)
def test_a_wrong_variable_is_a_mistake_and_not_shown(tmp_path: Path, text: str) -> None:
    """A key of the wrong length or encoding is refused without printing it."""
    with pytest.raises(UsageError) as caught:
        load_or_create_key(environment(tmp_path, HOLDFAST_KEY=text))
    assert caught.value.problem.code == "HF-KEY-1"
    assert caught.value.problem.hint
    assert text not in f"{caught.value} {caught.value.problem.hint}"


def test_a_named_file_is_a_configured_key(tmp_path: Path) -> None:
    """It is read where it lies, nothing is made, and it counts as given; the variable itself goes first."""
    file = tmp_path / "key-of-ours"
    file.write_text(GIVEN)
    file.chmod(0o600)
    named = environment(tmp_path / "home", HOLDFAST_KEY_FILE=str(file))
    found = load_or_create_key(named)
    assert found.key == Key.of(bytes(range(32)))
    assert (found.created, found.file) == (False, file)
    assert not (tmp_path / "home").exists()
    other = base64.b64encode(bytes(32)).decode()
    both = environment(tmp_path / "home", HOLDFAST_KEY_FILE=str(file), HOLDFAST_KEY=other)
    assert load_or_create_key(both).key == Key.of(bytes(32))
    assert is_key_configured(named)
    assert is_key_configured(both)


def test_a_named_file_is_never_made_nor_guessed_around(tmp_path: Path) -> None:
    """One that is missing, or open to others, is a mistake: the key in the home does not step in."""
    load_or_create_key(environment(tmp_path))
    file = tmp_path / "key-of-ours"
    named = environment(tmp_path, HOLDFAST_KEY_FILE=str(file))
    with pytest.raises(UsageError) as missing:
        load_or_create_key(named)
    assert missing.value.problem.code == "HF-KEY-3"
    assert not file.exists()
    file.write_text(GIVEN)
    file.chmod(0o640)
    with pytest.raises(UsageError) as shared:
        load_or_create_key(named)
    assert shared.value.problem.code == "HF-KEY-4"
    assert not is_key_configured(environment(tmp_path))


def test_a_key_is_made_once_and_found_again(tmp_path: Path) -> None:
    """The first use makes a private file and says so; the second finds the same key."""
    first = load_or_create_key(environment(tmp_path / "deep" / "home"))
    assert first.created
    assert first.file is not None
    assert stat.S_IMODE(first.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(first.file.parent.stat().st_mode) == 0o700
    second = load_or_create_key(environment(tmp_path / "deep" / "home"))
    assert not second.created
    assert second.key.read == first.key.read


def test_many_at_once_agree_on_one_key(tmp_path: Path) -> None:
    """Of several first uses at the same time exactly one makes the key, and all get it."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: load_or_create_key(environment(tmp_path / "home")), range(16)))
    assert sum(each.created for each in found) == 1
    assert len({each.key.read for each in found}) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o610])
def test_a_key_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    """A key that other users may read is refused; the hint says what to do."""
    file = load_or_create_key(environment(tmp_path)).file
    assert file is not None
    file.chmod(mode)
    with pytest.raises(UsageError) as caught:
        load_or_create_key(environment(tmp_path))
    assert caught.value.problem.code == "HF-KEY-4"
    assert "chmod 600" in (caught.value.problem.hint or "")


@pytest.mark.parametrize("content", [b"", b"\n", b"abc", b"\xff" * 32, base64.b64encode(b"x" * 16)])
def test_a_damaged_key_file_is_kept_and_refused(tmp_path: Path, content: bytes) -> None:
    """A key file is never replaced: that would lose everything it encrypted."""
    file = tmp_path / "key"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(UsageError) as caught:
        load_or_create_key(environment(tmp_path))
    assert caught.value.problem.code == "HF-KEY-5"
    assert file.read_bytes() == content


def test_a_folder_in_the_place_of_the_key_is_a_mistake(tmp_path: Path) -> None:
    """What is not a file gives an error with a hint."""
    (tmp_path / "key").mkdir()
    with pytest.raises(UsageError) as caught:
        load_or_create_key(environment(tmp_path))
    assert caught.value.problem.code == "HF-KEY-3"


def test_a_home_that_cannot_be_made_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    """Where no key file can be written, the user is told about the variable."""
    (tmp_path / "file").write_text("")
    with pytest.raises((Failed, UsageError)) as caught:
        load_or_create_key(environment(tmp_path / "file" / "home"))
    assert caught.value.problem.code in {"HF-KEY-2", "HF-KEY-3"}
    assert "HOLDFAST_KEY" in (caught.value.problem.hint or "")


def test_the_id_names_the_key_and_does_not_tell_it() -> None:
    """The id is the same for the same key, differs for others, and nothing printed shows the key."""
    key = Key.of(bytes(range(32)))
    assert key.id == Key.of(bytes(range(32))).id
    assert key.id != Key.of(bytes(32)).id
    assert len(bytes.fromhex(key.id)) == 8
    for secret in (key.read, *(key.private or ())):
        assert secret.hex() not in repr(key)
        assert repr(secret) not in repr(key)
