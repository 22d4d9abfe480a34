from __future__ import annotations

import posixpath
from collections.abc import Iterator

from holdfast.checks.code.pins import is_elsewhere
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Checkout, Module, value
from holdfast.hcl.eval.code import CANNOT_OPEN, is_code, is_downloaded
from holdfast.hcl.nodes import OLD_SYNTAX, File
from holdfast.hcl.reader import ENCRYPTED, read
from holdfast.kernel.errors import Place, Problem
from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import plural

_SUBMODULES = ".gitmodules"
_CONFLICT = "<<<<<<< "
_TEMPLATE = "template"
_STATEMENT = pattern(r"\{%[^%\n]*%\}")
_FILLED_IN = pattern(r"\{\{[^{}\n]*\}\}|\$\([^()\n]*\)|\$[A-Za-z_]\w*")
"""By a template engine, or by the shell that writes the file."""
_RELATIVE = pattern(r"\.{1,2}/[^\s\"]+")
_FETCHED = pattern(r"(?:^|/)(?:vendor|\.[^/]+)/")
"""Folders that a program fills before Terraform runs."""


def _module(module: Module) -> Iterator[CheckResult]:
    for file in module.files:
        if _kind(file, module.checkout) is None:
            yield from _problems(file, module.checkout)
    yield from _of_folder(module)
    yield from _calls(module)


def _of_folder(module: Module) -> Iterator[Finding]:
    """Code that somebody wrote for something else: one finding for all its files in a folder."""
    kinds: dict[str, list[File]] = {}
    for file in module.files:
        if (kind := _kind(file, module.checkout)) is not None:
            kinds.setdefault(kind, []).append(file)
    for kind, (file, *others) in kinds.items():
        more = f" (and {plural(len(others), 'more file')})" if others else ""
        first = min(file.problems, key=_line)
        if kind == OLD_SYNTAX:
            what, hint, severity = f"{first.message}{more}", first.hint, Severity.WARNING
        else:
            filled = _FILLED_IN.search(_STATEMENT.sub("{{}}", module.checkout.text(file.path) or ""))
            written = "{{ … }}" if filled is None or filled[0].startswith("{") else "$NAME"
            what = f"this is a template with `{written}`, which no rule checks{more}"
            hint, severity = "Check the code that is made of it.", Severity.NOTE
        yield Finding(message=what, place=first.place or Place(file=file.path), hint=hint, severity=severity)


def _kind(file: File, checkout: Checkout) -> str | None:
    """The syntax of Terraform 0.11, or a template: without what is filled in, it can be read."""
    if not file.problems or checkout.code.tree.real(file.path) is None:
        return None
    text = checkout.text(file.path) or ""
    if f"\n{_CONFLICT}" in f"\n{text}":
        return None
    if any(problem.code == OLD_SYNTAX for problem in file.problems):
        return OLD_SYNTAX
    filled = _FILLED_IN.sub("x", _STATEMENT.sub("", text))
    is_template = filled != text and file.path.endswith((".tf", ".tofu"))
    return _TEMPLATE if is_template and not read(filled.encode(), file.path).problems else None


def _calls(module: Module) -> Iterator[CheckResult]:
    """Calls of local modules whose code is missing, so that no rule checks it. `init` reports them, too."""
    tree = module.checkout.code.tree
    reported: set[str | None] = set()
    for block in module.blocks("module"):
        source, name = value(block.body, "source"), "".join(block.labels[:1])
        if not isinstance(source, str) or is_elsewhere(source):
            continue
        folder = tree.inside(module.folder, source)
        if folder is None:
            what = f"the module `{name}` is outside the repository ({source}): no rule checks it"
            hint = _path_hint(source, module)
        elif any(map(is_code, tree.names(folder))):
            continue
        elif is_downloaded(folder):
            yield Skipped(reason=f"the module `{name}` is there only after init", file=block.place.file)
            continue
        elif (submodule := _submodule(folder, module.checkout)) is not None:
            yield submodule
            continue
        else:
            what = f"the module `{name}` has no code in {folder}"
            hint = "Fix the path."
        if folder in reported:
            continue
        reported.add(folder)
        fetched = folder is not None and (_FETCHED.search(folder) or not module.stacks)
        severity = Severity.NOTE if fetched else Severity.WARNING
        where, address = block.body.attribute("source") or block, f"module.{name}"
        yield finding(where, what, hint=hint, address=address, severity=severity)


