"""Every key of holdfast.yaml: what it may hold, what it means, what holds without it."""

from __future__ import annotations

from typing import Final

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
    Size,
    Text,
    Version,
    Whole,
)
from holdfast.config.valid import EngineUse, Owner, RuleKind

PRODUCTION_NAMES: Final = ("production", "prod", "prd", "live")

_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._@+-]*"
_NAME_SAYS: Final = "a name of letters, digits and . _ @ + -, starting with a letter or digit"
_INSIDE: Final = r"(?!/)(?!(?:.*/)?\.\.(?:/|$))[^\\\x00-\x1f]+"
_INSIDE_SAYS: Final = "a path inside the repository, relative to holdfast.yaml, without `..`"
_PART: Final = r"\s*(?:=|!=|>=|<=|>|<|~>)?\s*v?[0-9]+(?:\.[0-9]+){0,2}(?:-[0-9A-Za-z.-]+)?\s*"

NAME: Final = Text(says=_NAME_SAYS, pattern=_NAME, most=100)
FILLED: Final = Text(fill=True)
PATH: Final = Text(says=_INSIDE_SAYS, pattern=_INSIDE, code="HF-CONF-16", numbers=False, fill=True, path=True)
VARIABLES_PATTERN: Final = Text(
    says=f"{_INSIDE_SAYS}, that ends in `.tfvars` or `.tfvars.json`",
    pattern=rf"{_INSIDE}\.tfvars(?:\.json)?",
    code="HF-CONF-16",
    numbers=False,
    path=True,
)
FOLDER_PATTERN: Final = Text(says=_INSIDE_SAYS, pattern=_INSIDE, code="HF-CONF-16", numbers=False, path=True)
SECRET_OR_TEXT: Final = Text(fill=True, secret=True)

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

ENGINE_PIN: Final = (
    Key(
        name="use",
        shape=Choice(values=tuple(EngineUse)),
        doc="Which engine: what fits best, the embedded one, any binary, or only terraform or tofu.",
        default="auto",
    ),
    Key(
        name="version",
        shape=Text(
            says="a version or a constraint such as `>= 1.9, < 2.0`", pattern=rf"{_PART}(?:,{_PART})*"
        ),
        doc="Which versions of it will do.",
    ),
)

TIME_LIMITS: Final = Record(
    keys=(
        *(
            Key(name=phase, shape=Duration(), doc=f"How long {phase} may take.", default="30m")
            for phase in ("init", "plan", "apply")
        ),
        Key(
            name="grace",
            shape=Duration(),
            doc="How long an apply that was asked to stop may go on with what it has begun.",
            default="60m",
        ),
    )
)

MEANINGLESS: Final = (
    r"\W*(?:(?:429|[Tt]oo [Mm]any [Rr]equests|[Hh][Tt][Tt][Pp]|[Ee]rror|[Ss]tatus|[Cc]ode)\W*)*"
)
"""What says no more than "too many requests": after that answer an object can be there all the same."""

REFUSED_CREATE: Final = Record(
    keys=(
        Key(
            name="provider",
            shape=Text(
                says="a provider's address or its end, such as `hashicorp/aws`",
                pattern=r"[A-Za-z0-9.-]+(?:/[A-Za-z0-9_-]+){0,2}",
            ),
            doc="The provider, by its address or the end of it.",
            required=True,
        ),
        Key(
            name="text",
            shape=Text(
                says="text that says more than that there were too many requests",
                pattern=rf"(?!{MEANINGLESS}$).+",
            ),
            doc="What its error says when nothing was made.",
            required=True,
        ),
    )
)

RETRIES: Final = Record(
    keys=(
        Key(
            name="attempts",
            shape=Whole(least=0, most=10),
            doc="How many further attempts follow the first one; 0 turns them off.",
            default=3,
        ),
        Key(
            name="wait",
            shape=Duration(least=0, most=3600),
            doc="How long to wait before the first of them; each further wait is twice as long.",
            default="2s",
        ),
        Key(
            name="also",
            shape=ListOf(item=Text(says="text of an error", pattern=r"[\s\S]*\S[\s\S]*")),
            doc="More texts of errors of init, plan and show that are worth another try.",
        ),
        Key(
            name="refused_creates",
            shape=ListOf(item=REFUSED_CREATE),
            doc="More errors that say that a create was refused before anything was made.",
        ),
    )
)

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

HOLDFAST: Final = Record(
    keys=(
        Key(name="version", shape=Version(), doc="The version of this format.", required=True),
        Key(name="company", shape=NAME, doc="The value of {company}."),
        Key(
            name="environments",
            shape=Names(
                value=Record(
                    keys=(
                        Key(
                            name="match",
                            shape=ListOf(item=Text(), single=True),
                            doc="Values and globs that belong to it, besides its own name.",
                        ),
                        Key(
                            name="production",
                            shape=Flag(),
                            doc="Whether it counts as production; without it only "
                            f"{', '.join(PRODUCTION_NAMES)} do.",
                        ),
                    )
                ),
                pattern=_NAME,
                says=_NAME_SAYS,
            ),
            doc="What environments there are and which of them are production.",
        ),
        Key(
            name="targets",
            shape=Names(
                value=Record(
                    keys=(
                        Key(
                            name="owner",
                            shape=Choice(values=tuple(Owner)),
                            doc="Who applies: only CI, or developers too.",
                            default="developers",
                        ),
                        Key(name="lane", shape=NAME, doc="Where its changes queue; else the target's name."),
                    )
                ),
                pattern=_NAME,
                says=_NAME_SAYS,
            ),
            doc="Where stacks live.",
        ),
        Key(name="stacks", shape=ListOf(item=STACK), doc="How stacks are found and what they are made of."),
        Key(
            name="engine",
            shape=Record(
                keys=(
                    *ENGINE_PIN,
                    Key(
                        name="parallelism",
                        shape=Whole(least=1, most=64),
                        doc="How many stacks are worked on at once.",
                        default=4,
                    ),
                    Key(
                        name="plugin_tls",
                        shape=Choice(values=("auto", "always")),
                        doc="Whether providers may be spoken to without TLS over a private socket.",
                        default="auto",
                    ),
                    Key(
                        name="mirror",
                        shape=Text(says="a folder", pattern=r"[^\\\x00-\x1f]+", numbers=False),
                        doc="A filesystem mirror of providers, beside what the CLI configuration says.",
                    ),
                    Key(name="time_limits", shape=TIME_LIMITS, doc="How long each phase may take."),
                    Key(name="retries", shape=RETRIES, doc="What failed for a moment is tried again."),
                )
            ),
            doc="What runs Terraform.",
        ),
        Key(
            name="store",
            shape=Text(
                says="a folder, or `s3://bucket/prefix`",
                pattern=r"s3://[a-z0-9][a-z0-9.-]*(?:/[^\\\x00-\x1f]*)?"
                r"|(?![A-Za-z][A-Za-z0-9+.-]*://)(?!(?:.*/)?\.\.(?:/|$))[^\\\x00-\x1f]+",
                code="HF-CONF-16",
                numbers=False,
            ),
            doc="The run store: journals, marks, backups.",
            default=".holdfast",
        ),
        Key(
            name="work",
            shape=Record(
                keys=(
                    Key(
                        name="max_age",
                        shape=Duration(),
                        doc="How old a work directory may grow.",
                        default="24h",
                    ),
                    Key(
                        name="max_size",
                        shape=Size(),
                        doc="How large work directories may grow together.",
                        default="5GB",
                    ),
                )
            ),
            doc="When work directories are cleaned.",
        ),
    )
)
