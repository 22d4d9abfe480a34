"""Collects the files that a stack reads or names into a `StackInputs`, from paths and path expressions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from holdfast.hcl.eval.code import (
    LOCK_FILE,
    OPENTOFU_VERSION,
    TERRAFORM_VERSION,
    Code,
    is_auto_loaded,
    is_code,
    pin_paths,
)
from holdfast.hcl.eval.evaluate import Scope, elements, evaluate
from holdfast.hcl.eval.values import SetOf, set_of, text_of
from holdfast.hcl.eval.worktree import PathKind
from holdfast.hcl.nodes import Expression, Template
from holdfast.hcl.reader import UNKNOWN, Unknown
from holdfast.kernel.patterns import pattern
from holdfast.stacks.reads.file_references import FileReference, may_be_path
from holdfast.stacks.reads.inputs import (
    Fileset,
    NamedPaths,
    OutsideRead,
    StackInputs,
    ancestors,
    fileset_pattern,
)
from holdfast.stacks.reads.path_expressions import (
    READERS,
    BranchPaths,
    FileRead,
    LoopPaths,
    NamedPath,
    PathExpression,
)

_NESTED = pattern(r"\b(?:file\w*|templatefile|templatestring)\s*\(")
_LARGEST_TEMPLATE = 1_000_000
_ABSOLUTE = ("/", "~")


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
            tofu=tuple(self.tofu),
            above=frozenset(folder for path in ends for folder in ancestors(path)) | {*self.modules},
        )

    def add_everything(self, reason: str) -> None:
        """Any file may be read, so every changed file affects the stack."""
        self._reasons[reason] = None

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
                    self._broken[f"{path} is a broken symbolic link"] = None
                elif self.tree.leads_outside(path):
                    self._add_link_out(path)
                elif self.tree.real(path) is None:
                    self.add_outside(path, path)

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
        self._reasons.update(dict.fromkeys(reasons))

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

    def template_reads_files(self, path: str) -> bool:
        """Whether a template itself reads files, which are not followed."""

        def check() -> bool:
            try:
                content = (self.tree.root / path).read_bytes()
            except OSError:
                return False
            return len(content) > _LARGEST_TEMPLATE or reads_files(content.decode(errors="replace"))

        return self.code.once(("template", path), check)


def reads_files(template: str) -> bool:
    return ("${" in template or "%{" in template) and bool(_NESTED.search(template))


class ReferenceResolver:
    """Resolves the references of one module with one set of values."""

    def __init__(self, collector: InputCollector, folder: str, *, dormant: bool, resource: bool) -> None:
        self._collector = collector
        self._bases = (collector.module, folder, ".")
        self._dormant = dormant
        """None of these resources exist, so a path that is unknown is not read either."""
        self._resource = resource
        """It is in a resource or data source; a provider names files with credentials."""

    def resolve(self, reference: FileReference, scope: Scope) -> None:
        try:
            for path in reference.paths:
                self._resolve(path, scope, reference.file)
        except RecursionError:
            self._collector.add_everything(
                f"{reference.file}:{reference.expression.line} is nested too deeply to be followed"
            )

    def _resolve(self, path: PathExpression, scope: Scope, file: str) -> None:
        match path:
            case NamedPath():
                self._named(path, scope, file)
            case FileRead():
                self._read(path, scope, file)
            case LoopPaths():
                scopes = elements(path.expression, scope)
                if isinstance(scopes, Unknown):
                    names = (path.expression.key_name, path.expression.value_name)
                    scopes = [scope.bind({name: scopes for name in names if name is not None})]
                for inner in scopes:
                    for part in path.inside:
                        self._resolve(part, inner, file)
            case BranchPaths():
                condition = evaluate(path.expression.condition, scope)
                yes = path.yes if condition is not False else ()
                no = path.no if condition is not True else ()
                for part in (*yes, *no):
                    self._resolve(part, scope, file)
            case _:
                assert_never(path)

    def _computed(self, expression: Expression, file: str) -> None:
        if not self._dormant:
            self._collector.add_everything(f"{file}:{expression.line} reads a file whose name is computed")

    def _named(self, path: NamedPath, scope: Scope, file: str) -> None:
        value = evaluate(path.expression, scope)
        if isinstance(value, str):
            self._collector.add_names((value,), self._bases, folders=path.folder)
            if path.expects_file and self._resource:
                self._collector.add_outside_file(value)
        elif isinstance(value, Unknown):
            if value is UNKNOWN and (path.expects_file or path.of_path):
                self._computed(path.expression, file)
            elif isinstance(path.expression, Template):
                self._add_prefix(path.expression, scope, of_path=path.of_path)

    def _add_prefix(self, expression: Template, scope: Scope, *, of_path: bool) -> None:
        """`"policies/${computed}.json"` may refer to any file in the folder it starts with."""
        text = ""
        for piece in expression.pieces:
            part = text_of(evaluate(piece, scope))
            if part is None:
                break
            text += part
        folder = text.rpartition("/")[0]
        if may_be_path(folder) or (folder and of_path):
            self._collector.add_names((folder,), self._bases, folders=True)

    def _read(self, path: FileRead, scope: Scope, file: str) -> None:
        call = path.call
        place = f"{file}:{call.line}"
        arguments = [evaluate(argument, scope) for argument in call.arguments]
        first = arguments[0] if arguments and not call.expand_final else UNKNOWN
        match path.name, arguments:
            case ("fileset", [str() as folder, str() as pattern]) if first is not UNKNOWN:
                self._collector.add_fileset(folder, pattern, place)
            case ("templatestring", _) if isinstance(first, str) and not reads_files(first):
                return
            case (name, _) if name in READERS and first is None:
                return
            case (name, _) if name in READERS and isinstance(first, str):
                file_path = self._collector.add_read(first, place)
                if name == "templatefile" and file_path and self._collector.template_reads_files(file_path):
                    self._collector.add_everything(f"{file_path} is a template that itself reads files")
            case _:
                self._computed(call, file)
