"""`bootstrap` of a target: the manifests that bring GitOps into its cluster."""

from __future__ import annotations

from holdfast.config.declarations import ListOf, Section, key
from holdfast.config.shapes import NAME, Text, path_text


class Manifest(Section, frozen=True, kw_only=True):
    file: str = key(path_text(), "A YAML file with resources, relative to `holdfast.yaml`.", required=True)
    sha256: str | None = key(
        Text("a SHA-256 sum in hexadecimal", r"[0-9a-f]{64}", numbers=False),
        "The SHA-256 sum that the file must have, such as that of a release.",
    )


class Bootstrap(Section, frozen=True, kw_only=True):
    manifests: tuple[Manifest, ...] = key(
        ListOf(Manifest),
        "The files, in their order: Argo CD itself (its manifest, or its rendered chart), then the root "
        "ApplicationSet.",
        required=True,
    )
    namespace: str = key(
        NAME, "The namespace of the resources that name none. It is created.", default="argocd"
    )
