"""Entry points: `read` the text of a file in either syntax, and the `values` of a variables file."""

from __future__ import annotations

from typing import Final

from holdfast.hcl.nodes import Body, Expression, File, Literal, Object, Template, Traversal, Tuple, Unary
from holdfast.kernel.errors import Place, Problem
from holdfast.kernel.patterns import pattern

_BOM = b"\xef\xbb\xbf"
ENCRYPTED: Final = "HF-HCL-6"
_HEADERS = (
    (b"\0GITCRYPT\0", "git-crypt", "Unlock the repository first: git-crypt unlock"),
    (b"-----BEGIN AGE ENCRYPTED FILE-----", "age", "Decrypt it first: age --decrypt"),
    (b"age-encryption.org/", "age", "Decrypt it first: age --decrypt"),
    (b"$ANSIBLE_VAULT;", "Ansible Vault", "Decrypt it first: ansible-vault decrypt"),
    (b"-----BEGIN PGP MESSAGE-----", "OpenPGP", "Decrypt it first: gpg --decrypt"),
)
_SOPS = pattern(rb"\s*\{\s*\"data\"\s*:\s*\"ENC\[")


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
    if (problem := encrypted(data, path)) is not None:
        return File(path=path, body=Body(), problems=(problem,))
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


def encrypted(head: bytes, path: str) -> Problem | None:
    """The problem of a file with this beginning, if it is encrypted as a whole."""
    found = next(((tool, hint) for header, tool, hint in _HEADERS if head.startswith(header)), None)
    if found is None and _SOPS.match(head):
        found = "SOPS", "Decrypt it first: sops decrypt"
    if found is None:
        return None
    message = f"the file is encrypted with {found[0]}"
    return Problem(code=ENCRYPTED, message=message, hint=found[1], place=Place(file=path))


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
