"""Encryption by the program `sops`, for recipients that only it reaches: KMS, Key Vault, PGP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from holdfast.kernel.errors import Failed, Refused, UsageError
from holdfast.plans.context import ChangeContext
from holdfast.secrets import sops
from holdfast.system import clock, files, processes
from holdfast.system.git_branch import GitBranch

RULES: Final = ".sops.yaml"
_SECONDS: Final = 120.0
_MISSING: Final = 127


def encrypt(
    context: ChangeContext,
    branch: GitBranch,
    tip: str | None,
    path: str,
    values: Mapping[str, object],
    old: str | None,
) -> tuple[str | None, str | None]:
    """The new text, None if the old file has the same values for the same recipients; and a note."""
    rules = branch.read(tip, RULES)
    if rules is None:
        raise UsageError(
            "HF-SEAL-6",
            f"{branch.url} has no {RULES} on the branch {branch.branch}, and the bridge has no `age`",
            hint=f"Add `age: [age1…]` to the bridge, or a {RULES} with a rule for {path} to the repository.",
        )
    folder = context.engines.scratch / f"sops-{clock.new_id()}"
    folder.mkdir(mode=0o700)
    files.write(folder / RULES, rules)
    plain = json.dumps(values, ensure_ascii=False).encode()
    kind = ("--input-type", "yaml", "--output-type", "yaml")  # JSON is YAML, too.
    rule = ("--config", str(folder / RULES), "encrypt", "--filename-override", path)
    encrypted = _run(context, folder, *rule, *kind, stdin=plain)
    if encrypted.code != 0:
        raise _failed(path, encrypted)
    text = encrypted.out.decode()
    document = sops.read(text)
    if clear := list(sops.clear_values(document)):
        raise Refused(
            "HF-SEAL-7",
            f"{path}: the rules in {RULES} would leave {', '.join(clear[:3])} unencrypted",
            hint="Use a rule without `encrypted_regex`, `unencrypted_suffix` and the like for this path.",
        )
    if old is None or sops.recipients_of(sops.read(old)) != sops.recipients_of(document):
        return text, None
    opened = _run(
        context, folder, "decrypt", "--input-type", "yaml", "--output-type", "json", stdin=old.encode()
    )
    if opened.code != 0:
        return text, "sops cannot decrypt the old file here, so it was encrypted again without a comparison"
    try:
        same = json.loads(opened.out) == values
    except ValueError:
        same = False
    return (None, None) if same else (text, None)


def _run(context: ChangeContext, folder: Path, *arguments: str, stdin: bytes) -> processes.Finished:
    """With the caller's credentials for KMS and Key Vault, and without Holdfast's own secrets."""
    environment = context.project.environment
    variables = {
        name: value for name, value in environment.variables.items() if not name.startswith("HOLDFAST_")
    }
    finished = processes.run(
        ("sops", *arguments, "/dev/stdin"),
        folder=folder,
        environment=variables,
        seconds=_SECONDS,
        stdin=stdin,
    )
    if finished.code == _MISSING:
        raise UsageError(
            "HF-SEAL-8",
            "a bridge without `age` needs the program `sops`, which is not on PATH",
            hint="Install sops 3.9 or newer, or list age recipients in `bridge.age`, which needs no program.",
        )
    return finished


def _failed(path: str, finished: processes.Finished) -> Failed:
    lines = [line.strip() for line in finished.err.decode(errors="replace").splitlines() if line.strip()]
    return Failed(
        "HF-SEAL-9",
        f"sops could not encrypt {path}: {lines[-1] if lines else f'exit code {finished.code}'}",
        hint=f"Check the rule for this path in {RULES}, and the credentials for its keys.",
    )
