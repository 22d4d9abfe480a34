"""Generates docs/cli.md from the command line itself."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout

import click

from holdfast.cli.app import app, run

_INTRODUCTION = """# The command line

This page is generated (`make docs`). Every command takes `--json` (one document on standard output,
everything else on standard error), `--config FILE`, `--quiet`, `--verbose` and `--no-color`, and respects
`NO_COLOR` and `CI` (set, and not empty, `0` or `false`).

`STACK` is a name or a glob (`prod/*`), or a filter: `env:prod`, `account:…`, `region:…`, `target:…`.

| exit code | meaning |
|---|---|
| 0 | done, or no changes |
| 1 | failed, or cancelled; `secrets check`: a secret cannot be read; `policy test`: a test fails |
| 2 | changes found (`plan --detailed-exitcode`) |
| 3 | refused: by a check, the guard or a policy; a used, changed or mismatched bundle |
| 4 | locked or busy |
| 5 | waiting for approval |
| 6 | unknown outcome or unsaved state, see `runs reconcile`; `audit verify`: the log was changed |
| 64 | invalid usage or configuration, nothing was run; `doctor`: something needs attention |

With several stacks, the most severe result sets the exit code: 6, 1, 3, 4, 5, 2, 0. `removed` adds
nothing; `blocked` counts as 1 on apply, unless `--allow-blocked`, and adds nothing elsewhere.

Options may have one dash, as in Terraform: `-target=ADDR`, `-destroy`, `-detailed-exitcode`. For an option of
Terraform that Holdfast does not have, such as `-auto-approve`, the error names what to use instead.
"""


def document() -> str:
    """The whole page as Markdown."""
    pages = [_INTRODUCTION]
    for names in _commands(app, ()):
        text = io.StringIO()
        with redirect_stdout(text):
            run([*names, "--help"])
        plain = "\n".join(line.rstrip() for line in text.getvalue().strip().splitlines())
        pages.append(f"## holdfast {' '.join(names)}\n\n```\n{plain}\n```\n")
    return "\n".join(pages)


def _commands(command: click.Group, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        if isinstance(inner, click.Group):
            yield from _commands(inner, (*names, name))
        else:
            yield (*names, name)
