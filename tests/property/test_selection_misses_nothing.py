"""Selection against a model that knows what every stack sees, because it wrote the repository itself."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.stack_rules import RuleKind
from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import Place
from holdfast.stacks.reads.walk import stack_inputs
from holdfast.stacks.select import select
from holdfast.stacks.stack import Stack

Repository = dict[str, str]
"""Path to content."""

STEMS = ("a", "b", "c")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to read a file: the code for it, and the paths it reads, told without reading that code."""

    code: str
    sees: Callable[[Repository, str, str, str], set[str]]
    """From the repository, the module's folder, the root module's folder and the value of `var.f`."""


def _below(repository: Repository, folder: str) -> set[str]:
    return {path for path in repository if path.startswith(f"{folder}/") and path.endswith(".txt")}


WAYS: Mapping[str, Way] = {
    "direct": Way(
        code='  X = file("${path.module}/data/a.txt")',
        sees=lambda _r, m, _t, _f: {f"{m}/data/a.txt"},
    ),
    "root": Way(
        code='  X = filemd5("${path.root}/data/b.txt")',
        sees=lambda _r, _m, t, _f: {f"{t}/data/b.txt"},
    ),
    "cwd": Way(
        code='  X = file("${abspath(path.module)}/data/c.txt")',
        sees=lambda _r, m, _t, _f: {f"{m}/data/c.txt"},
    ),
    "variable": Way(
        code='  X = file("${path.module}/data/${var.f}.txt")',
        sees=lambda _r, m, _t, f: {f"{m}/data/{f}.txt"},
    ),
    "local": Way(
        code='  name_X = "data/${var.f}"\n  X = templatefile("${path.module}/${local.name_X}.txt", {})',
        sees=lambda _r, m, _t, f: {f"{m}/data/{f}.txt"},
    ),
    "format": Way(
        code='  X = filebase64(format("%s/%s/%s.txt", path.module, join("", ["da", "ta"]), var.f))',
        sees=lambda _r, m, _t, f: {f"{m}/data/{f}.txt"},
    ),
    "condition": Way(
        code='  X = var.f == "a" ? file("${path.module}/data/b.txt") : file("${path.module}/data/c.txt")',
        sees=lambda _r, m, _t, f: {f"{m}/data/b.txt" if f == "a" else f"{m}/data/c.txt"},
    ),
    "for": Way(
        code='  X = [for s in ["a", var.f] : file("${path.module}/data/${s}.txt")]',
        sees=lambda _r, m, _t, f: {f"{m}/data/a.txt", f"{m}/data/{f}.txt"},
    ),
    "map": Way(
        code='  X = file(lookup({ a = "${path.root}/data/c.txt" }, var.f, "data/a.txt"))',
        sees=lambda _r, _m, t, f: {f"{t}/data/c.txt" if f == "a" else f"{t}/data/a.txt"},
    ),
    "fileset": Way(
        code='  s_X = "${path.module}/set"\n'
        '  X = { for s in fileset(local.s_X, "**/*.txt") : s => filesha1("${local.s_X}/${s}") }',
        sees=lambda r, m, _t, _f: _below(r, f"{m}/set"),
    ),
    "listing": Way(
        code='  X = fileset("${path.module}/set", "**")',
        sees=lambda r, m, _t, _f: _below(r, f"{m}/set"),
    ),
    "named": Way(
        code='  X = "${path.module}/data/${var.f}.txt"',
        sees=lambda _r, m, _t, f: {f"{m}/data/{f}.txt"},
    ),
    "computed": Way(
        code='  X = file("${path.module}/data/${data.x.y.z}.txt")',
        sees=lambda r, m, _t, _f: _below(r, f"{m}/data"),
    ),
    "unclear": Way(
        code="  X = file(data.x.y.z)",
        sees=lambda r, m, t, _f: _below(r, m) | _below(r, t),
    ),
    "template": Way(
        code='  X = templatefile("${path.module}/t.tpl", { n = var.f })',
        sees=lambda _r, m, t, f: {f"{m}/t.tpl", f"{t}/data/{f}.txt"},
    ),
    "folder": Way(
        code='  X = { source_dir = "${path.module}/set" }',
        sees=lambda r, m, _t, _f: _below(r, f"{m}/set"),
    ),
}

