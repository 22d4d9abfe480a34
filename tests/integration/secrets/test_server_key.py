"""The key of a server in a file that AWS KMS or an age identity opens."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from pathlib import Path

import pyrage
import pytest
from answering import Answering
from kms_server import ARN, OTHER_ARN, MadeKms, kms_variables

from holdfast.kernel.errors import HoldfastError
from holdfast.secrets.keys import Key, create_key_file
from holdfast.secrets.server_key import (
    load_older_keys,
    load_server_key,
    server_rotation_keys,
    write_server_key,
)
from holdfast.system.environment import Environment

SECRET = bytes(range(32))
TEXT = base64.b64encode(SECRET)


@pytest.fixture
def kms() -> MadeKms:
    return MadeKms()


@pytest.fixture
def cloud(kms: MadeKms) -> Iterator[Answering]:
    with Answering(kms.answer) as server:
        yield server


def environment(variables: dict[str, str | None], **more: str | None) -> Environment:
    given = {name: value for name, value in {**variables, **more}.items() if value is not None}
    return Environment(variables=given)


def identity_file(folder: Path, *, mode: int = 0o600) -> tuple[Path, str]:
    identity = pyrage.x25519.Identity.generate()
    file = folder / f"{str(identity.to_public())[-6:]}.txt"
    file.write_text(f"# created: today\n{identity}\n")
    file.chmod(mode)
    return file, str(identity.to_public())


def error_of(env: Environment, data: Path) -> tuple[str, str]:
    with pytest.raises(HoldfastError) as caught:
        load_server_key(env, data)
    problem = caught.value.problem
    assert problem.hint
    assert "hunter2" not in f"{problem.message}{problem.hint}"
    return problem.code, problem.message


def test_kms_opens_the_key_only_for_its_own_id(tmp_path: Path, cloud: Answering, kms: MadeKms) -> None:
    """The file holds no key; every request is signed and bound to the id of the key."""
    env = environment(kms_variables(cloud))
    file = write_server_key(env, tmp_path, SECRET)
    assert file.stat().st_mode & 0o777 == 0o600
    assert TEXT not in file.read_bytes()
    loaded = load_server_key(env, tmp_path)
    assert loaded is not None
    assert (loaded.secret, loaded.source) == (SECRET, f"{file} (KMS key {ARN})")
    assert loaded.wrapped == file.read_text()
    assert "AAEC" not in repr(loaded)
    assert kms.contexts == [{"holdfast-key": loaded.key.id}] * 2

    # Another id, as in the data folder of another server.
    original = file.read_text()
    file.write_text(original.replace(loaded.key.id, "0" * 16))
    assert error_of(env, tmp_path)[0] == "HF-KEY-23"
    file.write_text(original.rpartition(" ")[0])
    assert "changed or cut" in error_of(env, tmp_path)[1]


def test_what_kms_refuses_is_said_with_what_to_do(tmp_path: Path, cloud: Answering, kms: MadeKms) -> None:
    env = environment(kms_variables(cloud))
    write_server_key(env, tmp_path, SECRET)
    other = environment(kms_variables(cloud, OTHER_ARN))
    assert error_of(other, tmp_path)[0] == "HF-KEY-23"
    assert "IncorrectKeyException" in error_of(other, tmp_path)[1]
    kms.denied = True
    code, message = error_of(env, tmp_path)
    assert (code, "kms:Decrypt" in message) == ("HF-KEY-22", True)
    kms.denied = False
    without = environment(kms_variables(cloud), AWS_ACCESS_KEY_ID=None)
    assert error_of(without, tmp_path)[0] == "HF-KEY-22"
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert error_of(environment(kms_variables(cloud), AWS_ENDPOINT_URL_KMS=nowhere), tmp_path)[0] == (
            "HF-KEY-24"
        )
    for wrong in ("awskms:alias/holdfast", "awskms:"):
        assert error_of(environment({}, HOLDFAST_KEY=wrong), tmp_path)[0] == "HF-KEY-21"
    assert error_of(environment({}), tmp_path) == (
        "HF-KEY-21",
        f"the key file {tmp_path / 'key'} is encrypted by KMS key {ARN}",
    )


def test_each_age_recipient_opens_the_key(tmp_path: Path) -> None:
    """The identities in the file, and recipients whose identities are elsewhere."""
    (own, _), (safe, recipient) = identity_file(tmp_path), identity_file(tmp_path)
    data = tmp_path / "data"
    env = environment({}, HOLDFAST_KEY=f"age:{own},{recipient}")
    file = write_server_key(env, data, SECRET)
    assert TEXT not in file.read_bytes()
    moved = environment({}, HOLDFAST_KEY=base64.b64encode(bytes(32)).decode(), HOLDFAST_OLD_KEY=f"age:{own}")
    assert [key.id for key in load_older_keys(moved, data)] == [Key.of(SECRET).id]
    for identities in (own, safe):
        loaded = load_server_key(environment({}, HOLDFAST_KEY=f"age:{identities}"), data)
        assert loaded is not None
        assert loaded.secret == SECRET

    stranger, _ = identity_file(tmp_path)
    assert error_of(environment({}, HOLDFAST_KEY=f"age:{stranger}"), data)[0] == "HF-KEY-23"
    stranger.write_text("AGE-SECRET-KEY-1\n")
    assert error_of(environment({}, HOLDFAST_KEY=f"age:{stranger}"), data)[0] == "HF-KEY-23"
    readable, _ = identity_file(tmp_path, mode=0o644)
    assert error_of(environment({}, HOLDFAST_KEY=f"age:{readable}"), data)[0] == "HF-KEY-4"
    assert error_of(environment({}, HOLDFAST_KEY=f"age:{tmp_path}/none"), data)[0] == "HF-KEY-3"
    assert error_of(environment({}), data)[0] == "HF-KEY-21"
    with pytest.raises(HoldfastError, match="HF-DB-16"):
        write_server_key(environment({}, HOLDFAST_KEY=f"age:{own},age1wrong"), tmp_path / "other", SECRET)
    assert not (tmp_path / "other").exists()


@pytest.mark.long
def test_a_rotation_replaces_the_file_and_keeps_the_old_one_encrypted(
    tmp_path: Path, cloud: Answering
) -> None:
    """From a plain file to KMS, on to another key of KMS, and to age; the older key stays readable."""
    create_key_file(tmp_path / "key")
    moves: list[dict[str, str | None]] = [
        {"HOLDFAST_KEY": None, "HOLDFAST_NEW_KEY": f"awskms:{ARN}"},
        {"HOLDFAST_KEY": f"awskms:{ARN}", "HOLDFAST_NEW_KEY": f"awskms:{OTHER_ARN}"},
        {
            "HOLDFAST_KEY": f"awskms:{OTHER_ARN}",
            "HOLDFAST_NEW_KEY": f"age:{identity_file(tmp_path)[0]}",
        },
    ]
    for move in moves:
        env = environment({**kms_variables(cloud), **move})
        before = load_server_key(env, tmp_path)
        assert before is not None
        keys = server_rotation_keys(env, tmp_path, before.key.id)
        kept = keys.replace_file()
        assert kept == tmp_path / f"key.{before.key.id}"
        after_env = environment(
            {**kms_variables(cloud), "HOLDFAST_OLD_KEY": move["HOLDFAST_KEY"]},
            HOLDFAST_KEY=move.get("HOLDFAST_NEW_KEY") or move["HOLDFAST_KEY"],
        )
        after = load_server_key(after_env, tmp_path)
        assert after is not None
        assert after.key.id == keys.new.id != before.key.id
        assert after.wrapped is not None
        # Again before the server was restarted: the same two keys, and no third one.
        again = server_rotation_keys(after_env, tmp_path, before.key.id)
        assert (again.old.id, again.new.id, again.home) == (keys.old.id, keys.new.id, None)
        assert before.key.id in {key.id for key in load_older_keys(after_env, tmp_path)}


def test_an_unencrypted_file_is_not_taken_for_an_encrypted_one(tmp_path: Path, cloud: Answering) -> None:
    create_key_file(tmp_path / "key")
    code, message = error_of(environment(kms_variables(cloud)), tmp_path)
    assert (code, "is not encrypted" in message) == ("HF-KEY-21", True)
