"""Which environment a stack belongs to, and whether it counts as production. If in doubt, it does."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence

from msgspec import Struct

from holdfast.config.settings import PRODUCTION_NAMES, Environment


class EnvironmentDecision(Struct, frozen=True, kw_only=True):
    environment: str | None
    production: bool
    reason: str
    unclear: bool = False
    """It counts as production only because its environment is unknown or contradictory."""


def recognise(
    value: str, environments: Sequence[Environment], prefix: str = ""
) -> EnvironmentDecision | None:
    """The environment of a value: an exact name or value wins over a glob, and production wins among equals.

    The built-in names for production are exact names too, unless the configuration defines them: a glob
    that happens to match `prod` does not make it anything less.
    """
    matches = [env for env in environments if value == env.name or value in env.match]
    if not matches and value in PRODUCTION_NAMES:
        reason = f'{prefix}"{value}" is a name for production'
        return EnvironmentDecision(environment=value, production=True, reason=reason)
    matches = matches or [
        env for env in environments if any(fnmatch.fnmatchcase(value, glob) for glob in env.match)
    ]
    if not matches:
        return None
    match = next((env for env in matches if env.production), matches[0])
    kind = "production" if match.production else "not production"
    what = f'environment "{match.name}"'
    reason = f"{what} is {kind}" if value == match.name else f'"{value}" belongs to {what}, {kind}'
    return EnvironmentDecision(
        environment=match.name, production=match.production, reason=f"{prefix}{reason}"
    )


def decide(
    *,
    stated: str | None,
    account: str | None,
    in_files: Callable[[], str | None],
    environments: Sequence[Environment],
) -> EnvironmentDecision:
    """`stated` comes from the configuration or the path; account and files are used only without it.

    The account decides, unless only the variables name a production environment. The files are read only if
    they can make a difference.
    """
    if stated is not None:
        return _from_value(stated, environments)
    by_account = recognise(account, environments, "by its account: ") if account is not None else None
    value = in_files() if by_account is None or not by_account.production else None
    if by_account is None and value is not None:
        return _from_value(value, environments, prefix="by its variables: ")
    if by_account is None:
        reason = "its environment is not set anywhere"
        if account is not None:
            reason = f'no environment matches its account "{account}", and its variables set none'
        return _unclear(None, reason)
    by_file = recognise(value, environments) if value is not None else None
    if by_file is None or not by_file.production:
        return by_account
    reason = (
        f'its variables set "{value}", which is production, although its account "{account}" '
        f'belongs to environment "{by_account.environment}"'
    )
    return _unclear(by_file.environment, reason)


def _unclear(environment: str | None, reason: str) -> EnvironmentDecision:
    reason = f"{reason}: counts as production"
    return EnvironmentDecision(environment=environment, production=True, reason=reason, unclear=True)


def _from_value(value: str, environments: Sequence[Environment], prefix: str = "") -> EnvironmentDecision:
    decision = recognise(value, environments, prefix)
    return decision or _unclear(value, f'{prefix}no environment matches "{value}"')