GIVES: Mapping[str, Callable[[str], tuple[str, ...]]] = {
    "f = var.f": lambda f: (f,),
    'f = "c"': lambda _f: ("c",),
    "f = local.passed": lambda f: (f,),
    'for_each = toset(["b", var.f])\n  f = each.value': lambda f: ("b", f),
    'for_each = { x = "a", y = var.f }\n  f = each.value': lambda f: ("a", f),
    'count = var.f == "a" ? 1 : 0\n  f = var.f': lambda f: (f,) if f == "a" else (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSpec:
    ways: tuple[str, ...]
    calls: tuple[tuple[int, str], ...]
    """Number of a later module, and one of GIVES."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSpec:
    root: int
    f: str | None
    common: bool


def folder(number: int) -> str:
    return f"modules/m{number}"


def write_code(number: int, spec: ModuleSpec) -> str:
    lines = ['variable "f" {\n  default = "b"\n}', "locals {\n  passed = lower(upper(var.f))"]
    lines.extend(WAYS[way].code.replace("X", f"v{at}") for at, way in enumerate(spec.ways))
    lines.append("}")
    for at, (callee, gives) in enumerate(spec.calls):
        lines.append(f'module "c{at}" {{\n  source = "../m{callee}"\n  {gives}\n}}')
    return "\n".join(lines) + f"\n# {number}\n"


def chosen(repository: Repository, number: int, stack: StackSpec) -> str:
    """The value of the root module's `f`, as the files say."""
    value = "b"
    for path in variables_files(number, stack):
        found = re.search(r'^f = "(.)"', repository.get(path, ""), re.MULTILINE)
        value = found.group(1) if found else value
    return value


def variables_files(number: int, stack: StackSpec) -> tuple[str, ...]:
    own = (f"Accounts/s{number}.tfvars",)
    return ("common.tfvars", *own) if stack.common else own


def sees(
    repository: Repository, specs: list[ModuleSpec], number: int, stack: StackSpec
) -> dict[str, str | None]:
    """Everything one stack's plan depends on, path and content; the model, not the program."""
    seen: set[str] = set(variables_files(number, stack))
    top = folder(stack.root)

    def code(module: int) -> None:
        here = folder(module)
        seen.update(path for path in repository if re.fullmatch(re.escape(here) + r"/[^/]+\.tf", path))
        for callee, _ in specs[module].calls:
            code(callee)

    def visit(module: int, f: str) -> None:
        for way in specs[module].ways:
            seen.update(WAYS[way].sees(repository, folder(module), top, f))
        for callee, gives in specs[module].calls:
            for value in GIVES[gives](f):
                visit(callee, value)

    code(stack.root)
    visit(stack.root, chosen(repository, number, stack))
    return {path: repository.get(path) for path in seen}


@st.composite
def repositories(draw: st.DrawFn) -> tuple[Repository, list[ModuleSpec], list[StackSpec]]:
    count = draw(st.integers(1, 4))
    specs = [
        ModuleSpec(
            ways=tuple(draw(st.lists(st.sampled_from(sorted(WAYS)), max_size=4))),
            calls=tuple(
                draw(
                    st.lists(
                        st.tuples(st.integers(number + 1, count - 1), st.sampled_from(sorted(GIVES))),
                        max_size=2,
                    )
                )
            )
            if number + 1 < count
            else (),
        )
        for number in range(count)
    ]
    stacks = draw(
        st.lists(
            st.builds(
                StackSpec,
                root=st.integers(0, count - 1),
                f=st.none() | st.sampled_from(STEMS),
                common=st.booleans(),
            ),
            min_size=1,
            max_size=4,
        )
    )
    repository: Repository = {"README.md": "", "common.tfvars": "# nothing\n"}
    for number, spec in enumerate(specs):
        repository[f"{folder(number)}/main.tf"] = write_code(number, spec)
        for stem in STEMS:
            repository[f"{folder(number)}/data/{stem}.txt"] = stem
        repository[f"{folder(number)}/set/deep/one.txt"] = "one"
        repository[f"{folder(number)}/t.tpl"] = 'A file( of ${n}: ${file("data/${n}.txt")}\n'
    for number, stack in enumerate(stacks):
        repository[f"Accounts/s{number}.tfvars"] = f'f = "{stack.f}"\n' if stack.f else "# default\n"
    return repository, specs, stacks


@st.composite
def commits(draw: st.DrawFn, repository: Repository, seen: set[str]) -> Repository:
    """The repository after a commit: files changed, deleted, added, and values of variables changed."""
    after = dict(repository)
    paths = sorted(repository)
    likely = sorted(seen & repository.keys())
    folders = sorted({path.split("/")[1] for path in paths if path.startswith("modules/")})
    kinds = ("change", "delete", "code", "set", "unset", "value")
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)):
        path = draw(st.sampled_from(likely) | st.sampled_from(paths))
        module = f"modules/{draw(st.sampled_from(folders))}"
        if kind == "change" and path in after:
            after[path] += "# changed\n"
        elif kind == "delete" and path != "README.md":
            after.pop(path, None)
        elif kind == "code":
            after[f"{module}/more.tf"] = "locals {\n  more = 1\n}\n"
        elif kind == "set":
            after[f"{module}/set/new/two.txt"] = "two"
        elif kind == "unset":
            after.pop(f"{module}/set/deep/one.txt", None)
        elif kind == "value":
            variables = draw(st.sampled_from([p for p in paths if p.endswith(".tfvars")]))
            after[variables] = f'f = "{draw(st.sampled_from(STEMS))}"\n'
    return after


