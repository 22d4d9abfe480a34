"""Two repositories share a store, or one gets another store: no state is taken for another."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest
from program import Program
from server_made import MadeServer, made_server

from holdfast.database.database import Database
from holdfast.identity.roles import Role


@pytest.fixture
def server(database: Database) -> Iterator[MadeServer]:
    with made_server(database) as made:
        yield made


def repository(program: Program, store: str | None, *, resource: str = "it", stack: str = "app/dev") -> None:
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "stacks": [{"name": stack, "module": "a", "environment": "dev"}],
        "engine": {"use": "embedded"},
        **({"store": store} if store else {}),
    }
    program.write("holdfast.yaml", json.dumps(document))
    program.write("a/main.tf", f'resource "terraform_data" "{resource}" {{\n  input = "1"\n}}\n')


def test_a_state_is_not_changed_from_another_repository(holdfast: Program) -> None:
    store = str(holdfast.folder.parent / "shared")
    repository(holdfast, store)
    holdfast.git("init", "--quiet")
    holdfast.git("remote", "add", "origin", "https://x:secret@github.com/ours/first.git")
    holdfast.ok("apply", "--yes")

    other = Program(
        holdfast.folder.parent / "other",
        home=holdfast.home,
        path=holdfast.environment["PATH"],
        user_home=holdfast.folder.parent,
    )
    other.environment = holdfast.environment
    repository(other, store, resource="another")
    other.git("init", "--quiet")
    other.git("remote", "add", "origin", "git@github.com:ours/second.git")
    refused = other.ok("plan", "--out", "bundle", code=3)
    assert "HF-GUARD-23" in refused.text
    assert "its state was last applied from github.com/ours/first" in refused.text
    assert "one tenant of the server, or one run store, per repository" in " ".join(refused.text.split())
    assert other.results("apply", "--yes", code=3)["app/dev"]["status"] == "refused"

    # Another name is another stack, and not the old one under a new name.
    repository(other, store, stack="web/dev")
    assert other.results("plan")["web/dev"]["status"] == "planned"
    assert "HF-STATE-13" in other.ok("state", "rename", "app/dev", "web/dev", code=3).err

    # The same repository by another address that clones of it have, and one that moved.
    holdfast.git("remote", "set-url", "origin", "git@github.com-work:ours/first")
    assert holdfast.results("plan")["app/dev"]["status"] == "unchanged"
    repository(holdfast, store, resource="renamed")
    assert holdfast.results("plan")["app/dev"]["status"] == "planned"
    holdfast.git("remote", "set-url", "origin", "https://git.example.com/ours/moved")
    denied = holdfast.results("plan", "--out", "bundle", code=3)["app/dev"]
    digest = denied["digest"]
    holdfast.ok("apply", "--plan", "bundle", "--override", digest, "--reason", "the repository moved")
    assert holdfast.results("plan")["app/dev"]["status"] == "unchanged"
    repository(holdfast, store)
    assert holdfast.results("plan")["app/dev"]["status"] == "planned"


def test_a_store_on_a_server_takes_over_the_states_of_the_default_store(
    holdfast: Program, server: MadeServer
) -> None:
    repository(holdfast, None)
    holdfast.ok("apply", "--yes")
    repository(holdfast, server.url)
    login = {"HOLDFAST_TOKEN": server.token(Role.ADMIN), "HOLDFAST_URL": server.url}
    refused = holdfast.ok("plan", env=login, code=3)
    assert "HF-STATE-1" in refused.text
    move = "holdfast state import .holdfast --state app/dev"
    assert move in " ".join(refused.text.split())
    missing = holdfast.ok("state", "import", ".holdfast", "--state", "no", env=login, code=64).err
    assert "It has: app/dev" in missing
    assert "imported and verified 1 version" in holdfast.ok(*move.split()[1:], env=login).out
    assert holdfast.results("plan", env=login)["app/dev"]["status"] == "unchanged"
    shutil.rmtree(holdfast.folder / ".holdfast")
    assert holdfast.results("plan", env=login)["app/dev"]["status"] == "unchanged"
    assert (
        "there is no file"
        in holdfast.ok("state", "import", "no.tfstate", "--state", "x", env=login, code=64).err
    )
