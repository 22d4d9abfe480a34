"""Questions to the user before something is changed. Ctrl-C is an answer too: no."""

from __future__ import annotations

import asyncio
import sys

from holdfast.cli.console import Console
from holdfast.kernel.errors import UsageError
from holdfast.plans.context import ChangeContext


def require_terminal(
    hint: str = "Add --yes.", *, what: str = "cannot ask for confirmation without a terminal"
) -> None:
    if not sys.stdin.isatty():
        raise UsageError("HF-USE-5", what, hint=hint)


def confirm_at_once(console: Console, question: str, *, yes: bool, hint: str = "Add --yes.") -> bool:
    """Where nothing else runs; `yes` was given on the command line."""
    if yes:
        return True
    require_terminal(hint)
    console.question(question)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def confirm_destruction(console: Console, stack: str) -> bool:
    """By its name. Where nothing else runs."""
    ask_for_name(console, stack)
    return sys.stdin.readline().strip() == stack


def ask_for_name(console: Console, stack: str) -> None:
    question = f"Every resource in {stack} will be destroyed. Type the stack's name to confirm:"
    console.question(question, answers="")


async def confirm(console: Console, context: ChangeContext, question: str) -> bool:
    console.question(question)
    return (await read_answer(context)).lower() in {"y", "yes"}


async def read_answer(context: ChangeContext) -> str:
    """A line from the terminal; empty if the user pressed Ctrl-C instead."""
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    waiting = asyncio.create_task(ready.wait())
    stopping = asyncio.create_task(context.control.stop.reached(1))
    try:
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return sys.stdin.readline().strip() if ready.is_set() else ""
    finally:
        loop.remove_reader(sys.stdin.fileno())
        waiting.cancel()
        stopping.cancel()
