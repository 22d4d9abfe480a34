"""The bridge: named outputs, and no others, as a file of SOPS in a repository that GitOps reads.

Holdfast encrypts for age recipients itself. The data key is derived from Holdfast's key and the values, so
that Holdfast recognises its own file without any private key: the same values leave it as it is, byte for
byte. For other recipients the program `sops` encrypts, by the rules of the repository's `.sops.yaml`.
"""

from __future__ import annotations

import asyncio
import functools
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from holdfast.audit.entry import Entry
from holdfast.config.publishing import Bridge
from holdfast.config.settings import Target
from holdfast.contract.comparison import OutputValue
from holdfast.contract.facts import OutputsOfStack, environments_of, sources_for
from holdfast.facts import sops_program
from holdfast.facts.build import FactsRefused
from holdfast.facts.outputs import read_outputs, stacks_of
from holdfast.facts.publish import require_publisher
from holdfast.facts.push import open_branch, push_files
from holdfast.kernel.errors import Problem, Refused, UsageError
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import ChangeContext
from holdfast.secrets import sops
from holdfast.system import clock
from holdfast.system.git_branch import GitBranch


class Plaintext(MaskedStruct, frozen=True, kw_only=True):
    """What one file contains."""

    path: str
    environment: str | None
    values: Mapping[str, object]
    stacks: tuple[str, ...]


class SealedFile(Struct, frozen=True, kw_only=True):
    path: str
    environment: str | None
    status: Literal["published", "unchanged"]
    outputs: tuple[str, ...]
    stacks: tuple[str, ...]
    note: str | None = None


class SealedBridge(Struct, frozen=True, kw_only=True):
    target: str
    repository: str
    branch: str
    commit: str | None
    files: tuple[SealedFile, ...]


async def seal(context: ChangeContext, target: Target) -> tuple[SealedBridge, ...]:
    """Nothing is published unless every file of the target can be."""
    if not target.bridge:
        raise UsageError(
            "HF-SEAL-1",
            f"the target `{target.name}` has no bridge",
            hint=f"Add `bridge` to targets.{target.name} in holdfast.yaml: see docs/facts.md.",
        )
    await require_publisher(context, target, "its outputs")
    for bridge in target.bridge:
        await _read(context, target, bridge)
    loop = asyncio.get_running_loop()

    def read_again(bridge: Bridge) -> Sequence[Plaintext]:
        """From states that are at least as new as the branch."""
        for stack in stacks_of(context.project, target):
            context.states.forget(stack.name)
        return asyncio.run_coroutine_threadsafe(_read(context, target, bridge), loop).result()

    return tuple(
        [
            await asyncio.to_thread(_publish, context, target, bridge, functools.partial(read_again, bridge))
            for bridge in target.bridge
        ]
    )


async def _read(context: ChangeContext, target: Target, bridge: Bridge) -> Sequence[Plaintext]:
    problems: list[Problem] = []
    sources = await read_outputs(context, target)
    plaintexts = plaintexts_of(bridge, target, sources, problems.append)
    if problems:
        raise FactsRefused(tuple(dict.fromkeys(problems)))
    return plaintexts


def plaintexts_of(
    bridge: Bridge, target: Target, sources: Sequence[OutputsOfStack], problem: Callable[[Problem], None]
) -> list[Plaintext]:
    """One file, or one for each environment."""
    listed = target.facts.environments if target.facts is not None else ()
    by_environment = "{environment}" in bridge.path
    environments = environments_of(sources, listed) if by_environment else (None,)
    files: list[Plaintext] = []
    for environment in environments:
        chosen = sources_for(environment, sources) if environment is not None else tuple(sources)
        values: dict[str, object] = {}
        stacks: set[str] = set()
        for name in bridge.outputs:
            given = [(source.stack, source.outputs[name]) for source in chosen if name in source.outputs]
            mistake = _mistake(name, environment or target.name, given, chosen)
            if mistake is not None:
                problem(mistake)
                continue
            values[name] = given[0][1].value
            stacks.update(stack for stack, _ in given)
        path = bridge.file(target=target.name, environment=environment or "")
        files.append(
            Plaintext(path=path, environment=environment, values=values, stacks=tuple(sorted(stacks)))
        )
    return files


