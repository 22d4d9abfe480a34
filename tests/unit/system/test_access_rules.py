"""Which paths a confined program may use."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.database.place import data_folder
from holdfast.system import access_rules as module
from holdfast.system import http
from holdfast.system.access_rules import AccessRules, access_rules, secret_files
from holdfast.system.addresses import is_local_address
from holdfast.system.confine import ALL_RIGHTS, READ_DIR, READ_ONLY, readable_secrets
from holdfast.system.environment import Environment
from holdfast.system.http import HttpError


def rights(rules: Mapping[str, int], path: str) -> int:
    """As the kernel sees it: all that any rule grants for the path or a folder above it."""
    above = [path, *map(str, Path(path).parents)]
    total = 0
    for folder in above:
        total |= rules.get(folder, 0)
    return total


names = st.sampled_from(["a", "b", "c"])
paths = st.lists(names, min_size=1, max_size=4).map("/".join)


@given(
    tree=st.lists(paths, min_size=1, max_size=12),
    hidden=st.lists(paths, max_size=3),
    fixed=st.lists(paths, max_size=3),
)
def test_what_is_hidden_has_no_rights_and_all_else_has_its_own(
    tree: list[str], hidden: list[str], fixed: list[str]
) -> None:
    """For every tree: nothing below a hidden path can be read, nothing below a read-only one be written."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        for path in tree:
            (root / path).mkdir(parents=True, exist_ok=True)
        hides = [str(root / path) for path in hidden]
        fixes = [str(root / path) for path in fixed]
        rules = dict(module._rules(str(root), hides, fixes, ALL_RIGHTS))
        for folder, _, _ in os.walk(root):
            given_rights = rights(rules, folder)
            inside = [folder, *map(str, Path(folder).parents)]
            if any(path in hides for path in inside):
                assert given_rights & ~READ_DIR == 0
            elif any(path in fixes for path in inside):
                assert given_rights & ~READ_ONLY == 0
            elif not any(
                path.startswith(f"{folder}/") or path == folder for path in (*hides, *fixes)
            ) and folder != str(root):
                assert given_rights == ALL_RIGHTS


def test_a_link_to_a_hidden_folder_grants_nothing(tmp_path: Path) -> None:
    """The rule of a link would be that of its target."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home/key").write_text("k")
    (tmp_path / "link").symlink_to(tmp_path / "home")
    rules = dict(module._rules(str(tmp_path), [str(tmp_path / "home/key")], [], ALL_RIGHTS))
    assert str(tmp_path / "link") not in rules
    assert rights(rules, str(tmp_path / "home/key")) == READ_DIR


@pytest.fixture
def machine(tmp_path: Path) -> Environment:
    for folder in ("user/src/repo/.holdfast", "user/data", "elsewhere/repo/.holdfast"):
        (tmp_path / folder).mkdir(parents=True)
    return Environment(
        variables={"HOME": str(tmp_path / "user"), "HOLDFAST_HOME": str(tmp_path / "user/data")}
    )


def test_key_files_are_hidden_where_they_are_or_may_appear(machine: Environment, tmp_path: Path) -> None:
    """Also the one that Holdfast creates later, and the target of a link."""
    real = tmp_path / "elsewhere/real"
    real.write_text("k")
    (tmp_path / "elsewhere/link").symlink_to(real)
    created = str(tmp_path / "user/data/key")
    assert access_rules(machine).hidden == (created,)
    variables = {**machine.variables, "HOLDFAST_KEY_FILE": str(tmp_path / "elsewhere/link")}
    assert access_rules(Environment(variables=variables)).hidden == (str(real),)
    assert created in secret_files(Environment(variables=variables))
    configured = Environment(variables={**machine.variables, "HOLDFAST_KEY": "k"})
    assert access_rules(configured).hidden == ()


def test_the_store_is_hidden_unless_a_needed_folder_would_be_split(
    machine: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs create files in the home directory and beside a local state; a key comes before that."""
    monkeypatch.setattr(module, "_SHARED", ())
    configured = Environment(variables={**machine.variables, "HOLDFAST_KEY": "k"})
    inside, outside = tmp_path / "user/src/repo/.holdfast", tmp_path / "elsewhere/repo/.holdfast"
    assert access_rules(configured, store=inside).hidden == ()
    assert access_rules(configured, store=outside).hidden == (str(outside),)
    assert access_rules(configured, store=outside, writes=outside.parent).hidden == ()
    assert access_rules(configured, store=outside, writes=outside.parent / "new/states").hidden == ()
    assert access_rules(configured, store=outside, writes=tmp_path / "states").hidden == (str(outside),)
    assert access_rules(configured, store=outside, writes=tmp_path / "user").hidden == (str(outside),)
    # The home directory has to be split for the key anyway.
    assert str(inside) in access_rules(machine, store=inside).hidden


