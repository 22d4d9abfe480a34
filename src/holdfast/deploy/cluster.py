"""Opens the cluster of a target, in one environment."""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.config.gates import Cluster
from holdfast.config.secret_refs import SecretRef
from holdfast.gates.values import GateValues, MissingValue, filled
from holdfast.kernel.errors import Failed
from holdfast.kubernetes.client import KubernetesClient
from holdfast.kubernetes.kubeconfig import KubeconfigFile, kubeconfig_file, kubeconfig_files, read_context
from holdfast.plans.context import ChangeContext


def open_cluster(context: ChangeContext, settings: Cluster, values: GateValues) -> KubernetesClient:
    """Raises HoldfastError if it is not certain which cluster is meant."""
    try:
        named: Cluster = filled(settings, values.text_of)
    except MissingValue as missing:
        raise Failed(
            "HF-KUBE-2",
            f"the cluster of {values.target} is not known: {missing}",
            hint="See `kubernetes` of the target in holdfast.yaml.",
        ) from None
    environment, root = context.project.environment, context.project.root
    match named.kubeconfig:
        case None:
            configs = kubeconfig_files(environment)
        case SecretRef() as reference:
            secret = context.secrets.read(reference)
            context.redactor.register(secret)
            configs = (KubeconfigFile(shown=str(reference), text=secret.reveal()),)
        case path:
            configs = (kubeconfig_file(root / path),)
    access = read_context(configs, named.context)
    if access.token is not None:
        context.redactor.register(access.token)
    return KubernetesClient(access, environment, folder=root)


def opened_once(open_: Callable[[], KubernetesClient]) -> Callable[[], KubernetesClient]:
    """One client for all gates of an environment, opened when the first of them needs it."""
    clients: list[KubernetesClient] = []
    lock = threading.Lock()

    def client() -> KubernetesClient:
        with lock:
            if not clients:
                clients.append(open_())
            return clients[0]

    return client
