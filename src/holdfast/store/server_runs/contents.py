"""What uploads, changes and runs contain: blobs of the tenant's run store, encrypted.

They begin with `server/`; the server and its workers use them, and clients only through the routes of runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import field

from holdfast.kernel.values import MaskedStruct
from holdfast.store.blobs import EncryptedBlobs
from holdfast.store.database_blobs import create_several, read_several
from holdfast.store.server_runs.phases import RunPhase

if TYPE_CHECKING:
    from psycopg import Connection

FOLDER: Final = "server"
_LOG: Final = f"{FOLDER}/log"
_STRINGS: Final = msgspec.json.Decoder(list[str])


class DriftTask(StrEnum):
    LIST = "list"
    """Read the schedule and the stacks of a repository."""
    LOOK = "look"
    """Compare a stack with reality."""
    HEAL = "heal"
    """Undo the drift of a stack, if its rules still allow it and the plan does nothing else."""


class ChangeOptions(MaskedStruct, frozen=True, kw_only=True):
    """What a change was asked for beside its stacks."""

    variables: dict[str, Any] = field(default_factory=dict)
    """Values of variables; they may be secret."""
    target: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    refresh_only: bool = False
    destroy: bool = False
    """Plan the destruction."""
    imports: dict[str, str] = field(default_factory=dict)
    """Of a reconcile: ids of resources that exist, by address."""
    recreate: tuple[str, ...] = ()
    """Of a reconcile: addresses of resources that do not exist."""
    declared: str | None = None
    """Of a reconcile: why the processes of the run count as dead."""
    drift: DriftTask | None = None
    """Instead of planning or applying as people ask for it."""


def upload_name(source: str) -> str:
    return f"{FOLDER}/uploads/{source}"


def options_name(change: str) -> str:
    return f"{FOLDER}/options/{change}"


def plan_name(run: str) -> str:
    """The saved plan, as a bundle."""
    return f"{FOLDER}/plans/{run}"


def result_name(run: str) -> str:
    """The document of the run, as `holdfast plan --json` prints it for its stack."""
    return f"{FOLDER}/results/{run}"


def drift_list_name(change: str) -> str:
    """The schedule and the stacks of a repository, as a worker read them."""
    return f"{FOLDER}/drift/{change}"


def checks_name(change: str) -> str:
    """The findings of the checks of all its stacks, as `holdfast plan --json` prints them."""
    return f"{FOLDER}/checks/{change}"


def report_name(change: str) -> str:
    """The report of a change, for a comment on a pull request."""
    return f"{FOLDER}/reports/{change}"


def read_checks(blobs: EncryptedBlobs, change: str) -> dict[str, Any] | None:
    blob = blobs.read(checks_name(change))
    return None if blob is None else msgspec.json.decode(blob.data, type=dict[str, Any])


def write_options(blobs: EncryptedBlobs, change: str, options: ChangeOptions) -> None:
    """Before the change is submitted."""
    blobs.write(options_name(change), msgspec.json.encode(options))


def read_options(blobs: EncryptedBlobs, change: str) -> ChangeOptions:
    blob = blobs.read(options_name(change))
    return ChangeOptions() if blob is None else msgspec.json.decode(blob.data, type=ChangeOptions)


class RunEnd(MaskedStruct, frozen=True, kw_only=True):
    """What a worker did with a run: it is done, or waits for a decision."""

    run: str
    phase: RunPhase
    status: str
    digest: str | None = None
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """What is stored beside its row, by name: its result and its plan."""


class RunLog:
    """The log of one run in chunks, each named by the number of its first line, from 1."""

    def __init__(self, blobs: EncryptedBlobs, run: str) -> None:
        self._blobs = blobs
        self._run = run

    def append(self, first: int, lines: Sequence[str]) -> bool:
        """From this line on. False: another worker wrote these lines."""
        return self._blobs.create(_chunk(self._run, first), msgspec.json.encode(list(lines)))

    def add(self, *lines: str) -> None:
        """At the end, whoever else writes."""
        while not self.append(self.end(), lines):
            pass

    def end(self) -> int:
        """The number of the next line."""
        chunks = self._chunks()
        return chunks[-1] + len(self._read(chunks[-1])) if chunks else 1

    def lines(self, after: int = 0) -> list[tuple[int, str]]:
        """Those that follow the line with this number, with their own."""
        chunks = self._chunks()
        found: list[tuple[int, str]] = []
        for place, first in enumerate(chunks):
            following = chunks[place + 1] if place + 1 < len(chunks) else None
            if following is not None and following <= after + 1:
                continue
            numbered = enumerate(self._read(first), first)
            found += [(number, text) for number, text in numbered if number > after]
        return found

    def following(self, after: int) -> list[tuple[int, str]]:
        """The same for a reader that got all lines until this one: the next chunk begins with the next."""
        found: list[tuple[int, str]] = []
        while lines := self._read(after + 1):
            found += enumerate(lines, after + 1)
            after += len(lines)
        return found

    def _chunks(self) -> list[int]:
        return sorted(int(name.rpartition("/")[2]) for name in self._blobs.names(f"{_LOG}/{self._run}"))

    def _read(self, first: int) -> list[str]:
        blob = self._blobs.read(_chunk(self._run, first))
        return _STRINGS.decode(blob.data) if blob is not None else []


class FollowedLogs:
    """The logs of several runs, for a reader that gets every line once."""

    def __init__(self, blobs: EncryptedBlobs) -> None:
        self._blobs = blobs
        self._after: dict[str, int] = {}

    def news(self, runs: Iterable[str]) -> list[tuple[str, int, str]]:
        """Lines of these runs that are new, each with its run and its number."""
        found: list[tuple[str, int, str]] = []
        while names := {_chunk(run, self._after.get(run, 0) + 1): run for run in runs}:
            chunks = read_several(self._blobs, names)
            for name, blob in sorted(chunks.items()):
                run, lines = names[name], _STRINGS.decode(blob.data)
                first = self._after.get(run, 0) + 1
                found += [(run, number, text) for number, text in enumerate(lines, first)]
                self._after[run] = first + len(lines) - 1
            runs = [names[name] for name in chunks]
        return found


def append_lines(
    blobs: EncryptedBlobs, lines: Mapping[tuple[str, int], Sequence[str]], connection: Connection[Any]
) -> frozenset[str]:
    """To the logs of several runs, each from a line on. The runs where another worker wrote none there."""
    chunks = {_chunk(run, first): run for run, first in lines}
    contents = [msgspec.json.encode(list(texts)) for texts in lines.values()]
    created = create_several(blobs, dict(zip(chunks, contents, strict=True)), connection)
    return frozenset(chunks[name] for name in created)


def _chunk(run: str, first: int) -> str:
    return f"{_LOG}/{run}/{first:010d}"
