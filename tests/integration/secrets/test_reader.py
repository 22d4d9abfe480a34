from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from vault_server import VaultWorld, vault_server

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import Failed, UsageError
from holdfast.secrets.reader import SecretReader
from holdfast.secrets.sources.interface import ReadSecret, Timeouts
from holdfast.system.environment import Environment

QUICK = Timeouts(request=2.0, total=4.0, tries=1, pause=0.01)
TOKEN = SecretRef(scheme="vault", locator="kv/app#token")
ABSENT = SecretRef(scheme="vault", locator="kv/absent#token")


def test_each_secret_is_read_once(tmp_path: Path) -> None:
    """However many stacks ask at once, the source is asked once for each secret, found or not."""
    world = VaultWorld(secrets={"kv/app": [{"token": "hunter2"}]}, tokens={"t": ("kv/",)})
    with vault_server(world) as server:
        environment = Environment(variables={"VAULT_ADDR": server.url, "VAULT_TOKEN": "t"})
        reader = SecretReader(environment, tmp_path, timeouts=QUICK)
        together = threading.Barrier(8)

        def ask(number: int) -> object:
            together.wait(10)
            try:
                return reader.read(TOKEN if number % 2 else ABSENT).reveal()
            except Failed as error:
                return error

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, range(8)))
        assert answers[1::2] == ["hunter2"] * 4
        errors = [one for one in answers[::2] if isinstance(one, Failed)]
        assert {error.problem.code for error in errors} == {"HF-SEC-10"}
        assert len({id(error) for error in errors}) == 4
        paths = [asked.path for asked in server.asked]
        assert paths.count("/v1/kv/data/app") == 1
        assert paths.count("/v1/kv/data/absent") == 1


def test_secrets_on_this_machine(tmp_path: Path) -> None:
    """A change uses one value from start to end, even if the file changes meanwhile."""
    file = tmp_path / "secret"
    file.write_text("hunter2")
    ref, unset = SecretRef(scheme="file", locator="secret"), SecretRef(scheme="env", locator="UNSET")
    reader = SecretReader(Environment(variables={}), tmp_path)
    assert reader.read(ref).reveal() == "hunter2"
    file.write_text("another")
    found = reader.read_all([ref, unset])[ref]
    assert isinstance(found, ReadSecret)
    assert (found.secret.reveal(), found.by) == ("hunter2", "this user")
    assert "hunter2" not in repr(found)
    with pytest.raises(UsageError, match="HF-SEC-2"):
        reader.read(unset)
