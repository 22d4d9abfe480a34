"""Whether a stack can have warm providers, and a digest of what configures them.

A warm provider process is used by one command after another, of all stacks with the same environment and the
same digest. Terraform configures a provider before every use, so the digest covers everything that the values
in its block can depend on. Where that cannot be told from the code and the variables, the stack runs without.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from holdfast.hcl.eval.code import Code, ModuleCode, auto_loaded
from holdfast.hcl.eval.functions import FUNCTIONS
from holdfast.hcl.eval.values import known
from holdfast.hcl.nodes import Body, Call, Expression, Opaque, Traversal
from holdfast.hcl.reader import constant, read, values
from holdfast.plans.context import ChangeContext
from holdfast.plans.events import Note
from holdfast.plans.workdir import StackWorkdir
from holdfast.stacks.generated import code_of
from holdfast.system import files
from holdfast.terraform.engine.environment import cli_config
from holdfast.terraform.engine.interface import EngineKind

_READS_FILE = frozenset(
    (
        *("abspath", "file", "fileexists", "fileset", "templatefile"),
        *("filebase64", "filebase64sha256", "filebase64sha512"),
        *("filemd5", "filesha1", "filesha256", "filesha512"),
    )
)
"""Functions whose first argument is a path that Terraform itself uses, in the folder of the stack."""
_OF_ENGINE = frozenset({"provisioner", "connection"})
"""Blocks that Terraform itself executes."""


class NotWarm(Exception):  # noqa: N818 - why a stack has no warm providers
    """The text is the reason."""


def warm_configuration(context: ChangeContext, workdir: StackWorkdir, *, tls: bool) -> str | None:
    """The digest for a stack that asks for warm providers; None, with a note why, if it has none."""
    try:
        _require_possible(workdir, tls=tls)
        code = code_of(context.project.code, workdir.stack)
        return configuration_digest(
            code, workdir.modules, workdir.work.module_path, _variables_files(workdir)
        )
    except NotWarm as error:
        text = f"warm providers are not used: {error}"
        context.control.tell(Note(stack=workdir.stack.name, text=text))
        return None


def _require_possible(workdir: StackWorkdir, *, tls: bool) -> None:
    if workdir.engine.identity.kind is not EngineKind.EMBEDDED or sys.platform != "linux":
        raise NotWarm("only an embedded engine can keep them, and only on Linux")
    if tls:
        raise NotWarm("plugin TLS is on")
    if "dev_overrides" in cli_config(workdir.environment):
        raise NotWarm("the Terraform CLI configuration has `dev_overrides`")
    if workdir.stack.hooks:
        raise NotWarm("the stack has hooks, which can change its code")
    if workdir.kept.files:
        raise NotWarm("the stack writes files beside its code")


def configuration_digest(code: Code, modules: Iterable[str], root: str, variables: Iterable[Path]) -> str:
    """`modules` are the folders of all modules, `root` of the root module; `variables` the variables files.

    Raises NotWarm.
    """
    for folder in sorted(modules):
        _require_simple(code, folder, root=folder == root)
    module = code.module(root)
    references = _References(module)
    blocks = [(block.labels, _text_of(block.body, references)) for block in module.blocks("provider")]
    used = {name: module.variables.get(name) for name in sorted(references.variables)}
    declared = [
        (name, repr(variable.type), repr(variable.default), variable.nullable)
        for name, variable in used.items()
        if variable is not None
    ]
    given = [_given(path, references.variables) for path in variables]
    parts = (sorted(map(repr, blocks)), sorted(references.locals.items()), declared, given)
    return hashlib.sha256(repr(parts).encode(errors="surrogateescape")).hexdigest()


def _require_simple(code: Code, folder: str, *, root: bool) -> None:
    """One configuration of each provider, no path that a provider would not find, all code known.

    Terraform starts one process for each configuration, but attaches all of them to the same one.
    """
    module = code.module(folder)
    if module.problems:
        raise NotWarm(f"{folder} could not be read completely")
    for call in module.calls:
        source = constant(call.source) if call.source is not None else None
        if not isinstance(source, str) or not source.startswith(("./", "../")):
            raise NotWarm(f"the source of module.{call.name} is outside of the repository")
    names = [block.labels[0] for block in module.blocks("provider") if block.labels]
    aliased = any(block.body.attribute("alias") for block in module.blocks("provider"))
    if aliased or len(names) != len(set(names)) or (names and not root):
        raise NotWarm("the code can configure a provider more than once")
    if code.once(("provider paths", folder), lambda: _uses_paths(module)):
        raise NotWarm(
            f"the code in {folder} uses path.module, path.root or path.cwd, which providers do not find; "
            "in abspath() they do"
        )


def _uses_paths(module: ModuleCode) -> bool:
    expressions = (expression for file in module.files for expression in _expressions(file.body))
    return any(map(_is_path, expressions))


def _is_path(expression: Expression) -> bool:
    waiting = [expression]
    while waiting:
        current = waiting.pop()
        match current:
            case Traversal(root="path") | Opaque(unread=True):
                return True
            case _:
                pass
        parts = current.parts()
        waiting += parts[1:] if isinstance(current, Call) and current.name in _READS_FILE else parts
    return False


def _expressions(body: Body) -> Iterator[Expression]:
    for attribute in body.attributes:
        yield attribute.expression
    for block in body.blocks:
        if block.type not in _OF_ENGINE:
            yield from _expressions(block.body)


class _References:
    """The variables and locals that expressions need, collected as they are met."""

    def __init__(self, module: ModuleCode) -> None:
        self.module = module
        self.variables: set[str] = set()
        self.locals: dict[str, str] = {}

    def add(self, expression: Expression) -> None:
        """Raises NotWarm for anything that is not a constant, a variable or a function of these."""
        waiting = [expression]
        while waiting:
            current = waiting.pop()
            waiting += current.parts()
            match current:
                case Traversal(root="var", steps=(str(name), *_)):
                    self.variables.add(name)
                case Traversal(root="local", steps=(str(name), *_)) if name in self.module.locals:
                    if name not in self.locals:
                        self.locals[name] = repr(self.module.locals[name])
                        waiting.append(self.module.locals[name])
                case Traversal():
                    raise NotWarm(f"a provider's configuration depends on {'.'.join(current.names)}")
                case Call() if current.name not in FUNCTIONS:
                    raise NotWarm(f"a provider's configuration uses {current.name}()")
                case Opaque():
                    raise NotWarm("a provider's configuration could not be read completely")
                case _:
                    continue


def _text_of(body: Body, references: _References) -> list[object]:
    parts: list[object] = []
    for attribute in body.attributes:
        references.add(attribute.expression)
        parts.append((attribute.name, repr(attribute.expression)))
    return parts + [(block.type, block.labels, _text_of(block.body, references)) for block in body.blocks]


def _variables_files(workdir: StackWorkdir) -> Iterable[Path]:
    """In the order in which Terraform reads them."""
    folder = workdir.work.module
    own = auto_loaded(path.name for path in folder.iterdir() if path.is_file())
    return (folder / name for name in (*own, *workdir.variables_files))


def _given(path: Path, names: set[str]) -> Mapping[str, str]:
    """What a variables file says about these variables."""
    content = files.content_of(path)
    file = read(content, path.name) if content is not None else None
    if file is None or file.problems:
        raise NotWarm(f"{path.name} could not be read completely")
    found = {name: value for name, value in values(file).items() if name in names}
    if computed := [name for name, value in found.items() if not known(value)]:
        raise NotWarm(f"the variable {computed[0]} is not a constant")
    return {name: repr(value) for name, value in sorted(found.items())}