def _mistake(
    name: str,
    where: str,
    given: Sequence[tuple[str, OutputValue]],
    chosen: Sequence[OutputsOfStack],
) -> Problem | None:
    stacks = ", ".join(source.stack for source in chosen) or "no stack"
    if not given or all(output.value is None for _, output in given):
        return Problem(
            code="HF-SEAL-2",
            message=f"the bridge of {where} needs the output `{name}`, and {stacks} has none",
            hint=f"Apply first: holdfast apply {stacks}. Or remove it from `bridge.outputs`.",
        )
    if any(output.value != given[0][1].value for _, output in given):
        names = ", ".join(stack for stack, _ in given)
        return Problem(
            code="HF-SEAL-3",
            message=f"the bridge of {where} is ambiguous: {names} have different values of `{name}`",
            hint="Add {environment} to its `path`, or let `contract.stacks` of the target name one stack.",
        )
    return None


def _publish(
    context: ChangeContext, target: Target, bridge: Bridge, read: Callable[[], Sequence[Plaintext]]
) -> SealedBridge:
    branch = open_branch(context, bridge.repository, bridge.branch, bridge.credentials)
    audit = context.identity.audit
    result: list[SealedFile] = []

    def change(tip: str | None) -> Mapping[str, bytes | None]:
        result.clear()
        contents: dict[str, bytes | None] = {}
        for plaintext in read():
            text, note = _text(context, bridge, branch, tip, plaintext)
            if text is not None:
                contents[plaintext.path] = text.encode()
            result.append(
                SealedFile(
                    path=plaintext.path,
                    environment=plaintext.environment,
                    status="unchanged" if text is None else "published",
                    outputs=tuple(plaintext.values),
                    stacks=plaintext.stacks,
                    note=note,
                )
            )
        return contents

    details: dict[str, str | int | None] = {
        "target": target.name,
        "repository": bridge.repository,
        "branch": bridge.branch,
        "outputs": ", ".join(bridge.outputs),
    }
    pushed = push_files(
        branch,
        change,
        message=lambda: f"Update encrypted outputs of {target.name}\n\nPublished by {audit.who.shown}\n",
        before=functools.partial(audit.record, Entry(what="facts-seal", outcome="begun", details=details)),
    )
    if pushed.commit is not None:
        files = ", ".join(file.path for file in result if file.status == "published")
        done = {**details, "commit": pushed.commit, "files": files}
        audit.record(Entry(what="facts-seal", outcome="done", details=done))
    return SealedBridge(
        target=target.name,
        repository=bridge.repository,
        branch=bridge.branch,
        commit=pushed.commit,
        files=tuple(result),
    )


def _text(
    context: ChangeContext, bridge: Bridge, branch: GitBranch, tip: str | None, plaintext: Plaintext
) -> tuple[str | None, str | None]:
    """The new text of the file, None if it stays; and what to say about it."""
    content = branch.read(tip, plaintext.path)
    old = content.decode("utf-8", "replace") if content is not None else None
    if old is not None:
        try:
            sops.read(old)
        except sops.SopsError as error:
            raise Refused(
                "HF-SEAL-4",
                f"{branch.url}: {plaintext.path} exists, and {error}",
                hint="Remove it from the branch if the outputs shall replace it, or set another `path`.",
            ) from None
    try:
        if not bridge.age:
            return sops_program.encrypt(context, branch, tip, plaintext.path, plaintext.values, old)
        return _sealed(context, bridge, plaintext, old), None
    except sops.SopsError as error:
        raise Refused(
            "HF-SEAL-5",
            f"{plaintext.path} cannot be encrypted: {error}",
            hint="Change the output, or the recipients in `bridge.age`.",
        ) from None


def _sealed(context: ChangeContext, bridge: Bridge, plaintext: Plaintext, old: str | None) -> str | None:
    recipients = tuple(dict.fromkeys(bridge.age))
    place = f"{bridge.repository} {bridge.branch} {plaintext.path}"
    secret = context.store.key.scope_key("bridge").secret
    data_key = hmac.digest(secret, sops.canonical(plaintext.values, recipients, place), "sha256")
    if old is not None and _has(old, data_key, plaintext.values):
        return None
    return sops.seal(
        plaintext.values,
        data_key=data_key,
        recipients={recipient: sops.sealed_key(data_key, recipient) for recipient in recipients},
        modified=clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def _has(text: str, data_key: bytes, values: Mapping[str, object]) -> bool:
    """Whether it is our file with exactly these values."""
    try:
        return sops.unseal(text, data_key) == values
    except sops.SopsError:
        return False
