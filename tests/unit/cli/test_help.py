"""What `--help` shows."""

from __future__ import annotations

from collections.abc import Iterator

import click

from holdfast.cli.app import app


def groups(group: click.Group, context: click.Context) -> Iterator[tuple[click.Group, click.Context]]:
    yield group, context
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from groups(command, click.Context(command, parent=context, terminal_width=80))


def test_the_first_sentence_of_each_command_fits_into_the_list() -> None:
    """Click cuts longer ones off in the middle."""
    context = click.Context(app, info_name="holdfast", terminal_width=80)
    for group, own in groups(app, context):
        _, _, commands = group.get_help(own).partition("Commands:")
        assert commands
        assert "..." not in commands
