"""Look at the points of a module's code with their values: which files do they read, which do they name?"""

from __future__ import annotations

from typing import assert_never

from holdfast.hcl.eval.evaluate import Scope, elements, evaluate
from holdfast.hcl.eval.values import text_of
from holdfast.hcl.nodes import Expression, Template
from holdfast.hcl.reader import UNKNOWN, Unknown
from holdfast.stacks.reads.collector import Gathering, reads_files
from holdfast.stacks.reads.file_references import Site, may_be_path
from holdfast.stacks.reads.path_expressions import READERS, Each, Either, Named, Point, Read


class Inspection:
    """Looks at one module with one set of values."""

    def __init__(self, gathering: Gathering, folder: str, *, dormant: bool) -> None:
        self._into = gathering
        self._bases = (gathering.module, folder, ".")
        self._dormant = dormant
        """Nothing of this is made now, so a name that cannot be told is not read either."""

    def site(self, site: Site, scope: Scope) -> None:
        try:
            for point in site.points:
                self._look(point, scope, site.file)
        except RecursionError:
            self._into.everything(f"{site.file}:{site.expression.line} nests too deeply to be followed")

    def _look(self, point: Point, scope: Scope, file: str) -> None:
        match point:
            case Named():
                self._named(point, scope, file)
            case Read():
                self._read(point, scope, file)
            case Each():
                scopes = elements(point.expression, scope)
                if isinstance(scopes, Unknown):
                    names = (point.expression.key_name, point.expression.value_name)
                    scopes = [scope.bind({name: scopes for name in names if name is not None})]
                for inner in scopes:
                    for part in point.inside:
                        self._look(part, inner, file)
            case Either():
                condition = evaluate(point.expression.condition, scope)
                for part in point.yes if condition is not False else ():
                    self._look(part, scope, file)
                for part in point.no if condition is not True else ():
                    self._look(part, scope, file)
            case _:
                assert_never(point)

    def _computed(self, expression: Expression, file: str) -> None:
        if not self._dormant:
            place = f"{file}:{expression.line}"
            self._into.everything(f"{place} reads a file whose name is computed")

    def _named(self, point: Named, scope: Scope, file: str) -> None:
        value = evaluate(point.expression, scope)
        if isinstance(value, str):
            self._into.add_names((value,), self._bases, folders=point.folder)
        elif isinstance(value, Unknown):
            if value is UNKNOWN and (point.expects_file or point.of_path):
                self._computed(point.expression, file)
            elif isinstance(point.expression, Template):
                self._beginning(point.expression, scope, of_path=point.of_path)

    def _beginning(self, expression: Template, scope: Scope, *, of_path: bool) -> None:
        """`"policies/${computed}.json"`: any file of the folder it begins with may be meant."""
        text = ""
        for piece in expression.pieces:
            part = text_of(evaluate(piece, scope))
            if part is None:
                break
            text += part
        folder = text.rpartition("/")[0]
        if may_be_path(folder) or (folder and of_path):
            self._into.add_names((folder,), self._bases, folders=True)

    def _read(self, point: Read, scope: Scope, file: str) -> None:
        call = point.call
        place = f"{file}:{call.line}"
        arguments = [evaluate(argument, scope) for argument in call.arguments]
        first = arguments[0] if arguments and not call.expand_final else UNKNOWN
        match point.name, arguments:
            case ("fileset", [str() as folder, str() as pattern]) if first is not UNKNOWN:
                self._into.add_fileset(folder, pattern, place)
            case ("templatestring", _) if isinstance(first, str) and not reads_files(first):
                return
            case (name, _) if name in READERS and first is None:
                return
            case (name, _) if name in READERS and isinstance(first, str):
                found = self._into.add_read(first, place)
                if name == "templatefile" and found and self._into.template_reads_files(found):
                    self._into.everything(f"{found} is a template that reads files itself")
            case _:
                self._computed(call, file)
