"""Reads the values in a variables file, as far as they are known without running Terraform."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.hcl.reader import read, values
from holdfast.kernel.errors import ConfigError, Place, Problem

ReadValues = Callable[[str], Mapping[str, object]]
"""From a path relative to the root to the file's values; raises a HoldfastError."""

LARGEST = 16 * 1024 * 1024


def variables_reader(root: Path) -> ReadValues:
    """A reader of `.tfvars` and `.tfvars.json` files below this root. A computed value is `UNKNOWN`."""

    def read_values(path: str) -> Mapping[str, object]:
        try:
            with (root / path).open("rb") as handle:
                content = handle.read(LARGEST + 1)
        except OSError as error:
            raise _error(path, f"cannot read the variables file {path}: {error.strerror or error}") from None
        if len(content) > LARGEST:
            raise _error(path, f"the variables file {path} is larger than {LARGEST:,} bytes")
        file = read(content, path)
        if file.problems:
            raise ConfigError(file.problems)
        return values(file)

    return read_values


def _error(path: str, message: str) -> ConfigError:
    hint = "Check that it is the right file and that you may read it."
    return ConfigError((Problem(code="HF-STACK-13", message=message, hint=hint, place=Place(file=path)),))
