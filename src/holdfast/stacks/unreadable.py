"""Files of a stack that cannot be read: encrypted, not a regular file, gigantic, not UTF-8."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from holdfast.hcl.eval.code import CANNOT_OPEN, LOCK_FILE, Code, auto_loaded
from holdfast.hcl.reader import ENCRYPTED
from holdfast.kernel.errors import Failed, Problem
from holdfast.stacks.generated import code_of
from holdfast.stacks.stack import Stack

_CODES: Final = frozenset(("HF-HCL-2", CANNOT_OPEN, ENCRYPTED))
"""Other mistakes in code are Terraform's to report: its parser knows more."""


class UnreadableFiles(Failed):
    def __init__(self, problems: tuple[Problem, ...]) -> None:
        first = problems[0]
        super().__init__(first.code, first.message, hint=first.hint, place=first.place)
        self.problems = problems


def require_readable(
    code: Code, stack: Stack, files: Iterable[str] = (), *, only_encrypted: bool = False
) -> None:
    """`files`: others that it reads, such as templates. They may be large, but not encrypted."""
    problems = unreadable_files(code, stack)
    if only_encrypted:
        problems = tuple(one for one in problems if one.code == ENCRYPTED or one in stack.problems)
    else:
        others = (code.unreadable(path, largest=sys.maxsize) for path in sorted(files))
        problems = tuple(dict.fromkeys((*problems, *filter(None, others))))
    if problems:
        raise UnreadableFiles(problems)


def unreadable_files(code: Code, stack: Stack) -> tuple[Problem, ...]:
    """Among those that every command of the stack needs. Files that are not parsed yet are only opened."""
    code, module = code_of(code, stack), stack.module
    found = dict.fromkeys(stack.problems)
    found.update(dict.fromkeys(one for one in code.module(module).problems if one.code in _CODES))
    names = code.tree.names(module)
    beside = (*auto_loaded(names), *((LOCK_FILE,) if LOCK_FILE in names else ()))
    backend = stack.backend.files if stack.backend is not None else ()
    for path in (*(code.tree.join(module, name) for name in beside), *stack.variables_files, *backend):
        problem = code.unreadable(path)
        if problem is not None:
            found[problem] = None
    return tuple(found)
