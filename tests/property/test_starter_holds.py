"""Whatever a repository looks like, its starter is right, finds what it says, and shares no state."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.read import parse
from holdfast.kernel.errors import Place
from holdfast.onboarding.scan import RepositoryScan, ScannedModule, VariablesFile
from holdfast.onboarding.scan_signs import Sign, SignKind
from holdfast.onboarding.starter import starter_from_scan
from holdfast.stacks.backend import CodeBackend
from holdfast.stacks.discover import discover
from holdfast.stacks.listing import ListedTree

PARTS = st.sampled_from(
    ("Accounts", "envs", "live", "modules", "dev", "prod", "a-dev", "eu-west-1", "net", "db", "common")
) | st.text("ab{}*[] -.ü:#'\"0", min_size=1, max_size=4).filter(lambda part: part.strip(".") != "")
FOLDERS = st.lists(PARTS, min_size=0, max_size=3).map(lambda parts: "/".join(parts) or ".")
BACKENDS = st.sampled_from(
    (
        None,
        CodeBackend(type="s3"),
        CodeBackend(type="s3", settings={"bucket": "b"}),
        CodeBackend(type="s3", settings={"bucket": "b", "key": "prod/x"}),
        CodeBackend(type="local"),
        CodeBackend(type="cloud"),
        CodeBackend(type="http"),
    )
)
MODULES = st.builds(
    ScannedModule,
    folder=FOLDERS,
    backend=BACKENDS,
    called=st.booleans(),
    uses_workspace=st.booleans(),
    providers=st.booleans(),
    required=st.sampled_from(((), ("name",))),
    locked=st.booleans(),
)
SIGNS = st.builds(
    Sign,
    kind=st.sampled_from(SignKind),
    place=FOLDERS.map(lambda folder: Place(file=f"{folder}/run.sh".removeprefix("./"), line=1)),
    what=st.just("runs Terraform"),
)
FILES = st.builds(
    lambda folder, stem, suffix: f"{folder}/{stem}.tfvars{suffix}".removeprefix("./"),
    FOLDERS,
    PARTS,
    st.sampled_from(("", ".json")),
)


@settings(max_examples=200, deadline=None)
@given(
    modules=st.lists(MODULES, max_size=8),
    files=st.lists(FILES, max_size=8),
    signs=st.lists(SIGNS, max_size=2),
)
def test_the_starter_finds_what_it_announces(
    modules: list[ScannedModule], files: list[str], signs: list[Sign]
) -> None:
    """The text is a configuration without mistakes, and discovery gives exactly the announced names.

    No stack gets an empty state if anything shows that its state may be elsewhere.
    """
    by_folder = {module.folder: module for module in modules}
    code = {f"{folder}/main.tf".removeprefix("./") for folder in by_folder}
    scan = RepositoryScan(
        name="repository",
        files=frozenset((*code, *files)),
        modules=by_folder,
        variables_files={path: VariablesFile(path=path) for path in files},
        signs=tuple(signs),
    )
    made = starter_from_scan(scan)
    config = parse(made.text, file="holdfast.yaml", root=Path("/r"), path=Path("/r/holdfast.yaml"))
    stacks = discover(
        config,
        files=ListedTree(scan.files),
        read_values=lambda _: {},
        code_backend=lambda stack: by_folder[stack.module].backend,
    )
    assert tuple(stack.name for stack in stacks) == made.stacks
    assert not set(made.stacks) & set(made.held_back)
    backends = [module.backend for module in by_folder.values() if module.backend is not None]
    elsewhere = any(sign.kind <= SignKind.TOOL for sign in signs) or any(b.type != "local" for b in backends)
    for stack in stacks:
        module = by_folder[stack.module]
        doubtful = elsewhere or module.locked or bool(module.required)
        assert module.backend is not None or not doubtful
