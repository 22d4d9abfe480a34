"""The path of a stack's state if it is in the repository. Pure."""

from __future__ import annotations

import posixpath

from holdfast.checks.model.subjects import CheckedStack
from holdfast.stacks.backend import DEFAULT_WORKSPACE


def local_state(stack: CheckedStack) -> str | None:
    """The file of Terraform's local backend, relative to the root; None for other backends.

    Also None if the path is computed or leads out of the repository.
    """
    backend = stack.backend
    if backend.type != "local":
        return None
    if stack.stack.workspace == DEFAULT_WORKSPACE:
        path = backend.settings.get("path", "terraform.tfstate")
    else:
        folder = backend.settings.get("workspace_dir", "terraform.tfstate.d")
        path = f"{folder}/{stack.stack.workspace}/terraform.tfstate" if isinstance(folder, str) else folder
    if not isinstance(path, str) or path.startswith("/"):
        return None
    found = posixpath.normpath(posixpath.join(stack.stack.module, path))
    return None if found.startswith("../") else found
