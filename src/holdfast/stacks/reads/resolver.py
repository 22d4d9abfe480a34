"""Resolves path expressions with the values that a stack gives them, and collects the files they refer to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from msgspec.structs import replace

from holdfast.hcl.eval.evaluate import Scope, elements, evaluate
from holdfast.hcl.eval.values import text_of
from holdfast.hcl.nodes import Call, Expression, Literal, Template, Tuple
from holdfast.hcl.reader import UNKNOWN, Unknown
from holdfast.kernel.patterns import pattern
from holdfast.stacks.reads.collector import InputCollector, reads_in
from holdfast.stacks.reads.file_references import FileReference, Reach, Unclear, may_be_path, words_in
from holdfast.stacks.reads.path_expressions import (
    READERS,
    BranchPaths,
    FileRead,
    LoopPaths,
    NamedPath,
    PathExpression,
)

_GAP = "\0"
_VERB = pattern(r"%[^%a-z]*[a-z]")


class ReferenceResolver:
    """Resolves the references of one module with one set of values."""

    def __init__(self, collector: InputCollector, folder: str, *, dormant: bool, resource: bool) -> None:
        self._collector = collector
        self._folders = (folder, collector.module)
        self._bases = (collector.module, folder, ".")
        self._dormant = dormant
        """None of these resources exist, so a path that is unknown is not read either."""
        self._resource = resource
        """It is in a resource or data source; a provider names files with credentials."""

    def add_unclear(self, unclear: Unclear) -> None:
        if not self._dormant:
            self._collector.add_unclear(unclear.reason, unclear.reach, self._folders)

    def resolve(self, reference: FileReference, scope: Scope) -> None:
        try:
            for path in reference.paths:
                self._resolve(path, scope, reference)
        except RecursionError:
            self._collector.add_everything(
                f"{reference.file}:{reference.expression.line} is nested too deeply to be followed"
            )

    def _resolve(self, path: PathExpression, scope: Scope, reference: FileReference) -> None:
        match path:
            case NamedPath():
                self._named(path, scope, reference)
            case FileRead():
                self._read(path, scope, reference)
            case LoopPaths():
                scopes = elements(path.expression, scope)
                if isinstance(scopes, Unknown):
                    names = (path.expression.key_name, path.expression.value_name)
                    scopes = [scope.bind({name: scopes for name in names if name is not None})]
                for inner in scopes:
                    for part in path.inside:
                        self._resolve(part, inner, reference)
            case BranchPaths():
                condition = evaluate(path.expression.condition, scope)
                yes = path.yes if condition is not False else ()
                no = path.no if condition is not True else ()
                for part in (*yes, *no):
                    self._resolve(part, scope, reference)
            case _:
                assert_never(path)

    def _computed(self, expression: Expression, scope: Scope, reference: FileReference) -> None:
        """The folder that the name begins with counts, otherwise what is near the code."""
        begin, ending = name_around(expression, scope)
        folders = self._inside(begin, self._bases[:1]) or self._folders
        line = f":{expression.line}" if expression.line else ""  # A template's lines are not known.
        reason = f"{reference.file}{line} reads a file whose name is computed"
        if not self._dormant:
            reach = Reach.NOTHING if reference.at_apply else Reach.NEARBY
            self._collector.add_unclear(reason, reach, folders, ending=ending)

    def _inside(self, begin: str, bases: tuple[str, ...]) -> tuple[str, ...]:
        """The folder that a name begins with, in each of the folders."""
        folder = begin.rpartition("/")[0]
        inside = (self._collector.tree.inside(base, folder) for base in bases if folder)
        return tuple(path for path in inside if path is not None)

    def _named(self, path: NamedPath, scope: Scope, reference: FileReference) -> None:
        value = evaluate(path.expression, scope)
        if isinstance(value, str):
            self._collector.add_names((value,), self._bases, folders=path.folder)
            if path.expects_file and self._resource:
                self._collector.add_outside_file(value)
            if reference.program:
                self._add_command(value, reference)
        elif value is UNKNOWN and (path.expects_file or path.of_path):
            self._computed(path.expression, scope, reference)
        elif isinstance(value, Unknown) and isinstance(path.expression, Template):
            for folder in self._inside(name_around(path.expression, scope)[0], self._bases):
                if may_be_path(folder) or path.of_path:
                    self._collector.add_names((folder,), (".",), folders=True)

    def _add_command(self, command: str, reference: FileReference) -> None:
        """The files that a command names. One that runs in every plan may also read what is beside them."""
        words = (command, *words_in(command))
        self._collector.add_names(words, self._bases, folders=False)
        if not reference.at_apply:
            reason = f"{reference.file}:{reference.expression.line} runs a program"
            for word in filter(may_be_path, words):
                for base in self._bases[:2]:
                    self._collector.add_program_file(word, base, reason)

    def _read(self, path: FileRead, scope: Scope, reference: FileReference) -> None:
        call = path.call
        place = f"{reference.file}:{call.line}"
        arguments = [evaluate(argument, scope) for argument in call.arguments]
        first = arguments[0] if arguments and not call.expand_final else UNKNOWN
        match path.name, arguments:
            case ("fileset", [str() as folder, str() as pattern]) if first is not UNKNOWN:
                self._collector.add_fileset(folder, pattern, place)
            case ("templatestring", _) if isinstance(first, str):
                self._template(reads_in(first), place, arguments, scope, reference)
            case (name, _) if name in READERS and first is None:
                return
            case (name, _) if name in READERS and isinstance(first, str):
                file = self._collector.add_read(first, place)
                if name == "templatefile" and file:
                    self._template(self._collector.template_reads(file), file, arguments, scope, reference)
            case _:
                self._computed(call.arguments[0] if call.arguments else call, scope, reference)

    def _template(
        self,
        reads: tuple[PathExpression, ...] | None,
        template: str,
        arguments: list[object],
        scope: Scope,
        reference: FileReference,
    ) -> None:
        """What a template itself reads, with the variables that it gets."""
        if reads is None:
            reason = f"{template} is a template that itself reads files"
            self._collector.add_unclear(reason, Reach.NEARBY, self._folders)
        variables = arguments[1] if len(arguments) > 1 else {}
        inner = scope.bind(variables) if isinstance(variables, Mapping) else scope
        for path in reads or ():
            self._resolve(path, inner, replace(reference, file=template))


def name_around(expression: Expression, scope: Scope) -> tuple[str, str]:
    """What comes before and after the parts of a name that are not known: `"policies/${computed}.json"`."""
    text = _text(expression, scope)
    return text.partition(_GAP)[0], text.rpartition(_GAP)[2]


def _text(expression: Expression, scope: Scope) -> str:
    """The text as far as it is known, with gaps; also as `join` and `format` build it."""
    known = text_of(evaluate(expression, scope))
    if known is not None:
        return known
    match expression:
        case Template(pieces=parts):
            return "".join(_text(part, scope) for part in parts)
        case Call(name="join", arguments=(Literal(value=str() as separator), Tuple(items=parts))):
            return separator.join(_text(part, scope) for part in parts)
        case Call(name="format", arguments=(Literal(value=str() as form), *rest)):
            texts = iter([_text(part, scope) for part in rest])
            return _VERB.sub(lambda _: next(texts, _GAP), form)
        case _:
            return _GAP
