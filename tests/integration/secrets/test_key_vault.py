"""`azure-kv:` against a server that speaks Azure's sign-in, metadata service and Key Vault."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from answering import Answering
from key_vault_server import TOKEN, AzureWorld, azure_server

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import HoldfastError, Problem
from holdfast.secrets.reader import SecretReader
from holdfast.secrets.sources.interface import ReadSecret, Timeouts
from holdfast.system.environment import Environment

QUICK = Timeouts(request=2.0, total=5.0, tries=2, pause=0.01)
CLIENT = {"AZURE_TENANT_ID": "tenant-1", "AZURE_CLIENT_ID": "client-1"}
SECRET = {**CLIENT, "AZURE_CLIENT_SECRET": "secret-of-the-client"}


@pytest.fixture
def world() -> AzureWorld:
    return AzureWorld(
        secrets={"v/db": "hunter2", "v/db/0123abcd": "hunter2-old", "v/json": '{"password": "hunter2"}'},
        denied={"v/closed"},
    )


@pytest.fixture
def server(world: AzureWorld) -> Iterator[Answering]:
    with azure_server(world) as running:
        yield running


def reader(server: Answering, variables: Mapping[str, str]) -> SecretReader:
    places = {
        "AZURE_AUTHORITY_HOST": server.url,
        "HOLDFAST_AZURE_VAULT_URL": f"{server.url}/{{vault}}",
        "AZURE_POD_IDENTITY_AUTHORITY_HOST": server.url,
        "PATH": "/nowhere",
    }
    return SecretReader(Environment(variables={**places, **variables}), Path("/"), timeouts=QUICK)


def looked(locator: str, server: Answering, variables: Mapping[str, str]) -> ReadSecret | Problem:
    ref = SecretRef(scheme="azure-kv", locator=locator)
    found = reader(server, variables).read_all([ref])[ref]
    if isinstance(found, HoldfastError):
        shown = f"{found} {found.problem}"
        proofs = ("hunter2", TOKEN, "secret-of-the-client", "wrong-secret", "assertion-of")
        assert not any(text in shown for text in proofs)
        assert found.problem.hint
        return found.problem
    return found


def found(locator: str, server: Answering, variables: Mapping[str, str]) -> tuple[str, str]:
    one = looked(locator, server, variables)
    assert isinstance(one, ReadSecret), one
    return one.secret.reveal(), one.by


def mistake(locator: str, server: Answering, variables: Mapping[str, str]) -> Problem:
    problem = looked(locator, server, variables)
    assert isinstance(problem, Problem)
    return problem


def test_a_service_principal_with_a_secret(server: Answering) -> None:
    """The newest version, a named one, or one field; the client is named, its secret is not."""
    by = "the Azure client client-1 in tenant tenant-1, with its secret"
    assert found("v/db", server, SECRET) == ("hunter2", by)
    assert found("v/db/0123abcd", server, SECRET)[0] == "hunter2-old"
    assert found("v/json#password", server, SECRET)[0] == "hunter2"
    read = looked("v/db", server, SECRET)
    assert isinstance(read, ReadSecret)
    assert read.version == "1"
    of_terraform = {name.replace("AZURE_", "ARM_"): value for name, value in SECRET.items()}
    assert found("v/db", server, of_terraform) == ("hunter2", by)


def test_signing_in_once(world: AzureWorld, server: Answering) -> None:
    """One token serves all references of a change; one that is about to end is not used."""
    refs = [SecretRef(scheme="azure-kv", locator=one) for one in ("v/db", "v/json", "v/absent")]
    reader(server, SECRET).read_all(refs)
    assert world.signed_in == 1
    world.lifetime = 60
    ending = reader(server, SECRET)
    for ref in refs[:2]:
        ending.read(ref)
    assert world.signed_in == 3


def test_a_federated_token(server: Answering, tmp_path: Path) -> None:
    """The token of a pod, or of a GitHub Actions job, is exchanged for one of Azure."""
    (tmp_path / "token").write_text("assertion-of-the-pod\n")
    pod = {**CLIENT, "AZURE_FEDERATED_TOKEN_FILE": str(tmp_path / "token")}
    assert found("v/db", server, pod) == (
        "hunter2",
        "the Azure client client-1 in tenant tenant-1, with a federated token",
    )
    job = {
        **CLIENT,
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{server.url}/actions?v=1",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "actions-bearer",
    }
    assert found("v/db", server, job)[1].endswith("with the token of this GitHub Actions job")
    refused = mistake("v/db", server, {**job, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "x"})
    assert (refused.code, "id-token: write" in str(refused.hint)) == ("HF-SEC-15", True)
    gone = mistake("v/db", server, {**pod, "AZURE_FEDERATED_TOKEN_FILE": str(tmp_path / "gone")})
    assert (gone.code, "gone" in gone.message) == ("HF-SEC-15", True)


def test_the_identity_of_the_machine(world: AzureWorld, server: Answering) -> None:
    """Where no variable says who asks, the metadata service does."""
    world.managed = True
    assert found("v/db", server, {}) == ("hunter2", "the managed identity of this machine")
    assert found("v/db", server, {"AZURE_CLIENT_ID": "mine"})[1] == "the managed identity mine"


def test_whoever_signed_in_with_az(server: Answering, tmp_path: Path) -> None:
    """Last comes the `az` program, which is asked for a token for vaults."""
    program = tmp_path / "az"
    program.write_text(
        "#!/bin/sh\n"
        '[ "$1 $2 $3 $4" = "account get-access-token --resource https://vault.azure.net" ] || exit 1\n'
        f'echo \'{{"accessToken": "{TOKEN}", "tenant": "t-9"}}\'\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert found("v/db", server, {"PATH": str(tmp_path)}) == (
        "hunter2",
        "the user of `az login` (tenant t-9)",
    )


def test_without_an_identity(server: Answering) -> None:
    """No principal, no managed identity, no az: the ways that there are stand in the hint."""
    problem = mistake("v/db", server, {})
    assert (problem.code, "az login" in str(problem.hint)) == ("HF-SEC-15", True)
    assert mistake("v/db", server, {"AZURE_CLIENT_SECRET": "x"}).code == "HF-SEC-18"


def test_what_azure_refuses(server: Answering) -> None:
    """Not there, not allowed, and a wrong secret of the client are three mistakes, each naming who asked."""
    absent = mistake("v/absent", server, SECRET)
    assert (absent.code, "client-1" in absent.message) == ("HF-SEC-10", True)
    closed = mistake("v/closed", server, SECRET)
    assert closed.code == "HF-SEC-11"
    assert closed.message.startswith(
        "the Azure client client-1 in tenant tenant-1, with its secret is not allowed to read"
    )
    assert "Key Vault Secrets User" in str(closed.hint)
    wrong = mistake("v/db", server, {**SECRET, "AZURE_CLIENT_SECRET": "wrong-secret"})
    assert wrong.code == "HF-SEC-11"
    assert "AADSTS7000215" in wrong.message
    assert mistake("v/json#pasword", server, SECRET).code == "HF-SEC-14"


def test_no_token_leaves_in_clear(server: Answering) -> None:
    """A vault at an address without TLS, elsewhere than on this machine, is not asked."""
    elsewhere = {**SECRET, "HOLDFAST_AZURE_VAULT_URL": "http://vault.example"}
    assert mistake("v/db", server, elsewhere).code == "HF-SEC-12"
