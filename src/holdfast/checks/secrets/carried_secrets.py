"""What an expression carries: secrets, and parts of variables that may be secrets. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.kernel.patterns import pattern
from holdfast.secrets.entropy import is_secret_name

Steps = tuple[str, ...]
_PARAMETERS = pattern(r"(?:data\.)?aws_ssm_parameters?(?:_by_path)?\.")


class CarriedSecret(NamedTuple):
    source: str
    """`var.password`, `aws_db_instance.main.password`."""
    unmasked: bool = False
    """`nonsensitive` removed the mark: Terraform shows it without an error."""
    masked: bool = True
    """Terraform knows that it is a secret."""
    within: bool = False
    """It is part of a larger value, such as a whole resource, which has no mark of its own."""


class VariableUse(NamedTuple):
    """A part of a variable, which carries a secret if the argument of a module call does."""

    name: str
    steps: Steps
    source: str | None = None
    """The output that passes it on."""
    unmasked: bool = False
    mark_only: bool = False
    """Only Terraform's mark is passed on."""


Carried = tuple[CarriedSecret | VariableUse, ...]
"""Each once, in source order, up to the first secret."""


def secret_of(carried: Carried) -> CarriedSecret | None:
    return carried[-1] if carried and isinstance(carried[-1], CarriedSecret) else None


def up_to_first_secret(several: Iterable[Carried]) -> Carried:
    """All of them, up to the first secret."""
    carried: dict[CarriedSecret | VariableUse, None] = {}
    for part in several:
        carried.update(dict.fromkeys(part))
        if secret_of(part) is not None:
            break
    return tuple(carried)


def mark_only(carried: Carried) -> Carried:
    """It is not revealed: only Terraform's mark is passed on, unless `nonsensitive` removed it."""
    return tuple(
        part._replace(mark_only=True) if isinstance(part, VariableUse) else part
        for part in carried
        if not part.unmasked and (isinstance(part, VariableUse) or (part.masked and not part.within))
    )


def merged(carried: Carried) -> Carried:
    """The result of a function such as `jsonencode` has the marks of all parts of its arguments."""
    return tuple(part._replace(within=False) if isinstance(part, CarriedSecret) else part for part in carried)


def unmask(carried: Carried) -> Carried:
    return tuple(
        part._replace(unmasked=True)
        if isinstance(part, VariableUse)
        else part._replace(unmasked=True, masked=False)
        for part in carried
        if isinstance(part, VariableUse) or not _plain_parameter(part.source)
    )


def _plain_parameter(source: str) -> bool:
    """The provider marks every SSM parameter, but most are settings: image ids, host names."""
    return _PARAMETERS.match(source) is not None and not is_secret_name(source)
