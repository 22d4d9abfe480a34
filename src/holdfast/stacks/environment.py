"""Which environment a stack belongs to, and whether that counts as production. In doubt it does."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence

from msgspec import Struct

from holdfast.config.settings import PRODUCTION_NAMES, Environment


class EnvironmentMatch(Struct, frozen=True, kw_only=True):
    """What a value was recognised as."""

    name: str
    production: bool
    how: str


class EnvironmentDecision(Struct, frozen=True, kw_only=True):
    environment: str | None
    production: bool
    reason: str


def recognise(value: str, environments: Sequence[Environment]) -> EnvironmentMatch | None:
    """An exact name or value wins over a glob; among equals a production environment wins.

    The built-in names of production are exact names too, unless the configuration says what they are: a
    glob that happens to cover `prod` does not make it anything less.
    """
    exact = [one for one in environments if value == one.name or value in one.match]
    if exact:
        return _match(_gravest(exact), value)
    if value in PRODUCTION_NAMES:
        return EnvironmentMatch(name=value, production=True, how=f'"{value}" is a name for production')
    globbed = [one for one in environments if any(fnmatch.fnmatchcase(value, glob) for glob in one.match)]
    return _match(_gravest(globbed), value) if globbed else None


def _gravest(found: Sequence[Environment]) -> Environment:
    return next((one for one in found if one.production), found[0])


def _match(environment: Environment, value: str) -> EnvironmentMatch:
    kind = "production" if environment.production else "not production"
    what = f'environment "{environment.name}"'
    how = f"{what} is {kind}" if value == environment.name else f'"{value}" belongs to {what}, {kind}'
    return EnvironmentMatch(name=environment.name, production=environment.production, how=how)


def decide(
    *,
    stated: str | None,
    account: str | None,
    in_files: Callable[[], str | None],
    environments: Sequence[Environment],
) -> EnvironmentDecision:
    """`stated` is what the configuration or the path says; only without it do account and files count.

    The files are asked only where their answer can matter.
    """
    if stated is not None:
        return _of_value(stated, environments)
    by_account = recognise(account, environments) if account is not None else None
    if by_account is not None:
        return _of_account(by_account, account, in_files, environments)
    value = in_files()
    if value is not None:
        return _of_value(value, environments, prefix="by its variables: ")
    reason = "nothing says its environment"
    if account is not None:
        reason = f'no environment matches its account "{account}", and its variables name none'
    return EnvironmentDecision(environment=None, production=True, reason=f"{reason}: counts as production")


def _of_account(
    found: EnvironmentMatch,
    account: str | None,
    in_files: Callable[[], str | None],
    environments: Sequence[Environment],
) -> EnvironmentDecision:
    """The account's name decides, unless it says less than production and the variables say production."""
    value = in_files() if not found.production else None
    by_file = recognise(value, environments) if value is not None else None
    if by_file is None or not by_file.production:
        return _verdict(found, prefix="by its account: ")
    reason = (
        f'its variables say "{value}", which is production, although its account "{account}" '
        f'belongs to environment "{found.name}": counts as production'
    )
    return EnvironmentDecision(environment=by_file.name, production=True, reason=reason)


def _of_value(value: str, environments: Sequence[Environment], prefix: str = "") -> EnvironmentDecision:
    found = recognise(value, environments)
    if found is not None:
        return _verdict(found, prefix=prefix)
    reason = f'{prefix}no environment matches "{value}": counts as production'
    return EnvironmentDecision(environment=value, production=True, reason=reason)


def _verdict(found: EnvironmentMatch, prefix: str) -> EnvironmentDecision:
    return EnvironmentDecision(environment=found.name, production=found.production, reason=prefix + found.how)
