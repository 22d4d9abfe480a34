"""GitHub workflows for the targets that CI owns. Pure: the same configuration gives the same files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from holdfast import __version__
from holdfast.config.settings import Config, Owner, Target
from holdfast.kernel.errors import UsageError
from holdfast.scaffold.generated_file import GeneratedFile
from holdfast.scaffold.templates import fill, template
from holdfast.stacks.stack import Stack

COMMAND: Final = "holdfast scaffold workflows"
FOLDER: Final = ".github/workflows"
ACTIONS: Final = {
    "checkout": "actions/checkout@d23441a48e516b6c34aea4fa41551a30e30af803 # v6.1.0",
    "upload": "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0",
    "download": "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1",
    "aws": "aws-actions/configure-aws-credentials@e6de054238d6b7531b4efff3b6587d9aade6a06c # v6.2.3",
    "azure": "azure/login@f5d393ae46f8fde4be8b75f32e3fc50e654ad0ca # v3.0.1",
}
"""By commit: a version can be moved to other code. `git ls-remote URL refs/tags/VERSION^{}` prints it."""
_CLOUD_OF_BACKEND: Final = {"s3": "aws", "azurerm": "azure"}
_SCHEDULE: Final = "17 3 * * *"
_EVERY: Final = ("plan", "break-glass", "force-unlock", "drift")
_PER_TARGET: Final = ("apply", "destroy")
_LOGIN: Final = """\
- name: Log in
  run: |
    jwt=$(curl -sS --fail-with-body -H "Authorization: bearer $ACTIONS_ID_TOKEN_REQUEST_TOKEN" \\
      "$ACTIONS_ID_TOKEN_REQUEST_URL&audience=holdfast" | jq -r .value)
    answer=$(jq -n --arg token "$jwt" '{token: $token}' |
      curl -sS --fail-with-body -H 'Content-Type: application/json' --data-binary @- \\
        "$HOLDFAST_URL/api/v1/tokens/exchange") || { echo "$answer"; exit 1; }
    jq -r .token <<<"$answer" | holdfast login "$HOLDFAST_URL\""""


class WorkflowOptions(Struct, frozen=True, kw_only=True):
    branch: str = "main"
    embedded: bool = True
    """Whether to install Terraform as a library (BUSL-1.1)."""


def checked_branch(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]*", name):
        raise UsageError(
            "HF-SCAF-4",
            f"--branch {name}: not a name that can be written to a workflow",
            hint="Use a branch of letters, digits and . _ / -",
        )
    return name


def workflows(config: Config, stacks: Sequence[Stack], options: WorkflowOptions) -> tuple[GeneratedFile, ...]:
    """One file for what concerns all targets, and two for each that CI owns."""
    owned = [target for target in config.targets if target.owner is Owner.CI]
    if not owned:
        raise UsageError(
            "HF-SCAF-3",
            "no target is owned by CI, so there is nothing that only CI applies",
            hint="Give a target `owner: ci` in holdfast.yaml, and name it in the entries of its stacks.",
        )
    return tuple(_files(config, stacks, options, owned))


def needed_settings(config: Config, stacks: Sequence[Stack]) -> tuple[str, ...]:
    """What must be set in the repository's settings, one line each."""
    owned = {target.name for target in config.targets if target.owner is Owner.CI}
    clouds = clouds_of(config, [stack for stack in stacks if stack.target and stack.target.name in owned])
    environments = ", ".join(f"`{name}`" for name in (*sorted(owned), "break-glass"))
    lines = [f"environments {environments}, each with required reviewers"]
    if "aws" in clouds:
        lines.append(
            "variables AWS_REGION, AWS_PLAN_ROLE (reads) and, per environment, AWS_APPLY_ROLE (writes)"
        )
    if "azure" in clouds:
        lines.append(
            "variables AZURE_TENANT_ID, AZURE_SUBSCRIPTION_ID, AZURE_PLAN_CLIENT_ID (reads) and, "
            "per environment, AZURE_APPLY_CLIENT_ID (writes)"
        )
    if _server(config) is not None:
        lines.append("rules for tokens of CI on the server: docs/server-tokens.md")
    else:
        lines.append(
            "secrets HOLDFAST_PLAN_KEY (repository) and HOLDFAST_KEY (environments only): docs/keys.md"
        )
    return tuple(lines)


