"""The guard on a large plan beside a bare parse of the same bytes: time and memory, each as a ratio.

    python bench/guard.py [--megabytes 100] [--rounds 3] [--destroy]

The plan has the proportions of real ones: mostly values, most objects unchanged, some of every kind of
change, and the state before beside them; `--destroy` deletes all of them, the worst that the guard can meet.
Reading and judging by every rule, protected tags included, is set against `msgspec.json.decode`, both without
the garbage collector, which would slow only the latter down. Memory is the most that a process of its own
ever held, the file included, less what it holds with everything imported and nothing read.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from holdfast.config.guard import Budget
from holdfast.guard.decision import Decision
from holdfast.guard.evaluate import evaluate_plan
from holdfast.guard.plan_context import PlanContext
from holdfast.guard.policy import IN_PRODUCTION
from holdfast.terraform.plan.model import read_plan

TIME_BAR, MEMORY_BAR = 2.0, 5.0
_ACTIONS = (
    *(("no-op",),) * 85,
    *(("update",),) * 8,
    *(("create",),) * 4,
    ("delete",),
    ("delete", "create"),
    ("forget",),
)
_POLICY = msgspec.structs.replace(
    IN_PRODUCTION,
    per_stack=Budget(percent=1),
    addresses=("module.db", "*.aws_s3_bucket.*-logs"),
    tags=(("protected", ("true",)),),
    types=("lab_*",),
    max_changes=1000,
)
_CONTEXT = PlanContext(
    stack="prod/all",
    environment="prod",
    production=True,
    now=datetime(2026, 9, 2, tzinfo=UTC),
)


def synthetic_plan(size: int, *, destroy: bool = False) -> bytes:
    """About so many bytes."""
    statement = {
        "Effect": "Allow",
        "Action": ["s3:GetObject", "s3:PutObject"],
        "Resource": "arn:aws:s3:::b/*",
    }
    value = {
        "id": "i-0123456789abcdef0",
        "arn": "arn:aws:ec2:eu-west-1:123456789012:instance/i-0123456789abcdef0",
        "policy": [statement] * 4,
        "tags": {"Name": "one of many", "owner": "platform"},
        "tags_all": {"Name": "one of many", "owner": "platform", "company": "acme"},
        "password": "made-up",
    }
    mask = {"password": True, "policy": [{}] * 4, "tags": {}, "tags_all": {}}
    state = json.dumps({"mode": "managed", "type": "x", "values": value, "sensitive_values": mask})
    one = json.dumps(_change(0, value, mask, destroy=destroy))
    count = size // (len(one) + len(state) + 2)
    changes = ",".join(json.dumps(_change(number, value, mask, destroy=destroy)) for number in range(count))
    states = ",".join([state] * count)
    return (
        '{"format_version":"1.2","terraform_version":"1.15.5","applyable":true,'
        f'"resource_changes":[{changes}],'
        f'"prior_state":{{"values":{{"root_module":{{"resources":[{states}]}}}}}}}}'
    ).encode()


def _change(number: int, value: object, mask: object, *, destroy: bool) -> dict[str, object]:
    actions = ("delete",) if destroy else _ACTIONS[number % len(_ACTIONS)]
    return {
        "address": f'module.region["eu-{number % 7}"].aws_instance.server[{number}]',
        "module_address": f'module.region["eu-{number % 7}"]',
        "mode": "managed",
        "type": "aws_instance" if number % 3 else "aws_security_group_rule",
        "name": "server",
        "index": number,
        "provider_name": "registry.terraform.io/hashicorp/aws",
        "change": {
            "actions": actions,
            "before": value if actions != ("create",) else None,
            "after": value if actions not in {("delete",), ("forget",)} else None,
            "after_unknown": {},
            "before_sensitive": mask,
            "after_sensitive": mask,
        },
    }


def decide(data: bytes) -> Decision:
    return evaluate_plan(read_plan(data), _POLICY, _CONTEXT)


def best(work: Callable[[], object], rounds: int) -> float:
    def once() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return min(once() for _ in range(rounds))


def peak() -> int:
    """The most memory that this process ever held, in bytes.

    What `getrusage` says would begin with what the process that started this one held.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def measured_memory(file: Path) -> int:
    """In a process of its own: reading the file and judging it."""
    held = [
        int(subprocess.run([sys.executable, __file__, *given], capture_output=True, check=True).stdout)
        for given in (("--peak",), ("--peak", str(file)))
    ]
    return held[1] - held[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--destroy", action="store_true")
    parser.add_argument("--peak", nargs="?", const="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak is not None:
        if given.peak:
            decide(Path(given.peak).read_bytes())
        print(peak())
        return 0
    data = synthetic_plan(given.megabytes * 1_000_000, destroy=given.destroy)
    decision = decide(data)
    gc.disable()
    bare = best(lambda: msgspec.json.decode(data), given.rounds)
    ours = best(lambda: decide(data), given.rounds)
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        memory = measured_memory(Path(file.name))
    print(
        f"a plan of {len(data) / 1e6:.0f} MB, {type(decision).__name__} with {len(decision.reasons)} reasons"
    )
    print(f"time:   {ours / bare:.2f} ({ours:.2f} s against {bare:.2f} s of a bare parse; bar {TIME_BAR:g})")
    print(
        f"memory: {memory / len(data):.2f} ({memory / 1e6:.0f} MB against {len(data) / 1e6:.0f} MB of the "
        f"file; bar {MEMORY_BAR:g})"
    )
    return 0 if ours <= TIME_BAR * bare and memory <= MEMORY_BAR * len(data) else 1


if __name__ == "__main__":
    sys.exit(main())
