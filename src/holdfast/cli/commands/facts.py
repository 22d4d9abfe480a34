"""`holdfast facts`: outputs of Terraform for GitOps."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec import to_builtins

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural

if TYPE_CHECKING:
    from holdfast.config.settings import Config, Target
    from holdfast.facts.publish import PublishedFile
    from holdfast.facts.verify import VerifiedFile
    from holdfast.plans.context import ChangeContext

HELP = "Publish outputs for GitOps, and check what was published."
COMMANDS = ("build", "publish", "verify", "seal")
T = TypeVar("T")
Names = Annotated[
    list[str] | None, Argument(metavar="TARGET", help="Names of targets. Default: all that have facts.")
]
_SHORT = 12
_LONGEST = 80


def build(invocation: Invocation, targets: Names = None) -> Exit:
    """Show the facts of targets. Publishes nothing.

    Facts are outputs under the names that GitOps knows.
    """
    from holdfast.facts.build import build as build_target

    built = _for_each(invocation, targets, build_target, reads=True)
    document = [
        {
            "target": target.name,
            "environments": [
                {
                    "environment": facts.environment,
                    "stacks": facts.stacks,
                    "facts": facts.facts,
                    "absent": facts.absent,
                    "reserved": to_builtins(facts.reserved),
                }
                for facts in environments
            ],
        }
        for target, environments in built
    ]

    def show() -> None:
        for target, environments in built:
            for facts in environments:
                invocation.console.line(
                    (f" {target.name}/{facts.environment}", "bold"), f"  {_from(facts.stacks)}"
                )
                for name, value in facts.facts.items():
                    invocation.console.line(f"   {name} = {_shown(value)}")
                for checked in facts.reserved:
                    account = f"in {checked.account}" if checked.account else "its account was not compared"
                    where = f"{checked.resource} of {checked.stack}"
                    invocation.console.line(f"   {checked.fact} is reserved: {where}, {account}")
                for name in facts.absent:
                    invocation.console.line(f"   {name}: left out, the output is optional and has no value")

    return invocation.answer({"version": 1, "targets": document}, show)


def publish(invocation: Invocation, targets: Names = None) -> Exit:
    """Publish the facts of targets to their repositories. Changes nothing if they are the same."""
    from holdfast.facts.publish import publish as publish_target

    published = [publication for _, publication in _for_each(invocation, targets, publish_target)]

    def show() -> None:
        for publication in published:
            for file in publication.files:
                _show_published(invocation, file)
            commit = publication.commit[:_SHORT] if publication.commit is not None else None
            where = f"{publication.repository}, branch {publication.branch}"
            invocation.console.say(f" {where}: {f'commit {commit}' if commit else 'nothing to change'}")
            for note in publication.notes:
                invocation.console.warn(note)

    return invocation.answer({"version": 1, "targets": to_builtins(published)}, show)


def verify(
    invocation: Invocation,
    targets: Names = None,
    outputs: Annotated[
        bool, Option("--outputs", help="Also compare the facts with the outputs of the stacks.")
    ] = False,
) -> Exit:
    """Check that the published facts are as Holdfast published them. Exit 3 if not; names who edited them."""
    from holdfast.facts.verify import Verification
    from holdfast.facts.verify import verify as verify_target

    def work(context: ChangeContext, target: Target) -> Awaitable[Verification]:
        return verify_target(context, target, outputs=outputs)

    verified = [verification for _, verification in _for_each(invocation, targets, work, reads=True)]
    good = all(verification.good for verification in verified)

    def show() -> None:
        for verification in verified:
            for file in verification.files:
                _show_verified(invocation, verification.target, file)
        files = plural(sum(len(verification.files) for verification in verified), "file")
        compared = "" if outputs else "; not compared with the outputs (--outputs)"
        invocation.console.say(f" {files} verified{compared}" if good else f" {files}{compared}")

    document = [
        {
            **to_builtins(verification),
            "good": verification.good,
            "files": [
                {**to_builtins(file), "edits": [edit._asdict() for edit in file.edits]}
                for file in verification.files
            ],
        }
        for verification in verified
    ]
    return invocation.answer(
        {"version": 1, "targets": document}, show, exit_code=Exit.DONE if good else Exit.REFUSED
    )


def seal(invocation: Invocation, targets: Names = None) -> Exit:
    """Publish the outputs of each bridge, encrypted with SOPS. Changes nothing if they are the same."""
    from holdfast.facts.seal import seal as seal_target

    sealed = [
        bridge
        for _, bridges in _for_each(invocation, targets, seal_target, key="bridge")
        for bridge in bridges
    ]

    def show() -> None:
        for bridge in sealed:
            for file in bridge.files:
                names = ", ".join(file.outputs)
                invocation.console.line((" ✓ ", "green"), f"{file.path}  {file.status} ({names})")
                if file.note is not None:
                    invocation.console.warn(f"{file.path}: {file.note}")
            commit = f"commit {bridge.commit[:_SHORT]}" if bridge.commit is not None else "nothing to change"
            invocation.console.say(f" {bridge.repository}, branch {bridge.branch}: {commit}")

    return invocation.answer({"version": 1, "bridges": to_builtins(sealed)}, show)


def _for_each(
    invocation: Invocation,
    names: Sequence[str] | None,
    work: Callable[[ChangeContext, Target], Awaitable[T]],
    *,
    reads: bool = False,
    key: str = "facts",
) -> list[tuple[Target, T]]:
    from holdfast.cli.context import CommandContext

    context = CommandContext(invocation, reads=reads)
    targets = _targets(context.repository.config, names, key)

    async def run(change: ChangeContext) -> list[tuple[Target, T]]:
        return [(target, await work(change, target)) for target in targets]

    return context.run(run)


def _targets(config: Config, names: Sequence[str] | None, key: str) -> list[Target]:
    from holdfast.facts.outputs import target_named

    if names:
        return [target_named(config, name) for name in dict.fromkeys(names)]
    targets = [target for target in config.targets if getattr(target, key)]
    if not targets:
        raise UsageError(
            "HF-FACT-8" if key == "facts" else "HF-SEAL-1",
            f"no target has `{key}`",
            hint=f"Add `{key}` to a target in holdfast.yaml: see docs/facts.md.",
        )
    return targets


def _show_published(invocation: Invocation, file: PublishedFile) -> None:
    digest = (file.digest or "").removeprefix("sha256:")[:_SHORT]
    match file.status:
        case "unchanged":
            text = f"unchanged {digest}"
        case "removed":
            text = "removed: no environment of the target has this file"
        case _:
            text = f"published {digest} ({plural(len(file.changed), 'fact')} changed)"
    invocation.console.line((" ✓ ", "green"), f"{file.path}  {text}")
    if file.replaced_edit:
        invocation.console.warn(f"{file.path} had been edited by hand; the edit was replaced")


def _show_verified(invocation: Invocation, target: str, file: VerifiedFile) -> None:
    console = invocation.console
    again = f"holdfast facts publish {target}"
    names = f" ({', '.join(file.facts)})" if file.facts else ""
    match file.status:
        case "ok":
            console.line((" ✓ ", "green"), f"{file.path}  as published by {file.by}")
            return
        case "edited":
            text = f"edited by hand{names}"
        case "deleted":
            text = "deleted by hand"
        case "different":
            text = f"differs from the outputs{names}"
        case "left":
            text = f"no environment of the target has this file: {again}"
        case _:
            text = f"never published: {again}"
    console.line((" ✗ ", "bold red"), f"{file.path}  {text}")
    for edit in file.edits:
        console.line(f"     {edit.id[:_SHORT]}  {edit.author}  {edit.date}  {edit.subject}")
    if file.status in {"edited", "deleted", "different"}:
        console.line(f"     To publish the outputs again: {again}")


def _from(stacks: Sequence[str]) -> str:
    return f"from {', '.join(stacks)}" if stacks else "no facts"


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