def stack_values(stacks: list[StackSpec]) -> Iterator[Stack]:
    for number, spec in enumerate(stacks):
        yield Stack(
            name=f"s{number}",
            kind=RuleKind.VARIABLES,
            place=Place(file="holdfast.yaml", line=1),
            module=folder(spec.root),
            variables_files=variables_files(number, spec),
        )


def lay_out(repository: Repository, root: Path) -> None:
    for path, content in repository.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_selecting_by_change_misses_no_stack_that_a_full_comparison_finds(data: st.DataObject) -> None:
    """A stack whose plan may differ after a commit is always selected by the commit's changed files."""
    before, specs, stacks = data.draw(repositories())
    seen = {path for number, stack in enumerate(stacks) for path in sees(before, specs, number, stack)}
    after = data.draw(commits(before, seen))
    changed = frozenset(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    with tempfile.TemporaryDirectory() as place:
        lay_out(after, Path(place))
        selected = {found.stack.name for found in select(stack_values(stacks), changed, Code(Path(place)))}
    different = {
        f"s{number}"
        for number, stack in enumerate(stacks)
        if sees(before, specs, number, stack) != sees(after, specs, number, stack)
    }
    assert different <= selected


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_the_layout_holds_every_file_that_the_plan_sees(data: st.DataObject) -> None:
    """No existing file that a plan depends on is missing from the layout, and not all files are needed."""
    repository, specs, stacks = data.draw(repositories())
    with tempfile.TemporaryDirectory() as place:
        lay_out(repository, Path(place))
        code = Code(Path(place))
        for number, stack in enumerate(stack_values(stacks)):
            reached = stack_inputs(code, stack)
            seen = sees(repository, specs, number, stacks[number])
            needed = {path for path, content in seen.items() if content is not None}
            unclear = {way for spec in specs for way in spec.ways} & {"computed", "unclear"}
            assert unclear or not reached.everything
            assert reached.everything or needed <= reached.files
            assert "README.md" not in reached.files
