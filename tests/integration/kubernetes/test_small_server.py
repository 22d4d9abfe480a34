"""The contract of a cluster, on the small server; and what only that can play."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes_contract import ClusterContract, config_map
from kubernetes_server import TOKEN, SmallCluster, small_cluster, write_kubeconfig

from holdfast.kubernetes.client import KubernetesClient, KubernetesError
from holdfast.kubernetes.kubeconfig import KubeconfigError, kubeconfig_file, read_context
from holdfast.system.environment import Environment

ENVIRONMENT = Environment(variables={"PATH": "/usr/bin:/bin", "HOLDFAST_KEY": "not-for-plugins"})


def open_client(file: Path) -> KubernetesClient:
    return KubernetesClient(read_context([kubeconfig_file(file)], "small"), ENVIRONMENT, folder=file.parent)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[SmallCluster, Path]]:
    with small_cluster(tmp_path) as made:
        yield made


@pytest.fixture
def client(cluster: tuple[SmallCluster, Path]) -> KubernetesClient:
    return open_client(cluster[1])


class TestSmallServer(ClusterContract):
    """As on the real one: `tests/interop/test_kube_apiserver.py`."""


def test_pages_are_followed(cluster: tuple[SmallCluster, Path], client: KubernetesClient) -> None:
    """A list with more than 500 items is complete."""
    for number in range(1001):
        cluster[0].put(config_map(f"m{number:04}", "default"))
    items = list(client.list(client.kind("v1", "ConfigMap"), "default"))
    assert len(items) == 1001


def test_a_field_of_another_manager_is_a_conflict(
    cluster: tuple[SmallCluster, Path], client: KubernetesClient
) -> None:
    """It is not overwritten, unless that is asked for."""
    resource = config_map("a", "default", x="theirs")
    resource["metadata"] = {**resource["metadata"], "owners": {"data.x": "argocd"}}  # type: ignore[dict-item]
    cluster[0].put(resource)
    with pytest.raises(KubernetesError) as error:
        client.apply(config_map("a", "default", x="ours"))
    assert error.value.status == 409
    assert client.apply(config_map("a", "default", x="ours"), force=True)["data"] == {"x": "ours"}


def plugin(tmp_path: Path, script: str) -> dict[str, object]:
    file = tmp_path / "plugin.sh"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(file),
            "env": [{"name": "ASKED", "value": "yes"}],
        }
    }


def test_a_plugin_gives_the_token(cluster: tuple[SmallCluster, Path], tmp_path: Path) -> None:
    """It runs once, without Holdfast's own variables; a token that expired is asked for again."""
    counter = tmp_path / "runs"
    script = (
        f'echo run >> {counter}; test "$ASKED" = yes || exit 3; test -z "$HOLDFAST_KEY" || exit 4; '
        f"if [ $(wc -l < {counter}) = 1 ]; then token=old; else token={TOKEN}; fi; "
        'echo "{\\"status\\": {\\"token\\": \\"$token\\"}}"'
    )
    server = open_client(cluster[1]).access.server
    file = write_kubeconfig(tmp_path, server, tmp_path / "kube-ca.pem", "", **plugin(tmp_path, script))
    client = open_client(file)
    assert client.find(client.kind("v1", "Namespace"), "default") is not None
    assert client.find(client.kind("v1", "Namespace"), "default") is not None
    assert counter.read_text().count("run") == 2


@pytest.mark.parametrize(
    ("script", "says"),
    [("echo no session >&2; exit 1", "exited with 1: no session"), ("echo '{}'", "printed none")],
)
def test_a_plugin_that_fails_is_an_error(
    cluster: tuple[SmallCluster, Path], tmp_path: Path, script: str, says: str
) -> None:
    """With its last line."""
    server = open_client(cluster[1]).access.server
    file = write_kubeconfig(tmp_path, server, tmp_path / "kube-ca.pem", "", **plugin(tmp_path, script))
    with pytest.raises(KubeconfigError, match=says):
        open_client(file).kind("v1", "Namespace")


def test_an_unknown_authority_is_not_trusted(cluster: tuple[SmallCluster, Path], tmp_path: Path) -> None:
    """The token is not sent."""
    import trustme  # noqa: PLC0415

    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    file = write_kubeconfig(tmp_path, open_client(cluster[1]).access.server, other, TOKEN)
    with pytest.raises(KubernetesError, match="not trusted"):
        open_client(file).kind("v1", "Namespace")
    assert cluster[0].asked == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("name: small", "name: other"), "HF-KUBE-2"),
        (("certificate-authority: kube-ca.pem", "insecure-skip-tls-verify: true"), "HF-KUBE-3"),
        (("certificate-authority: kube-ca.pem", "proxy-url: http://p"), "HF-KUBE-3"),
        (("certificate-authority: kube-ca.pem", "certificate-authority: gone.pem"), "HF-KUBE-1"),
        (("certificate-authority: kube-ca.pem", "certificate-authority-data: '*'"), "HF-KUBE-1"),
        (("token: ", "username: me\n    password: "), "HF-KUBE-3"),
        (("token: ", "client-key-data: aGk=\n    token: "), "HF-KUBE-1"),
        (("user: u", "user: none"), "HF-KUBE-1"),
        (("apiVersion: v1", "]["), "HF-KUBE-1"),
    ],
)
def test_what_is_not_understood_is_refused(
    cluster: tuple[SmallCluster, Path], change: tuple[str, str], code: str
) -> None:
    """Another cluster, or an unverified one, is never asked; no message has the token."""
    text = cluster[1].read_text()
    assert change[0] in text
    cluster[1].write_text(text.replace(*change))
    with pytest.raises(KubeconfigError) as error:
        open_client(cluster[1])
    assert error.value.problem.code == code
    assert TOKEN not in str(error.value)
