"""Write the files that are generated from the code; with `--check`, list the stale ones.

To add a generated file, add a row to GENERATED.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cli_page
import config_documents
from holdfast.checks.engine import catalogue, pages
from holdfast.terraform.tables.stateful_types import stateful_types

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    path: str
    make: Callable[[], str]


PROVIDERS = {
    "AWS": ("aws_",),
    "Azure": ("azurerm_",),
    "Google Cloud": ("google_",),
    "Kubernetes and Helm": ("kubernetes_", "helm_"),
}
STATEFUL_TYPES = """# Protected types

{count} types that [the guard](guard.md#protection) protects in production, because their resources cannot
simply be created again: they hold data or keys, or others know them by their identity or address. This page
is generated from `src/holdfast/terraform/tables/stateful_types.json`, which also has the attributes that
protect a resource.
"""


def stateful_types_page() -> str:
    types = stateful_types()
    lines = [STATEFUL_TYPES.format(count=len(types))]
    for provider, prefixes in PROVIDERS.items():
        lines += [f"## {provider}", "", "| holds | types |", "|---|---|"]
        for holds in ("data", "keys", "identity", "address"):
            names = [name for name, row in types.items() if row.holds == holds and name.startswith(prefixes)]
            lines.append(f"| {holds} | {' '.join(f'`{name}`' for name in names)} |")
        lines.append("")
    return "\n".join(lines)


GENERATED: tuple[Generated, ...] = (
    Generated(path="docs/stateful-types.md", make=stateful_types_page),
    Generated(path="docs/holdfast.schema.json", make=config_documents.schema),
    Generated(path="docs/configuration-keys.md", make=config_documents.keys_page),
    Generated(path="docs/server-keys.md", make=config_documents.server_keys_page),
    Generated(path="docs/blueprint-keys.md", make=config_documents.blueprint_keys_page),
    Generated(path="docs/cli.md", make=cli_page.document),
    Generated(path="docs/checks/README.md", make=lambda: pages.rule_index(catalogue.rules())),
    *(
        Generated(path=f"docs/checks/{rule.id}.md", make=partial(pages.rule_page, rule))
        for rule in catalogue.rules()
    ),
)


def stale(root: Path, generated: Sequence[Generated] = GENERATED) -> tuple[Generated, ...]:
    """The files whose content differs from what the code generates."""
    return tuple(file for file in generated if _content(root / file.path) != file.make())


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def main(arguments: Sequence[str], root: Path = ROOT, generated: Sequence[Generated] = GENERATED) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is stale")
    check = parser.parse_args(arguments).check
    outdated = stale(root, generated)
    for file in outdated:
        if check:
            print(f"{file.path} is stale; regenerate it with: make docs", file=sys.stderr)
            continue
        path = root / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.make(), encoding="utf-8")
        print(f"wrote {file.path}")
    return 1 if check and outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
