"""Which environment a stack belongs to, and whether it counts as production. If in doubt, it does."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence

from msgspec import Struct

from holdfast.config.settings import PRODUCTION_NAMES, Environment


class EnvironmentMatch(Struct, frozen=True, kw_only=True):
    """The environment that a value stands for."""

    name: str
    production: bool
    reason: str


class EnvironmentDecision(Struct, frozen=True, kw_only=True):
    environment: str | None
    production: bool
    reason: str
    unclear: bool = False
    """It counts as production only because its environment is unknown or contradictory."""


def recognise(value: str, environments: Sequence[Environment]) -> EnvironmentMatch | None:
    """An exact name or value wins over a glob; among equals a production environment wins.

    The built-in names for production are exact names too, unless the configuration defines them: a glob
    that happens to match `prod` does not make it anything less.
    """
    exact = [env for env in environments if value == env.name or value in env.match]
    if exact:
        return _strictest(exact, value)
    if value in PRODUCTION_NAMES:
        return EnvironmentMatch(name=value, production=True, reason=f'"{value}" is a name for production')
    globbed = [env for env in environments if any(fnmatch.fnmatchcase(value, glob) for glob in env.match)]
    return _strictest(globbed, value) if globbed else None


def _strictest(candidates: Sequence[Environment], value: str) -> EnvironmentMatch:
    environment = next((candidate for candidate in candidates if candidate.production), candidates[0])
    kind = "production" if environment.production else "not production"
    what = f'environment "{environment.name}"'
    reason = f"{what} is {kind}" if value == environment.name else f'"{value}" belongs to {what}, {kind}'
    return EnvironmentMatch(name=environment.name, production=environment.production, reason=reason)


def decide(
    *,
    stated: str | None,
    account: str | None,
    in_files: Callable[[], str | None],
    environments: Sequence[Environment],
) -> EnvironmentDecision:
    """`stated` comes from the configuration or the path; account and files are used only without it.

    The files are read only if they can make a difference.
    """
    if stated is not None:
        return _from_value(stated, environments)
    by_account = recognise(account, environments) if account is not None else None
    if by_account is not None:
        return _from_account(by_account, account, in_files, environments)
    value = in_files()
    if value is not None:
        return _from_value(value, environments, prefix="by its variables: ")
    reason = "its environment is not set anywhere"
    if account is not None:
        reason = f'no environment matches its account "{account}", and its variables set none'
    return _unclear(None, reason)


def _unclear(environment: str | None, reason: str) -> EnvironmentDecision:
    reason = f"{reason}: counts as production"
    return EnvironmentDecision(environment=environment, production=True, reason=reason, unclear=True)


def _from_account(
    match: EnvironmentMatch,
    account: str | None,
    in_files: Callable[[], str | None],
    environments: Sequence[Environment],
) -> EnvironmentDecision:
    """The account's name decides, unless only the variables name a production environment."""
    value = in_files() if not match.production else None
    by_file = recognise(value, environments) if value is not None else None
    if by_file is None or not by_file.production:
        return _from_match(match, prefix="by its account: ")
    reason = (
        f'its variables say "{value}", which is production, although its account "{account}" '
        f'belongs to environment "{match.name}"'
    )
    return _unclear(by_file.name, reason)


def _from_value(value: str, environments: Sequence[Environment], prefix: str = "") -> EnvironmentDecision:
    match = recognise(value, environments)
    if match is not None:
        return _from_match(match, prefix=prefix)
    return _unclear(value, f'{prefix}no environment matches "{value}"')


def _from_match(match: EnvironmentMatch, prefix: str) -> EnvironmentDecision:
    return EnvironmentDecision(
        environment=match.name, production=match.production, reason=prefix + match.reason
    )
