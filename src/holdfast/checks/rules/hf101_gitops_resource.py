"""HF101: Terraform writes an object that belongs to GitOps."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.boundary import ownership
from holdfast.checks.model.interface import Answer, Finding, Rule, Severity
from holdfast.checks.model.subjects import CheckedPlan, CheckedState, Module


def _words(type_: str) -> str:
    return f"`{type_}` is written here, and belongs to GitOps"


def _source(module: Module) -> Iterator[Finding]:
    return ownership.in_source(module, ownership.WRITING, _words)


def _plan(plan: CheckedPlan) -> Iterator[Finding]:
    return ownership.in_plan(plan, ownership.WRITING, _words)


def _state(state: CheckedState) -> Iterator[Answer]:
    return ownership.in_state(state, ownership.WRITING, _words)


RULE = Rule(
    id="HF101",
    title="Terraform writes what belongs to GitOps",
    why="Terraform and GitOps would both write the object, each undoing what the other did, for ever.",
    fix="Write its manifest into the GitOps tree; then a `removed` block with `destroy = false` takes it out "
    "of the state and leaves the object alone.",
    severity=Severity.ERROR,
    source=_source,
    plan=_plan,
    state=_state,
    bad='resource "helm_release" "grafana" {\n  name  = "grafana"\n  chart = "grafana"\n}\n',
    good="removed {\n  from = helm_release.grafana\n  lifecycle {\n    destroy = false\n  }\n}\n",
    more="""## Whose is what

By itself everything inside a cluster is GitOps' own: `argocd_*`, `carvel_*`, `devtron_*`, `flux_*`,
`helm_*`, `helmfile_*`, `k8s_*`, `kubectl_*`, `kubernetes_*`, `kustomization_*` and `rancher2_app_v2`. The
table is yours to change, and stacks can be exempt:

```yaml
checks:
  boundary:
    types:
      kubernetes_storage_class_v1: terraform   # the most exact pattern wins
      "datadog_*": gitops
    exempt:
      - stack: "target:local"                  # a name, `*` in it, or env:, account:, region:, target:
        types: ["helm_release", "kubernetes_namespace*"]
        reason: the local cluster gets Argo CD from Terraform
```

A module that several stacks use is right only where all of them are exempt, or where those that are not make
none of it (`count = 0` by their values). In a plan, what is deleted or forgotten is not found: it is on its
way out. What `local-exec` does to a cluster is not seen here.""",
)
