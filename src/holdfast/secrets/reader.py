"""Reads each secret of a change once, when it is first needed, with the identity of the caller.

Values stay in memory as long as the reader does. Failures stay too, so that not every stack waits for a
source that does not answer. Many threads use one reader.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.secret import Secret
from holdfast.secrets.sources.interface import (
    Answers,
    ReadSecret,
    Source,
    SourceEntry,
    Timeouts,
    open_source,
    source_for,
)
from holdfast.system.environment import Environment

_THREADS = 8

_Answer = Future[ReadSecret | HoldfastError]


class SecretReader:
    """The secrets of one caller. `identify`: report exactly who read each one, for `secrets check`."""

    def __init__(
        self,
        environment: Environment,
        root: Path,
        *,
        timeouts: Timeouts | None = None,
        identify: bool = False,
    ) -> None:
        self._environment = environment
        self._root = root
        self._timeouts = timeouts or Timeouts()
        self._identify = identify
        self._lock = threading.Lock()
        self._answers: dict[SecretRef, _Answer] = {}
        self._sources: dict[SourceEntry, Source] = {}

    def read(self, ref: SecretRef) -> Secret:
        """The secret; raises the error that prevented reading it."""
        return self._read(ref).secret

    def version(self, ref: SecretRef) -> str | None:
        """The version that was read; None if the source has none."""
        return self._read(ref).version

    def _read(self, ref: SecretRef) -> ReadSecret:
        answer = self.read_all((ref,))[ref]
        if isinstance(answer, HoldfastError):
            raise _copy(answer)
        return answer

    def read_all(self, refs: Iterable[SecretRef]) -> Answers:
        """The answer for each reference; sources are asked in parallel.

        A reference that another thread is already reading is waited for.
        """
        wanted = tuple(dict.fromkeys(refs))
        with self._lock:
            ours: dict[SecretRef, _Answer] = {ref: Future() for ref in wanted if ref not in self._answers}
            self._answers.update(ours)
            answers = {ref: self._answers[ref] for ref in wanted}
        try:
            self._fill(ours)
        except BaseException as error:
            self._abandon(ours, error)
            raise
        return {ref: answer.result() for ref, answer in answers.items()}

    def _fill(self, ours: Mapping[SecretRef, _Answer]) -> None:
        fetches = self._fetches(tuple(ours))
        if len(fetches) < 2:  # noqa: PLR2004 - one needs no pool
            results = [fetch() for fetch in fetches]
        else:
            with ThreadPoolExecutor(_THREADS, thread_name_prefix="holdfast-secrets") as pool:
                results = [future.result() for future in [pool.submit(fetch) for fetch in fetches]]
        for result in results:
            for ref, answer in result.items():
                ours[ref].set_result(answer)

    def _fetches(self, refs: Sequence[SecretRef]) -> list[Callable[[], Answers]]:
        """What can run in parallel: one batch per source, or one call per reference."""
        by_source: dict[SourceEntry, list[SecretRef]] = {}
        fetches: list[Callable[[], Answers]] = []
        for ref in refs:
            try:
                by_source.setdefault(source_for(ref), []).append(ref)
            except HoldfastError as error:
                fetches.append(partial(dict[SecretRef, ReadSecret | HoldfastError], {ref: error}))
        for entry, group in by_source.items():
            source = self._source(entry)
            fetches += [
                partial(source.fetch, part)
                for part in ([group] if source.batches else [[ref] for ref in group])
            ]
        return fetches

    def _source(self, entry: SourceEntry) -> Source:
        with self._lock:
            if entry not in self._sources:
                self._sources[entry] = open_source(
                    entry, self._environment, self._root, self._timeouts, identify=self._identify
                )
            return self._sources[entry]

    def _abandon(self, ours: Mapping[SecretRef, _Answer], error: BaseException) -> None:
        """After an unexpected error no thread waits for ever, and the next one may try again."""
        with self._lock:
            for ref, answer in ours.items():
                if not answer.done():
                    self._answers.pop(ref, None)
                    answer.set_exception(error)


def _copy(error: HoldfastError) -> HoldfastError:
    """Many threads may raise the same error: each gets its own, with its own traceback."""
    problem = error.problem
    return type(error)(problem.code, problem.message, hint=problem.hint, place=problem.place)
