"""The values that a variables file sets, as far as they can be told without running Terraform."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.hcl.reader import read, values
from holdfast.kernel.errors import ConfigError, Place, Problem

ReadValues = Callable[[str], Mapping[str, object]]
"""From a path, relative to the root, to the file's top-level values; raises a HoldfastError."""

LARGEST = 16 * 1024 * 1024


def variables_reader(root: Path) -> ReadValues:
    """Reads `.tfvars` and `.tfvars.json` below this root. What a file computes is the reader's `UNKNOWN`."""

    def read_values(path: str) -> Mapping[str, object]:
        try:
            with (root / path).open("rb") as handle:
                content = handle.read(LARGEST + 1)
        except OSError as error:
            raise _error(path, f"cannot be read: {error.strerror or error}") from None
        if len(content) > LARGEST:
            raise _error(path, f"is larger than {LARGEST:,} bytes")
        file = read(content, path)
        if file.problems:
            raise ConfigError(file.problems)
        return values(file)

    return read_values


def _error(path: str, what: str) -> ConfigError:
    return ConfigError(
        (
            Problem(
                code="HF-STACK-13",
                message=f"the variables file {path} {what}",
                hint="Check that it is the right file and that this user may read it.",
                place=Place(file=path),
            ),
        )
    )


def plain_text(value: object) -> str | None:
    """How a single value is written in a name or a path; None for lists, maps and what is not known."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() else repr(value)
        case _:
            return None
