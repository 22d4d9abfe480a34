"""Gates that ask a cluster, on the small Kubernetes API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gates_made import tools
from kubernetes_contract import APPLICATIONS
from kubernetes_server import SmallCluster, small_cluster
from msgspec.structs import replace

from holdfast.config.gates import ArgocdGate, KubernetesGate, LoadBalancerGate
from holdfast.gates.catalogue import KINDS
from holdfast.gates.interface import Met, NotMet, Observation, Tools
from holdfast.kubernetes.client import KubernetesClient
from holdfast.kubernetes.kubeconfig import kubeconfig_file, read_context
from holdfast.system.environment import Environment


class World:
    def __init__(self, cluster: SmallCluster, made: Tools) -> None:
        self.cluster, self._tools = cluster, made

    def observe(self, kind: str, settings: Any) -> Observation:
        return asyncio.run(KINDS[kind](settings, self._tools).observe(5.0))

    def failing(self, kind: str, settings: Any) -> NotMet:
        observation = self.observe(kind, settings)
        assert isinstance(observation, NotMet), observation
        return observation


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with small_cluster(tmp_path) as (cluster, file):
        access = read_context([kubeconfig_file(file)], "small")
        client = KubernetesClient(access, Environment(variables={}), folder=tmp_path)
        yield World(cluster, replace(tools(tmp_path), cluster=lambda: client))


def deployment(status: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", **metadata},
        "spec": {"template": {"env": [{"name": "PASSWORD", "value": "hunter2"}]}},
        "status": status,
    }


def test_a_condition_is_true(world: World) -> None:
    """Absent, false and about an older generation all fail; the evidence has no spec, so no secret."""
    settings = KubernetesGate(name="web", namespace="default")
    assert world.failing("kubernetes", settings).text == "Deployment web does not exist"
    world.cluster.put(deployment({}))
    assert "has no condition Available yet" in world.failing("kubernetes", settings).text
    down = {
        "type": "Available",
        "status": "False",
        "reason": "MinimumReplicasUnavailable",
        "message": "0 of 2",
    }
    world.cluster.put(deployment({"conditions": [down]}))
    world.cluster.put(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "web.1", "namespace": "default"},
            "involvedObject": {"name": "web"},
            "type": "Warning",
            "reason": "FailedCreate",
            "message": "quota exceeded",
        }
    )
    failing = world.failing("kubernetes", settings)
    assert failing.text == "Deployment web: Available is False (MinimumReplicasUnavailable: 0 of 2)"
    assert "FailedCreate: quota exceeded" in failing.evidence[1].text
    assert "hunter2" not in str([part.text for part in failing.evidence])
    up = {"conditions": [{"type": "Available", "status": "True"}], "observedGeneration": 0}
    world.cluster.put(deployment(up))
    assert "is about generation 0" in world.failing("kubernetes", settings).text
    world.cluster.put(deployment({**up, "observedGeneration": 9}))
    assert isinstance(world.observe("kubernetes", settings), Met)
    degraded = KubernetesGate(name="web", namespace="default", condition="Available=False")
    assert "Available is True" in world.failing("kubernetes", degraded).text


def test_an_api_that_refuses_may_answer_later(world: World) -> None:
    """Its error is an observation, with what the server says; so is a kind that is not installed yet."""
    world.cluster.fail = 503
    settings = KubernetesGate(name="web", namespace="default")
    assert "the test says so" in world.failing("kubernetes", settings).text
    world.cluster.fail = None
    assert "has no kind Application" in world.failing("argocd", ArgocdGate()).text


def application(name: str, sync: str, health: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": "argocd"},
        "status": {"sync": {"status": sync}, "health": {"status": health}, **more},
    }


def test_applications_are_synced_and_healthy(world: World) -> None:
    """All of them, or those that are named; none at all is not fine, nor is one that is syncing."""
    world.cluster.put(APPLICATIONS)
    assert "there is no Application" in world.failing("argocd", ArgocdGate()).text
    world.cluster.put(application("root", "Synced", "Healthy"))
    assert isinstance(world.observe("argocd", ArgocdGate()), Met)
    assert "web does not exist" in world.failing("argocd", ArgocdGate(applications=("root", "web"))).text
    resource = {"kind": "Deployment", "name": "web", "status": "OutOfSync", "health": {"status": "Degraded"}}
    world.cluster.put(application("web", "OutOfSync", "Degraded", resources=[resource]))
    failing = world.failing("argocd", ArgocdGate())
    assert failing.text == "web is OutOfSync, Degraded"
    assert failing.evidence[0].text == "Deployment web: OutOfSync, Degraded"
    assert failing.next_step == "argocd app get argocd/web"
    assert isinstance(world.observe("argocd", ArgocdGate(applications=("root",))), Met)
    world.cluster.put(application("web", "Synced", "Healthy", operationState={"phase": "Running"}))
    assert "web is syncing" in world.failing("argocd", ArgocdGate()).text


def service(*ingress: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "gateway", "namespace": "default"},
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": list(ingress)}},
    }


def test_a_load_balancer_has_exactly_this_address(world: World) -> None:
    """None yet, another one, and one more all fail."""
    settings = LoadBalancerGate(name="gateway", namespace="default", equals=("203.0.113.7",))
    world.cluster.put(service())
    assert "has no address yet instead of 203.0.113.7" in world.failing("load_balancer", settings).text
    world.cluster.put(service({"ip": "203.0.113.8"}))
    assert "has 203.0.113.8 instead of" in world.failing("load_balancer", settings).text
    world.cluster.put(service({"ip": "203.0.113.7"}, {"ip": "203.0.113.8"}))
    assert isinstance(world.observe("load_balancer", settings), NotMet)
    world.cluster.put(service({"ip": "203.0.113.7"}))
    assert isinstance(world.observe("load_balancer", settings), Met)
    named = LoadBalancerGate(name="gateway", namespace="default", equals=("lb.example",))
    world.cluster.put(service({"hostname": "lb.example"}))
    assert isinstance(world.observe("load_balancer", named), Met)
