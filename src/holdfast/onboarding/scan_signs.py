"""Finds tools, templates and scripts that give code its backend or workspace."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Final

from msgspec import Struct

from holdfast.kernel.errors import Place
from holdfast.onboarding.scan_workspaces import names_in_script
from holdfast.stacks.listing import ROOT

LARGEST: Final = 512 * 1024
EXAMPLES: Final = frozenset(
    ("examples", "example", "test", "tests", "testdata", "fixtures", "samples", "docs")
)

_BACKEND_TYPES: Final = "azurerm|consul|cos|gcs|http|kubernetes|local|oci|oss|pg|remote|s3"
_BLOCK: Final = re.compile(rf"\bbackend\s*\\?[\"']({_BACKEND_TYPES})\\?[\"']\s*\{{")
_WRITTEN: Final = re.compile(
    r"\bbackend\b\\?[\"']?\]?\s*[:=(]?\s*\{?\s*\\?[\"']?(azurerm|gcs|pg|s3)\b\\?[\"']?\s*[:=,{)]"
)
"""The same in JSON, YAML and the languages of tools that generate code."""
_OPTION: Final = re.compile(
    r"(?:-backend-config(?:=|\s+|[\"'],\s*f?)|\bbackend_config:\s*(?=[\"']?\w+=))[\"']?((?:\$\{\{[^}]*\}\}|[^\s\"'`\\])+[\"']?[^\s\"'`\\]*)"
    r"|\b(?:backend_config(?:_file)?|backendType:\s*[\"']?(?:azurerm|aws|gcp|s3|gcs)|backendServiceArm|backendAzureRm\w+|TF_CLI_ARGS_init"
    r"|TF_HTTP_ADDRESS|TF_STATE_NAME|TF_ADDRESS|TF_CLOUD_ORGANIZATION)\b|\bgitlab-(?:terraform|tofu)\b"
)
_WORKSPACE: Final = re.compile(r"\bworkspace[\"',\s]+(?:select|new)\b|\bTF_WORKSPACE\b")
_VARIABLES_FILE: Final = re.compile(r"-var-file[=\s\"',]+([^\s\"',]+)")
_PROJECT_WORKSPACE: Final = re.compile(r"^[\s-]*workspace:\s*(?!default\b)\S", re.MULTILINE)
_ACTION: Final = re.compile(r"\buses:\s*\S*/(?:terraform|tofu)-(?:plan|apply)@")
_RUN: Final = re.compile(
    r"(?:\b(?:terraform|tofu|tf)\b|\$[({]*(?:TERRAFORM|TOFU|TF)\w*[)}]*)"
    r"[^\n|;&#]{0,200}?[\s\"',](?:plan|apply|destroy)\b"
)
_APPLIED_BY_HAND: Final = re.compile(r"\b(?:terraform|tofu)\s+(?:-chdir=\S+\s+)?apply\b")
_IGNORED_STATE: Final = re.compile(r"^[^#!\n]*tfstate(?!\.lock)", re.MULTILINE)
_COMMENT: Final = re.compile(r"\s*(?:#|//|--)")
_TEXT: Final = re.compile(
    r"(?:^|/)[^/.]+$|\.(?:sh|bash|zsh|fish|ps1|cmd|bat|mk|py|rb|groovy|gradle|kts|java|go|rs|cs|pl|php|lua|nix"
    r"|[cm]?[jt]s|jsonnet|ya?ml|toml|hcl|tm|tmpl|tpl|tftpl|j2|jinja2?|erb|gotmpl|mustache|template|dist|envrc"
    r"|env(?:\.[^/]+)?|justfile|just|md)$|\.tf\.[^/]+$|(?:^|/)[^/]*backend[^/]*$"
    r"|(?:^|/)(?:Jenkins|Docker|Make)file[^/]*$|(?:^|/)(?:package|project|tasks)\.json$"
)
_NOT_TEXT: Final = re.compile(
    r"\.(?:tf|tofu|tfvars|rst|adoc|terraform\.lock\.hcl)(?:\.json)?$|(?:^|/)terragrunt\.hcl$"
)
_SCRIPT_FOLDERS: Final = frozenset(
    (
        *(".github", "workflows", ".circleci", ".buildkite", ".azuredevops", "actions", "ci", "jobs"),
        *("bin", "script", "scripts", "pipeline", "pipelines", "tasks", "tools", "hack", "build", "make"),
    )
)
_TOOLS: Final = {
    "Terragrunt": r"(?:^|/)(?:terragrunt(?:\.stack)?|root)\.hcl(?:\.json)?$",
    "Atmos": r"(?:^|/)\.?atmos\.ya?ml$",
    "Atlantis": r"^atlantis\.ya?ml$",
    "Terramate": r"\.tm(?:\.hcl)?$|(?:^|/)terramate\.hcl$",
    "Digger": r"(?:^|/)digger\.ya?ml$",
    "Terraspace": r"(?:^|/)config/terraform/backend\.(?:tf|rb)$",
    "Spacelift": r"(?:^|/)\.spacelift/[^/]+$|^\.spacelift$",
    "env0": r"(?:^|/)env0(?:\.workflow)?\.ya?ml$",
    "CDK for Terraform": r"(?:^|/)cdktf\.json$",
    "HCP Terraform Stacks": r"\.(?:tfstack|tfcomponent|tfdeploy)\.hcl$",
    "Pretf": r"\.tf\.py$",
}
"""By tool: the paths of its files."""
_STEPS: Final = {
    "Terragrunt": "Convert the unit: an entry with its backend, inputs and dependencies.",
    "Terramate": "Run `terramate generate`, then `holdfast init --force`.",
    "Digger": "Write an entry for each project, with its `dir` as `module` and its `workspace`.",
}
_OLD_TERRAGRUNT: Final = re.compile(rb"^[ \t]*terragrunt[ \t]*=[ \t]*\{", re.MULTILINE)
_STORED: Final = "Add `backend: {{ type: …, settings: {{ … }} }}` with the values {tool} uses."
_TOOL: Final = re.compile("|".join(f"({pattern})" for pattern in _TOOLS.values()))
_WORDS: Final = ("backend", "TF", "TERRAFORM", "TOFU", "terraform", "tofu", "workspace", "gitlab-", "tf ")


class SignKind(IntEnum):
    """In the order in which they explain best where a state is."""

    STATE = 0
    """A state file that belongs to no module by its name."""
    TEMPLATE = 1
    """A backend block in something that is not code: a template, a heredoc, a generator."""
    OPTION = 2
    """Backend settings for `init`."""
    TOOL = 3
    """The configuration of another tool."""
    RUN = 4
    """A script or pipeline that runs Terraform."""
    WORKSPACE = 5
    """A script or pipeline that selects a workspace."""
    BY_HAND = 6
    """Documentation that says to run an apply."""
    IGNORED_STATE = 7
    """A .gitignore that keeps local states out of Git."""


_WHAT: Final = {
    SignKind.RUN: "runs Terraform",
    SignKind.WORKSPACE: "selects a workspace",
    SignKind.BY_HAND: "says to apply it by hand",
}


class Sign(Struct, frozen=True, kw_only=True):
    kind: SignKind
    place: Place
    what: str
    """A predicate, such as `passes backend settings to init`."""
    next_step: str | None = None
    backend: str | None = None
    """The type of the backend."""
    options: tuple[str, ...] = ()
    """What it passes as `-backend-config`, `NAME=VALUE` or a file, or as `-var-file`; or its workspaces."""

    @property
    def is_general(self) -> bool:
        """Whether it counts for the whole repository: examples, tests and documentation do not."""
        return not self.place.file.endswith((".md", ".gitignore")) and not EXAMPLES & set(
            self.place.file.split("/")
        )

    @property
    def folder(self) -> str:
        """The folder whose modules it concerns: a script concerns what is beside its folder, too."""
        parts = posixpath.dirname(self.place.file).split("/")
        while parts and (
            parts[-1] in _SCRIPT_FOLDERS or (self.kind is SignKind.BY_HAND and parts[-1] == "docs")
        ):
            parts.pop()
        return "/".join(parts) or ROOT


def find_signs(paths: Iterable[str], text_of: Callable[[str], str]) -> tuple[Sign, ...]:
    """In the order of the paths. Code is not looked at, and documentation only for settings and applies."""
    return tuple(sign for path in paths for sign in _signs(path, text_of))


def _signs(path: str, text_of: Callable[[str], str]) -> Iterator[Sign]:
    if (match := _TOOL.search(path)) is not None:
        tool = list(_TOOLS)[(match.lastindex or 1) - 1]
        step = _STEPS.get(tool) or _STORED.format(tool=tool)
        what = f"shows that {tool} runs this code"
        yield Sign(kind=SignKind.TOOL, place=Place(file=path), what=what, next_step=step)
        if tool == "Digger" and _PROJECT_WORKSPACE.search(text_of(path)):
            yield Sign(kind=SignKind.WORKSPACE, place=Place(file=path), what="sets workspaces")
        if path.endswith((".yaml", ".yml")):
            settled = (SignKind.OPTION, SignKind.WORKSPACE)
            yield from (sign for sign in _signs_in_text(path, text_of(path)) if sign.kind in settled)
        return
    if posixpath.basename(path) == ".gitignore" and (match := _IGNORED_STATE.search(text := text_of(path))):
        place = Place(file=path, line=text.count("\n", 0, match.start()) + 1)
        yield Sign(kind=SignKind.IGNORED_STATE, place=place, what="keeps state files out of Git")
    if not _TEXT.search(path) or _NOT_TEXT.search(path):
        return
    text = text_of(path)
    if not ("terraform" in text or "backend" in text or "tofu" in text or "TF_" in text):
        return
    yield from _signs_in_text(path, text)
    if _ACTION.search(text) and _PROJECT_WORKSPACE.search(text):
        yield Sign(kind=SignKind.WORKSPACE, place=Place(file=path), what="sets workspaces")


def _signs_in_text(path: str, text: str) -> Iterator[Sign]:
    """The first of each kind, and every backend setting."""
    template = _BLOCK.search(text) or _WRITTEN.search(text)
    if template is not None:
        place = Place(file=path, line=text.count("\n", 0, template.start()) + 1)
        what = f"contains a backend of type {template.group(1)}"
        yield Sign(kind=SignKind.TEMPLATE, place=place, what=what, backend=template.group(1))
    settings: list[tuple[int, str]] = []
    found: dict[SignKind, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not any(word in line for word in _WORDS) or _COMMENT.match(line):
            continue
        settings += [
            (number, (match.group(1) or match.group()).strip("\"'),]")) for match in _OPTION.finditer(line)
        ]
        if (kind := _kind(path, line)) is not None:
            found.setdefault(kind, number)
    if settings:
        passed = tuple(dict.fromkeys(value for _, value in settings))
        what = f"passes backend settings to init ({passed[0]})"
        place = Place(file=path, line=settings[0][0])
        yield Sign(kind=SignKind.OPTION, place=place, what=what, options=passed)
    for kind, what in _WHAT.items():
        if kind in found:
            is_workspace = kind is SignKind.WORKSPACE
            options = names_in_script(text) if is_workspace else tuple(_VARIABLES_FILE.findall(text))
            yield Sign(kind=kind, place=Place(file=path, line=found[kind]), what=what, options=options)


def _kind(path: str, line: str) -> SignKind | None:
    """What a line of a script or of documentation does."""
    if _WORKSPACE.search(line):
        return SignKind.WORKSPACE
    if path.endswith(".md"):
        return SignKind.BY_HAND if _APPLIED_BY_HAND.search(line) else None
    return SignKind.RUN if _RUN.search(line) else None


def stray_state(path: str) -> Sign:
    step = (
        "If it belongs here, copy it next to the code as terraform.tfstate or "
        "terraform.tfstate.d/NAME/terraform.tfstate, and run `holdfast init --force`."
    )
    return Sign(kind=SignKind.STATE, place=Place(file=path), what="is a state file", next_step=step)


def is_old_terragrunt(path: str, content: bytes) -> bool:
    """Whether it is a unit of Terragrunt before 0.19, which is written in a variables file."""
    return path.endswith(".tfvars") and _OLD_TERRAGRUNT.search(content) is not None


def old_terragrunt(path: str) -> Sign:
    what = "shows that Terragrunt before 0.19 runs this code"
    step = "Convert its files to terragrunt.hcl, then run `holdfast init --force`."
    return Sign(kind=SignKind.TOOL, place=Place(file=path), what=what, next_step=step)


def commented_backend(text: str, path: str) -> Sign | None:
    """A backend block in code that has none: it is in a comment, or in a text that the code writes."""
    match = _BLOCK.search(text)
    if match is None:
        return None
    place = Place(file=path, line=text.count("\n", 0, match.start()) + 1)
    what = f"contains a commented-out backend of type {match.group(1)}"
    return Sign(kind=SignKind.TEMPLATE, place=place, what=what, backend=match.group(1))


class Signs:
    """Signs by the folder they concern: each module only looks at the folders above it."""

    def __init__(self, signs: Iterable[Sign], modules: Iterable[str] = ()) -> None:
        """`modules`: a script in a folder without modules concerns those beside that folder."""
        self._by_folder: dict[tuple[str, SignKind], Sign] = {}
        self._anywhere: dict[SignKind, Sign] = {}
        with_modules = {ROOT, *modules}
        for folder in tuple(with_modules):
            while (folder := posixpath.dirname(folder)) and folder not in with_modules:
                with_modules.add(folder)
        for sign in sorted(signs, key=lambda sign: sign.folder.count("/") + (sign.folder != ROOT)):
            folder = sign.folder
            while sign.is_general and folder not in with_modules:
                folder = posixpath.dirname(folder) or ROOT
            self._by_folder.setdefault((folder, sign.kind), sign)
            if sign.is_general:
                self._anywhere.setdefault(sign.kind, sign)

    def near(self, folder: str, *kinds: SignKind) -> Sign | None:
        """In the folder or the nearest one above it."""
        while True:
            for kind in kinds:
                if (sign := self._by_folder.get((folder, kind))) is not None:
                    return sign
            if folder == ROOT:
                return None
            folder = posixpath.dirname(folder) or ROOT

    def of(self, folder: str, *kinds: SignKind) -> Sign | None:
        """The nearest one, else the first one in the repository, except in its examples and tests."""
        anywhere = (self._anywhere[kind] for kind in kinds if kind in self._anywhere)
        return self.near(folder, *kinds) or next(anywhere, None)
