"""Inputs of `holdfast check`: files known to Git, readable states, the Git history, Terraform's answers."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from holdfast.changes.repository import Repository
from holdfast.checks.backends.backends import local_state
from holdfast.checks.engine.running import NO_STACKS, NO_STATE, Available
from holdfast.checks.model.contents import Commit, History
from holdfast.checks.model.interface import Finding, Rule
from holdfast.checks.model.subjects import CheckedStack, CheckedState, Checkout, EngineOutput
from holdfast.checks.rules.code.hf901_own_findings import HF908
from holdfast.checks.secrets.git_history import LARGEST, HistoryScanner, versions_by_blob
from holdfast.checks.tools.rego.policies import changes_policies
from holdfast.cli.command import Invocation
from holdfast.hcl.eval.worktree import PathKind
from holdfast.kernel.errors import HoldfastError, UsageError
from holdfast.kernel.text import plural
from holdfast.system.git import Added
from holdfast.terraform.statefile.model import contents_of, read_state


def repository_files(repository: Repository) -> tuple[tuple[str, ...], frozenset[str] | None]:
    """All tracked and untracked files, and the tracked ones; without Git, all files and None.

    A link that leads out of the repository counts as a file, whatever is behind it.
    """
    git, tree = repository.git, repository.code.tree
    if git is None:
        return tuple(sorted({*tree.walk("."), *tree.links_out(".")})), None
    prefix = repository.prefix

    def ours(paths: Sequence[str]) -> frozenset[str]:
        inside = (path.removeprefix(prefix) for path in paths if path.startswith(prefix))
        return frozenset(
            path for path in inside if tree.kind(path) is PathKind.FILE or tree.leads_outside(path)
        )

    tracked = ours(git.tracked())
    return tuple(sorted(tracked | ours(git.untracked()))), tracked


def affects_every_file(repository: Repository, paths: frozenset[str]) -> bool:
    """Whether a path can affect findings in any file: the configuration, a policy, a contract."""
    contracts = (stack.contract.schema for stack in repository.stacks if stack.contract is not None)
    deciding = {repository.config.file.name, *map(posixpath.normpath, contracts)}
    return any(path in deciding or changes_policies(path) for path in paths)


def git_failure(repository: Repository) -> Iterator[tuple[Rule, Finding]]:
    """A finding if there is a `.git` that Git cannot read: tracked files are then unknown."""
    root = repository.config.root.resolve()
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
    if repository.git is None and top is not None:
        finding = Finding(
            message="Git cannot read this working tree, so the tracked files are unknown",
            hint="`git status` shows why. In a container it is often the owner of the files: "
            f"git config --global --add safe.directory {top}",
        )
        yield HF908, finding


def git_history(repository: Repository, checkout: Checkout) -> Available[History]:
    """Every path and every file version in the Git history, each version read once."""
    git = repository.git
    if git is None:
        raise UsageError(
            "HF-CHECK-5",
            f"--history needs a Git working tree, and {repository.config.root} is not in one",
            hint="Leave out --history, or run it in a Git clone.",
        )
    prefix = repository.prefix
    commits = tuple(_commit(added, prefix) for added in git.added())
    shallow = git.shallow()
    scanner, wanted = HistoryScanner(), versions_by_blob(commits)
    for blob in git.blobs(tuple(wanted), largest=LARGEST):
        scanner.scan(wanted[blob.id], blob.content, blob.why_not)
    history = History(
        checkout=checkout,
        commits=commits,
        shallow=shallow,
        traces=tuple(scanner.traces),
        unread=tuple(scanner.unread),
    )
    unseen = "this clone is shallow: older commits were not checked" if shallow else None
    return Available(items=(history,), missing=unseen)


def _commit(added: Added, prefix: str) -> Commit:
    """The part of a commit below our root."""
    return Commit(
        id=added.commit,
        date=added.date,
        paths=tuple(path.removeprefix(prefix) for path in added.paths if path.startswith(prefix)),
        blobs=tuple(
            (path.removeprefix(prefix), blob) for path, blob in added.blobs if path.startswith(prefix)
        ),
    )


def readable_states(
    repository: Repository, checkout: Checkout, rules: Sequence[Rule]
) -> Available[CheckedState]:
    """Local state files and managed states in a folder. Other backends are not read."""
    if not any(rule.state is not None for rule in rules) or not checkout.stacks:
        return Available()
    states: list[CheckedState] = []
    troubles: dict[str, None] = {}
    for stack in checkout.stacks:
        try:
            data = _state(repository, stack)
        except HoldfastError as error:
            troubles[f"{error.problem.code} {error.problem.message}"] = None
            continue
        if data is not None:
            file = read_state(data)
            states.append(CheckedState(stack=stack, contents=contents_of(file), file=file))
    missing = len(checkout.stacks) - len(states)
    what = "; ".join((f"{NO_STATE} for {missing} of {plural(len(checkout.stacks), 'stack')}", *troubles))
    return Available(items=tuple(states), missing=what if missing else None)


def _state(repository: Repository, stack: CheckedStack) -> bytes | None:
    path = local_state(stack)
    if path is not None:
        return stack.checkout.content(path)
    if stack.backend.type != "holdfast" or repository.config.store.startswith("s3://"):
        return None
    version = None if repository.store.empty else repository.store.states.current(stack.name)
    return version.state if version is not None else None


def engine_answers(invocation: Invocation, checkout: Checkout, *, fix: bool) -> Available[EngineOutput]:
    """`terraform fmt` and `validate` for each stack; with `fix`, the formatted code is written."""
    from holdfast.cli.context import CommandContext
    from holdfast.plans.fmt_validate import run_fmt_validate

    if not checkout.stacks:
        return Available(missing=NO_STACKS) if not checkout.all_stacks else Available()
    answers = CommandContext(invocation).run(
        lambda change_context: run_fmt_validate(change_context, checkout.stacks, fix=fix), storeless=True
    )
    for path in sorted({path for answer in answers for path in answer.fixed}):
        invocation.console.say(f" formatted {path}")
    return Available(items=answers)


def engine_failure(answers: Available[EngineOutput]) -> Iterator[tuple[Rule, Finding]]:
    """A finding if Terraform could not be run: with `--engine`, no answer is not a pass."""
    failed = [answer for answer in answers.items if answer.validate_skipped is not None]
    if failed:
        total = len(answers.items)
        where = f"for {len(failed)} of {total} root modules" if total > 1 else failed[0].folder
        finding = Finding(
            message=f"Terraform could not be run ({where}): {failed[0].validate_skipped}",
            hint="Fix this (details: --verbose), or leave out --engine.",
        )
        yield HF908, finding
