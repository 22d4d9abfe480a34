"""What `serve` and `worker` begin with: the data folder, and the settings in it."""

from __future__ import annotations

from pathlib import Path

from holdfast.cli.command import Invocation
from holdfast.config.server import FILE_NAME, ServerSettings, default_settings, load_server_settings
from holdfast.database.database import URL_VARIABLE
from holdfast.database.place import data_folder


def server_place(invocation: Invocation, data: Path | None) -> tuple[Path, ServerSettings]:
    """No output shows the address of the database from here on."""
    if (url := invocation.environment.get(URL_VARIABLE)) is not None:
        invocation.console.redactor.register(url)
    folder = data_folder(invocation.environment, data)
    file = invocation.config or folder / FILE_NAME
    is_given = invocation.config is not None or file.exists()
    return folder, load_server_settings(file) if is_given else default_settings(folder)
