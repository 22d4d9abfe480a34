"""What a stack, its code and the configuration require of the engine that runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.config.engine import EnginePin
from holdfast.hcl.eval.code import LOCK_FILE, Code
from holdfast.kernel.errors import UsageError
from holdfast.stacks.generated import code_of
from holdfast.stacks.reads.remote_states import called_folders
from holdfast.stacks.reads.walk import module_instances
from holdfast.stacks.stack import Stack
from holdfast.terraform.engine.selection import EngineRequirement, lock_product

ENCRYPTION = "TF_ENCRYPTION"
"""The variable with OpenTofu's encryption settings; empty, it sets none."""


def engine_requirement(
    repository_code: Code, stack: Stack, pin: EnginePin, caller: Mapping[str, str]
) -> EngineRequirement:
    """`pin` is that of the configuration, `caller` the environment of the caller."""
    _require_encryption_passed(stack, caller)
    code = code_of(repository_code, stack)
    module = code.module(stack.module)
    tofu_reason = next(_tofu_reasons(code, stack, caller), None)
    file = module.terraform_version if tofu_reason is None else module.opentofu_version
    lock = code.content(code.tree.join(stack.module, LOCK_FILE))
    return EngineRequirement(
        stack=stack.name,
        tofu_reason=tofu_reason,
        required=module.required_versions,
        version_file=(file.path, file.version) if file is not None else None,
        lock_product=lock_product(lock) if lock is not None else None,
        stack_pin=stack.engine,
        config_pin=pin,
    )


def _require_encryption_passed(stack: Stack, caller: Mapping[str, str]) -> None:
    """Without the caller's encryption settings, the state would be stored in plain text."""
    if caller.get(ENCRYPTION) and ENCRYPTION not in {*stack.env, *stack.pass_env}:
        raise UsageError(
            "HF-ENG-25",
            f"{stack.name}: {ENCRYPTION} is set where you started Holdfast, but the stack does not get it: "
            "its state would not be encrypted",
            hint=f"Add to holdfast.yaml: pass_env: [{ENCRYPTION}], or env: {{{ENCRYPTION}: {{secret: …}}}}. "
            f'For a stack without encryption: env: {{{ENCRYPTION}: ""}}.',
            place=stack.place,
        )


def _tofu_reasons(code: Code, stack: Stack, caller: Mapping[str, str]) -> Iterator[str]:
    """Terraform would ignore these files and settings, delete resources, or store a state in plain text."""
    yield from code.module(stack.module).tofu
    passed = caller.get(ENCRYPTION) if ENCRYPTION in stack.pass_env else None
    if stack.env.get(ENCRYPTION, passed):
        yield f"{ENCRYPTION} encrypts the state"
    folders, computed = code.once(("called", stack.module), lambda: called_folders(code, stack.module))
    if computed:
        folders = folders.union(instance.folder for instance in module_instances(code, stack))
    for folder in sorted(folders - {stack.module}):
        if (path := code.module(folder).only_tofu_reads) is not None:
            yield f"{path} is an OpenTofu file"
