"""The files of a new blueprint: small, valid, and without a provider to download."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from holdfast.config.blueprint import FILE_NAME
from holdfast.config.shapes import NAME, NAME_EXPECTED, NAME_PATTERN
from holdfast.kernel.errors import UsageError
from holdfast.kernel.text import cut

_SETTINGS: Final = """\
# Every key: docs/blueprints.md
name: "{name}"
version: 0.1.0
description: A site, as an example. Replace main.tf with the resources of your vendor.

# Returned to the client after an event.
outputs: [site_id]

# allow, approve or deny: whether an event may delete a device.
deletion: approve
# recreate or report: what happens to a device that was deleted elsewhere.
vanished: report

# Values and secrets that a payload cannot set:
# inputs: { api_token: { secret: "env:VENDOR_API_TOKEN" } }

# For an API that allows one change at a time:
# engine: { parallelism: 1 }
# concurrency: 1
"""
_VARIABLES: Final = """\
# The payload of an event sets these variables. Types and validations become its JSON Schema.

variable "site_name" {
  description = "The name of the site."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{1,62}$", var.site_name))
    error_message = "Use 2 to 63 lower-case letters, digits and hyphens."
  }
}

variable "asn" {
  description = "The AS number of the site."
  type        = number
  default     = 65000
  nullable    = false

  validation {
    condition     = var.asn >= 1 && var.asn <= 4294967295 && floor(var.asn) == var.asn
    error_message = "An AS number is a whole number from 1 to 4294967295."
  }
}

variable "networks" {
  description = "The networks behind the site, in CIDR notation."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for network in var.networks : can(cidrhost(network, 0))])
    error_message = "Write each network in CIDR notation: 10.0.0.0/24."
  }
}
"""
_MAIN: Final = """\
terraform {
  required_version = ">= 1.4"
}

resource "terraform_data" "site" {
  input = {
    name     = var.site_name
    asn      = var.asn
    networks = var.networks
  }
}
"""
_OUTPUTS: Final = """\
output "site_id" {
  description = "The id of the site."
  value       = terraform_data.site.id
}
"""


_SHIPPED: Final = tuple(Path(__file__).parents[place] / "blueprints" for place in (1, 3))
"""In an installed package, and in the source tree."""
_NAME_LINE: Final = re.compile(r"^name:.*$", re.MULTILINE)


def shipped_blueprints() -> dict[str, Path]:
    """Those that come with Holdfast, by name."""
    folder = next((place for place in _SHIPPED if place.is_dir()), None)
    folders = sorted(folder.iterdir()) if folder is not None else []
    return {each.name: each for each in folders if (each / FILE_NAME).is_file()}


def copy_blueprint(parent: Path, name: str, source: str) -> Path:
    """A copy of one that comes with Holdfast, under another name or the same."""
    known = shipped_blueprints()
    if source not in known:
        raise UsageError(
            "HF-BLUE-11",
            f"`{cut(source, 100)}` does not come with Holdfast",
            hint=f"Choose one of these: {', '.join(known) or 'none is installed'}.",
        )
    folder = _new_folder(parent, name)
    for file in sorted(known[source].iterdir()):
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            if file.name == FILE_NAME and name != source:
                text = _NAME_LINE.sub(f'name: "{name}"', text, count=1)
            (folder / file.name).write_text(text, encoding="utf-8")
    return folder


def write_new_blueprint(parent: Path, name: str) -> Path:
    """Its folder, which is named like it."""
    folder = _new_folder(parent, name)
    contents = {
        FILE_NAME: _SETTINGS.replace("{name}", name),
        "main.tf": _MAIN,
        "variables.tf": _VARIABLES,
        "outputs.tf": _OUTPUTS,
    }
    for file, text in contents.items():
        (folder / file).write_text(text, encoding="utf-8")
    return folder


def _new_folder(parent: Path, name: str) -> Path:
    if not re.fullmatch(NAME_PATTERN, name) or len(name) > NAME.max_length:
        raise UsageError(
            "HF-BLUE-9",
            f"`{cut(name, 100)}` cannot be the name of a blueprint",
            hint=f"Use {NAME_EXPECTED}, with at most {NAME.max_length} characters.",
        )
    folder = parent / name
    if folder.exists():
        raise UsageError(
            "HF-BLUE-10",
            f"{folder} already exists",
            hint="Choose another name, or another place with --folder DIR.",
        )
    folder.mkdir(parents=True)
    return folder
