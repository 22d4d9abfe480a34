"""The keys of holdfast.yaml, and the configuration that the program uses once the file is valid."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final

from holdfast.config.bootstrap import Bootstrap
from holdfast.config.checks import CheckSettings
from holdfast.config.declarations import At, ListOf, Names, Section, key, named
from holdfast.config.defaults import EntryDefaults, Shared
from holdfast.config.drift import DriftSettings
from holdfast.config.engine import EngineSettings
from holdfast.config.gates import Cluster, Gate, check_gates
from holdfast.config.guard import GuardKeys, GuardSettings
from holdfast.config.notify import NotifySettings
from holdfast.config.problems import Problems, did_you_mean
from holdfast.config.publishing import Bridge, Facts, RequiredSecret, check_secret_names
from holdfast.config.secret_refs import Value
from holdfast.config.shapes import (
    NAME,
    AnyValue,
    Choice,
    Duration,
    Flag,
    FormatVersion,
    Integer,
    Number,
    Size,
    Text,
    path_text,
)
from holdfast.config.stack_rules import ENV_VARIABLES, GLOBS, PASSED_VARIABLES, StackRule
from holdfast.kernel.errors import Place
from holdfast.kernel.values import PlacedStruct

DEFAULT_STORE = ".holdfast"

PRODUCTION_NAMES: Final = ("production", "prod", "prd", "live")
_VALUES: Final = Names(AnyValue(), r"[A-Za-z0-9_][A-Za-z0-9_-]*", "a name of letters, digits, _ and -")
_SERVER: Final = (
    r"(?:https://[A-Za-z0-9.-]+|http://(?:localhost|127\.[0-9.]+)|https?://\[[0-9a-fA-F:]+\])"
    r"(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?"
)
_S3_URI: Final = r"s3://[a-z0-9][a-z0-9.-]*(?:/[^\\\x00-\x1f]*)?"


class Environment(Section, frozen=True, kw_only=True):
    name: str
    match: tuple[str, ...] = key(
        ListOf(Text(), single=True),
        "A value or glob, or a list of them: names that belong to the environment, in addition to its own.",
    )
    production: bool = key(
        Flag(),
        "Whether it counts as production.",
        default=False,
        default_doc=f"true for {', '.join(f'`{name}`' for name in PRODUCTION_NAMES)}",
    )
    values: Mapping[str, Value] = key(_VALUES, "`values` of this environment, merged over those of the file.")
    defaults: EntryDefaults | None = key(
        EntryDefaults, "`defaults` of this environment, merged over those of the target.", default=None
    )

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> Environment:
        values.setdefault("production", values["name"] in PRODUCTION_NAMES)
        return cls(**values)


class Owner(StrEnum):
    CI = "ci"
    DEVELOPERS = "developers"


class Proof(StrEnum):
    REQUIRED = "required"


class ContractUse(PlacedStruct, Section, frozen=True, kw_only=True):
    """The outputs that stacks of a target must have."""

    place: Place
    schema: str = key(
        path_text("the name of a built-in contract, or the path of a YAML file inside the repository"),
        "The name of a built-in contract, or the path of a YAML file.",
        default="platform-v1",
    )
    stacks: tuple[str, ...] = key(
        ListOf(Text(), single=True),
        "A list of the stacks that must have them: names, globs and filters as on the command line.",
        default_doc="all of the target",
    )


class Target(Section, frozen=True, kw_only=True):
    name: str
    owner: Owner = key(
        Choice(tuple(Owner)),
        "`ci`: only CI may apply and destroy. `developers`: anyone may.",
        default=Owner.DEVELOPERS,
    )
    proof: Proof | None = key(
        Choice(tuple(Proof)),
        "`required`: CI must prove who it is, by an OIDC token of the job or to a server. Otherwise `CI` is "
        "believed, and recorded as unverified.",
        default=None,
    )
    lane: str | None = key(
        NAME,
        "The concurrency lane in which its changes queue. A stack without a target queues in the lane of its "
        "environment.",
        default_doc="the target's name",
    )
    contract: ContractUse | None = key(
        ContractUse, "Outputs that its stacks must have: [the output contract](contract.md).", default=None
    )
    defaults: EntryDefaults | None = key(
        EntryDefaults, "`defaults` of this target, merged over those of the file.", default=None
    )
    secrets: tuple[RequiredSecret, ...] = key(
        ListOf(RequiredSecret),
        "The secrets that must exist before a deploy: [required secrets](secrets.md#required-secrets).",
    )
    facts: Facts | None = key(
        Facts, "Outputs that are published for GitOps: [facts](facts.md).", default=None
    )
    bridge: tuple[Bridge, ...] = key(
        ListOf(Bridge),
        "Outputs that are published for GitOps, encrypted with SOPS: [the bridge](facts.md#the-bridge).",
    )
    kubernetes: Cluster | None = key(Cluster, "The cluster of the target, for gates.", default=None)
    bootstrap: Bootstrap | None = key(
        Bootstrap, "How GitOps comes into the cluster: [deploy](deploy.md#bootstrap).", default=None
    )
    gates: tuple[Gate, ...] = key(ListOf(Gate), "A list of checks of the live system: [gates](gates.md).")

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        check_secret_names(section, problems)
        check_gates(section, problems)
        if "bootstrap" in section.value and "kubernetes" not in section.value:
            problems.add(
                "HF-CONF-5",
                f"{section.where}.bootstrap needs the key `kubernetes` of the target",
                place=section.value["bootstrap"].place,
                hint='Say which cluster: kubernetes: { context: "{outputs.kube_context}" }',
            )


class Work(Section, frozen=True, kw_only=True):
    """When work directories are removed: after how many seconds, and beyond how many bytes in total."""

    max_age: float = key(
        Duration(), "Remove a work directory that was not used for this long.", default="24h"
    )
    max_size: int = key(
        Size(), "Remove the oldest work directories when all of them are larger than this.", default="5GB"
    )


class BackupSettings(Section, frozen=True, kw_only=True):
    """Of the versions and snapshots of a state, the newest `keep` stay; the others for `max_age` seconds."""

    keep: int = key(
        Integer(1, 100_000), "How many of a state's newest versions or backups are always kept.", default=30
    )
    max_age: float = key(
        Duration(0, 3650 * 86400.0),
        "How long older versions are kept. `0s`: they are removed at once.",
        default="90d",
    )


class RedactionSettings(Section, frozen=True, kw_only=True):
    off: tuple[str, ...] = key(
        ListOf(Text("the id of a layer", r"[a-z0-9][a-z0-9-]*", max_length=100)),
        "Ids of redaction layers to turn off. Registered secrets are always masked.",
    )
    words: tuple[str, ...] = key(
        ListOf(Text("a word of three characters or more", r"\S{3,}", max_length=100)),
        "More words that mark a name as secret, such as `parole`.",
    )
    entropy: float | None = key(
        Number(0, 8),
        "Bits per character from which a value under such a name counts as random: 0 to 8.",
        default_doc="`2.75`",
    )


class Config(Section, frozen=True, kw_only=True):
    groups: ClassVar[Mapping[str, str]] = {
        "audit": "Where the audit log is stored in addition to the run store: [audit](audit.md)."
    }

    file: Path
    root: Path
    version: int = key(FormatVersion(), "The version of this format: `1`.", default=1, required=True)
    company: str | None = key(NAME, "The value of `{company}`.")
    environments: tuple[Environment, ...] = key(
        named(Environment, entry=lambda _name, environment, _place: environment),
        "A mapping of environment names to their settings.",
    )
    targets: tuple[Target, ...] = key(
        named(Target, entry=lambda _name, target, _place: target),
        "A mapping of target names to their settings. A target is a platform that stacks are deployed to.",
    )
    stacks: tuple[StackRule, ...] = key(
        ListOf(StackRule), "A list of entries: how stacks are found and what they consist of."
    )
    defaults: EntryDefaults | None = key(
        EntryDefaults,
        "Keys for every entry of `stacks`: any but `name`, `folder`, `variables`, `module`, `matrix`, "
        "`environment` and `target`. See [defaults](configuration.md#defaults).",
        default=None,
    )
    values: Mapping[str, Value] = key(
        _VALUES, "Values for placeholders: `{values.domain}`, `{values.network.cidr}`."
    )
    env: Mapping[str, Value] = key(
        ENV_VARIABLES, "Environment variables of all stacks; `defaults` and entries win."
    )
    pass_env: tuple[str, ...] = key(
        PASSED_VARIABLES, "Names of the caller's environment variables that all stacks get."
    )
    reads: tuple[str, ...] = key(
        GLOBS, "A list of files that all stacks read, as paths, folders or globs: `policies/**`."
    )
    ignores: tuple[str, ...] = key(
        GLOBS,
        "A list of files that never affect a stack. Without this key too, files such as `**/*.md` and "
        "`**/docs` count only if the code names them: "
        "[which stacks a change affects](stacks.md#which-stacks-a-change-affects).",
    )
    engine: EngineSettings = key(EngineSettings, "What runs Terraform.")
    store: str = key(
        Text(
            "a folder, `s3://bucket/prefix`, or `https://HOST` of a server (http:// only on this machine)",
            rf"{_S3_URI}|{_SERVER}|(?![A-Za-z][A-Za-z0-9+.-]*://)(?!(?:.*/)?\.\.(?:/|$))[^\\\x00-\x1f]+",
            code="HF-CONF-16",
            numbers=False,
        ),
        "The run store: a folder, `s3://bucket/prefix`, or the address of a server: `https://HOST`.",
        default=DEFAULT_STORE,
    )
    store_named: bool = False
    """Whether the file itself says where the store is."""
    work: Work = key(Work, "When work directories are removed.")
    guard: GuardSettings = key(
        GuardKeys, "What is refused, and what needs an approval: [the guard](guard.md)."
    )
    checks: CheckSettings = key(CheckSettings, "What `check`, `plan` and `apply` check: [checks](checks.md).")
    drift: DriftSettings = key(DriftSettings, "What is compared with reality, and when: [drift](drift.md).")
    audit_s3: str | None = key(
        Text("`s3://bucket/prefix`", _S3_URI, code="HF-CONF-16", numbers=False),
        "Holdfast also copies its entries here, by day and run: `s3://bucket/prefix`.",
        path="audit.s3",
    )
    backups: BackupSettings = key(
        BackupSettings, "How long old versions and backups of states are kept: [state](state.md)."
    )
    redaction: RedactionSettings = key(
        RedactionSettings, "What is masked in addition to registered secrets: [redaction](redaction.md)."
    )

    notify: NotifySettings = key(NotifySettings, "Who hears of what: [notifications](notifications.md).")

    @property
    def shared(self) -> Shared:
        """What entries share."""
        return Shared(
            file=self.defaults.written if self.defaults is not None else None,
            targets={
                target.name: target.defaults.written for target in self.targets if target.defaults is not None
            },
            environments={
                environment.name: environment.defaults.written
                for environment in self.environments
                if environment.defaults is not None
            },
            values=self.values,
            environment_values={
                environment.name: environment.values
                for environment in self.environments
                if environment.values
            },
        )

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        known = (*section.get("environments", {}), *PRODUCTION_NAMES)
        for key_, code in (("guard", "HF-CONF-23"), ("checks", "HF-CONF-26")):
            named_here = section.value[key_].get("environments", {}) if key_ in section.value else {}
            for name, at in named_here.items():
                if name not in known:
                    problems.add(
                        code,
                        f"{key_}.environments names `{name}`, which is not in `environments`",
                        place=at.place,
                        hint=did_you_mean(name, known) or f"Add it: environments: {{ {name}: {{}} }}",
                    )

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> Config:
        return cls(store_named="store" in values, **values)
