"""`generate`: files that a stack gets beside its code, from templates in which placeholders are `@{name}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from holdfast.config.placeholders import NAME, MalformedError
from holdfast.hcl.eval.code import Code, is_auto_loaded, is_code
from holdfast.hcl.reader import read
from holdfast.kernel.errors import Place, Problem
from holdfast.kernel.patterns import pattern
from holdfast.stacks.listing import Tree, has_file, join_path
from holdfast.stacks.scope import PlaceholderScope
from holdfast.stacks.stack import GeneratedFile, Stack

ReadContent = Callable[[str], bytes | Problem | None]
"""From a path relative to the root to the file's content or why it cannot be read; None if there is none."""

_TOKEN: Final = pattern(r"@@\{|@\{([^{}\n]*)(\}?)")
_ESCAPED: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class GenerateError(Exception):
    """Why a file cannot be generated; the message continues "cannot"."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class UnreadTemplateError(Exception):
    """A template exists, but cannot be read."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def no_content(_path: str) -> bytes | None:
    """Where templates are not read."""
    return b""


def generated_files(
    scope: PlaceholderScope, tree: Tree, read_content: ReadContent
) -> Mapping[str, GeneratedFile]:
    """The generated files of one stack by name.

    Raises GenerateError, UnreadTemplateError, and the errors of placeholders.
    """
    files: dict[str, GeneratedFile] = {}
    for name, wanted in scope.rule.generate.items():
        path = scope.fill_path(wanted.template) if wanted.template is not None else None
        if has_file(tree, join_path(scope.module, name)):
            hint = "Holdfast never replaces a file of the repository. Rename one of them."
            raise GenerateError(f"generate {name}: the module has a file of this name", hint)
        content = read_content(path) if path is not None else (wanted.content or "").encode()
        if isinstance(content, Problem):
            raise UnreadTemplateError(content)
        if content is None:
            hint = "Paths are relative to holdfast.yaml."
            raise GenerateError(f"generate {name}: the template {path} does not exist", hint)
        try:
            text = render(content.decode(), scope.value_of)
        except UnicodeDecodeError as error:
            message, place = f"not UTF-8 (byte {error.start})", Place(file=path or name)
            hint = "Save the file as UTF-8."
            raise UnreadTemplateError(
                Problem(code="HF-HCL-2", message=message, hint=hint, place=place)
            ) from None
        except MalformedError as error:
            hint = "Placeholders are @{name}; a literal @{ is written @@{."
            raise GenerateError(f"generate {name}: its template contains {error}", hint) from None
        _require_usable(name, text)
        files[name] = GeneratedFile(content=text, template=path)
    return files


def render(template: str, value_of: Callable[[str], str]) -> str:
    """With every placeholder filled in. Raises MalformedError; `value_of` may raise its own errors."""
    text, end = "", 0
    for token in _TOKEN.finditer(template):
        text = _join(text, template[end : token.start()])
        end = token.end()
        name, brace = token.group(1), token.group(2)
        if name is None:
            text += "@{"
        elif not brace or not NAME.fullmatch(name):
            raise MalformedError(f"`@{{{name}{brace}`, which is not a placeholder")
        else:
            text = _join(text, escape(value_of(name)))
    return _join(text, template[end:])


def _join(before: str, after: str) -> str:
    if before.endswith(("$", "%")) and after.startswith("{"):
        raise MalformedError(f"a value that makes a `{before[-1]}{{` with the text beside it")
    return before + after


def escape(value: str) -> str:
    """Inside a quoted string of HCL or JSON it is this text and nothing else: no value adds code."""
    text = "".join(
        _ESCAPED.get(character) or (character if character >= " " else f"\\u{ord(character):04x}")
        for character in value
    )
    return text.replace("${", "$${").replace("%{", "%%{")


def _require_usable(name: str, content: str) -> None:
    if name.endswith((".tfstate", ".tfstate.backup")):
        raise GenerateError(f"generate {name}: it has the name of a state", "Give it another name.")
    if is_auto_loaded(name):
        hint = "Use `variables` or `inputs` of the entry."
        raise GenerateError(f"generate {name}: Terraform would load it as variables", hint)
    file = read(content, name) if is_code(name) else None
    if file is None:
        return
    if file.problems:
        hint = "Check the template with the values of this stack."
        raise GenerateError(f"generate {name}: {file.problems[0].message}", hint)
    for block in file.body.blocks_of("terraform"):
        if any(inner.type in {"backend", "cloud"} for inner in block.body.blocks):
            hint = "Use `backend` of the entry instead: it takes placeholders too."
            raise GenerateError(f"generate {name}: it contains a backend", hint)


def code_of(code: Code, stack: Stack) -> Code:
    """The code as the stack has it: with its generated files."""
    return code.with_files(stack.generated)
