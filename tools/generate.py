"""Writes the files that are made from the code, or (`--check`) says which of them are stale.

A new generated file is one more row in GENERATED.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.checks.engine import catalogue, pages
from holdfast.cli import reference
from holdfast.config import reference as config_reference
from holdfast.config import schema

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    path: str
    make: Callable[[], str]


GENERATED: tuple[Generated, ...] = (
    Generated(path="docs/holdfast.schema.json", make=schema.document),
    Generated(path="docs/configuration-keys.md", make=config_reference.document),
    Generated(path="docs/cli.md", make=reference.document),
    Generated(path="docs/checks/README.md", make=lambda: pages.rule_index(catalogue.rules())),
    *(
        Generated(path=f"docs/checks/{rule.id}.md", make=partial(pages.rule_page, rule))
        for rule in catalogue.rules()
    ),
)


def stale(root: Path, generated: Sequence[Generated] = GENERATED) -> tuple[Generated, ...]:
    """Those whose content on disk is not what the code makes today."""
    return tuple(one for one in generated if _content(root / one.path) != one.make())


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def main(arguments: Sequence[str], root: Path = ROOT, generated: Sequence[Generated] = GENERATED) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is stale")
    check = parser.parse_args(arguments).check
    found = stale(root, generated)
    for one in found:
        if check:
            print(f"{one.path} is stale: `make docs` writes it again", file=sys.stderr)
            continue
        path = root / one.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(one.make(), encoding="utf-8")
        print(f"wrote {one.path}")
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
