"""`holdfast keys`: which key is used, and the key for jobs that only plan."""

from __future__ import annotations

import json
import sys

from holdfast.cli.command import Invocation
from holdfast.kernel.errors import Exit, UsageError

HELP = "Show the encryption key, print the plan key."
COMMANDS = ("plan",)


def plan(invocation: Invocation) -> Exit:
    """Print the plan key, for jobs that plan but must not approve or apply.

    Set it as HOLDFAST_PLAN_KEY. It reads everything in the run store, writes bundles that it cannot open, and
    signs nothing. It is printed to standard output and nowhere else: pass it on to your secret store.
    """
    from holdfast.secrets.encryption import apply_key_needed
    from holdfast.secrets.keys import load_key

    loaded = load_key(invocation.environment)
    if loaded is None:
        raise UsageError(
            "HF-KEY-12",
            "there is no key yet",
            hint="Set HOLDFAST_KEY (create one with: openssl rand -base64 32), then print its plan key.",
        )
    if not loaded.key.can_apply:
        raise apply_key_needed("printing the plan key")
    text = loaded.key.plan_key()
    # Not through the console: it masks whatever looks like a secret.
    if invocation.as_json:
        text = json.dumps({"version": 1, "key": loaded.key.id, "plan_key": text}, indent=2)
    sys.stdout.write(f"{text}\n")
    return Exit.DONE
