"""`holdfast serve`: the server."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Invocation, Option
from holdfast.cli.parameters import count
from holdfast.kernel.errors import Exit

if TYPE_CHECKING:
    from holdfast.server.serve import ReadyServer


def serve(
    invocation: Invocation,
    listen: Annotated[
        str | None,
        Option("--listen", metavar="HOST:PORT", help="The address to listen on. Default: 127.0.0.1:8420."),
    ] = None,
    data: Annotated[
        Path | None,
        Option("--data", metavar="DIR", help="The data folder of the server. Default: HOLDFAST_HOME/server."),
    ] = None,
    workers: Annotated[
        str | None,
        Option("--workers", metavar="N", help="Workers to start beside it, which run changes. Default: 1."),
    ] = None,
    blueprints: Annotated[
        list[str] | None,
        Option(
            "--blueprints",
            metavar="DIR",
            help="A blueprint, or a folder with some, whose devices clients may create. Can be repeated.",
        ),
    ] = None,
) -> Exit:
    """Run the server: the API, the state backend, and workers.

    It runs until it is interrupted. Its database is a PostgreSQL in the data folder, or the one in
    HOLDFAST_DATABASE_URL. Its configuration is server.yaml in the data folder, or the file named with
    --config. The first start creates an admin token and a key there.
    """
    from holdfast.cli.server.place import server_place
    from holdfast.database.errors import extra_missing

    try:
        from holdfast.server.serve import serve as run_server
        from holdfast.worker.sweeper import hold_sweeper
    except ModuleNotFoundError as error:
        if str(error.name).startswith("holdfast"):
            raise
        raise extra_missing(str(error.name)) from None

    environment = invocation.environment
    folder, settings = server_place(invocation, data)

    def show_ready(server: ReadyServer) -> None:
        document = {
            "version": 1,
            "url": server.url,
            "data": str(server.data),
            "admin_token_file": str(server.admin_token_file),
        }
        line = json.dumps(document) if invocation.as_json else f"Holdfast is ready at {server.url}"
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    # SIGTERM before the server is ready, too, ends it as asked.
    with suppress(KeyboardInterrupt):
        run_server(
            *(environment, folder, settings),
            listen=listen,
            workers=count("--workers", workers, default=1, least=0),
            blueprints=tuple(map(Path, blueprints or ())),
            config=invocation.config,
            notice=invocation.console.warn,
            ready=show_ready,
            beside=hold_sweeper,
        )
    return Exit.DONE
