"""`holdfast terraform STACK -- ARGS`: a read-only Terraform command, in the environment of each stack."""

from __future__ import annotations

import decimal
import sys
from typing import TYPE_CHECKING, Annotated, TextIO

import msgspec

from holdfast.cli.command import Argument, Invocation
from holdfast.cli.terraform_options import COMMANDS_INSTEAD
from holdfast.kernel.errors import Exit, HoldfastError, Refused, UsageError, most_severe

if TYPE_CHECKING:  # loaded when a command runs
    from holdfast.plans.context import ChangeContext
    from holdfast.secrets.redact import Redactor
    from holdfast.stacks.stack import Stack
    from holdfast.terraform.engine.interface import CommandResult

READING = frozenset(
    {"output", "show", "validate", "providers", "version", "graph", "console", "fmt", "metadata", "modules"}
)
READING_STATE = frozenset({"list", "show"})


def terraform(
    invocation: Invocation,
    words: Annotated[
        list[str],
        Argument(
            metavar="STACK... -- ARGS",
            help="Names, globs or filters of stacks, and a read-only Terraform command.",
            separated=True,
        ),
    ],
) -> Exit:
    """Run a read-only Terraform command on stacks. Examples: output, show, state list, providers.

    `holdfast tofu` is the same command. The engine of each stack runs it.
    """
    from holdfast.changes.change import gather_all
    from holdfast.cli.context import CommandContext
    from holdfast.states.operations import run_read_only

    names, command_line = _split(words)
    if not names or not command_line:
        raise UsageError(
            "HF-USE-10",
            "no Terraform command given" if names else "no stack given",
            hint=f"Example: holdfast terraform {names[0] if names else 'STACK'} -- state list",
        )
    _refuse_writing(command_line)
    context = CommandContext(invocation, reads=True)
    stacks = [selected.stack for selected in context.repository.select(names, [], None).selected]
    answers: dict[str, CommandResult | HoldfastError] = {}

    async def read(change_context: ChangeContext, stack: Stack) -> None:
        async with change_context.engines.slots:
            try:
                answers[stack.name] = await run_read_only(change_context, stack, command_line)
            except HoldfastError as error:
                if len(stacks) == 1:
                    raise
                answers[stack.name] = error

    context.run(lambda change_context: gather_all(read(change_context, stack) for stack in stacks))
    exits = [
        _show(invocation, answers[stack.name], command_line, heading=stack.name if len(stacks) > 1 else None)
        for stack in stacks
    ]
    return Exit.USAGE if Exit.USAGE in exits else most_severe(exits)


def _split(words: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Stacks and the command. Without `--`, the first word is the stack."""
    end = words.index("--") if "--" in words else 1
    return words[:end], tuple(words[end:] if "--" not in words else words[end + 1 :])


def _show(
    invocation: Invocation,
    answer: CommandResult | HoldfastError,
    command_line: tuple[str, ...],
    *,
    heading: str | None,
) -> Exit:
    """The output of one stack, below its name if there are several."""
    redactor = invocation.console.redactor
    if heading is not None:
        _write(sys.stdout, f"# {heading}\n".encode())
    if isinstance(answer, HoldfastError):
        invocation.console.problems(answer.problems, answer.exit)
        return answer.exit
    shows_values = command_line[0] in {"show", "output"}
    _write(sys.stdout, _document(redactor, answer.out) if shows_values else redactor.clean_bytes(answer.out))
    _write(sys.stderr, redactor.clean_bytes(answer.err))
    return Exit.DONE if answer.code == 0 else Exit.FAILED


def _write(stream: TextIO, data: bytes) -> None:
    """As bytes, so that text without secrets is passed on unchanged."""
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def _document(redactor: Redactor, data: bytes) -> bytes:
    """Redact JSON value by value, so that it stays valid JSON, and other text as text.

    Values that Terraform marks as sensitive are removed even if they are too short for the redactor.
    """
    from holdfast.secrets.redact import MASK, TERRAFORM, clean_document
    from holdfast.terraform.statefile.sensitive import sensitive_in_shown, without_marked

    if data.lstrip()[:1] not in (b"{", b"["):
        return redactor.clean_bytes(data)
    try:
        document = msgspec.json.Decoder(float_hook=decimal.Decimal).decode(data)
    except msgspec.DecodeError:
        return redactor.clean_bytes(data)
    redactor.register_all(sensitive_in_shown(data))
    cleaned = clean_document(redactor, without_marked(document, MASK), TERRAFORM)
    if cleaned == document:
        return data
    text = msgspec.json.Encoder(decimal_format="number").encode(cleaned)
    return (msgspec.json.format(text, indent=2) if b"\n " in data else text) + b"\n"


def _refuse_writing(arguments: tuple[str, ...]) -> None:
    plain = [word for word in arguments if not word.startswith("-")]
    first = plain[0] if plain else ""
    name = " ".join(plain[:2]) if first == "state" else first
    reads = first in READING or (first == "state" and len(plain) > 1 and plain[1] in READING_STATE)
    if first == "fmt" or arguments[0] != first:
        reads = first == "fmt" and "-check" in arguments and arguments[0] == first
    if not reads:
        instead = COMMANDS_INSTEAD.get(name, "holdfast --help")
        raise Refused(
            "HF-USE-11",
            f"`holdfast terraform` does not run `{name or ' '.join(arguments)}`",
            hint=f"Use instead: {instead}",
        )
