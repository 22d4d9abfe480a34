"""Every kind of gate: the name of its key in `holdfast.yaml`, and the class that observes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.gates.interface import Probe, Tools
from holdfast.gates.kinds.argocd import ArgocdApplications
from holdfast.gates.kinds.command import UserCommand
from holdfast.gates.kinds.dns import Dns
from holdfast.gates.kinds.http import Http
from holdfast.gates.kinds.kubernetes import KubernetesCondition
from holdfast.gates.kinds.load_balancer import LoadBalancer
from holdfast.gates.kinds.oidc import OidcLogin
from holdfast.gates.kinds.tcp import Tcp
from holdfast.gates.kinds.tls import Tls

KINDS: Final[Mapping[str, Callable[[Any, Tools], Probe]]] = {
    "tcp": Tcp,
    "http": Http,
    "dns": Dns,
    "tls": Tls,
    "oidc": OidcLogin,
    "kubernetes": KubernetesCondition,
    "argocd": ArgocdApplications,
    "load_balancer": LoadBalancer,
    "run": UserCommand,
}
