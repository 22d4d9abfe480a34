"""`vault:` against a server that speaks Vault's HTTP API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from answering import Answering
from vault_server import VaultWorld, vault_server

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import HoldfastError, Problem
from holdfast.secrets.reader import SecretReader
from holdfast.secrets.sources.interface import ReadSecret, Timeouts
from holdfast.system.environment import Environment

TOKEN = "hvs.token-of-the-test"
QUICK = Timeouts(request=2.0, total=4.0, tries=3, pause=0.01)


@pytest.fixture
def world() -> VaultWorld:
    return VaultWorld(
        secrets={
            "kv/app": [{"token": "hunter2-old"}, {"token": "hunter2", "port": 5432}],
            "kv/other": [{"x": "hunter2"}],
            "old/app": [{"token": "hunter2-v1"}],
            "team/kv/deep/app": [{"token": "hunter2-team"}],
        },
        tokens={
            TOKEN: ("kv/app", "kv/absent", "old/", "team/kv/"),
            "from-approle": ("kv/",),
            "from-pod": ("kv/",),
        },
        roles={"role-1": ("secret-id-1", "from-approle")},
        kubernetes={"deployer": ("jwt-of-the-pod", "from-pod")},
    )


@pytest.fixture
def server(world: VaultWorld) -> Iterator[Answering]:
    with vault_server(world) as running:
        yield running


def looked(
    locator: str, server: Answering, variables: Mapping[str, str], timeouts: Timeouts = QUICK
) -> ReadSecret | Problem:
    environment = Environment(variables={"VAULT_ADDR": server.url, **(variables or {"VAULT_TOKEN": TOKEN})})
    ref = SecretRef(scheme="vault", locator=locator)
    found = SecretReader(environment, Path("/"), timeouts=timeouts).read_all([ref])[ref]
    if isinstance(found, HoldfastError):
        shown = f"{found} {found.problem}"
        assert not any(text in shown for text in ("hunter2", TOKEN, "secret-id-1", "jwt-of-the-pod", "from-"))
        return found.problem
    return found


def value(locator: str, server: Answering, **variables: str) -> str:
    found = looked(locator, server, variables)
    assert isinstance(found, ReadSecret), found
    return found.secret.reveal()


def mistake(locator: str, server: Answering, timeouts: Timeouts = QUICK, **variables: str) -> Problem:
    found = looked(locator, server, variables, timeouts)
    assert isinstance(found, Problem)
    assert found.hint
    return found


def test_both_versions_of_the_engine(server: Answering) -> None:
    """A field of a secret, in an engine of either version, wherever it is mounted."""
    assert value("kv/app#token", server) == "hunter2"
    assert value("kv/app#port", server) == "5432"
    assert value("kv/app#token?version=1", server) == "hunter2-old"
    assert value("old/app#token", server) == "hunter2-v1"
    assert value("team/kv/deep/app#token", server) == "hunter2-team"
    reads = [looked(f"{path}#token", server, {}) for path in ("kv/app", "old/app")]
    versions = [read.version for read in reads if isinstance(read, ReadSecret)]
    assert versions == ["2", None]


def test_a_vault_that_does_not_tell_its_mounts(world: VaultWorld, server: Answering) -> None:
    """Where a policy hides the mounts, the first part of the path is taken for one."""
    world.tells_mounts = False
    assert value("kv/app#token", server) == "hunter2"
    assert value("old/app#token", server) == "hunter2-v1"


def test_a_namespace(world: VaultWorld, server: Answering) -> None:
    """VAULT_NAMESPACE goes with every request, and is named with who asked."""
    world.namespace = "platform"
    found = looked("kv/app#token", server, {"VAULT_TOKEN": TOKEN, "VAULT_NAMESPACE": "platform"})
    assert isinstance(found, ReadSecret)
    assert found.by == f"the token in VAULT_TOKEN at {server.url}, namespace platform"
    assert mistake("kv/app#token", server, VAULT_TOKEN=TOKEN).code == "HF-SEC-10"


def test_nothing_there(server: Answering) -> None:
    """Says that there is nothing, and which token looked."""
    problem = mistake("kv/absent#token", server)
    assert problem.code == "HF-SEC-10"
    assert "accessor-of-21, display name ci" in problem.message.replace("accessor accessor", "accessor")


def test_not_allowed(server: Answering) -> None:
    """Says which token was refused by its accessor, and which policy it needs; the token is not shown."""
    problem = mistake("kv/other#x", server)
    assert problem.code == "HF-SEC-11"
    assert "the token in VAULT_TOKEN at" in problem.message
    assert "accessor-of-21" in problem.message
    assert "MOUNT/data/PATH" in str(problem.hint)
    unknown = mistake("kv/app#token", server, VAULT_TOKEN="unknown-token")
    assert unknown.code == "HF-SEC-11"
    assert "has expired" in unknown.message
    assert "unknown-token" not in unknown.message


def test_a_field_that_is_not_there(server: Answering) -> None:
    """The secret is there, the field is not: a mistake of its own."""
    assert mistake("kv/app#tokn", server).hint == "It has 2 fields. Did you mean `token`?"


def test_signing_in_by_a_role(server: Answering, tmp_path: Path) -> None:
    """An AppRole or a service account signs in once for all references, and is named by its role."""
    environment = Environment(
        variables={"VAULT_ADDR": server.url, "VAULT_ROLE_ID": "role-1", "VAULT_SECRET_ID": "secret-id-1"}
    )
    refs = [SecretRef(scheme="vault", locator=one) for one in ("kv/app#token", "kv/other#x", "kv/app#port")]
    found = SecretReader(environment, tmp_path, timeouts=QUICK).read_all(refs)
    assert {one.by for one in found.values() if isinstance(one, ReadSecret)} == {
        f"the AppRole role-1 at {server.url}"
    }
    assert len([asked for asked in server.asked if asked.method == "POST"]) == 1
    (tmp_path / "jwt").write_text("jwt-of-the-pod\n")
    pod = {"VAULT_KUBERNETES_ROLE": "deployer", "VAULT_KUBERNETES_TOKEN_FILE": str(tmp_path / "jwt")}
    assert value("kv/app#token", server, **pod) == "hunter2"


def test_a_role_that_is_refused(server: Answering) -> None:
    """The secret of the role is not shown, even where Vault quotes it."""
    problem = mistake("kv/app#token", server, VAULT_ROLE_ID="role-9", VAULT_SECRET_ID="secret-id-1")
    assert problem.code == "HF-SEC-11"
    assert "the AppRole role-9" in problem.message
    assert "failed with status 400" in problem.message


def test_the_token_of_vault_login(server: Answering, tmp_path: Path) -> None:
    """What `vault login` left counts where no variable says who asks."""
    (tmp_path / ".vault-token").write_text(f"{TOKEN}\n")
    assert value("kv/app#token", server, HOME=str(tmp_path)) == "hunter2"


def test_without_an_identity(server: Answering, tmp_path: Path) -> None:
    """No token, or one that can be none: said without asking Vault."""
    assert mistake("kv/app#token", server, HOME=str(tmp_path)).code == "HF-SEC-15"
    assert mistake("kv/app#token", server, VAULT_TOKEN="hunter2\nX: y").code == "HF-SEC-15"
    assert not server.asked


def test_where_vault_is(server: Answering) -> None:
    """Without an address, or with one in clear over a network, nothing is sent anywhere."""
    assert mistake("kv/app#token", server, VAULT_TOKEN=TOKEN, VAULT_ADDR="").code == "HF-SEC-18"
    plain = mistake("kv/app#token", server, VAULT_TOKEN=TOKEN, VAULT_ADDR="http://vault.example:8200")
    assert plain.code == "HF-SEC-12"
    assert "use https://" in plain.message


def test_a_vault_that_is_not_well(world: VaultWorld, server: Answering) -> None:
    """A short fault is asked through; a sealed Vault, or one that is silent, is told apart."""
    world.failing = 2
    assert value("kv/app#token", server) == "hunter2"
    world.sealed = True
    sealed = mistake("kv/app#token", server)
    assert (sealed.code, "Vault is sealed" in sealed.message) == ("HF-SEC-12", True)
    server.hold()
    silent = mistake("kv/app#token", server, Timeouts(request=0.1, total=0.2, tries=2, pause=0.01))
    assert silent.code == "HF-SEC-13"
