"""Resolves the path expressions of a module with its values to the files that they read or name."""

from __future__ import annotations

from typing import assert_never

from holdfast.hcl.eval.evaluate import Scope, elements, evaluate
from holdfast.hcl.eval.values import text_of
from holdfast.hcl.nodes import Expression, Template
from holdfast.hcl.reader import UNKNOWN, Unknown
from holdfast.stacks.reads.collector import InputCollector, reads_files
from holdfast.stacks.reads.file_references import FileReference, may_be_path
from holdfast.stacks.reads.path_expressions import (
    READERS,
    BranchPaths,
    FileRead,
    LoopPaths,
    NamedPath,
    PathExpression,
)


class ReferenceResolver:
    """Resolves the references of one module with one set of values."""

    def __init__(self, collector: InputCollector, folder: str, *, dormant: bool) -> None:
        self._collector = collector
        self._bases = (collector.module, folder, ".")
        self._dormant = dormant
        """None of these resources exist, so a path that is unknown is not read either."""

    def resolve(self, reference: FileReference, scope: Scope) -> None:
        try:
            for path in reference.paths:
                self._resolve(path, scope, reference.file)
        except RecursionError:
            self._collector.add_everything(
                f"{reference.file}:{reference.expression.line} is nested too deeply to be followed"
            )

    def _resolve(self, path: PathExpression, scope: Scope, file: str) -> None:
        match path:
            case NamedPath():
                self._named(path, scope, file)
            case FileRead():
                self._read(path, scope, file)
            case LoopPaths():
                scopes = elements(path.expression, scope)
                if isinstance(scopes, Unknown):
                    names = (path.expression.key_name, path.expression.value_name)
                    scopes = [scope.bind({name: scopes for name in names if name is not None})]
                for inner in scopes:
                    for part in path.inside:
                        self._resolve(part, inner, file)
            case BranchPaths():
                condition = evaluate(path.expression.condition, scope)
                yes = path.yes if condition is not False else ()
                no = path.no if condition is not True else ()
                for part in (*yes, *no):
                    self._resolve(part, scope, file)
            case _:
                assert_never(path)

    def _computed(self, expression: Expression, file: str) -> None:
        if not self._dormant:
            self._collector.add_everything(f"{file}:{expression.line} reads a file whose name is computed")

    def _named(self, path: NamedPath, scope: Scope, file: str) -> None:
        value = evaluate(path.expression, scope)
        if isinstance(value, str):
            self._collector.add_names((value,), self._bases, folders=path.folder)
        elif isinstance(value, Unknown):
            if value is UNKNOWN and (path.expects_file or path.of_path):
                self._computed(path.expression, file)
            elif isinstance(path.expression, Template):
                self._add_prefix(path.expression, scope, of_path=path.of_path)

    def _add_prefix(self, expression: Template, scope: Scope, *, of_path: bool) -> None:
        """`"policies/${computed}.json"` may refer to any file in the folder it starts with."""
        text = ""
        for piece in expression.pieces:
            part = text_of(evaluate(piece, scope))
            if part is None:
                break
            text += part
        folder = text.rpartition("/")[0]
        if may_be_path(folder) or (folder and of_path):
            self._collector.add_names((folder,), self._bases, folders=True)

    def _read(self, path: FileRead, scope: Scope, file: str) -> None:
        call = path.call
        place = f"{file}:{call.line}"
        arguments = [evaluate(argument, scope) for argument in call.arguments]
        first = arguments[0] if arguments and not call.expand_final else UNKNOWN
        match path.name, arguments:
            case ("fileset", [str() as folder, str() as pattern]) if first is not UNKNOWN:
                self._collector.add_fileset(folder, pattern, place)
            case ("templatestring", _) if isinstance(first, str) and not reads_files(first):
                return
            case (name, _) if name in READERS and first is None:
                return
            case (name, _) if name in READERS and isinstance(first, str):
                file_path = self._collector.add_read(first, place)
                if name == "templatefile" and file_path and self._collector.template_reads_files(file_path):
                    self._collector.add_everything(f"{file_path} is a template that itself reads files")
            case _:
                self._computed(call, file)
