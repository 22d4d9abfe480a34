"""`holdfast scaffold`: files of a repository that follow from holdfast.yaml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.cli.parameters import OneStack
from holdfast.kernel.errors import Exit, UsageError

if TYPE_CHECKING:
    from holdfast.scaffold.tofu_controller import Approval
    from holdfast.scaffold.writing import Comparison

HELP = "Generate workflows, targets, resources of other tools."
COMMANDS = ("target", "workflows", "argocd", "tofu-controller")

Check = Annotated[
    bool, Option("--check", help="Write nothing. Exit 3 if a file is missing, out of date or edited.")
]
Out = Annotated[
    Path | None, Option("--out", metavar="FILE", help="Write this file. Default: standard output.")
]
Force = Annotated[bool, Option("--force", help="Also replace files that were edited or not generated.")]


def target(
    invocation: Invocation,
    kind: Annotated[str, Argument(metavar="aws|azure|local", help="What the target runs on.")],
    name: Annotated[
        str | None, Option("--name", metavar="NAME", help="Its name. Default: the same word.")
    ] = None,
    folder: Annotated[
        Path | None, Option("--folder", metavar="DIR", help="Where to write. Default: targets/NAME.")
    ] = None,
) -> Exit:
    """Create a target: code with the outputs of the contract.

    `local` is a cluster on this machine with k3d. In the code, backends have only a type.
    """
    from holdfast.scaffold import target as new

    if kind not in new.KINDS:
        raise UsageError("HF-USE-22", f"{kind}: choose one of {', '.join(new.KINDS)}", hint="See --help.")
    called = name or kind
    place = folder or Path("targets") / called
    generated = new.target_files(kind, called)
    new.write_target(place, generated)
    part = new.config_part(kind, called, place.as_posix())
    document = {
        "version": 1,
        "folder": str(place),
        "files": [file.path for file in generated],
        "configuration": part,
    }

    def show() -> None:
        invocation.console.say(f" Created {place}: {', '.join(file.path for file in generated)}")
        invocation.console.say(
            " Add this to holdfast.yaml, with your values in place of the words in capitals:"
        )
        invocation.console.say("")
        for line in part.splitlines():
            invocation.console.say(f"   {line}")
        invocation.console.say("")
        invocation.console.say(f" Then: holdfast check {called}/platform")

    return invocation.answer(document, show)


def workflows(
    invocation: Invocation,
    check: Check = False,
    force: Force = False,
    branch: Annotated[
        str | None,
        Option("--branch", metavar="NAME", help="The branch whose merges are applied. Default: main."),
    ] = None,
    folder: Annotated[
        Path | None, Option("--folder", metavar="DIR", help="Where to write. Default: .github/workflows.")
    ] = None,
) -> Exit:
    """Write GitHub workflows for the targets that CI owns.

    Plan on pull requests, apply on merges, destroy, nightly drift, force-unlock and break-glass, with OIDC,
    environments, one concurrency group per lane, least permissions, and actions pinned by commit.
    """
    from holdfast.changes.repository import open_repository
    from holdfast.scaffold import workflows as generated
    from holdfast.scaffold.writing import compare, write

    repository = open_repository(invocation.config, invocation.environment)
    config = repository.config
    options = generated.WorkflowOptions(
        branch=generated.checked_branch(branch or "main"), embedded=config.engine.use != "tofu"
    )
    files = generated.workflows(config, repository.stacks, options)
    place = folder or config.root / generated.FOLDER
    comparison = compare(place, files, generated.COMMAND, family="holdfast-*.yml")
    if not check:
        write(comparison, force=force)
    document = {
        "version": 1,
        "folder": str(place),
        "files": [{"path": path, "status": str(status)} for path, status in comparison.statuses.items()],
        "settings": list(generated.needed_settings(config, repository.stacks)),
    }
    stale = check and not comparison.is_current
    return invocation.answer(
        document,
        lambda: _show(invocation, comparison, check=check),
        lambda: _show_settings(invocation, document["settings"]) if not check else None,
        exit_code=Exit.REFUSED if stale else Exit.DONE,
    )


def argocd(
    invocation: Invocation,
    target_name: Annotated[str, Argument(metavar="TARGET", help="The target whose facts are layered in.")],
    repository_url: Annotated[
        str, Option("--repository", metavar="URL", help="The Git repository with the Helm chart.")
    ],
    path: Annotated[str, Option("--path", metavar="DIR", help="The folder of the chart.")],
    name: Annotated[
        str | None, Option("--name", metavar="NAME", help="Its name. Default: the last part of --path.")
    ] = None,
    revision: Annotated[
        str | None, Option("--revision", metavar="REF", help="The revision of the chart. Default: main.")
    ] = None,
    values: Annotated[
        list[str] | None,
        Option(
            "--values",
            metavar="FILE",
            help="A value file that people write, relative to the chart, with {environment}; repeatable. "
            "Default: values.yaml.",
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        Option("--namespace", metavar="NAME", help="Where it is deployed to. Default: {environment}."),
    ] = None,
    project: Annotated[
        str | None, Option("--project", metavar="NAME", help="The project of Argo CD. Default: default.")
    ] = None,
    out: Out = None,
    force: Force = False,
) -> Exit:
    """Write an Application that layers facts over values.

    An ApplicationSet if the target has several environments. The facts come last: they win over what people
    write. Refused where Argo CD could not read them.
    """
    from holdfast.changes.repository import open_repository
    from holdfast.facts.outputs import target_named
    from holdfast.scaffold import argocd as generated

    repository = open_repository(invocation.config, invocation.environment)
    chosen = target_named(repository.config, target_name)
    given = {"revision": revision, "namespace": namespace, "project": project}
    wanted = generated.Application(
        name=name or path.rstrip("/").rpartition("/")[2],
        repository=repository_url,
        path=path,
        values=tuple(values or ("values.yaml",)),
        **{key: value for key, value in given.items() if value is not None},
    )
    own = {stack.environment for stack in repository.stacks if stack.target == chosen and stack.environment}
    text = generated.applications(chosen, sorted(own), wanted)
    return _answer(
        invocation, text, f"{generated.COMMAND} {chosen.name}", out, force=force, target=chosen.name
    )


def tofu_controller(
    invocation: Invocation,
    stack_name: OneStack,
    source: Annotated[
        str,
        Option("--source", metavar="NAME", help="The GitRepository of Flux with this repository."),
    ],
    namespace: Annotated[
        str | None,
        Option("--namespace", metavar="NAME", help="Where the resource lives. Default: flux-system."),
    ] = None,
    interval: Annotated[
        str | None,
        Option("--interval", metavar="DURATION", help="How often the controller looks. Default: 1h."),
    ] = None,
    approve: Annotated[
        str | None,
        Option("--approve", metavar="manual|auto|drift-only", help="Who approves plans. Default: manual."),
    ] = None,
    out: Out = None,
    force: Force = False,
) -> Exit:
    """Write the resource that hands a stack to tofu-controller.

    Refused, with the reasons, if the controller would do something else than Holdfast does.
    """
    from holdfast.changes.repository import open_repository
    from holdfast.scaffold import tofu_controller as controller
    from holdfast.stacks.reads.remote_states import stack_backend

    repository = open_repository(invocation.config, invocation.environment)
    stack = repository.stack(stack_name)
    given = {"namespace": namespace, "interval": interval}
    options = controller.ControllerOptions(
        source=source,
        approval=_approval(approve),
        **{name: value for name, value in given.items() if value is not None},
    )
    text = controller.terraform_resource(stack, options, code_backend=stack_backend(repository.code, stack))
    return _answer(invocation, text, f"{controller.COMMAND} {stack.name}", out, force=force, stack=stack.name)


def _answer(
    invocation: Invocation, text: str, command: str, out: Path | None, *, force: bool, **of: str
) -> Exit:
    """One generated file, or its text on standard output."""
    from holdfast.scaffold.generated_file import GeneratedFile, marked
    from holdfast.scaffold.writing import compare, write

    if out is None:
        document = {"version": 1, **of, "resource": text}
        return invocation.answer(document, lambda: sys.stdout.write(marked(text, command)))
    comparison = compare(out.parent, [GeneratedFile(path=out.name, text=text)], command)
    write(comparison, force=force)
    document = {"version": 1, **of, "file": str(out), "status": str(comparison.statuses[out.name])}
    return invocation.answer(document, lambda: _show(invocation, comparison, check=False))


def _approval(given: str | None) -> Approval:
    from holdfast.scaffold.tofu_controller import Approval

    try:
        return Approval(given or "manual")
    except ValueError:
        raise UsageError(
            "HF-USE-22",
            f"--approve {given}: choose one of {', '.join(Approval)}",
            hint="The default is manual.",
        ) from None


def _show(invocation: Invocation, comparison: Comparison, *, check: bool) -> None:
    words = {"created": "missing", "updated": "out of date"} if check else {}
    for path, status in comparison.statuses.items():
        more = " (no longer generated: remove it)" if status == "obsolete" else ""
        invocation.console.line(f" {words.get(status, status):<12} {comparison.folder / path}{more}")
    if check and not comparison.is_current:
        invocation.console.say(" Update them: holdfast scaffold workflows")


def _show_settings(invocation: Invocation, settings: object) -> None:
    invocation.console.say("")
    invocation.console.say(" The repository's settings on GitHub need:")
    for line in settings if isinstance(settings, list) else ():
        invocation.console.say(f"   - {line}")
