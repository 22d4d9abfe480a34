"""`holdfast worker`: runs changes that were submitted to the server."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Annotated

from holdfast.cli.command import Invocation, Option
from holdfast.cli.parameters import count
from holdfast.config.shapes import LABEL
from holdfast.kernel.errors import Exit, UsageError


def worker(
    invocation: Invocation,
    data: Annotated[
        Path | None,
        Option("--data", metavar="DIR", help="The data folder of the server. Default: HOLDFAST_HOME/server."),
    ] = None,
    label: Annotated[
        list[str] | None,
        Option(
            "--label",
            metavar="KEY=VALUE",
            help="Take only changes of this environment=NAME or target=NAME; stacks can require any other "
            "one. Repeatable.",
        ),
    ] = None,
    concurrency: Annotated[
        str | None, Option("--concurrency", metavar="N", help="Changes at the same time. Default: 2.")
    ] = None,
) -> Exit:
    """Run changes that were submitted to the server.

    It runs until it is interrupted, on the machine of the server or on any other one that reaches its
    database (HOLDFAST_DATABASE_URL) and has its key. It is trusted like the server. After SIGTERM it takes no
    more changes; plans are made again by other workers, and an apply that is not finished in time goes on
    without it.
    """
    from holdfast.cli.server.place import server_place
    from holdfast.database.errors import extra_missing
    from holdfast.database.place import open_running_database

    try:
        from holdfast.server.worker_processes import PARENT
        from holdfast.worker.main import WorkerOptions, run_worker
    except ModuleNotFoundError as error:
        if str(error.name).startswith("holdfast"):
            raise
        raise extra_missing(str(error.name)) from None

    environment = invocation.environment
    parent = environment.get(PARENT)
    options = WorkerOptions(
        labels=_labels(label or []),
        concurrency=count("--concurrency", concurrency, default=2, least=1),
        parent=int(parent) if parent is not None else None,
    )
    folder, settings = server_place(invocation, data)

    def show_ready(id_: str) -> None:
        document = {"version": 1, "worker": id_, "labels": options.labels}
        line = json.dumps(document) if invocation.as_json else f"Worker {id_} is ready"
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    with open_running_database(environment, folder, "holdfast worker") as database:
        run_worker(environment, database, settings, folder, options, show_ready)
    return Exit.DONE


def _labels(texts: list[str]) -> dict[str, tuple[str, ...]]:
    labels: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        known = name in {"environment", "target"} and value
        if not equals or not (known or all(re.fullmatch(LABEL, part) for part in (name, value))):
            raise UsageError(
                "HF-WKR-2",
                f"{text} is not a label of a worker",
                hint="Write --label environment=NAME, --label target=NAME, or a label of your own such as "
                "--label network=internal.",
            )
        labels[name] = (*labels.get(name, ()), value)
    return labels
