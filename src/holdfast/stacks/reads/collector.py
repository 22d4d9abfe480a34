"""Gathers what a stack reads, one finding at a time, and makes a `Reach` of it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from holdfast.hcl.eval.code import (
    LOCK_FILE,
    OPENTOFU_VERSION,
    TERRAFORM_VERSION,
    Code,
    is_auto_loaded,
    is_code,
    pin_paths,
)
from holdfast.hcl.eval.values import SetOf, set_of
from holdfast.hcl.eval.worktree import Kind
from holdfast.hcl.reader import UNKNOWN
from holdfast.stacks.reads.file_references import may_be_path
from holdfast.stacks.reads.fileset import Fileset, fileset_pattern
from holdfast.stacks.reads.inputs import Names, Reach, ancestors

_NESTED = re.compile(r"\b(?:file\w*|templatefile|templatestring)\s*\(")
_LARGEST_TEMPLATE = 1_000_000


class Gathering:
    """Collects for one stack; `done` makes the frozen answer."""

    def __init__(self, code: Code, module: str) -> None:
        self.code = code
        self.tree = code.tree
        self.module = module
        self.modules: dict[str, str] = {}
        self.variables_files: set[str] = set()
        self.tofu: dict[str, None] = {}
        self._files: set[str] = set()
        self._reads: set[str] = set()
        self._filesets: dict[Fileset, None] = {}
        self._names: dict[Names, None] = {}
        self._paths: set[str] = set()
        self._folders: set[str] = set()
        self._outside: dict[str, None] = {}
        self._beyond: dict[str, None] = {}
        self._reasons: dict[str, None] = {}

    def done(self) -> Reach:
        pins = [p for name in (TERRAFORM_VERSION, OPENTOFU_VERSION) for p in pin_paths(self.module, name)]
        for pin in pins:
            self._add_file(pin)
        own = Names(paths=frozenset(self._paths), folders=frozenset(self._folders))
        sets = tuple(self._filesets)
        for fileset in sets:
            self._files.update(path for path in self.tree.walk(fileset.folder) if fileset.holds(path))
        ends = {*self._files, *self.modules, *self._reads, *self.variables_files, *self._folders}
        ends.update(f"{fileset.folder}/*" for fileset in sets)
        return Reach(
            module=self.module,
            files=frozenset(self._files),
            variables_files=frozenset(self.variables_files),
            modules=dict(self.modules),
            pins=frozenset(pins),
            reads=frozenset(self._reads),
            filesets=sets,
            names=(*self._names, own),
            outside=tuple(self._outside),
            beyond=tuple(self._beyond),
            reasons=tuple(self._reasons),
            tofu=tuple(self.tofu),
            above=frozenset(folder for path in ends for folder in ancestors(path)) | {*self.modules},
        )

    # What is found, one kind at a time.

    def everything(self, reason: str) -> None:
        self._reasons[reason] = None

    def outside(self, path: str, place: str, *, beyond: bool = False) -> None:
        """`beyond`: a relative path, which leads elsewhere from a work directory."""
        words = f"{place} reads {path}, which is outside the repository"
        self._outside[words] = None
        if beyond and not path.startswith(("/", "~")):
            self._beyond[words] = None

    def _add_file(self, path: str) -> None:
        """A file for the layout, if it is one; behind a link, its target too."""
        if self.tree.kind(path) is Kind.FILE:
            self._files.update(self.tree.aliases(path))

    def _add_folder(self, path: str) -> None:
        for alias in self.tree.aliases(path):
            if alias == ".":
                self.everything("the whole repository is named as a folder")
            self._folders.add(alias)
            self._files.update(self.tree.walk(alias))

    def add_module(self, folder: str) -> None:
        """A module's folder: its code; for the root module also what Terraform reads beside it."""
        for alias in self.tree.aliases(folder):
            self.modules.setdefault(alias, folder)
        root = folder == self.module
        for name in self.tree.names(folder):
            if is_code(name) or (root and (is_auto_loaded(name) or name == LOCK_FILE)):
                path = self.tree.join(folder, name)
                self._reads.update(alias for alias in self.tree.aliases(path) if alias != path)
                self._add_file(path)
                if self._leads_nowhere(path):
                    self._beyond[f"{path} is a link that leads to no file"] = None
                elif self.tree.leaves(path):
                    self.outside(path, path)

    def _leads_nowhere(self, path: str) -> bool:
        """Terraform would stop there. Without the file there would be another plan, that may delete."""
        kind = self.tree.kind(path)
        return kind is not Kind.FILE and (kind is not Kind.FOLDER or self.tree.real(path) != path)

    def add_variables_file(self, path: str) -> None:
        self.variables_files.update(self.tree.aliases(path))
        self._add_file(path)

    def add_read(self, path: str, place: str) -> str | None:
        """A path given to a function, seen from the root module's folder. Answers where in the root it is."""
        found = None if path.startswith("~") else self.tree.inside(self.module, path)
        if found is None or self.tree.leaves(found):
            self.outside(path, place, beyond=found is None)
        if found is not None:
            self._reads.update(self.tree.aliases(found))
            self._add_file(found)
        return found

    def add_fileset(self, folder: str, pattern: str, place: str) -> None:
        if ".." in pattern.split("/"):
            self.everything(f"{place} looks for files above a folder")
            return
        found = None if folder.startswith("~") else self.tree.inside(self.module, folder)
        if found is None:
            self.outside(folder, place, beyond=True)
            return
        for alias in self.tree.aliases(found):
            if self.tree.links(alias):
                self._add_folder(alias)
            self._filesets[Fileset(folder=alias, pattern=fileset_pattern(pattern))] = None

    def add_names(self, texts: Iterable[str], bases: Iterable[str], *, folders: bool) -> None:
        """Strings that may name something: every place they may mean counts, there or not."""
        places = tuple(dict.fromkeys(bases))
        for text in texts:
            dots = not may_be_path(text)
            if dots and not (folders and len(text) > 0 and not text.strip("./")):
                continue
            for base in places:
                path = self.tree.inside(base, text)
                if path is not None:
                    self._name(path, folder=folders or "/" in text)

    def _name(self, path: str, *, folder: bool) -> None:
        kind = self.tree.kind(path)
        if kind is Kind.FOLDER:
            if folder:
                self._add_folder(path)
            return
        if kind is not Kind.MISSING:
            self._add_file(path)
        self._paths.update(self.tree.aliases(path))
        if folder:
            self._folders.update(self.tree.aliases(path))

    def add_words(self, folder: str, words: frozenset[str], folder_words: frozenset[str]) -> None:
        """The strings of a module's own code: worked out once for each pair of module and root module."""

        def work_out() -> tuple[Names, frozenset[str], tuple[str, ...]]:
            apart = Gathering(self.code, self.module)
            bases = (folder, self.module, ".")
            apart.add_names(words, bases, folders=False)
            apart.add_names(folder_words, bases, folders=True)
            names = Names(paths=frozenset(apart._paths), folders=frozenset(apart._folders))
            return names, frozenset(apart._files), tuple(apart._reasons)

        names, files, reasons = self.code.once(("words", folder, self.module), work_out)
        self._names[names] = None
        self._files.update(files)
        self._reasons.update(dict.fromkeys(reasons))

    def listing(self, folder: str, pattern: str) -> object:
        """`fileset` as a value; unknown where links or the pattern make it unsure."""
        found = None if folder.startswith("~") else self.tree.inside(self.module, folder)
        matcher = fileset_pattern(pattern)
        if found is None or matcher is None or self.tree.links(found):
            return UNKNOWN
        cut = 0 if found == "." else len(found) + 1
        below = (path[cut:] for path in self.tree.walk(found) if path.startswith(f"{found}/") or not cut)
        matching = [path for path in below if matcher.fullmatch(path)]
        return set_of(matching) if matching else SetOf()

    def template_reads_files(self, path: str) -> bool:
        """Whether a template reads files of its own, which is not followed further."""

        def look() -> bool:
            try:
                content = (self.tree.root / path).read_bytes()
            except OSError:
                return False
            return len(content) > _LARGEST_TEMPLATE or reads_files(content.decode(errors="replace"))

        return self.code.once(("template", path), look)


def reads_files(template: str) -> bool:
    return ("${" in template or "%{" in template) and bool(_NESTED.search(template))
