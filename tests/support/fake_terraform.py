"""A `terraform` program that says what a test tells it: for answers that no real Terraform gives yet.

It speaks the commands of a run. What it says lies beside it in `plan.json` and `validate.json`; what it was
asked is written to `calls`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_PROGRAM = """#!{python} -IS
import json, os, signal, sys, time
here = os.path.dirname(os.path.realpath(__file__))
words = sys.argv[1:]
with open(os.path.join(here, "calls"), "a") as calls:
    calls.write(json.dumps([words, os.getcwd()]) + "\\n")
def said(name):
    with open(os.path.join(here, name)) as file:
        return file.read()
def hang(deaf=False):
    # Until it is interrupted; a deaf one heeds the second time only.
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    while len(heard) < (2 if deaf else 1):
        time.sleep(0.01)
    sys.exit(1)
hanging = said("hanging").split() if os.path.exists(os.path.join(here, "hanging")) else []
if words[0] in hanging and words[0] != "apply":
    hang()
if os.path.exists(os.path.join(here, "failing.json")):
    failing = json.loads(said("failing.json"))
    asked = sum(json.loads(line)[0][0] == words[0] for line in said("calls").splitlines())
    if words[0] == failing["command"] and asked <= failing["times"]:
        sys.stderr.write(failing["text"])
        sys.exit(1)
if words[0] == "version":
    print(json.dumps({{"terraform_version": "1.99.0"}}))
elif words[0] == "validate":
    answer = said("validate.json")
    print(answer)
    sys.exit(0 if json.loads(answer)["valid"] else 1)
elif words[0] == "plan":
    open("holdfast.tfplan", "w").write("not really a plan")
    sys.exit(2)
elif words[0] == "show":
    print(said("plan.json"))
elif words[0] == "apply" and hanging:
    hook = {{"resource": {{"addr": "lab_object.it"}}, "action": "create"}}
    line = {{"type": "apply_start", "@level": "info", "@message": "", "hook": hook}}
    print(json.dumps(line), flush=True)
    hang(deaf=True)
elif words[0] == "apply":
    print(json.dumps({{"type": "outputs", "@level": "info", "@message": "", "outputs": {{}}}}))
"""


class FakeTerraform:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        program = folder / "terraform"
        program.write_text(_PROGRAM.format(python=sys.executable))
        program.chmod(0o755)
        self.validates(valid=True)
        self.plans()

    def hangs(self, command: str) -> None:
        """In this command it waits for an interrupt; in apply, for the second one."""
        (self.folder / "hanging").write_text(command)

    def fails(self, command: str, text: str, *, times: int) -> None:
        """The first times this command is asked for, it fails with this text."""
        what = {"command": command, "text": text, "times": times}
        (self.folder / "failing.json").write_text(json.dumps(what))

    def validates(self, *, valid: bool, diagnostics: list[dict[str, Any]] | None = None) -> None:
        document = {"format_version": "1.0", "valid": valid, "diagnostics": diagnostics or []}
        (self.folder / "validate.json").write_text(json.dumps(document))

    def plans(
        self,
        *,
        actions: list[str] | None = None,
        reason: str | None = None,
        format_version: str = "1.2",
    ) -> None:
        change = {
            "address": "lab_object.it",
            "mode": "managed",
            "type": "lab_object",
            "name": "it",
            "provider_name": "holdfast.dev/labs/lab",
            "change": {
                "actions": actions or ["create"],
                "before": None,
                "after": {"name": "it"},
                "after_unknown": {},
                "before_sensitive": False,
                "after_sensitive": {},
            },
            **({"action_reason": reason} if reason else {}),
        }
        document = {
            "format_version": format_version,
            "terraform_version": "1.99.0",
            "applyable": True,
            "complete": True,
            "resource_changes": [change],
        }
        (self.folder / "plan.json").write_text(json.dumps(document))

    def calls(self, command: str) -> list[list[str]]:
        """The calls of one command. It must have been called at all, for its version at least."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [words for words, _ in map(json.loads, lines) if words[0] == command]
