"""Look through expressions with their values: which files do they read, which do they name?"""

from __future__ import annotations

from holdfast.hcl.nodes import (
    Call,
    Conditional,
    Expression,
    For,
    Literal,
    Object,
    Template,
    Traversal,
    references,
)
from holdfast.hcl.reader import UNKNOWN, Unknown
from holdfast.stacks.evaluate import Scope, elements, evaluate
from holdfast.stacks.gather import Gathering, reads_files
from holdfast.stacks.sites import READERS, TAKES_PATHS, Site, foldery, pathlike, strong
from holdfast.stacks.values import text_of

_NOT_A_NAME = "·"
_TAKEN_APART = frozenset(
    ("basename", "dirname", "length", "md5", "replace", "sha1", "sha256", "sha512", "split")
)
"""Functions of which only the answer goes on: the path they are given is not read."""
_BUILDERS = frozenset(("format", "formatlist", "join", "replace", "pathexpand", "dirname", "abspath"))


class Inspection:
    """Looks through the expressions of one module with one set of values."""

    def __init__(self, gathering: Gathering, folder: str, *, dormant: bool) -> None:
        self._into = gathering
        self._bases = (gathering.module, folder, ".")
        self._dormant = dormant
        """Nothing of this is made now, so a name that cannot be told is not read either."""

    def site(self, site: Site, scope: Scope) -> None:
        try:
            self._look(site.expression, scope, name=site.name, file=site.file)
        except RecursionError:
            self._into.everything(f"{site.file}:{site.expression.line} nests too deeply to be followed")

    def _computed(self, expression: Expression, file: str) -> None:
        if not self._dormant:
            place = f"{file}:{expression.line}"
            self._into.everything(f"{place} reads a file whose name is computed")

    def _look(self, expression: Expression, scope: Scope, *, name: str, file: str) -> None:
        match expression:
            case Literal():
                return
            case For():
                self._look_for(expression, scope, name=name, file=file)
                return
            case Conditional():
                self._look_conditional(expression, scope, name=name, file=file)
                return
            case Object():
                self._look_object(expression, scope, name=name, file=file)
                return
            case Call():
                self._call(expression, scope, file=file)
            case _:
                pass
        if name != _NOT_A_NAME:
            self._value(expression, scope, name=name, file=file)
        for at, part in enumerate(expression.parts()):
            self._look(part, scope, name=_inner_name(expression, at, name), file=file)

    def _look_for(self, expression: For, scope: Scope, *, name: str, file: str) -> None:
        self._look(expression.collection, scope, name="", file=file)
        scopes = elements(expression, scope)
        names = [n for n in (expression.key_name, expression.value_name) if n is not None]
        if isinstance(scopes, Unknown):
            scopes = [scope.bind(dict.fromkeys(names, scopes))]
        results = [part for part in expression.parts() if part is not expression.collection]
        for inner in scopes:
            for part in results:
                self._look(part, inner, name=name, file=file)

    def _look_conditional(self, expression: Conditional, scope: Scope, *, name: str, file: str) -> None:
        self._look(expression.condition, scope, name="", file=file)
        condition = evaluate(expression.condition, scope)
        if condition is not False:
            self._look(expression.yes, scope, name=name, file=file)
        if condition is not True:
            self._look(expression.no, scope, name=name, file=file)

    def _look_object(self, expression: Object, scope: Scope, *, name: str, file: str) -> None:
        for key, value in expression.items:
            given = key.value if isinstance(key, Literal) else name
            self._look(key, scope, name="", file=file)
            self._look(value, scope, name=str(given), file=file)

    def _value(self, expression: Expression, scope: Scope, *, name: str, file: str) -> None:
        """A string made of parts, or a plain reference where a file is expected, may name something."""
        made = isinstance(expression, Template | Call)
        if not made and not (isinstance(expression, Traversal) and foldery(name)):
            return
        value = evaluate(expression, scope)
        if isinstance(value, str):
            self._into.add_names((value,), self._bases, folders=foldery(name))
        elif isinstance(value, Unknown):
            if value is UNKNOWN and (strong(name) or _made_of_path(expression)):
                self._computed(expression, file)
            elif isinstance(expression, Template):
                self._beginning(expression, scope)

    def _beginning(self, expression: Template, scope: Scope) -> None:
        """`"policies/${computed}.json"`: any file of the folder it begins with may be meant."""
        text = ""
        for piece in expression.pieces:
            part = text_of(evaluate(piece, scope))
            if part is None:
                break
            text += part
        folder = text.rpartition("/")[0]
        if pathlike(folder) or (folder and _made_of_path(expression)):
            self._into.add_names((folder,), self._bases, folders=True)

    def _call(self, expression: Call, scope: Scope, *, file: str) -> None:
        name = expression.name.removeprefix("core::")
        place = f"{file}:{expression.line}"
        arguments = [evaluate(argument, scope) for argument in expression.arguments]
        if name in READERS:
            self._read(name, arguments, expression, place=place, file=file)
        elif name == "fileset":
            match arguments:
                case [str() as folder, str() as pattern] if not expression.expand_final:
                    self._into.add_fileset(folder, pattern, place)
                case _:
                    self._computed(expression, file)
        elif name == "templatestring":
            template = arguments[0] if arguments else UNKNOWN
            if not isinstance(template, str) or reads_files(template):
                self._computed(expression, file)

    def _read(self, name: str, arguments: list[object], expression: Call, *, place: str, file: str) -> None:
        path = arguments[0] if arguments and not expression.expand_final else UNKNOWN
        if path is None:
            return
        if not isinstance(path, str):
            self._computed(expression, file)
            return
        found = self._into.add_read(path, place)
        if name == "templatefile" and found and self._into.template_reads_files(found):
            self._into.everything(f"{found} is a template that reads files itself")


def _inner_name(expression: Expression, at: int, name: str) -> str:
    """What a part is given to: nothing inside text or a call; what is taken apart is no name at all."""
    match expression:
        case Call(name=function) if function in _TAKEN_APART or (function in TAKES_PATHS and at == 0):
            return _NOT_A_NAME
        case Call(name="fileset"):
            return _NOT_A_NAME
        case Call() | Template():
            return _NOT_A_NAME if name == _NOT_A_NAME else ""
        case _:
            return name


def _made_of_path(expression: Expression) -> bool:
    """Whether `path.module` and its like stand in it, as text and not inside another call."""
    match expression:
        case Traversal(root="path"):
            return True
        case Template():
            return any(_made_of_path(piece) for piece in expression.pieces)
        case Call():
            inside = [part for part in expression.arguments if not isinstance(part, Call)]
            return expression.name in _BUILDERS and any(
                reference.root == "path" for part in inside for reference in references(part)
            )
        case _:
            return False
