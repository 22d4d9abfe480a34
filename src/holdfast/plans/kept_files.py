"""Keeps the files that Terraform writes beside the code: without them, the next plan would create them again.

A `local_file` or an archive below `path.module` is in a work directory, which is private to a machine and is
cleaned. So what an apply wrote there is stored with the stack, and is there again in its next run.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from holdfast.hcl.eval.code import is_auto_loaded, is_code
from holdfast.kernel.errors import HoldfastError
from holdfast.store.kept_files import KeptFiles
from holdfast.store.run_store import RunStore
from holdfast.system.access_rules import ForbiddenFiles
from holdfast.terraform.workdirs.created_files import (
    FileStamps,
    archive_files,
    hash_of_file,
    list_files,
    restore_files,
)
from holdfast.terraform.workdirs.workdir import WorkDirectory

MOST_BYTES = 10_000_000
_PAGE = "docs/work.md, Files that Terraform writes"


def restore_kept_files(store: RunStore, work: WorkDirectory, stack: str) -> KeptFiles:
    """Files of the repository win over kept ones."""
    kept = store.kept_files.of(stack)
    if kept.archive:
        restore_files(work, kept.archive, replace=False)
    return kept


def left_out_note(kept: KeptFiles) -> tuple[str, ...]:
    """For every plan of the stack until an apply writes less."""
    if not kept.left_out:
        return ()
    text = (
        f"the last apply wrote {_some(kept.left_out)} beside the code, too large to be kept: Terraform may "
    )
    return (f"{text}create it again. {_ELSEWHERE}",)


_ELSEWHERE = f"Let it write outside of path.module, or to an artefact store ({_PAGE})."


def keep_files(
    store: RunStore,
    root: Path,
    work: WorkDirectory,
    stack: str,
    *,
    before: FileStamps,
    kept: KeptFiles,
    forbidden: ForbiddenFiles,
) -> tuple[str, ...]:
    """After an apply: store what it wrote and what was kept before and still exists. Returns notes.

    `before` are the files when it began. Nothing here may hide how the apply ended.
    """
    try:
        written = {name for name, _, _ in list_files(work) - before}
        return _keep(store, root, work, stack, written, kept, forbidden)
    except (OSError, HoldfastError) as error:
        return (f"Holdfast could not keep the files that Terraform wrote beside the code: {error}",)


def _keep(
    store: RunStore,
    root: Path,
    work: WorkDirectory,
    stack: str,
    written: set[str],
    kept: KeptFiles,
    forbidden: ForbiddenFiles,
) -> tuple[str, ...]:
    hashes = {name: hash_of_file(work.tree / name) for name in written.union(kept.files)}
    in_repository = {name: hash_of_file(root / name) for name in hashes}
    changed = {name for name in written if in_repository[name] not in {"", hashes[name]}}
    code = {name for name in written - changed if _is_code(name) and not in_repository[name]}
    files = {
        name: content
        for name, content in sorted(hashes.items())
        if content and not in_repository[name] and not _is_code(name)
    }
    notes: list[str] = []
    if changed:
        notes.append(
            f"Terraform changed {_some(changed)}: the next run has the version of the repository again"
        )
    if code:
        notes.append(f"Terraform wrote {_some(code)}: code is never kept for the next run")
    if sum((work.tree / name).stat().st_size for name in files) > MOST_BYTES:
        store.kept_files.write(stack, KeptFiles(left_out=tuple(files)))
        limit = f"Holdfast keeps at most {MOST_BYTES // 1_000_000} MB per stack"
        return (*notes, f"Terraform wrote {_some(files)} beside the code. {limit}. {_ELSEWHERE}")
    if files != kept.files or kept.left_out:
        archive = archive_files(work, files, forbidden) or b""
        store.kept_files.write(stack, KeptFiles(files=files, archive=archive))
        if new := files.keys() - kept.files.keys():
            notes.append(f"kept {_some(new)}, which Terraform wrote beside the code, for the next run")
    return tuple(notes)


def _is_code(name: str) -> bool:
    """What Terraform would load by itself: it was never reviewed. States are kept elsewhere."""
    name = name.rpartition("/")[2]
    return is_code(name) or is_auto_loaded(name) or name.endswith((".tfstate", ".tfstate.backup"))


def _some(names: Iterable[str]) -> str:
    first, *more = sorted(names) or ["nothing"]
    return f"{first} and {len(more)} more" if more else first
