"""`holdfast completion`: the script with which a shell completes commands, options and names of stacks."""

from __future__ import annotations

import sys
from typing import Annotated

from holdfast.cli.command import Argument, Invocation
from holdfast.kernel.errors import Exit, UsageError

_SHELLS = ("bash", "zsh", "fish")


def completion(
    invocation: Invocation, shell: Annotated[str, Argument(metavar="SHELL", help="bash, zsh or fish.")]
) -> Exit:
    """Print a script that completes commands, options and stacks.

    \b
    bash (4.4 or newer), in ~/.bashrc:  eval "$(holdfast completion bash)"
    zsh, in ~/.zshrc after compinit:    eval "$(holdfast completion zsh)"
    fish:  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
    """  # noqa: D301 - Click does not join the lines after this character
    from click.shell_completion import ShellComplete, get_completion_class

    from holdfast.cli.app import app

    kind = get_completion_class(shell) if shell in _SHELLS else None
    if kind is None:
        raise UsageError(
            "HF-USE-30",
            f"`{shell}` is not one of {', '.join(_SHELLS)}",
            hint="Example: holdfast completion bash",
        )
    # Not the method of the class: for bash it starts a bash to ask for its version.
    script = ShellComplete.source(kind(app, {}, "holdfast", "_HOLDFAST_COMPLETE"))
    document = {"version": 1, "shell": shell, "script": script}
    return invocation.answer(document, lambda: sys.stdout.write(f"{script}\n"))
