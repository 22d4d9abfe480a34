"""Keys of a target about what is published after an apply, and about the secrets that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.config import placeholders
from holdfast.config.declarations import At, ListOf, Names, Section, key, named
from holdfast.config.output_refs import OUTPUT_NAME
from holdfast.config.placeholders import MalformedError
from holdfast.config.problems import Problems, did_you_mean, listed
from holdfast.config.secret_refs import SCHEMES, SecretRef, locator_mistake
from holdfast.config.shapes import INSIDE, NAME, MistakeError, SecretOnly, Text, path_text, shortest_path
from holdfast.kernel.errors import HoldfastError, Place
from holdfast.kernel.values import PlacedStruct

NAMES: Final = ("target", "environment")
"""The placeholders of paths and outputs."""
RESERVING: Final = (
    "aws_eip", "azurerm_public_ip", "google_compute_address", "google_compute_global_address",
)  # fmt: skip
"""Types of resources that reserve an address."""
_FACT: Final = r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*)*"
_SOURCE: Final = rf"{OUTPUT_NAME}(?:\.(?:[A-Za-z0-9_-]|\{{environment\}})+)*"
_BRANCH: Final = r"(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)))[A-Za-z0-9_][A-Za-z0-9_./+@#-]*(?<![./])"
_CREDENTIALS: Final = (
    "The credentials for https: a reference to a secret that is USER:PASSWORD or a token. For SSH, the agent "
    "has the key."
)


def _address(text: str) -> str:
    from holdfast.system.git_remote import protocol_of  # noqa: PLC0415 - few files name a repository

    try:
        protocol_of(text)
    except HoldfastError as error:
        message = f"is {error.problem.message.removeprefix('this is ')}"
        raise MistakeError("HF-CONF-6", message, hint=error.problem.hint) from None
    return text


def _known_placeholders(text: str) -> str:
    try:
        names = placeholders.parse(text).names
    except MalformedError as error:
        raise MistakeError("HF-CONF-9", f"contains {error}", hint="Write {{ and }} for braces.") from None
    for name in names:
        if name not in NAMES:
            raise MistakeError(
                "HF-CONF-9",
                f"contains {{{name}}}, which is not known here",
                hint=did_you_mean(name, NAMES) or f"Only {listed(NAMES)} have a value here.",
            )
    return text


def _path(text: str) -> str:
    return shortest_path(_known_placeholders(text))


def _reference(text: str) -> SecretRef:
    scheme, colon, locator = text.partition(":")
    if not colon or scheme not in SCHEMES:
        forms = listed(tuple(scheme.form for scheme in SCHEMES.values()))
        hint = (did_you_mean(scheme, SCHEMES) if colon else None) or f"Write one of {forms}."
        raise MistakeError("HF-CONF-13", "is not a secret reference", hint=hint)
    mistake = "placeholders have no value here" if "{" in locator else locator_mistake(scheme, locator)
    if mistake is not None:
        raise MistakeError(
            "HF-CONF-13", f"is not a valid reference: {mistake}", hint=f"Write {SCHEMES[scheme].form}."
        )
    return SecretRef(scheme=scheme, locator=locator)


_ADDRESS: Final = Text("the address of a Git repository", numbers=False, convert=_address)
_BRANCH_NAME: Final = Text("the name of a branch", _BRANCH, max_length=200)
_YAML_PATH: Final = Text(
    "a path inside the repository that ends with .yaml or .yml",
    rf"{INSIDE}\.ya?ml",
    code="HF-CONF-16",
    numbers=False,
    convert=_path,
)


_GITOPS_FILES: Final = ListOf(
    path_text(
        "a path or glob inside the repository, relative to holdfast.yaml, without `..`, brackets and braces, "
        "and with `**` only between slashes",
        rf"(?!.*[\[\]{{}}])(?!.*[^/]\*\*)(?!.*\*\*[^/]){INSIDE}",
    )
)


def filled(template: str, *, target: str, environment: str) -> str:
    values = {"target": target, "environment": environment}
    return placeholders.parse(template).fill(values.__getitem__)


class RequiredSecret(Section, frozen=True, kw_only=True):
    """A secret that must exist before a deploy, whoever reads it."""

    name: str = key(NAME, "Its name: for messages, and what `secrets seed` looks for.", required=True)
    secret: SecretRef = key(
        Text("a secret reference such as `aws-sm:platform/coder/admin`", convert=_reference),
        "Where it is: a [secret reference](secrets.md).",
        required=True,
    )


def check_secret_names(target: At, problems: Problems) -> None:
    """`secrets seed` finds values by name."""
    places: dict[str, Place] = {}
    for at in target.get("secrets", ()):
        name = at.get("name")
        if isinstance(name, str) and places.setdefault(name, at.place) != at.place:
            problems.add(
                "HF-CONF-29",
                f"two secrets of {target.where} are named `{name}`",
                place=at.place,
                hint="Rename one of them.",
            )


class Bridge(PlacedStruct, Section, frozen=True, kw_only=True):
    """Outputs that are published encrypted, and the file that they are in."""

    place: Place
    repository: str = key(_ADDRESS, "The Git repository that GitOps reads.", required=True)
    branch: str = key(_BRANCH_NAME, "Its branch.", default="main")
    path: str = key(
        _YAML_PATH,
        "The file, with `{target}` and `{environment}`. With `{environment}`, one file for each environment.",
        required=True,
    )
    outputs: tuple[str, ...] = key(
        ListOf(Text("the name of an output", OUTPUT_NAME), single=True),
        "A list of the outputs in the file. No other output is ever in it.",
        required=True,
    )
    age: tuple[str, ...] = key(
        ListOf(Text("an age recipient (`age1…`)", r"age1[0-9a-z]{20,4000}", max_length=4004), single=True),
        "A list of age recipients who can decrypt it. Without it, `sops` encrypts the file by the rules of "
        "`.sops.yaml` at the top of the repository: for KMS and Key Vault.",
    )
    credentials: SecretRef | None = key(SecretOnly(), _CREDENTIALS)

    def file(self, *, target: str, environment: str) -> str:
        return filled(self.path, target=target, environment=environment)


class Facts(PlacedStruct, Section, frozen=True, kw_only=True):
    """Where the facts of a target are published, and what they are."""

    place: Place
    repository: str = key(_ADDRESS, "The Git repository that they are published to.", required=True)
    branch: str = key(_BRANCH_NAME, "Its branch.", default="main")
    path: str = key(
        _YAML_PATH,
        "The file of each environment, with `{target}` and `{environment}`.",
        default="{target}/{environment}.yaml",
    )
    map: Mapping[str, str] = key(
        Names(
            Text("an output, or a part of one: `OUTPUT.KEY`", _SOURCE, numbers=False),
            _FACT,
            "a name, or names joined by dots",
        ),
        "A mapping of facts to the outputs they get: `gateway.address: cluster_gateway_public_address`. "
        "A part of an output is `OUTPUT.KEY`, such as `env_gateway_public_addresses.{environment}`.",
        required=True,
    )
    reserved: Mapping[str, str] = key(
        Names(
            Text(
                f"the address of a resource of the type {listed(RESERVING)}",
                rf"(?:module\..+\.)?(?:{'|'.join(RESERVING)})\.[A-Za-z_][^\x00-\x1f]*",
                numbers=False,
            ),
            _FACT,
            "the name of a fact",
        ),
        "A mapping of facts to the resources that reserve them: `gateway.address: aws_eip.gateway`, with "
        "`{environment}`. A fact that is another address is refused: "
        "[reserved addresses](facts.md#reserved-addresses).",
    )
    accounts: Mapping[str, str] = key(
        named(
            Text("an AWS account, an Azure subscription or a Google project", r"[A-Za-z0-9][A-Za-z0-9:.-]*")
        ),
        "A mapping of environments to the account, subscription or project that reserves their addresses.",
    )
    environments: tuple[str, ...] = key(
        ListOf(NAME, single=True),
        "The environments that get a file. One without a stack of its own gets the outputs of all stacks.",
        default_doc="those of the stacks",
    )
    gitops: tuple[str, ...] = key(
        _GITOPS_FILES,
        "Files of this repository that GitOps reads: none may contain the value of a fact "
        "([HF404](checks/HF404.md)).",
    )
    credentials: SecretRef | None = key(SecretOnly(), _CREDENTIALS)

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        mapped = section.get("map", {})
        for fact, at in mapped.items():
            inside = next((other for other in mapped if other.startswith(f"{fact}.")), None)
            if inside is not None:
                problems.add(
                    "HF-CONF-28",
                    f"`{fact}` is a fact, and so is `{inside}` inside it",
                    place=at.key_place,
                    hint="Rename one of them.",
                )
        for fact, at in section.get("reserved", {}).items():
            if fact not in mapped:
                problems.add(
                    "HF-CONF-40",
                    f"`{fact}` is not a fact of {section.where}.map",
                    place=at.key_place,
                    hint=did_you_mean(fact, mapped) or "Add it to `map`.",
                )
        if len(section.get("environments", ())) > 1 and "{environment}" not in section.get(
            "path", "{environment}"
        ):
            problems.add(
                "HF-CONF-28",
                f"{section.where}.path is the same file for several environments",
                place=section.value["path"].place,
                hint="Add {environment} to it.",
            )

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> Facts:
        return cls(**values)

    def file(self, *, target: str, environment: str) -> str:
        return filled(self.path, target=target, environment=environment)
