"""Applications of Argo CD that layer published facts over the values that people write. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import yaml
from msgspec import Struct

from holdfast.config.settings import Target
from holdfast.facts.argocd import normal_address
from holdfast.facts.build import facts_of
from holdfast.kernel.errors import Refused, UsageError

COMMAND: Final = "holdfast scaffold argocd"
_FACTS: Final = "facts"
"""The name by which value files refer to the source of the facts."""
_VALUES: Final = """\
# Later value files win: what people write in {written}, then the facts, which only CI writes.
"""


class Application(Struct, frozen=True, kw_only=True):
    """What is deployed: a Helm chart in a Git repository."""

    name: str
    repository: str
    path: str
    revision: str = "main"
    values: tuple[str, ...] = ("values.yaml",)
    """Files that people write, relative to the chart, with `{environment}`."""
    namespace: str = "{environment}"
    """Where it is deployed to."""
    project: str = "default"
    argocd: str = "argocd"
    """The namespace of Argo CD."""


def applications(target: Target, environments: Sequence[str], wanted: Application) -> str:
    """One Application, or an ApplicationSet for several environments; `environments` are those of the stacks.

    Raises Refused if Argo CD would refuse it.
    """
    facts = facts_of(target)
    environments = facts.environments or environments
    if not environments:
        raise UsageError(
            "HF-FACT-9",
            f"the target `{target.name}` has no environment whose facts could be layered in",
            hint="Give its stacks an `environment`, or list `facts.environments`.",
        )
    same = normal_address(wanted.repository) == normal_address(facts.repository)
    if same and wanted.revision.removeprefix("refs/heads/") != facts.branch:
        raise Refused(
            "HF-FACT-6",
            f"Argo CD refuses two revisions of one repository in an Application: {wanted.repository} at "
            f"{wanted.revision} and the facts at {facts.branch}",
            hint="Publish the facts to a repository of their own (`facts.repository`), or to the revision of "
            "the chart.",
        )
    head = _VALUES.format(written=", ".join(wanted.values))
    if len(environments) == 1:
        document = _application(target, wanted, environments[0], facts_path=_path(target, environments[0]))
    else:
        document = _application_set(target, wanted, environments)
    return head + yaml.safe_dump(document, sort_keys=False, width=100)


def _path(target: Target, environment: str) -> str:
    return facts_of(target).file(target=target.name, environment=environment)


def _application(target: Target, wanted: Application, environment: str, *, facts_path: str) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": f"{wanted.name}-{environment}", "namespace": wanted.argocd},
        "spec": _spec(target, wanted, environment, facts_path),
    }


def _application_set(target: Target, wanted: Application, environments: Sequence[str]) -> dict[str, Any]:
    """With a list of environments and the file of each, which need not have the environment's name."""
    elements = [{"environment": name, "facts": _path(target, name)} for name in environments]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": wanted.name, "namespace": wanted.argocd},
        "spec": {
            "goTemplate": True,
            "goTemplateOptions": ["missingkey=error"],
            "generators": [{"list": {"elements": elements}}],
            "template": {
                "metadata": {"name": f"{wanted.name}-{{{{ .environment }}}}"},
                "spec": _spec(target, wanted, "{{ .environment }}", "{{ .facts }}"),
            },
        },
    }


def _spec(target: Target, wanted: Application, environment: str, facts_path: str) -> dict[str, Any]:
    facts = facts_of(target)
    written = [value.replace("{environment}", environment) for value in wanted.values]
    return {
        "project": wanted.project,
        "destination": {
            "server": "https://kubernetes.default.svc",
            "namespace": wanted.namespace.replace("{environment}", environment),
        },
        "sources": [
            {
                "repoURL": wanted.repository,
                "path": wanted.path,
                "targetRevision": wanted.revision,
                # A missing file is an error: without the facts, old values would be deployed.
                "helm": {"valueFiles": [*written, f"${_FACTS}/{facts_path}"]},
            },
            {"repoURL": facts.repository, "targetRevision": facts.branch, "ref": _FACTS},
        ],
        "syncPolicy": {"automated": {"prune": False, "selfHeal": True}},
    }
