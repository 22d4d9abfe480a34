"""What the client relies on, of any cluster: the small server of the tests and the real kube-apiserver."""

from __future__ import annotations

import pytest

from holdfast.kubernetes.client import Kind, KubernetesClient, KubernetesError
from holdfast.system import clock

APPLICATIONS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "applications.argoproj.io"},
    "spec": {
        "group": "argoproj.io",
        "scope": "Namespaced",
        "names": {"kind": "Application", "plural": "applications", "singular": "application"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


def config_map(name: str, namespace: str, **data: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "data": data,
    }


class ClusterContract:
    @pytest.fixture
    def namespace(self, client: KubernetesClient) -> str:
        name = f"test-{clock.random_token(4)}"
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name

    def test_the_cluster_has_a_version(self, client: KubernetesClient) -> None:
        """It needs no more than credentials."""
        assert client.version().startswith("v")

    def test_a_resource_is_applied_read_and_deleted(self, client: KubernetesClient, namespace: str) -> None:
        """Applying it again changes nothing; deleting it again says that it was gone."""
        kind = client.kind("v1", "ConfigMap")
        first = client.apply(config_map("a", namespace, x="1"))
        second = client.apply(config_map("a", namespace, x="1"))
        assert first["metadata"]["uid"] == second["metadata"]["uid"]
        assert client.get(kind, "a", namespace)["data"] == {"x": "1"}
        assert client.find(kind, "b", namespace) is None
        assert client.delete(kind, "a", namespace)
        assert not client.delete(kind, "a", namespace)

    def test_a_field_that_is_no_longer_applied_is_removed(
        self, client: KubernetesClient, namespace: str
    ) -> None:
        """Because Holdfast owns it; fields of others stay."""
        kind = client.kind("v1", "ConfigMap")
        client.apply(config_map("a", namespace, x="1", y="2"))
        client.patch(kind, "a", {"data": {"z": "theirs"}}, namespace)
        client.apply(config_map("a", namespace, x="1"))
        assert "y" not in client.get(kind, "a", namespace)["data"]

    def test_lists_have_pages_and_selectors(self, client: KubernetesClient, namespace: str) -> None:
        """Every item, also beyond the first page."""
        kind = client.kind("v1", "ConfigMap")
        for number in range(3):
            client.apply(config_map(f"m{number}", namespace, n=str(number)))
        names = [item["metadata"]["name"] for item in client.list(kind, namespace)]
        assert {"m0", "m1", "m2"} <= set(names)
        labelled = client.list(kind, namespace, labels="app=m1")
        assert [item["metadata"]["name"] for item in labelled] == ["m1"]
        by_field = client.list(kind, namespace, fields="metadata.name=m2")
        assert [item["metadata"]["name"] for item in by_field] == ["m2"]
        everywhere = {item["metadata"]["namespace"] for item in client.list(kind)}
        assert namespace in everywhere

    def test_a_finalizer_keeps_a_resource(self, client: KubernetesClient, namespace: str) -> None:
        """Until it is removed by a patch: null removes a field."""
        kind = client.kind("v1", "ConfigMap")
        client.apply(config_map("kept", namespace))
        client.patch(kind, "kept", {"metadata": {"finalizers": ["example.com/keep"]}}, namespace)
        assert client.delete(kind, "kept", namespace)
        assert client.get(kind, "kept", namespace)["metadata"]["deletionTimestamp"]
        client.patch(kind, "kept", {"metadata": {"finalizers": None}}, namespace)
        assert client.find(kind, "kept", namespace) is None

    def test_a_kind_appears_with_its_definition(self, client: KubernetesClient, namespace: str) -> None:
        """A kind that the cluster has not is an error that says so; once it is defined, it is found."""
        with pytest.raises(KubernetesError) as error:
            client.kind("missing.example/v1", "Thing")
        assert error.value.problem.code == "HF-KUBE-7"
        client.apply(APPLICATIONS)
        kind = self.until_defined(client)
        application = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": "root", "namespace": namespace},
            "spec": {"project": "default"},
        }
        client.apply(application)
        client.patch(kind, "root", {"status": {"sync": {"status": "Synced"}}}, namespace)
        assert client.get(kind, "root", namespace)["status"]["sync"]["status"] == "Synced"

    def until_defined(self, client: KubernetesClient) -> Kind:
        """A real server needs a moment to serve a new kind."""
        for _ in range(200):
            try:
                return client.kind("argoproj.io/v1alpha1", "Application")
            except KubernetesError:
                clock.pause(0.05)
        raise AssertionError("the kind was not served")

    def test_an_error_has_the_message_of_the_server(self, client: KubernetesClient) -> None:
        """A missing namespace is the server's own sentence, with its status."""
        with pytest.raises(KubernetesError) as error:
            client.apply(config_map("a", "no-such-namespace"))
        assert error.value.status == 404
        assert 'namespaces "no-such-namespace" not found' in error.value.problem.message
