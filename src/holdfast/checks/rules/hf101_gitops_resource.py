from __future__ import annotations

from holdfast.checks.boundary.ownership import WRITING, for_modes
from holdfast.checks.model.interface import Rule, Severity

RULE = Rule(
    id="HF101",
    title="Terraform manages a resource that belongs to GitOps",
    why="Terraform and GitOps both write the resource and keep reverting each other's changes.",
    fix="Add the manifest to the GitOps repository. Then remove the resource from the state with a "
    "`removed` block and `destroy = false`, which leaves the resource itself alone.",
    severity=Severity.ERROR,
    **for_modes(WRITING, "Terraform manages `{}`, which belongs to GitOps"),
    bad='resource "helm_release" "grafana" {\n  name  = "grafana"\n  chart = "grafana"\n}\n',
    good="removed {\n  from = helm_release.grafana\n  lifecycle {\n    destroy = false\n  }\n}\n",
    more="""## Who owns what

By default GitOps owns everything inside a cluster: `argocd_*`, `carvel_*`, `devtron_*`, `flux_*`,
`helm_*`, `helmfile_*`, `k8s_*`, `kubectl_*`, `kubernetes_*`, `kustomization_*` and `rancher2_app_v2`. You can
change the table and exempt stacks:

```yaml
checks:
  boundary:
    types:
      kubernetes_storage_class_v1: terraform   # the most specific pattern wins
      "datadog_*": gitops
    exempt:
      - stack: "target:local"                  # a name, `*` in it, or env:, account:, region:, target:
        types: ["helm_release", "kubernetes_namespace*"]
        reason: Terraform installs Argo CD in the local cluster
```

A module that several stacks use passes if every stack is exempt, or if the stacks that are not exempt create
none of these resources (`count = 0` with their values). In a plan, resources that are deleted or forgotten
are not reported. The rule does not see what `local-exec` does to a cluster.""",
)