def test_split_folders_are_those_above_what_is_hidden(tmp_path: Path) -> None:
    """Doctor lists them."""
    rules = AccessRules(hidden=(str(tmp_path / "a/b/key"),), read_only=("/proc",))
    assert {str(tmp_path), str(tmp_path / "a")} & set(rules.split_folders()) == {str(tmp_path)}
    (tmp_path / "a/b").mkdir(parents=True)
    assert {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a/b")} <= set(rules.split_folders())


def test_beside_the_key_nothing_that_later_runs_use_can_be_changed(tmp_path: Path) -> None:
    """Old keys are hidden like the current one; engines and records of init can be read only."""
    home = tmp_path / "home"
    (home / "tools").mkdir(parents=True)
    (home / "key").touch()
    (home / "key.0123").touch()
    environment = Environment(variables={"HOLDFAST_HOME": str(home)})
    rules = access_rules(environment)
    assert {str(home / "key"), str(home / "key.0123")} <= set(rules.hidden)
    assert str(home / "tools") in rules.read_only
    (home / "key").unlink()
    with_key = Environment(variables={"HOLDFAST_HOME": str(home), "HOLDFAST_KEY": "x"})
    assert str(home / "tools") not in access_rules(with_key).read_only


def test_in_a_compartment_only_its_own_files_can_be_used(tmp_path: Path) -> None:
    """Other runs, their code, their scratch folders and Terraform's output in memory are hidden."""
    home, scratch = tmp_path / "home", tmp_path / "hf-mine0000"
    own = (home / "compartments/1-0", scratch / "c/1-0")
    others = (
        home / "compartments/1-1",
        home / "work/x",
        home / "workers/1/sources/x",
        home / "repositories/x",
        scratch / "bundle",
        scratch / "c/1-1",
        tmp_path / "hf-other000/plan",
    )
    # Of a user, with a name that looks alike.
    alike = (tmp_path / "hf-venv/bin", tmp_path / "hf-notes000")
    for folder in (*own, *others, *alike, home / "providers"):
        folder.mkdir(parents=True)
    (tmp_path / "hf-other000/holdfast-owner").touch()
    environment = Environment({"HOLDFAST_HOME": str(home), "HOLDFAST_KEY": "k"})
    rules = dict(access_rules(environment, own=own).rules())
    assert {rights(rules, str(folder)) for folder in own} == {ALL_RIGHTS}
    assert {rights(rules, str(folder)) & ~READ_DIR for folder in (*others, Path("/dev/shm"))} == {0}
    assert {rights(rules, str(folder)) for folder in (*alike, home / "providers")} == {ALL_RIGHTS}
    # Nothing is created where others could read it, and other programs see no compartment either.
    assert rights(rules, "/var/tmp") & ~READ_DIR == 0
    outside = dict(access_rules(environment).rules())
    assert rights(outside, str(own[0])) & ~READ_DIR == 0
    assert rights(outside, str(tmp_path / "other")) & ~READ_DIR == 0


def test_only_what_fetches_the_code_of_changes_can_change_it(tmp_path: Path) -> None:
    environment = Environment(variables={"HOLDFAST_HOME": str(tmp_path), "HOLDFAST_KEY": "x"})
    code = {str(tmp_path / name) for name in ("repositories", "workers")}
    assert not code & set(access_rules(environment).read_only)
    for name in code:
        Path(name).mkdir()
    for writes in (None, tmp_path, tmp_path / "workers/1/sources/s"):
        assert code <= set(access_rules(environment, writes=writes).read_only)
    assert not code & set(access_rules(environment, fetches_code=True).read_only)


def test_the_secrets_of_a_server_are_hidden_wherever_it_keeps_them(
    machine: Environment, tmp_path: Path
) -> None:
    configured = Environment(variables={**machine.variables, "HOLDFAST_KEY": "k"})
    data, gone = tmp_path / "elsewhere/data", tmp_path / "elsewhere/gone"
    for folder in (gone, data, data):
        assert data_folder(configured, folder) == folder
    assert access_rules(configured).hidden == ()
    for folder in (data, configured.home / "server"):
        folder.mkdir(parents=True)
        for name in ("key", "key.0123456789abcdef", "admin-token", "postgres.password"):
            (folder / name).write_text("secret")
            assert str(folder / name) in access_rules(configured).hidden
        assert str(folder) in access_rules(configured).hidden
    record = configured.home / "servers.json"
    assert record.stat().st_mode & 0o777 == 0o600
    # Otherwise a plan could remove a folder from it, and the next one read that.
    assert str(record) in access_rules(configured).read_only
    record.write_text("[")
    assert str(data) not in access_rules(configured).hidden


def test_the_names_in_a_folder_are_no_leak(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret")
    assert str(tmp_path) not in readable_secrets([str(tmp_path)])
    assert str(tmp_path / "key") in readable_secrets([str(tmp_path / "key")])


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer x"}, {"authorization": "x"}])
def test_no_token_is_sent_to_the_metadata_service(headers: dict[str, str]) -> None:
    for name in ("169.254.169.254", "example.com"):
        with pytest.raises(HttpError, match="only for loopback"):
            http.request("GET", f"http://{name}/", environment=Environment(variables={}), headers=headers)
    assert not is_local_address("169.254.169.254")
    assert is_local_address("127.0.0.1")
    with pytest.raises(HttpError, match="only for loopback"):
        http.HttpSession("http://169.254.169.254/", Environment(variables={}))
