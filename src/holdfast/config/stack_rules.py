"""`stacks`: how stacks are found and what they consist of.

Text that may contain placeholders is kept as written; `stacks/` fills it in for each stack.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final

from holdfast.config.declarations import At, ListOf, Names, ReservedNames, ScalarOrMapping, Section, key
from holdfast.config.engine import TERRAFORM_PARALLELISM, EnginePin
from holdfast.config.hooks import FILE_NAME, FILE_NAME_EXPECTED, Generate, Hook
from holdfast.config.matrix import EXCLUDE, MATRIX, MatrixAxis, check_matrix
from holdfast.config.output_refs import OutputRef
from holdfast.config.problems import Problems
from holdfast.config.secret_refs import SecretRef, Value
from holdfast.config.shapes import (
    FILLED,
    INSIDE,
    INSIDE_EXPECTED,
    LABEL,
    AnyValue,
    Choice,
    Duration,
    Flag,
    MistakeError,
    SecretOnly,
    Text,
    path_text,
)
from holdfast.kernel.errors import Place
from holdfast.kernel.values import PlacedStruct

OWNED_VARIABLES: Final = (
    ReservedNames(r"TF_CLI_ARGS.*", "Holdfast sets the arguments of Terraform."),
    ReservedNames(r"TF_WORKSPACE", "Use `workspace:` of the stack."),
    ReservedNames(r"TF_DATA_DIR", "Holdfast keeps the data of each stack in its own work directory."),
    ReservedNames(r"TF_LOG.*", "Terraform's log can contain secrets; Holdfast decides where it goes."),
    ReservedNames(r"TF_REATTACH_PROVIDERS", "Holdfast starts the providers."),
    ReservedNames(r"TF_IN_AUTOMATION|TF_INPUT", "Holdfast always runs Terraform without prompts."),
    ReservedNames(r"TF_PLUGIN_CACHE_DIR", "Providers come from Holdfast's own verified mirror."),
    ReservedNames(r"TF_DISABLE_PLUGIN_TLS", "Use `engine.plugin_tls`."),
    ReservedNames(r"TMPDIR|PLUGIN_UNIX_SOCKET_DIR", "Holdfast gives each engine a private folder."),
    ReservedNames(
        r"PATH|HOME|XDG_.*|TF_CLI_CONFIG_FILE|TERRAFORM_CONFIG",
        "Set it where you start Holdfast; Terraform gets that value.",
    ),
    ReservedNames(
        r"LD_.*|DYLD_.*|GCONV_PATH|LOCPATH|GLIBC_TUNABLES|OPENSSL_.*|SSLKEYLOGFILE|GIT_.*|BASH_.*|ENV|SHELLOPTS|PS4|"
        r"PYTHON.*|PERL5.*|PERLLIB|RUBY(?:OPT|LIB)|NODE_(?:OPTIONS|PATH)|_?JAVA_.*|JDK_JAVA_.*|CLASSPATH",
        "It decides which code programs load, so a stack cannot set it.",
    ),
    ReservedNames(r"HOLDFAST_.*", "These are settings of Holdfast itself, not of a stack."),
)
BACKEND_TYPES: Final = (
    "azurerm", "consul", "cos", "gcs", "http", "kubernetes", "local", "oci", "oss", "pg", "remote", "s3",
)  # fmt: skip
DEFAULT_IGNORES: Final = (
    "**/*.md", "**/docs", "**/LICENSE*", "**/NOTICE*", "**/CODEOWNERS", "**/.github", "**/.gitlab",
    "**/.gitlab-ci.yml", "**/.gitignore", "**/.gitattributes", "**/.editorconfig",
    "**/.pre-commit-config.yaml",
)  # fmt: skip
"""These count only for a stack whose code names them, or whose `reads` list them."""
GLOBS: Final = ListOf(
    path_text(
        "a path or glob inside the repository, relative to holdfast.yaml, without `..`, `[` and `]`, and "
        "with `**` only between slashes",
        rf"(?!.*[\[\]])(?!.*[^/]\*\*)(?!.*\*\*[^/]){INSIDE}",
        fill=True,
    )
)
_VARIABLE_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE_EXPECTED: Final = (
    "the name of an environment variable (letters, digits and _, not starting with a digit)"
)
_SECRET_OR_TEXT: Final = Text(fill=True, secret=True)


def _free_variable(name: str) -> str:
    for names in OWNED_VARIABLES:
        if re.fullmatch(names.pattern, name):
            raise MistakeError("HF-CONF-14", f"cannot pass `{name}`", hint=names.why)
    return name


ENV_VARIABLES: Final = Names(
    AnyValue(nested=False, as_text=True),
    _VARIABLE_NAME,
    _VARIABLE_EXPECTED,
    code="HF-CONF-15",
    reserved=OWNED_VARIABLES,
    reserved_code="HF-CONF-14",
)
PASSED_VARIABLES: Final = ListOf(
    Text(_VARIABLE_EXPECTED, _VARIABLE_NAME, code="HF-CONF-15", numbers=False, convert=_free_variable)
)


class RuleKind(StrEnum):
    VARIABLES = "variables"
    FOLDER = "folder"
    NAMED = "named"


class Backend(Section, frozen=True, kw_only=True):
    """A backend without a type has the type that the code declares."""

    type: str | None = key(
        Choice(BACKEND_TYPES),
        "The backend's type. If the code declares a backend, it must have the same type.",
        default_doc="the type in the code",
    )
    settings: Mapping[str, Value] = key(
        Names(AnyValue(), r"[A-Za-z_][A-Za-z0-9_-]*", "the name of a setting"),
        "A mapping of backend settings, in addition to those in the code and in `files`.",
    )
    files: tuple[str, ...] = key(
        ListOf(path_text(fill=True)),
        "A list of files with backend settings in HCL or JSON, as for `-backend-config=FILE`. The last one "
        "wins; `settings` win over all of them.",
    )


class VariablesLayer(Section, frozen=True, kw_only=True):
    """One of `variables_files`."""

    file: str = key(path_text(fill=True), "The path of the file.", required=True)
    optional: bool = key(
        Flag(),
        "Whether the file is skipped for stacks for which it does not exist or a placeholder in its path has "
        "no value.",
        default=False,
    )


class _CredentialSettings(Section, frozen=True, kw_only=True):
    """Read as a mapping of the settings that are given, because each stack fills in its placeholders."""

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> Mapping[str, Any]:
        return MappingProxyType(values)


class AwsCredentials(_CredentialSettings, frozen=True, kw_only=True):
    role_arn: Value = key(_SECRET_OR_TEXT, "The role to assume.", required=True)
    external_id: Value = key(_SECRET_OR_TEXT, "The external id that the role's trust policy requires.")
    session_name: Value = key(_SECRET_OR_TEXT, "The session's name in CloudTrail.")
    region: Value = key(_SECRET_OR_TEXT, "The region of the calls that assume the role.")
    duration: int | None = key(Duration(900, 43200), "How long the session lasts: `15m` to `12h`.")
    web_identity_token_file: Value = key(_SECRET_OR_TEXT, "The file with the OIDC token of the caller.")
    profile: Value = key(_SECRET_OR_TEXT, "The profile that assumes the role.")

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> Mapping[str, Any]:
        if "duration" in values:
            values["duration"] = int(values["duration"])
        return MappingProxyType(values)


class AzureCredentials(_CredentialSettings, frozen=True, kw_only=True):
    client_id: Value = key(_SECRET_OR_TEXT, "The identity to use.")
    tenant_id: Value = key(_SECRET_OR_TEXT, "The identity's tenant.")
    subscription_id: Value = key(_SECRET_OR_TEXT, "The subscription of the stack.")
    use_oidc: bool = key(Flag(), "Authenticate with a federated token.", default=False)
    oidc_token_file: Value = key(_SECRET_OR_TEXT, "The file with the federated token.")
    client_secret: Value = key(SecretOnly(), "The identity's secret: always a secret reference.")
    use_azuread: bool = key(Flag(), "Use Entra authentication for the state.", default=True)

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> Mapping[str, Any]:
        return MappingProxyType({"use_oidc": False, "use_azuread": True, **values})


class Credentials(_CredentialSettings, frozen=True, kw_only=True):
    schema_rules: ClassVar[Mapping[str, Any]] = {"minProperties": 1}

    aws: Mapping[str, Value] = key(AwsCredentials, "An AWS role to assume.", default=None)
    azure: Mapping[str, Value] = key(AzureCredentials, "An Azure identity to use.", default=None)

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        if not section.value:
            problems.add("HF-CONF-5", f"{section.where} needs `aws` or `azure`", place=section.place)


class StackRule(PlacedStruct, Section, frozen=True, kw_only=True):
    schema_rules: ClassVar[Mapping[str, Any]] = {
        "if": {"required": ["variables"], "properties": {"variables": {"type": "string"}}},
        "then": {"not": {"required": ["folder"]}},
        "else": {
            "if": {"required": ["folder"]},
            "then": {"not": {"required": ["module"]}},
            "else": {"required": ["name"]},
        },
    }

    kind: RuleKind
    place: Place
    pattern: str | None = None
    """The path pattern of `variables` or `folder`; None for a stack named by hand."""
    places: Mapping[str, Place] = MappingProxyType({})
    """The place of each key's value, for errors that appear only once stacks are found."""
    written: At
    """As it was read, to be merged with defaults."""
    variables: Mapping[str, Value] = key(
        ScalarOrMapping(
            scalar=path_text(
                f"{INSIDE_EXPECTED}, ending in `.tfvars` or `.tfvars.json`", rf"{INSIDE}\.tfvars(?:\.json)?"
            ),
            mapping=Names(
                AnyValue(null=True), r"[A-Za-z_][A-Za-z0-9_-]*", "the name of a Terraform variable"
            ),
        ),
        "Text: the pattern of variables files, one stack per file. A mapping: values of variables.",
    )
    inputs: Mapping[str, Value | OutputRef] = key(
        Names(
            AnyValue(null=True, outputs=True), r"[A-Za-z_][A-Za-z0-9_-]*", "the name of a Terraform variable"
        ),
        "A mapping of variables to values, secret references or "
        "[outputs of other stacks](stacks.md#outputs-as-inputs). They win over `variables`.",
    )
    folder: str | None = key(path_text(), "The pattern of folders: one stack per root module.")
    name: str | None = key(
        FILLED,
        "The stack's name. Without `variables` and `folder`, the entry is one stack of this name.",
        default_doc="the path that matched",
    )
    module: str | None = key(path_text(fill=True), "The folder of the root module.", implied=".")
    matrix: Mapping[str, MatrixAxis] = key(
        MATRIX,
        "For an entry by name: one stack for each combination of placeholder values. Each has a list of "
        "values, or a mapping that says where they come from. `exclude` lists combinations to leave out.",
    )
    variables_files: tuple[VariablesLayer, ...] = key(
        ListOf(
            ScalarOrMapping(
                scalar=path_text(fill=True),
                mapping=VariablesLayer,
                from_scalar=lambda file: VariablesLayer(file=file),
            )
        ),
        "A list of more variables files: paths, or mappings of `file` and `optional`. The last one wins; the "
        "stack's own file comes after them.",
    )
    environment: str | None = key(
        FILLED,
        "The value to look up in `environments`.",
        default_doc="[see Environments](configuration.md#environments)",
    )
    account: str | None = key(FILLED, "The stack's account.", default_doc="`{account}` of the pattern")
    region: str | None = key(FILLED, "The stack's region.", default_doc="`{region}` of the pattern")
    target: str | None = key(FILLED, "One of `targets`.", default_doc="`{target}` of the pattern")
    backend: Backend | None = key(
        Backend, "Where the state is stored.", default=None, default_doc="the backend in the code"
    )
    credentials: Mapping[str, Mapping[str, Value]] = key(
        Credentials,
        "The cloud credentials of the stack. With this key, the stack gets no others.",
        default_doc="those of the caller",
    )
    env: Mapping[str, Value] = key(
        ENV_VARIABLES, "A mapping of environment variables for Terraform and its providers."
    )
    pass_env: tuple[str, ...] = key(
        PASSED_VARIABLES,
        "A list of the caller's variables to pass to Terraform, in addition to the file's `pass_env`.",
    )
    workspace: str | None = key(FILLED, "The workspace of the backend.", implied="default")
    depends_on: tuple[str, ...] = key(
        ListOf(FILLED), "A list of names or globs of stacks that are applied before this one."
    )
    hooks: tuple[Hook, ...] = key(
        ListOf(Hook), "A list of programs to run before and after Terraform: [hooks](hooks.md)."
    )
    generate: Mapping[str, Generate] = key(
        Names(Generate, FILE_NAME, FILE_NAME_EXPECTED),
        "A mapping of files that the work directory gets beside the code, each from a "
        "[template](configuration.md#generated-files).",
    )
    worker: Mapping[str, str] = key(
        Names(Text("the value of a label", LABEL), LABEL, "the name of a label"),
        "Labels that a [worker](runs-on-the-server.md#labels) of a server needs to run the stack, such as "
        "`network: internal`.",
    )
    reads: tuple[str, ...] = key(
        GLOBS,
        "A list of more files that the stack reads, as paths, folders or globs, in addition to the file's "
        "`reads`. They are copied into the work directory, and a change of one affects the stack.",
    )
    ignores: tuple[str, ...] = key(
        GLOBS,
        "A list of files that never affect the stack, even if it reads them, in addition to the file's "
        "`ignores`. See [which stacks a change affects](stacks.md#which-stacks-a-change-affects).",
    )
    warm_providers: bool = key(
        Flag(),
        "Whether the embedded engine keeps [provider processes](engines.md#warm-providers) between commands.",
        default=False,
    )
    engine: EnginePin | None = key(
        EnginePin,
        "The engine of these stacks: `use` and `version`, as in `engine`.",
        default=None,
        default_doc="`engine` of the file",
    )
    terraform_parallelism: int | None = TERRAFORM_PARALLELISM

    @property
    def axes(self) -> Mapping[str, MatrixAxis]:
        """The placeholders of the matrix."""
        return {name: axis for name, axis in self.matrix.items() if name != EXCLUDE}

    @property
    def excluded(self) -> tuple[Mapping[str, str], ...]:
        """Combinations of the matrix that are no stacks."""
        listed = self.matrix.get(EXCLUDE, ())
        return (
            tuple(item for item in listed if isinstance(item, Mapping)) if isinstance(listed, tuple) else ()
        )

    def place_of(self, key: str, text: str | None = None) -> Place:
        """Of a key, or of a text in its value."""
        at = self.written.value.get(key)
        exact = _place_of_text(at, text) if at is not None and text is not None else None
        return exact or self.places.get(key, self.place)

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        kind = rule_kind({name: at.value for name, at in section.value.items()})
        if kind is None:
            problems.add(
                "HF-CONF-17",
                f"{section.where} does not define how to find its stacks",
                place=section.place,
                hint="Give `variables: path/{name}.tfvars`, `folder: path/{name}`, or a `name`.",
            )
        elif kind in _EXCLUDED and _EXCLUDED[kind][0] in section.value:
            excluded, why = _EXCLUDED[kind]
            problems.add(
                "HF-CONF-17",
                f"`{excluded}` cannot be combined with `{kind}` in {section.where}: {why}",
                place=section.value[excluded].key_place,
                hint=f"Remove one of `{kind}` and `{excluded}`, or write two entries.",
            )
        if "matrix" in section.value and kind in _EXCLUDED:
            problems.add(
                "HF-CONF-17",
                f"`matrix` cannot be combined with `{kind}` in {section.where}: the pattern finds the stacks",
                place=section.value["matrix"].key_place,
                hint="Use `matrix` in an entry with `name`, or remove it.",
            )
        elif "matrix" in section.value and kind is not None:
            check_matrix(section, problems)

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> StackRule:
        kind = rule_kind(values) or RuleKind.NAMED
        pattern = values.pop("variables") if kind is RuleKind.VARIABLES else values.get("folder")
        return cls(kind=kind, pattern=pattern, **values)


def _place_of_text(at: At, text: str) -> Place | None:
    match at.value:
        case str() if at.value == text:
            return at.place
        case SecretRef() if at.value.locator == text:
            return at.place
        case Mapping() | tuple():
            items = at.value.values() if isinstance(at.value, Mapping) else at.value
            read = (item for item in items if isinstance(item, At))
            return next((place for item in read if (place := _place_of_text(item, text))), None)
        case _:
            return None


_EXCLUDED: Final = {
    RuleKind.VARIABLES: ("folder", "an entry finds stacks by variables file or by folder, not by both"),
    RuleKind.FOLDER: ("module", "the folder that matches is the module"),
}


def rule_kind(values: Mapping[str, Any]) -> RuleKind | None:
    """The kind of an entry with these keys; None if they do not say how to find stacks."""
    if not isinstance(values.get("variables", {}), Mapping):
        return RuleKind.VARIABLES
    if "folder" in values:
        return RuleKind.FOLDER
    return RuleKind.NAMED if "name" in values else None