def _path_hint(source: str, module: Module) -> str:
    """Names the folder that a path with too many `..` means."""
    tail = posixpath.normpath(source).replace("../", "")
    if any(map(is_code, module.checkout.code.tree.names(tail))):
        return f"Fix the path: the code is in {tail} ({posixpath.relpath(tail, module.folder)})."
    return (
        "If it is in another repository, use its address (`git::https://…//path?ref=v1.0.0`); if it is in "
        "this one, put holdfast.yaml at the root of the repository."
    )


def _submodule(folder: str, checkout: Checkout) -> Finding | None:
    """One finding for all modules in it, at its path in `.gitmodules`."""
    for number, line in enumerate(checkout.lines(_SUBMODULES), start=1):
        key, _, path = (part.strip() for part in line.partition("="))
        if key == "path" and f"{folder}/".startswith(f"{path}/"):
            return finding(
                Place(file=_SUBMODULES, line=number),
                f"the Git submodule `{path}` is not checked out: no rule checks its modules",
                hint="Run: git submodule update --init",
                severity=Severity.WARNING,
            )
    return None


def _problems(file: File, checkout: Checkout) -> Iterator[Finding]:
    """One finding for each file: the first problem often causes the others. Old code may not be in use.

    Nothing is quoted from a file outside the repository that a link points to.
    """
    if file.problems and checkout.code.tree.real(file.path) is None:
        outside = "the file cannot be read; it is a link to a file outside the repository"
        yield Finding(message=outside, place=Place(file=file.path), hint="Replace the link with the file.")
        return
    if file.problems and (target := _link_as_text(file.path, checkout)) is not None:
        what = (
            f"the file only contains the path `{target}`: probably a symbolic link that was committed as text"
        )
        hint = "Replace it with the link (on Windows: `git config core.symlinks true`), or with the file."
        yield Finding(message=what, place=Place(file=file.path), hint=hint, group=what)
        return
    for number, line in enumerate(checkout.lines(file.path) if file.problems else (), start=1):
        if line.startswith(_CONFLICT):
            what = "the file has the markers of a merge conflict"
            place = Place(file=file.path, line=number)
            yield Finding(message=what, place=place, hint="Resolve the conflict.", group=what)
            return
    for problem in sorted(file.problems, key=_line)[:1]:
        others = len(file.problems) - 1
        more = f" (and {plural(others, 'more problem')})" if others else ""
        sealed = problem.code == ENCRYPTED and (
            "git-crypt" not in problem.message or _is_declared(file.path, checkout)
        )
        severity = Severity.WARNING if sealed or problem.code == OLD_SYNTAX else None
        what = f"{problem.message}{more}"
        group = problem.message if problem.code in (ENCRYPTED, CANNOT_OPEN) else None
        yield Finding(message=what, place=problem.place, hint=problem.hint, severity=severity, group=group)


def _is_declared(path: str, checkout: Checkout) -> bool:
    """Whether a `.gitattributes` beside or above the file says that git-crypt encrypts files."""
    folders = path.split("/")[:-1]
    attributes = ("/".join((*folders[:depth], ".gitattributes")) for depth in range(len(folders) + 1))
    return any("filter=git-crypt" in (checkout.text(file) or "") for file in attributes)


def _link_as_text(path: str, checkout: Checkout) -> str | None:
    """The path of another file, if this is all that it contains: Git on Windows writes links so."""
    text = (checkout.text(path) or "").strip()
    if not _RELATIVE.fullmatch(text):
        return None
    target = checkout.code.tree.inside(path.rpartition("/")[0] or ".", text)
    return text if target in checkout.listed else None


def _line(problem: Problem) -> int:
    return (problem.place.line if problem.place is not None else None) or 0


RULE = Rule(
    id="HF904",
    title="Code that cannot be read",
    fix="Fix the syntax here, or the path of the module.",
    severity=Severity.ERROR,
    source=_module,
    variables=lambda file: _problems(file.file, file.checkout),
)
