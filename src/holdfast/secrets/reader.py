"""Reads each secret of a change once, when it is first needed, as the one who started it.

What was read is kept in memory until the reader goes, and so is what could not be read: a source that does
not answer is not waited for again by every stack. Used by many threads at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from holdfast.config.valid import SecretRef
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.secret import Secret
from holdfast.secrets.references import SOURCES, resolve, unknown_source
from holdfast.secrets.sources.interface import Found, Patience, Source
from holdfast.system.environment import Environment

_AT_ONCE = 8
_HERE = {"env": "the environment of this command", "file": "this user", "dotenv": "this user"}
_BEHIND_A_NETWORK = {"aws-sm": "aws", "aws-ssm": "aws", "azure-kv": "azure", "vault": "vault"}

Answers = Mapping[SecretRef, Found | HoldfastError]
_Kept = Future[Found | HoldfastError]


class Reader:
    """The secrets of one caller. `named`: say of each exactly who read it, for `secrets check`."""

    def __init__(
        self, environment: Environment, root: Path, *, patience: Patience | None = None, named: bool = False
    ) -> None:
        self._environment = environment
        self._root = root
        self._patience = patience or Patience()
        self._named = named
        self._lock = threading.Lock()
        self._kept: dict[SecretRef, _Kept] = {}
        self._sources: dict[str, Source] = {}

    def read(self, ref: SecretRef) -> Secret:
        """The secret; raises what kept it from being read."""
        found = self.look((ref,))[ref]
        if isinstance(found, HoldfastError):
            raise _anew(found)
        return found.secret

    def look(self, refs: Iterable[SecretRef]) -> Answers:
        """Each reference with what came of it, those behind a network at the same time.

        What another thread is reading already is waited for.
        """
        wanted = tuple(dict.fromkeys(refs))
        with self._lock:
            ours: dict[SecretRef, _Kept] = {ref: Future() for ref in wanted if ref not in self._kept}
            self._kept.update(ours)
            kept = {ref: self._kept[ref] for ref in wanted}
        try:
            self._fill(ours)
        except BaseException as error:
            self._let_go(ours, error)
            raise
        return {ref: future.result() for ref, future in kept.items()}

    def _fill(self, ours: Mapping[SecretRef, _Kept]) -> None:
        fetches = self._fetches(tuple(ours))
        if len(fetches) < 2:  # noqa: PLR2004 - one needs no pool
            answers = [fetch() for fetch in fetches]
        else:
            with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="holdfast-secrets") as pool:
                answers = [future.result() for future in [pool.submit(fetch) for fetch in fetches]]
        for answer in answers:
            for ref, found in answer.items():
                ours[ref].set_result(found)

    def _fetches(self, refs: Sequence[SecretRef]) -> list[Callable[[], Answers]]:
        """What can be done at the same time: all of this machine's, and what each source is asked at once."""
        behind: dict[str, list[SecretRef]] = {}
        here = [ref for ref in refs if ref.scheme not in _BEHIND_A_NETWORK]
        for ref in refs:
            if ref.scheme in _BEHIND_A_NETWORK:
                behind.setdefault(_BEHIND_A_NETWORK[ref.scheme], []).append(ref)
        fetches: list[Callable[[], Answers]] = [partial(self._of_this_machine, here)] if here else []
        for kind, some in behind.items():
            source = self._source(kind)
            parts = [some] if source.batches else [[ref] for ref in some]
            fetches += [partial(source.fetch, part) for part in parts]
        return fetches

    def _of_this_machine(self, refs: Sequence[SecretRef]) -> Answers:
        found: dict[SecretRef, Found | HoldfastError] = {}
        for ref in refs:
            try:
                if ref.scheme not in SOURCES:
                    raise unknown_source(ref)
                found[ref] = Found(resolve(ref, self._environment, self._root), _HERE[ref.scheme])
            except HoldfastError as error:
                found[ref] = error
        return found

    def _source(self, kind: str) -> Source:
        with self._lock:
            if kind not in self._sources:
                self._sources[kind] = _made(kind, self._environment, self._patience, named=self._named)
            return self._sources[kind]

    def _let_go(self, ours: Mapping[SecretRef, _Kept], error: BaseException) -> None:
        """After something unforeseen nobody waits for ever, and the next one may try."""
        with self._lock:
            for ref, future in ours.items():
                if not future.done():
                    self._kept.pop(ref, None)
                    future.set_exception(error)


def _made(kind: str, environment: Environment, patience: Patience, *, named: bool) -> Source:
    """Each kind is loaded where a reference names it."""
    match kind:
        case "aws":
            from holdfast.secrets.sources.aws import Aws  # noqa: PLC0415

            return Aws(environment, patience, named=named)
        case "azure":
            from holdfast.secrets.sources.azure import KeyVault  # noqa: PLC0415

            return KeyVault(environment, patience, named=named)
        case _:
            from holdfast.secrets.sources.vault import Vault  # noqa: PLC0415

            return Vault(environment, patience, named=named)


def _anew(error: HoldfastError) -> HoldfastError:
    """One error may be raised by many threads: each gets its own, with its own traceback."""
    problem = error.problem
    return type(error)(problem.code, problem.message, hint=problem.hint, place=problem.place)
