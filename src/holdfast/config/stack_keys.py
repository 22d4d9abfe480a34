"""The keys of an entry of `stacks`: how stacks are found, and what they are made of."""

from __future__ import annotations

from typing import Final

from holdfast.config.engine_keys import ENGINE_PIN
from holdfast.config.shape import (
    Anything,
    Choice,
    Duration,
    Either,
    Flag,
    Form,
    Key,
    ListOf,
    Names,
    Record,
    Refusal,
    SecretOnly,
    Text,
)
from holdfast.config.texts import FILLED, FOLDER_PATTERN, PATH, VARIABLES_PATTERN
from holdfast.config.valid import RuleKind

OWNED_VARIABLES: Final = (
    Refusal(pattern=r"TF_CLI_ARGS.*", why="Holdfast alone decides the arguments of Terraform"),
    Refusal(pattern=r"TF_WORKSPACE", why="the workspace is the stack's `workspace:`"),
    Refusal(pattern=r"TF_DATA_DIR", why="Holdfast keeps each stack's data in a work directory of its own"),
    Refusal(pattern=r"TF_LOG.*", why="a log of Terraform can hold secrets; Holdfast decides where it goes"),
    Refusal(pattern=r"TF_REATTACH_PROVIDERS", why="Holdfast starts the providers"),
    Refusal(pattern=r"TF_IN_AUTOMATION|TF_INPUT", why="Holdfast answers for Terraform: it never asks"),
    Refusal(pattern=r"TF_PLUGIN_CACHE_DIR", why="providers come from Holdfast's own verified mirror"),
    Refusal(pattern=r"TF_DISABLE_PLUGIN_TLS", why="Holdfast decides how providers are spoken to"),
    Refusal(pattern=r"TMPDIR|PLUGIN_UNIX_SOCKET_DIR", why="Holdfast gives each engine a private folder"),
    Refusal(pattern=r"HOLDFAST_.*", why="these are settings of Holdfast itself, not of a stack"),
)

BACKEND_TYPES: Final = (
    "azurerm",
    "consul",
    "cos",
    "gcs",
    "http",
    "kubernetes",
    "local",
    "oci",
    "oss",
    "pg",
    "remote",
    "s3",
)

SECRET_OR_TEXT: Final = Text(fill=True, secret=True)

AWS: Final = Record(
    keys=(
        Key(name="role_arn", shape=SECRET_OR_TEXT, doc="The role the stack takes.", required=True),
        Key(name="external_id", shape=SECRET_OR_TEXT, doc="What the role's trust policy asks for."),
        Key(name="session_name", shape=SECRET_OR_TEXT, doc="The name the session has in CloudTrail."),
        Key(name="region", shape=SECRET_OR_TEXT, doc="The region of the credentials' own calls."),
        Key(
            name="duration",
            shape=Duration(least=900, most=43200),
            doc="How long the session lasts: from 15m to 12h.",
        ),
        Key(
            name="web_identity_token_file",
            shape=SECRET_OR_TEXT,
            doc="The file with the token that proves who takes the role.",
        ),
        Key(name="profile", shape=SECRET_OR_TEXT, doc="The profile that takes the role."),
    )
)

AZURE: Final = Record(
    keys=(
        Key(name="client_id", shape=SECRET_OR_TEXT, doc="The identity the stack uses."),
        Key(name="tenant_id", shape=SECRET_OR_TEXT, doc="The tenant of that identity."),
        Key(name="subscription_id", shape=SECRET_OR_TEXT, doc="The subscription the stack works in."),
        Key(name="use_oidc", shape=Flag(), doc="Prove the identity with a federated token.", default=False),
        Key(name="oidc_token_file", shape=SECRET_OR_TEXT, doc="The file with that token."),
        Key(
            name="client_secret",
            shape=SecretOnly(),
            doc="Where the identity's secret is to be had: always a secret reference.",
        ),
        Key(name="use_azuread", shape=Flag(), doc="Entra authentication for the state.", default=True),
    )
)

BACKEND: Final = Record(
    keys=(
        Key(name="type", shape=Choice(values=BACKEND_TYPES), doc="The type that the code must say too."),
        Key(
            name="settings",
            shape=Names(value=Anything(), pattern=r"[A-Za-z_][A-Za-z0-9_-]*", says="the name of a setting"),
            doc="What the backend is told besides what the code says.",
        ),
    )
)

STACK: Final = Record(
    forms=(
        Form(
            kind=RuleKind.VARIABLES,
            key="variables",
            text=True,
            without="folder",
            why="an entry finds stacks by variables file or by folder, not by both",
        ),
        Form(
            kind=RuleKind.FOLDER,
            key="folder",
            without="module",
            why="the folder that was found is the module",
        ),
        Form(kind=RuleKind.NAMED, key="name"),
    ),
    keys=(
        Key(
            name="variables",
            shape=Either(
                text=VARIABLES_PATTERN,
                mapping=Names(
                    value=Anything(null=True),
                    pattern=r"[A-Za-z_][A-Za-z0-9_-]*",
                    says="the name of a Terraform variable",
                ),
            ),
            doc="Text: the pattern of variables files, one stack per file. A mapping: values of variables.",
        ),
        Key(name="folder", shape=FOLDER_PATTERN, doc="The pattern of folders: one stack per root module."),
        Key(name="name", shape=FILLED, doc="The stack's name; alone it makes one stack by hand."),
        Key(name="module", shape=PATH, doc="The folder of the root module.", default="."),
        Key(
            name="variables_files",
            shape=ListOf(item=PATH),
            doc="More variables files, before the stack's own; the last one wins.",
        ),
        Key(name="environment", shape=FILLED, doc="What is matched against `environments`."),
        Key(name="account", shape=FILLED, doc="The account it lives in."),
        Key(name="region", shape=FILLED, doc="The region it lives in."),
        Key(name="target", shape=FILLED, doc="One of `targets`."),
        Key(name="backend", shape=BACKEND, doc="Where its state is; absent: what the code says."),
        Key(
            name="credentials",
            shape=Record(
                keys=(
                    Key(name="aws", shape=AWS, doc="A role to take."),
                    Key(name="azure", shape=AZURE, doc="An identity to use."),
                ),
                at_least_one=True,
            ),
            doc="Whose rights it has; nobody else's reach it then.",
        ),
        Key(
            name="env",
            shape=Names(
                value=Anything(nested=False, as_text=True),
                pattern=r"[A-Za-z_][A-Za-z0-9_]*",
                says="the name of an environment variable (letters, digits and _, not starting with a digit)",
                code="HF-CONF-15",
                refused=OWNED_VARIABLES,
                refused_code="HF-CONF-14",
            ),
            doc="Environment variables for Terraform and its providers.",
        ),
        Key(name="workspace", shape=FILLED, doc="The workspace of the backend.", default="default"),
        Key(
            name="depends_on",
            shape=ListOf(item=FILLED),
            doc="Names or globs of stacks that must be applied before.",
        ),
        Key(name="engine", shape=Record(keys=ENGINE_PIN), doc="The engine of these stacks."),
    ),
)
