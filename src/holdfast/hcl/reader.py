"""Entry points: `read` the text of a file in either syntax, and the `values` of a variables file."""

from __future__ import annotations

from typing import Final

from holdfast.hcl.nodes import Body, Expression, File, Literal, Object, Template, Traversal, Tuple, Unary
from holdfast.kernel.errors import Place, Problem

_BOM = b"\xef\xbb\xbf"
ENCRYPTED: Final = "HF-HCL-6"
_GIT_CRYPT = b"\0GITCRYPT\0"


class Unknown:
    """A value that is not known without running Terraform: one of the two below.

    A caller may bind an instance of its own to a name, to find out where exactly that value is passed on;
    every operation on it gives one of the two.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


UNKNOWN: Final = Unknown("UNKNOWN")
COMPUTED: Final = Unknown("COMPUTED")
"""Unknown only because it depends on a resource, a data source or the output of a module."""


def read(text: str | bytes, path: str) -> File:
    """Never raises because of the text. `path` is used in places, and its ending selects the syntax."""
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    data = data.removeprefix(_BOM)
    if is_encrypted(data):
        return File(path=path, body=Body(), problems=(encrypted(path),))
    try:
        decoded = data.decode()
    except UnicodeDecodeError:
        from holdfast.hcl.native import read_not_utf8  # noqa: PLC0415 - loads the parser, which not all need

        return read_not_utf8(data, path)
    if path.endswith(".json"):
        from holdfast.hcl.jsonsyntax import read_json  # noqa: PLC0415 - few repositories have such a file

        return read_json(decoded, path, variables=path.endswith(".tfvars.json"))
    from holdfast.hcl.native import read_native  # noqa: PLC0415 - loads the parser, which not all need

    return read_native(data, path)


def is_encrypted(head: bytes) -> bool:
    """Whether a file with this beginning is encrypted with git-crypt, as in a clone that is locked."""
    return head.startswith(_GIT_CRYPT)


def encrypted(path: str) -> Problem:
    return Problem(
        code=ENCRYPTED,
        message="the file is encrypted with git-crypt",
        hint="Unlock the repository first: git-crypt unlock",
        place=Place(file=path),
    )


def values(file: File) -> dict[str, object]:
    """What a variables file sets: strings, numbers, bools, None, tuples and dicts; otherwise `UNKNOWN`."""
    return {attribute.name: constant(attribute.expression) for attribute in file.body.attributes}


def constant(expression: Expression) -> object:
    """The value of an expression without references; otherwise `UNKNOWN`, for the part or the whole."""
    match expression:
        case Literal():
            return expression.value
        case Tuple():
            return tuple(constant(item) for item in expression.items)
        case Object():
            return _object(expression)
        case Template(pieces=(single,)):
            return constant(single)
        case Unary(operator="-", operand=Literal(value=int() | float() as number)):
            return -number
        case _:
            return UNKNOWN


def _object(expression: Object) -> object:
    members: dict[str, object] = {}
    for key, value in expression.items:
        name = constant(key)
        if isinstance(key, Traversal) or isinstance(name, bool) or not isinstance(name, str | int):
            return UNKNOWN
        members[str(name)] = constant(value)
    return members
