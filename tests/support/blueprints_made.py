"""Folders with blueprints."""

from __future__ import annotations

from pathlib import Path

CODE = """
variable "site_name" {
  type = string
}
variable "psk" {
  type      = string
  sensitive = true
}
resource "terraform_data" "site" {
  input = var.site_name
}
output "site_id" {
  value = terraform_data.site.id
}
"""
SETTINGS = """
name: site
version: 1.0.0
outputs: [site_id]
inputs: { psk: { secret: "env:PSK" } }
"""


def make_blueprint(
    folder: Path, *, settings: str = SETTINGS, code: str = CODE, files: dict[str, str] | None = None
) -> Path:
    contents = {"blueprint.yaml": settings, "main.tf": code, **(files or {})}
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
