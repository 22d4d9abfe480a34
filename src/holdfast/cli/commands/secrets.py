"""`holdfast secrets`: whether the secrets that stacks and targets need exist; missing ones are created."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import to_builtins

from holdfast.cli.command import Argument, Invocation, Option, fields
from holdfast.kernel.errors import Exit, HoldfastError, UsageError
from holdfast.kernel.text import first_names, plural

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from holdfast.config.secret_refs import SecretRef
    from holdfast.config.settings import Target
    from holdfast.plans.context import ChangeContext
    from holdfast.secrets.seed import Seeded, Value
    from holdfast.secrets.sources.interface import ReadSecret

_NAMED = 3
_MAX_BYTES = 1024 * 1024
_STANDARD_INPUT = "-"
_LOCAL_FILES = (".env.local", ".env")
HELP = "Check secrets of stacks and targets, and create missing ones."
COMMANDS = ("check", "seed")


def check(
    invocation: Invocation,
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="STACK|TARGET",
            help="Names of targets, or stacks as in other commands. Default: everything.",
        ),
    ] = None,
) -> Exit:
    """Check that every secret of the stacks and targets can be read. Shows which identity read it.

    Never shows values. Exit 1 if a secret cannot be read.
    """
    from holdfast.changes.repository import open_repository
    from holdfast.secrets.reader import SecretReader
    from holdfast.secrets.stack_secrets import stacks_by_reference

    repository = open_repository(invocation.config, invocation.environment)
    repository.tune(invocation.console.redactor)
    targets = [target for target in repository.config.targets if not names or target.name in names]
    of_targets = {target.name for target in targets}
    others = [name for name in names or () if name not in of_targets]
    # A target's own stacks are part of its deploy.
    others += [f"target:{name}" for name in of_targets if names and _has_stacks(repository.stacks, name)]
    chosen = repository.select(others, [], None).selected if others or not names else ()
    selected = [stack.stack for stack in chosen]
    used_by = stacks_by_reference(selected)
    required: dict[SecretRef, list[str]] = {}
    for target in targets:
        for secret in target.secrets:
            required.setdefault(secret.secret, []).append(f"{target.name}/{secret.name}")
    refs = sorted({*used_by, *required}, key=str)
    answers = SecretReader(invocation.environment, repository.config.root, identify=True).read_all(refs)
    for answer in answers.values():
        if not isinstance(answer, HoldfastError):
            invocation.console.redactor.register(answer.secret.reveal())
    missing = sum(isinstance(answer, HoldfastError) for answer in answers.values())
    summary = {"stacks": len(selected), "present": len(answers) - missing, "missing": missing}
    return invocation.answer(
        {
            "version": 1,
            "references": [
                {**_document(ref, answers[ref], used_by.get(ref, ())), "required_by": required.get(ref, [])}
                for ref in refs
            ],
            "summary": summary,
        },
        lambda: _show(
            invocation,
            {
                ref: (*used_by.get(ref, ()), *(f"required: {name}" for name in required.get(ref, ())))
                for ref in refs
            },
            answers,
            summary,
        ),
        exit_code=Exit.FAILED if missing else Exit.DONE,
    )


def seed(
    invocation: Invocation,
    target_name: Annotated[str, Argument(metavar="TARGET", help="Name of the target.")],
    from_file: Annotated[
        str | None,
        Option(
            "--from",
            metavar="FILE",
            help="Take values from NAME=value lines; `-`: from standard input. Default for a target of "
            "developers: .env.local and .env.",
        ),
    ] = None,
    generate: Annotated[
        list[str] | None,
        Option("--generate", metavar="NAME", help="Create this secret with a random value; repeatable."),
    ] = None,
) -> Exit:
    """Create the missing required secrets of a target. Never shows or overwrites a value."""
    from holdfast.cli.context import CommandContext
    from holdfast.facts.outputs import target_named

    context = CommandContext(invocation)
    target = target_named(context.repository.config, target_name)
    known = {secret.name for secret in target.secrets}
    if unknown := [name for name in generate or () if name not in known]:
        hint = f"Its secrets: {', '.join(sorted(known)) or 'none'}."
        message = f"the target `{target.name}` requires no secret `{unknown[0]}`"
        raise UsageError("HF-SEED-6", message, hint=hint)
    given = _given_values(invocation, context.repository.config.root, target, from_file)
    seeded = context.run(lambda change: _seed(change, target, given, generate or ()))

    def show() -> None:
        for secret in seeded:
            origin = f", {secret.source}" if secret.source is not None else ""
            invocation.console.line(
                (" ✓ ", "green"), f"{secret.reference}  {secret.status} ({secret.name}{origin})"
            )
        created = sum(secret.status == "created" for secret in seeded)
        invocation.console.say(f" {plural(created, 'secret')} created, {len(seeded) - created} existed")

    document = {"version": 1, "target": target.name, "secrets": to_builtins(seeded)}
    return invocation.answer(document, show)


async def _seed(
    context: ChangeContext, target: Target, given: Mapping[str, Value], generated: Sequence[str]
) -> tuple[Seeded, ...]:
    from holdfast.audit.entry import Entry
    from holdfast.changes.preconditions import SecretsMissing
    from holdfast.plans.policies import require_owner_of_target
    from holdfast.secrets.seed import Seeded, choose_values, create_secrets, missing_secrets

    await context.identity.prove()
    require_owner_of_target(context.project, target, "its secrets may be created")
    answers = await asyncio.to_thread(context.secrets.read_all, [secret.secret for secret in target.secrets])
    context.redactor.register_all(
        answer.secret for answer in answers.values() if not isinstance(answer, HoldfastError)
    )
    missing, unclear = missing_secrets(target.secrets, answers)
    if unclear:
        raise SecretsMissing(tuple(error.problem for error in unclear))
    values = choose_values(missing, given, generated)
    context.redactor.register_all(value.secret for value in values.values())
    created: tuple[Seeded, ...] = ()
    if missing:
        details: dict[str, str | int | None] = {
            "target": target.name,
            "secrets": ", ".join(secret.name for secret in missing),
        }
        audit = context.identity.audit
        audit.record(Entry(what="secrets-seed", outcome="begun", details=details))
        project = context.project
        created = await asyncio.to_thread(create_secrets, missing, values, project.environment, project.root)
        audit.record(Entry(what="secrets-seed", outcome="done", details=details))
    names = {secret.name for secret in missing}
    present = [
        Seeded(name=secret.name, reference=str(secret.secret), status="present")
        for secret in target.secrets
        if secret.name not in names
    ]
    return (*created, *present)


def _given_values(
    invocation: Invocation, root: Path, target: Target, file: str | None
) -> Mapping[str, Value]:
    """By the names in the files; the first file that has a name counts."""
    from holdfast.config.settings import Owner
    from holdfast.kernel.secret import Secret
    from holdfast.secrets.seed import Value
    from holdfast.secrets.sources.local import assignments

    if file == _STANDARD_INPUT:
        texts = {"standard input": sys.stdin.buffer.read(_MAX_BYTES).decode("utf-8-sig", "replace")}
    elif file is not None:
        texts = {file: _read(file)}
    elif target.owner is Owner.DEVELOPERS:
        texts = {name: _read(str(root / name)) for name in _LOCAL_FILES if (root / name).is_file()}
    else:
        texts = {}
    values: dict[str, Value] = {}
    for source, text in texts.items():
        for name, value in assignments(text).items():
            values.setdefault(name, Value(secret=Secret(value), source=f"from {source}"))
    invocation.console.redactor.register_all(value.secret for value in values.values())
    return values


def _read(path: str) -> str:
    from pathlib import Path

    from holdfast.system import files

    return files.read_text(Path(path), limit=_MAX_BYTES)


def _has_stacks(stacks: Iterable[object], target: str) -> bool:
    return any(getattr(getattr(stack, "target", None), "name", None) == target for stack in stacks)


def _document(ref: SecretRef, answer: ReadSecret | HoldfastError, names: Sequence[str]) -> dict[str, object]:
    document: dict[str, object] = {
        "reference": str(ref),
        "present": not isinstance(answer, HoldfastError),
        "identity": None if isinstance(answer, HoldfastError) else answer.by,
        "stacks": list(names),
        "error": None,
    }
    if isinstance(answer, HoldfastError):
        document["error"] = fields(answer.problem, "code", "message", "hint")
    return document


def _show(
    invocation: Invocation,
    used_by: Mapping[SecretRef, Sequence[str]],
    answers: Mapping[SecretRef, ReadSecret | HoldfastError],
    summary: Mapping[str, int],
) -> None:
    console = invocation.console
    for ref, names in used_by.items():
        answer = answers[ref]
        used_in = (f"  ({first_names(names, len(names) if invocation.verbose else _NAMED)})", "dim")
        if isinstance(answer, HoldfastError):
            console.line((" ✗ ", "bold red"), str(ref), used_in)
            console.line(("     ", ""), (answer.problem.code, "bold"), f"  {answer.problem.message}")
            if answer.problem.hint:
                console.line(f"     {answer.problem.hint}")
        else:
            console.line((" ✓ ", "green"), f"{ref}  by {answer.by}", used_in)
    stacks = plural(summary["stacks"], "stack")
    if not answers:
        console.say(f" {stacks}, no secret references")
        return
    readable = plural(summary["present"], "secret")
    console.say("")
    console.say(f" {stacks}: {readable} readable, {summary['missing']} missing")
