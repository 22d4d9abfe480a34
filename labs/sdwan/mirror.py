"""Builds a mirror with the lab provider and the stand-ins for `catonetworks/cato` and `mastercard/restapi`.

`python labs/sdwan/mirror.py FOLDER` does it from a shell and prints the CLI configuration to use. With
it, the addresses of the real providers lead to ours: never use it outside of a lab.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from provider import mirror

VERSIONS = {"catonetworks/cato": "0.0.96", "mastercard/restapi": "2.0.1"}
HOSTS = ("registry.terraform.io", "registry.opentofu.org")


def build(folder: Path, *, python: Path) -> Path:
    """Write the mirror into `folder` and answer the path of its `cli.tfrc`; see provider/mirror.py."""
    also = [mirror.Package(f"{host}/{name}", version) for host in HOSTS for name, version in VERSIONS.items()]
    return mirror.build(folder, python=python, also=also)


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004 (the program and its one argument)
        sys.exit("Usage: python labs/sdwan/mirror.py FOLDER")
    print(build(Path(sys.argv[1]), python=Path(sys.executable)))
