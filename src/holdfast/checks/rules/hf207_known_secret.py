"""HF207: a secret in the code, known by how it looks."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.contents import in_utf8
from holdfast.checks.model.interface import Answer, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Checkout, History, Module, VariablesFile
from holdfast.checks.model.traces import Mark
from holdfast.checks.secrets.known_secrets import known_in
from holdfast.hcl.eval.code import is_code
from holdfast.hcl.eval.worktree import NOT_SOURCE
from holdfast.kernel.errors import Place

_BESIDE = (
    ".json", ".yaml", ".yml", ".tpl", ".tftpl", ".tmpl", ".sh", ".ps1", ".hcl", ".tfbackend", ".ini", ".conf",
    ".cfg", ".toml", ".properties", ".xml", ".j2",
)  # fmt: skip
_VARIABLES = (".tfvars", ".tfvars.json")
_LARGEST = 5_000_000


def _module(module: Module) -> Iterator[Finding]:
    for file in module.files:
        yield from _look(module.checkout, file.path)


def _variables(file: VariablesFile) -> Iterator[Finding]:
    yield from _look(file.checkout, file.path)


def _repository(checkout: Checkout) -> Iterator[Answer]:
    for path in checkout.files:
        if not path.endswith(_BESIDE) or path.endswith(_VARIABLES) or is_code(path.rpartition("/")[2]):
            continue
        if not NOT_SOURCE.isdisjoint(path.split("/")):
            continue
        if len(checkout.content(path) or b"") > _LARGEST:
            yield Skipped(reason=f"larger than {_LARGEST // 1_000_000} MB", file=path)
            continue
        yield from _look(checkout, path)


def _look(checkout: Checkout, path: str) -> Iterator[Finding]:
    told: set[tuple[str, int]] = set()
    text = in_utf8(checkout.content(path) or b"").decode(errors="replace").removeprefix("\ufeff")
    for one in known_in(text):
        if (one.what, one.line) not in told:
            told.add((one.what, one.line))
            place = Place(file=path, line=one.line, column=one.column)
            yield finding(place, f"a secret stands here in clear ({one.what})")


def _history(seen: History) -> Iterator[Answer]:
    """Old contents with a secret that stands in the tree no more: what still does is said of the tree."""
    found = [trace for trace in seen.traces if trace.mark is Mark.SECRET]
    there = set(_digests(seen.checkout)) if found else set()
    for trace in found:
        if trace.digest not in there:
            yield finding(
                Place(file=trace.path),
                f"a secret stood here in clear ({trace.what}): in line {trace.line} since commit "
                f"{trace.commit[:12]} of {trace.date[:10]}, and is still in the history",
                hint="Change the secret now: every clone has it. Then take it out of the history (`git "
                "filter-repo --replace-text`) and let everybody clone anew.",
            )
    for unread in seen.unread:
        yield Skipped(reason=unread.reason, file=unread.path)


def _digests(checkout: Checkout) -> Iterator[str]:
    for path in checkout.files:
        looked_at = is_code(path.rpartition("/")[2]) or path.endswith((*_BESIDE, *_VARIABLES))
        if looked_at and NOT_SOURCE.isdisjoint(path.split("/")):
            yield from (one.digest for one in known_in(checkout.text(path) or ""))


_EXAMPLE = "ghp_" + "7Qw2ErTy9UiOp3LkJhGfDsA1ZxCvBnXy7Qw2"

RULE = Rule(
    id="HF207",
    title="A secret in the code",
    why="Everyone who can read the repository, now or in an old clone, has the secret. Programs look for "
    "these formats in public repositories within minutes.",
    fix="Change the secret now, since it is known. Then read it from a secret store, or take it as a "
    "sensitive variable.",
    severity=Severity.ERROR,
    source=_module,
    variables=_variables,
    repository=_repository,
    history=_history,
    secret=True,
    bad=f'provider "github" {{\n  token = "{_EXAMPLE}"\n}}\n',
    good='variable "github_token" {\n  type      = string\n  sensitive = true\n  ephemeral = true\n}\n\n'
    'provider "github" {\n  token = var.github_token\n}\n',
    more="The formats are those of the redactor (docs/redaction.md lists them). Comments count too. Looked "
    "at are code, variables files, and JSON, YAML, scripts and templates beside them. What says that it is "
    "an example (`AKIAIOSFODNN7EXAMPLE`, `changeme`), and passwords of `localhost`, are left alone. "
    "With `--history` every old content that is a text of at most 5 MB is searched, whatever its name; each "
    "secret is told once, with the first commit that brought it.",
)
