"""The contract of a cluster on the real kube-apiserver with etcd, if HOLDFAST_TOOLS has them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from gates_made import closed_port
from kubernetes_contract import ClusterContract
from kubernetes_server import write_kubeconfig
from other_tools import real

from holdfast.kubernetes.client import KubernetesClient, KubernetesError
from holdfast.kubernetes.kubeconfig import kubeconfig_file, read_context
from holdfast.system import clock
from holdfast.system.environment import Environment

TOKEN = "token-of-the-real-server"


@pytest.fixture(scope="module")
def real_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file of its kubeconfig."""
    api_server, etcd = real("kube-apiserver"), real("etcd")
    folder = tmp_path_factory.mktemp("kube")
    client_port, peer_port, port = closed_port(), closed_port(), closed_port()
    (folder / "tokens.csv").write_text(f"{TOKEN},admin,1,system:masters\n")
    key = folder / "service-account.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(str(folder / "tls.pem"))
    certificate.private_key_pem.write_to_path(str(folder / "tls.key"))
    store = f"http://127.0.0.1:{client_port}"
    with (folder / "log").open("wb") as log:
        storing = subprocess.Popen(
            [
                *(etcd, "--data-dir", folder / "etcd", "--unsafe-no-fsync"),
                *("--listen-client-urls", store, "--advertise-client-urls", store),
                *("--listen-peer-urls", f"http://127.0.0.1:{peer_port}"),
            ],
            stdout=log,
            stderr=log,
        )
        serving = subprocess.Popen(
            [
                *(api_server, "--etcd-servers", store, "--secure-port", str(port)),
                *("--bind-address", "127.0.0.1", "--cert-dir", folder / "certs"),
                *("--tls-cert-file", folder / "tls.pem", "--tls-private-key-file", folder / "tls.key"),
                *("--token-auth-file", folder / "tokens.csv", "--authorization-mode", "RBAC"),
                *("--service-account-issuer", "https://kubernetes.default.svc"),
                *("--service-account-key-file", key, "--service-account-signing-key-file", key),
                *("--service-cluster-ip-range", "10.0.0.0/24"),
                "--disable-admission-plugins=ServiceAccount",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            file = write_kubeconfig(folder, f"https://127.0.0.1:{port}", folder / "ca.pem", TOKEN)
            until_ready(file)
            yield file
        finally:
            serving.terminate()
            serving.wait(30)
            storing.terminate()
            storing.wait(30)


def until_ready(file: Path) -> None:
    client, last = open_client(file), ""
    for _ in range(600):
        try:
            if client.find(client.kind("v1", "Namespace"), "default") is not None:
                return
        except KubernetesError as error:
            last = error.problem.message
        clock.pause(0.1)
    raise AssertionError(f"{last}\n{(file.parent / 'log').read_text()[-3000:]}")


def open_client(file: Path) -> KubernetesClient:
    access = read_context([kubeconfig_file(file)], "small")
    return KubernetesClient(access, Environment(variables={"PATH": "/usr/bin:/bin"}), folder=file.parent)


@pytest.fixture
def client(real_cluster: Path) -> KubernetesClient:
    return open_client(real_cluster)


class TestKubeApiserver(ClusterContract):
    """As on the small server: `tests/integration/kubernetes/test_small_server.py`."""