def clouds_of(config: Config, stacks: Sequence[Stack]) -> tuple[str, ...]:
    """Where the jobs need an identity: for states, credentials and the run store."""
    clouds = {"aws"} if config.store.startswith("s3://") else set()
    for stack in stacks:
        kind = stack.backend.type if stack.backend is not None else None
        clouds |= {_CLOUD_OF_BACKEND[kind]} if kind in _CLOUD_OF_BACKEND else set()
        clouds |= set(stack.credentials)
    return tuple(sorted(clouds))


def _server(config: Config) -> str | None:
    return config.store if config.store.startswith(("https://", "http://")) else None


def _files(
    config: Config, stacks: Sequence[Stack], options: WorkflowOptions, owned: Sequence[Target]
) -> Iterator[GeneratedFile]:
    names = {target.name for target in owned}
    theirs = [stack for stack in stacks if stack.target is not None and stack.target.name in names]
    shared = _values(config, clouds_of(config, theirs), options)
    for name in _EVERY:
        yield GeneratedFile(path=f"holdfast-{name}.yml", text=fill(template(f"workflows/{name}.yml"), shared))
    for target in owned:
        mine = [stack for stack in theirs if stack.target is not None and stack.target.name == target.name]
        values = {
            **_values(config, clouds_of(config, mine), options),
            "target": target.name,
            "lane": target.lane or target.name,
        }
        for name in _PER_TARGET:
            text = fill(template(f"workflows/{name}.yml"), values)
            yield GeneratedFile(path=f"holdfast-{name}-{target.name}.yml", text=text)


def _values(config: Config, clouds: Sequence[str], options: WorkflowOptions) -> dict[str, str]:
    server = _server(config)
    extras = [*(["embedded"] if options.embedded else []), *(["aws"] if "aws" in clouds else [])]
    key, plan_key = (
        _secret(name) if server is None else "" for name in ("HOLDFAST_KEY", "HOLDFAST_PLAN_KEY")
    )
    return {
        **ACTIONS,
        "branch": options.branch,
        "schedule": config.drift.schedule or _SCHEDULE,
        "notify": " --notify" if config.notify.routes else "",
        "install": _install(extras, tofu=not options.embedded),
        "plan_identity": "\n".join(_identity(cloud, "PLAN") for cloud in clouds),
        "apply_identity": "\n".join(_identity(cloud, "APPLY") for cloud in clouds),
        "server": f"HOLDFAST_URL: {server}" if server is not None else "",
        "server_of_job": f"env:\n  HOLDFAST_URL: {server}" if server is not None else "",
        "login": _LOGIN if server is not None else "",
        "plan_key": plan_key,
        "key": key,
        "key_env": f"env:\n  {key}" if key else "",
        "plan_key_env": f"env:\n  {plan_key}" if plan_key else "",
    }


def _secret(name: str) -> str:
    return f"{name}: ${{{{ secrets.{name} }}}}"


def _install(extras: Sequence[str], *, tofu: bool) -> str:
    wanted = f"holdfast[{','.join(extras)}]" if extras else "holdfast"
    packages = f'"{wanted}=={__version__}"{" holdfast-libtofu" if tofu else ""}'
    return (
        "- name: Install Holdfast\n"
        "  run: |\n"
        '    python3 -m venv "$RUNNER_TEMP/holdfast"\n'
        f'    "$RUNNER_TEMP/holdfast/bin/pip" install --quiet --disable-pip-version-check {packages}\n'
        '    echo "$RUNNER_TEMP/holdfast/bin" >> "$GITHUB_PATH"'
    )


def _identity(cloud: str, use: str) -> str:
    settings = (
        {"role-to-assume": f"AWS_{use}_ROLE", "aws-region": "AWS_REGION"}
        if cloud == "aws"
        else {
            "client-id": f"AZURE_{use}_CLIENT_ID",
            "tenant-id": "AZURE_TENANT_ID",
            "subscription-id": "AZURE_SUBSCRIPTION_ID",
        }
    )
    lines = (f"    {name}: ${{{{ vars.{variable} }}}}" for name, variable in settings.items())
    return "\n".join((f"- uses: {ACTIONS[cloud]}", "  with:", *lines))
