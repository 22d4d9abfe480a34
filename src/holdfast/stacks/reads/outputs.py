"""Which outputs of other stacks a stack reads, by its `inputs` and with `terraform_remote_state`."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.hcl.eval.code import Code
from holdfast.stacks.reads.remote_states import Outputs, used_outputs
from holdfast.stacks.stack import Stack


def outputs_read(code: Code, stack: Stack) -> Mapping[str, Outputs]:
    """For each stack that it depends on: the names of the outputs it reads.

    None is all of them, also where the code does not say which: a plain `depends_on`, or a computed name.
    """
    named = named_outputs(code, stack)
    return {other: named.get(other) for other in stack.depends_on}


def named_outputs(code: Code, stack: Stack) -> Mapping[str, Outputs]:
    """The same without stacks that it depends on for another reason than their outputs."""
    read: dict[str, Outputs] = {}
    for derived in stack.derived:
        before = read.get(derived.stack, frozenset())
        outputs = (
            frozenset({derived.output})
            if derived.output is not None
            else used_outputs(code, derived.module or stack.module, derived.name)
        )
        read[derived.stack] = None if before is None or outputs is None else before | outputs
    return read
