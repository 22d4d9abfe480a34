"""Collects the files that a stack reads or names into a `StackInputs`, from paths and path expressions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

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
from holdfast.hcl.eval.worktree import PathKind
from holdfast.hcl.nodes import Opaque, walk
from holdfast.hcl.reader import UNKNOWN
from holdfast.kernel.patterns import pattern
from holdfast.stacks.reads.file_references import Reach, may_be_path, quoted_strings
from holdfast.stacks.reads.inputs import (
    Fileset,
    NamedPaths,
    NearbyFiles,
    OutsideRead,
    StackInputs,
    ancestors,
    fileset_pattern,
    path_glob,
)
from holdfast.stacks.reads.path_expressions import PathExpression, path_expressions

_NESTED = pattern(r"\b(?:file\w*|templatefile|templatestring)\s*\(")
_LARGEST_TEMPLATE = 1_000_000
_ABSOLUTE = ("/", "~")
_VENDORING = ("Terrafile", "vendir.yml", "vendir.lock.yml")


class InputCollector:
    """Collects the inputs of one stack; `inputs` returns the immutable result."""

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
        self._names: dict[NamedPaths, None] = {}
        self._paths: set[str] = set()
        self._folders: set[str] = set()
        self._outside: dict[str, None] = {}
        self._outside_reads: set[OutsideRead] = set()
        self._broken: dict[str, None] = {}
        self._reasons: dict[str, None] = {}
        self._unbounded: dict[str, None] = {}
        self._nearby: dict[NearbyFiles, None] = {}
        self._listed: tuple[str, ...] = ()
        self._ignored: tuple[str, ...] = ()

    def inputs(self) -> StackInputs:
        pins = [p for name in (TERRAFORM_VERSION, OPENTOFU_VERSION) for p in pin_paths(self.module, name)]
        for pin in pins:
            self._add_file(pin)
        own = NamedPaths(paths=frozenset(self._paths), folders=frozenset(self._folders))
        sets = tuple(self._filesets)
        for fileset in sets:
            self._files.update(path for path in self.tree.walk(fileset.folder) if fileset.holds(path))
        ends = {*self._files, *self.modules, *self._reads, *self.variables_files, *self._folders}
        ends.update(f"{fileset.folder}/*" for fileset in sets)
        return StackInputs(
            module=self.module,
            files=frozenset(self._files),
            variables_files=frozenset(self.variables_files),
            modules=dict(self.modules),
            pins=frozenset(pins),
            reads=frozenset(self._reads),
            filesets=sets,
            names=(*self._names, own),
            outside=tuple(self._outside),
            outside_reads=frozenset(self._outside_reads),
            broken=tuple(self._broken),
            reasons=tuple(self._reasons),
            unbounded=tuple(self._unbounded),
            nearby=tuple(self._nearby),
            listed=tuple(filter(None, map(path_glob, self._listed))),
            ignored=tuple(filter(None, map(path_glob, self._ignored))),
            tofu=tuple(self.tofu),
            above=frozenset(folder for path in ends for folder in ancestors(path)) | {*self.modules},
        )

    def add_everything(self, reason: str) -> None:
        """Any file may be read, so every changed file affects the stack."""
        self._reasons[reason] = None
        self._unbounded[reason] = None

    def add_unclear(self, reason: str, reach: Reach, folders: Iterable[str], *, ending: str = "") -> None:
        """Any file may be read; if `reach` says so, only those in the folders affect the stack."""
        if reach is Reach.EVERYTHING:
            self.add_everything(reason)
            return
        self._reasons[reason] = None
        if reach is Reach.NEARBY:
            near = (alias for folder in folders for alias in self.tree.aliases(folder))
            files = (NearbyFiles(reason=reason, folder=folder, ending=ending) for folder in near)
            self._nearby.update(dict.fromkeys(files))

    def add_program_file(self, text: str, base: str, reason: str) -> None:
        """A program may load what is beside it; not if the stack itself is below, which would be too much."""
        path = self.tree.inside(base, text) or ""
        folder = path.rpartition("/")[0]
        if (
            folder
            and self.tree.kind(path) is PathKind.FILE
            and not f"{self.module}/".startswith(f"{folder}/")
        ):
            self.add_unclear(reason, Reach.NEARBY, (folder,))

    def add_unread(self, path: str, reason: str, folder: str) -> tuple[str, ...]:
        """A file that can be read only in part. Returns its strings: each may name a file, or a module."""
        self.add_unclear(reason, Reach.NEARBY, (folder, self.module))
        text = (self.code.content(path) or b"").decode(errors="replace")
        strings = self.code.once(("strings in", path), lambda: tuple(dict.fromkeys(quoted_strings(text))))
        self.add_names(strings, (folder, self.module, "."), folders=False)
        return strings

    def add_patterns(self, reads: tuple[str, ...], ignores: tuple[str, ...]) -> None:
        """`reads` and `ignores` of the configuration."""
        self._listed, self._ignored = reads, ignores
        for glob in reads:
            find = partial(self._matching, glob)
            self._files.update(self.code.once(("files that match", glob), find))

    def _matching(self, glob: str) -> tuple[str, ...]:
        pattern = path_glob(glob)
        return tuple(path for path in self.tree.walk(".") if pattern is not None and pattern.fullmatch(path))

    def add_outside(self, path: str, place: str, *, relative: bool = False) -> None:
        """`relative`: as written, the path is resolved against the work directory."""
        reason = f"{place} reads {path}, which is outside the repository"
        self._outside[reason] = None
        if relative and not path.startswith(_ABSOLUTE):
            self._broken[reason] = None

    def add_outside_file(self, path: str, *, kubeconfig: bool = False) -> None:
        """A file that a resource, a data source or a provider reads by its path."""
        if path.startswith(_ABSOLUTE) and self._inside(path) is None:
            self._outside_reads.add(OutsideRead(path=path, kubeconfig=kubeconfig))

    def _add_link_out(self, path: str) -> None:
        """The work directory would lack what is behind the link, and a plan without it would differ."""
        self._broken[f"{path} is a symbolic link that leads out of the repository"] = None

    def _add_file(self, path: str) -> None:
        """A file that the work directory needs, if it exists; for a link, its target too."""
        if self.tree.kind(path) is PathKind.FILE and not self.tree.leads_outside(path):
            self._files.update(self.tree.aliases(path))

    def _add_folder(self, path: str) -> None:
        for alias in self.tree.aliases(path):
            if alias == ".":
                self.add_everything("the code names the whole repository as a folder")
            self._folders.add(alias)
            self._files.update(self.tree.walk(alias))

    def add_module(self, folder: str) -> None:
        """A module's folder: its code; for the root module also auto-loaded variables and the lock file."""
        for alias in self.tree.aliases(folder):
            self.modules.setdefault(alias, folder)
        root = folder == self.module
        for name in self.tree.names(folder):
            if is_code(name) or (root and (is_auto_loaded(name) or name == LOCK_FILE)):
                path = self.tree.join(folder, name)
                self._reads.update(alias for alias in self.tree.aliases(path) if alias != path)
                self._add_file(path)
                if self._is_broken_link(path):
                    other = self.tree.kind(path) is PathKind.OTHER
                    what = "not a regular file" if other else "a broken symbolic link"
                    self._broken[f"{path} is {what}"] = None
                elif self.tree.leads_outside(path):
                    self._add_link_out(path)
                elif self.tree.real(path) is None:
                    self.add_outside(path, path)

    def add_vendoring(self, folder: str) -> None:
        """What installs a module that is not in Git: a file of a vendoring tool above that mentions it."""
        for above in (*ancestors(folder), "."):
            for path in (self.tree.join(above, name) for name in _VENDORING):
                text = self.code.content(path) if self.tree.kind(path) is PathKind.FILE else None
                names = folder.removeprefix(f"{above}/").split("/")
                if text and any(
                    name.encode() in text for name in names if name not in ("modules", "terraform")
                ):
                    self._reads.update(self.tree.aliases(path))

    def _is_broken_link(self, path: str) -> bool:
        """Terraform would stop there; a plan without the file would differ and might delete resources."""
        kind = self.tree.kind(path)
        return kind is not PathKind.FILE and (kind is not PathKind.FOLDER or self.tree.real(path) != path)

    def add_variables_file(self, path: str) -> None:
        self.variables_files.update(self.tree.aliases(path))
        self._add_file(path)
        if self.tree.leads_outside(path):
            self._add_link_out(path)

    def add_read(self, path: str, place: str) -> str | None:
        """A path passed to a function, relative to the root module. Returns it relative to the root."""
        inside = self._inside(path)
        if inside is None or self.tree.real(inside) is None:
            self.add_outside(path, place, relative=inside is None)
        self.add_outside_file(path)
        if inside is not None:
            if self.tree.leads_outside(inside):
                self._add_link_out(inside)
            self._reads.update(self.tree.aliases(inside))
            self._add_file(inside)
        return inside

    def _inside(self, path: str) -> str | None:
        return None if path.startswith("~") else self.tree.inside(self.module, path)

    def add_fileset(self, folder: str, pattern: str, place: str) -> None:
        while pattern.startswith("../"):
            folder, pattern = f"{folder}/..", pattern.removeprefix("../")
        if ".." in pattern.split("/"):
            self.add_everything(f"{place} searches for files above a folder")
            return
        inside = self._inside(folder)
        if inside is None:
            self.add_outside(folder, place, relative=True)
            if folder.startswith(_ABSOLUTE):
                self._outside_reads.add(OutsideRead(path=folder, pattern=pattern))
            return
        for alias in self.tree.aliases(inside):
            if self.tree.has_folder_links(alias):
                self._add_folder(alias)
            fileset = Fileset(folder=alias, pattern=fileset_pattern(pattern))
            self._filesets[fileset] = None
            for link in self.tree.links_out(alias):
                below = self.tree.is_folder(link) and ("/" in pattern or "**" in pattern)
                if link == alias or below or fileset.holds(link):
                    self._add_link_out(link)

    def add_template(self, path: str) -> None:
        """A file that Holdfast reads itself: a change of it affects the stack."""
        self._reads.update(self.tree.aliases(path))

    def add_files(self, folder: str, glob: str) -> None:
        """Files below a folder of the repository that a program beside Terraform reads."""
        self._filesets[Fileset(folder=folder, pattern=fileset_pattern(glob))] = None

    def add_names(self, texts: Iterable[str], bases: Iterable[str], *, folders: bool) -> None:
        """Strings that may name a file: every path they may refer to counts, existing or not."""
        places = tuple(dict.fromkeys(bases))
        for text in texts:
            dots = not may_be_path(text)
            if dots and not (folders and len(text) > 0 and not text.strip("./")):
                continue
            for base in places:
                if dots and base == "." and self.module != ".":
                    continue  # `.` is the folder where Terraform runs, not the repository.
                path = self.tree.inside(base, text)
                if path is not None:
                    self._add_name(path, folder=folders or "/" in text)

    def _add_name(self, path: str, *, folder: bool) -> None:
        kind = self.tree.kind(path)
        if kind is PathKind.FOLDER:
            if folder:
                self._add_folder(path)
            return
        if kind is not PathKind.MISSING:
            self._add_file(path)
        self._paths.update(self.tree.aliases(path))
        if folder:
            self._folders.update(self.tree.aliases(path))

    def add_literals(self, folder: str, literals: frozenset[str], folder_literals: frozenset[str]) -> None:
        """The strings of a module's own code: resolved once per pair of module and root module."""

        def resolve() -> tuple[NamedPaths, frozenset[str], tuple[str, ...]]:
            separate = InputCollector(self.code, self.module)
            bases = (folder, self.module, ".")
            separate.add_names(literals, bases, folders=False)
            separate.add_names(folder_literals, bases, folders=True)
            names = NamedPaths(paths=frozenset(separate._paths), folders=frozenset(separate._folders))
            return names, frozenset(separate._files), tuple(separate._reasons)

        names, files, reasons = self.code.once(("named in literals", folder, self.module), resolve)
        self._names[names] = None
        self._files.update(files)
        for reason in reasons:
            self.add_everything(reason)

    def fileset_value(self, folder: str, pattern: str) -> object:
        """The value of `fileset`; unknown where links or the pattern make it uncertain."""
        inside = self._inside(folder)
        matcher = fileset_pattern(pattern)
        if inside is None or matcher is None or self.tree.has_folder_links(inside):
            return UNKNOWN
        cut = 0 if inside == "." else len(inside) + 1
        below = (path[cut:] for path in self.tree.walk(inside) if path.startswith(f"{inside}/") or not cut)
        matching = [path for path in below if matcher.fullmatch(path)]
        return set_of(matching) if matching else SetOf()

    def template_reads(self, path: str) -> tuple[PathExpression, ...] | None:
        """The functions in a template that read files; None if this is not known."""

        def find() -> tuple[PathExpression, ...] | None:
            try:
                content = self.tree.read_bytes(path, _LARGEST_TEMPLATE + 1)
            except (OSError, ValueError):
                return ()
            return reads_in(content.decode(errors="replace")) if len(content) <= _LARGEST_TEMPLATE else None

        return self.code.once(("template", path), find)


def reads_in(template: str) -> tuple[PathExpression, ...] | None:
    """Only expressions count: the text around them may mention `file()`. None if one cannot be read."""
    if not ("${" in template or "%{" in template) or not _NESTED.search(template):
        return ()
    from holdfast.hcl.native import read_template  # noqa: PLC0415 - loads the parser, which not all need

    expression = read_template(template, line=0, column=0)
    if any(isinstance(part, Opaque) and part.unread for part in walk(expression)):
        return None
    return path_expressions(expression, None)
