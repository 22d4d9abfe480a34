"""Values that were found right, put together as the configuration the program believes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from holdfast.config.check_valid import CheckSettings
from holdfast.config.guard_valid import GuardSettings
from holdfast.config.keys import PRODUCTION_NAMES
from holdfast.config.reading import At
from holdfast.config.valid import (
    Backend,
    BackupSettings,
    Config,
    ContractUse,
    EnginePin,
    EngineSettings,
    EngineUse,
    Environment,
    Owner,
    RedactionSettings,
    RefusedCreate,
    Retries,
    RuleKind,
    StackRule,
    Target,
    TimeLimits,
    Value,
    Work,
    frozen,
)


def build(top: At, *, root: Path, path: Path) -> Config:
    """Only for a file without mistakes: what is missing here takes its default."""
    return Config(
        file=path,
        root=root,
        company=top.get("company"),
        environments=tuple(_environment(name, at) for name, at in top.get("environments", {}).items()),
        targets=tuple(_target(name, at) for name, at in top.get("targets", {}).items()),
        stacks=tuple(_rule(at) for at in top.get("stacks", ())),
        engine=_engine(_sub(top, "engine")),
        store=top.get("store", ".holdfast"),
        store_named=top.get("store") is not None,
        work=_work(_sub(top, "work")),
        backups=_backups(_sub(top, "backups")),
        redaction=_redaction(_sub(top, "redaction")),
        audit_s3=_sub(top, "audit").get("s3"),
        guard=_guard(top),
        checks=_checks(top),
    )


def _sub(at: At, key: str) -> At:
    """A record below this one; an empty one where it is absent."""
    return At(value=at.get(key, {}), place=at.place)


def _environment(name: str, at: At) -> Environment:
    return Environment(
        name=name,
        match=tuple(item.value for item in at.get("match", ())),
        production=at.get("production", name in PRODUCTION_NAMES),
    )


def _target(name: str, at: At) -> Target:
    return Target(
        name=name,
        owner=Owner(at.get("owner", Owner.DEVELOPERS)),
        lane=at.get("lane"),
        contract=_contract(at.value["contract"]) if "contract" in at.value else None,
    )


def _contract(at: At) -> ContractUse:
    default = ContractUse(place=at.place)
    return ContractUse(
        place=at.place,
        schema=at.get("schema", default.schema),
        stacks=tuple(item.value for item in at.get("stacks", ())),
    )


def _pin(at: At) -> EnginePin:
    return EnginePin(use=EngineUse(at.get("use", EngineUse.AUTO)), version=at.get("version"))


def _engine(at: At) -> EngineSettings:
    default = EngineSettings()
    limits = _sub(at, "time_limits")
    return EngineSettings(
        pin=_pin(at),
        parallelism=at.get("parallelism", default.parallelism),
        plugin_tls=at.get("plugin_tls", default.plugin_tls),
        mirror=at.get("mirror", None),
        time_limits=TimeLimits(
            init=limits.get("init", default.time_limits.init),
            plan=limits.get("plan", default.time_limits.plan),
            apply=limits.get("apply", default.time_limits.apply),
            grace=limits.get("grace", default.time_limits.grace),
        ),
        retries=_retries(_sub(at, "retries")),
    )


def _retries(at: At) -> Retries:
    default = Retries()
    return Retries(
        attempts=at.get("attempts", default.attempts),
        wait=at.get("wait", default.wait),
        also=tuple(item.value for item in at.get("also", ())),
        refused_creates=tuple(
            RefusedCreate(provider=one.get("provider"), text=one.get("text"))
            for one in at.get("refused_creates", ())
        ),
    )


def _work(at: At) -> Work:
    default = Work()
    return Work(max_age=at.get("max_age", default.max_age), max_size=at.get("max_size", default.max_size))


def _backups(at: At) -> BackupSettings:
    default = BackupSettings()
    return BackupSettings(keep=at.get("keep", default.keep), max_age=at.get("max_age", default.max_age))


def _redaction(at: At) -> RedactionSettings:
    return RedactionSettings(
        off=tuple(item.value for item in at.get("off", ())),
        words=tuple(item.value for item in at.get("words", ())),
        entropy=at.get("entropy"),
    )


def _guard(top: At) -> GuardSettings:
    if top.get("guard") is None:
        return GuardSettings()
    from holdfast.config.guard_read import guard_settings  # noqa: PLC0415  most files have no such key

    return guard_settings(_sub(top, "guard"))


def _checks(top: At) -> CheckSettings:
    if top.get("checks") is None:
        return CheckSettings()
    from holdfast.config.check_read import check_settings  # noqa: PLC0415  most files have no such key

    return check_settings(_sub(top, "checks"))


def _values(names: Mapping[str, At]) -> Mapping[str, Value]:
    return frozen({name: at.value for name, at in names.items()})


def _backend(at: At) -> Backend:
    return Backend(type=at.get("type"), settings=_values(at.get("settings", {})))


def _credentials(at: At) -> Mapping[str, Mapping[str, Value]]:
    found: dict[str, Mapping[str, Value]] = {}
    for provider, record in at.value.items():
        values = {name: setting.value for name, setting in record.value.items()}
        if provider == "aws" and "duration" in values:
            values["duration"] = int(values["duration"])
        if provider == "azure":
            values = {"use_oidc": False, "use_azuread": True, **values}
        found[provider] = frozen(values)
    return MappingProxyType(found)


def _rule(at: At) -> StackRule:
    kind = RuleKind(at.form or RuleKind.NAMED)
    inline = at.get("variables") if kind is not RuleKind.VARIABLES else None
    pattern = {RuleKind.VARIABLES: "variables", RuleKind.FOLDER: "folder", RuleKind.NAMED: ""}[kind]
    return StackRule(
        kind=kind,
        place=at.place,
        pattern=at.get(pattern),
        name=at.get("name"),
        module=at.get("module"),
        variables_files=tuple(item.value for item in at.get("variables_files", ())),
        variables=_values(inline or {}),
        environment=at.get("environment"),
        account=at.get("account"),
        region=at.get("region"),
        target=at.get("target"),
        backend=_backend(at.value["backend"]) if "backend" in at.value else None,
        credentials=_credentials(_sub(at, "credentials")),
        env=_values(at.get("env", {})),
        workspace=at.get("workspace"),
        depends_on=tuple(item.value for item in at.get("depends_on", ())),
        engine=_pin(at.value["engine"]) if "engine" in at.value else None,
        places=MappingProxyType({key: value.place for key, value in at.value.items()}),
    )
