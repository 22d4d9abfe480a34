"""A new target: Terraform code whose outputs satisfy the contract, and its part of holdfast.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from holdfast.kernel.errors import UsageError
from holdfast.scaffold.generated_file import GeneratedFile
from holdfast.scaffold.templates import fill, template
from holdfast.system import files

KINDS: Final[Mapping[str, Sequence[str]]] = {
    "aws": ("main.tf", "network.tf", "cluster.tf", "identities.tf", "variables.tf", "outputs.tf"),
    "azure": ("main.tf", "network.tf", "cluster.tf", "identities.tf", "variables.tf", "outputs.tf"),
    "local": ("main.tf", "variables.tf", "outputs.tf", "k3d.yaml"),
}
_READABLE: Final = 0o644
_NAME: Final = r"[a-z][a-z0-9-]{0,28}[a-z0-9]"
_CONFIG: Final = {
    "aws": """\
targets:
  @{name}:
    owner: ci                            # applied by CI only
    contract: { schema: platform-v1 }
stacks:
  - name: @{name}/platform
    module: @{folder}
    target: @{name}
    environment: prod
    variables: { region: REGION, zone_id: ROUTE53_ZONE }
    backend:
      type: s3
      settings:
        bucket: BUCKET
        key: @{name}/platform/terraform.tfstate
        region: REGION
        encrypt: true
        use_lockfile: true
""",
    "azure": """\
targets:
  @{name}:
    owner: ci                            # applied by CI only
    contract: { schema: platform-v1 }
stacks:
  - name: @{name}/platform
    module: @{folder}
    target: @{name}
    environment: prod
    variables:
      subscription_id: SUBSCRIPTION
      location: REGION
      zone_id: DNS_ZONE_ID
      key_vault_name: VAULT
    backend:
      type: azurerm
      settings:
        storage_account_name: ACCOUNT
        container_name: tfstate
        key: @{name}/platform.tfstate
        use_azuread_auth: true
""",
    "local": """\
environments: { local: { match: [local] } }
targets:
  @{name}:
    owner: developers
    contract: { schema: platform-v1 }
stacks:
  - name: @{name}/platform
    module: @{folder}
    target: @{name}
    environment: local
    hooks:
      - when: before_apply
        run: [sh, -c, "k3d cluster list @{name} >/dev/null 2>&1 || k3d cluster create --config k3d.yaml"]
""",
}


def target_files(kind: str, name: str) -> tuple[GeneratedFile, ...]:
    """Pure. They belong to the user afterwards, so they have no marker."""
    if not re.fullmatch(_NAME, name):
        raise UsageError(
            "HF-SCAF-8",
            f"{name} cannot be the name of a target: it becomes the name of a cluster",
            hint="Use 2 to 30 lower-case letters, digits and -, beginning with a letter.",
        )
    paths = KINDS[kind]
    values = {"name": name}
    return tuple(
        GeneratedFile(path=path, text=fill(template(f"target/{kind}/{path}"), values)) for path in paths
    )


def config_part(kind: str, name: str, folder: str) -> str:
    return fill(_CONFIG[kind], {"name": name, "folder": folder})


def write_target(folder: Path, generated: Sequence[GeneratedFile]) -> None:
    """Into a folder that does not exist yet."""
    try:
        folder.mkdir(parents=True)
        for file in generated:
            files.write(folder / file.path, file.text, mode=_READABLE)
    except FileExistsError:
        hint = "Choose another place with --folder DIR."
        raise UsageError("HF-SCAF-7", f"{folder} already exists", hint=hint) from None
    except OSError as error:
        message = f"{folder} cannot be written: {error.strerror}"
        raise UsageError("HF-SCAF-2", message, hint="Check its folder.") from None
