"""The engines under test: each product as a library and as a program. One that is not installed is skipped.

OpenTofu's library is the installed package (`make libtofu`), or the one in HOLDFAST_TOOLS/libtofu.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import other_tools
import pytest
from program import Program

from holdfast.terraform.engine.interface import EngineId, EngineKind, Product
from holdfast.terraform.engine.pool import library_path

if os.environ.get("HOLDFAST_TOOLS"):
    sys.path.append(str(Path(os.environ["HOLDFAST_TOOLS"], "libtofu").absolute()))

EMBEDDED = ("embedded-terraform", "embedded-tofu")
PROGRAMS = tuple(pytest.param(name, marks=pytest.mark.binary) for name in ("terraform", "tofu"))
ENGINES = (*EMBEDDED, *PROGRAMS)
_INSTALL = {
    Product.TERRAFORM: "make setup",
    Product.TOFU: "make libtofu, or name a folder with libtofu/ in HOLDFAST_TOOLS",
}


@dataclass(frozen=True, kw_only=True)
class EngineUnderTest:
    identity: EngineId
    use: str
    """What `engine.use` has to be, after `install`."""

    def install(self, program: Program) -> str:
        """Let the program find it, and no other program. Answers `use`."""
        path = Path(self.identity.path)
        if self.identity.kind is EngineKind.BINARY:
            program.environment["PATH"] = f"{path.parent}:{program.environment['PATH']}"
        elif self.identity.product is Product.TOFU:
            program.environment["PYTHONPATH"] = str(path.parent.parent)
        return self.use


def engine_under_test(name: str, *, folder: Path, terraform_folder: Path) -> EngineUnderTest:
    """By its name in ENGINES. `folder` gets a link to the program, so that it can be alone on PATH."""
    kind = EngineKind.EMBEDDED if name.startswith("embedded-") else EngineKind.BINARY
    product = Product(name.removeprefix("embedded-"))
    if kind is EngineKind.EMBEDDED:
        path = library_path(product) or pytest.skip(f"no library of {product.shown}: {_INSTALL[product]}")
    elif product is Product.TERRAFORM:
        path = terraform_folder / name
    else:
        path = Path(other_tools.only(name, folder)) / name
    use = product.value if kind is EngineKind.EMBEDDED else "binary"
    return EngineUnderTest(
        identity=EngineId(kind=kind, product=product, version="0.0.0", path=str(path)), use=use
    )
