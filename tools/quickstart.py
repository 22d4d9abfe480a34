"""A small story in a temporary copy of examples/accounts: find, plan, apply, be stopped, come back."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOLDFAST = Path(sys.executable).with_name("holdfast")
REFUSED = 3
KEY = "AKIA" + "Q3EXMNP5TRWZ7HJK"
"""Of nobody: only the form is that of a real one."""
UNKNOWN = 6
COLOUR = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def styled(text: str, code: str) -> str:
    return f"\033[{code}m{text}\033[0m" if COLOUR else text


class Story:
    """Tells what it does, does it, and stops at the first thing that is not as it should be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "HOLDFAST_HOME": str(folder.parent / "home"),
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        if os.environ.get("CI", "").strip().lower() not in {"", "0", "false"}:
            # In CI what is kept outlives the machine, so the key has to be given; elsewhere one is made.
            self.environment.setdefault("HOLDFAST_KEY", base64.b64encode(os.urandom(32)).decode())
        self.number = 0

    def chapter(self, text: str) -> None:
        self.number += 1
        print(f"\n{styled(f'{self.number}. {text}', '1')}", flush=True)

    def holdfast(self, *arguments: str) -> None:
        print(styled(f"   $ holdfast {' '.join(arguments)}", "36"), flush=True)
        done = subprocess.run(
            [HOLDFAST, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            sys.exit(f"\nholdfast {' '.join(arguments)} ended with exit code {done.returncode}")

    def stopped(self, *arguments: str, code: int) -> str:
        """A command that must stop with this code; what it said."""
        print(styled(f"   $ holdfast {' '.join(arguments)}", "36"), flush=True)
        done = subprocess.run(
            [HOLDFAST, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        print(done.stdout + done.stderr, end="", flush=True)
        if done.returncode != code:
            sys.exit(f"\nholdfast {' '.join(arguments)} ended with exit code {done.returncode}, not {code}")
        return done.stdout + done.stderr

    def killed_apply(self, stack: str, marker: Path) -> None:
        """Apply, and kill Terraform with everything it started as soon as the marker is there."""
        print(styled(f"   $ holdfast apply {stack} --yes    (and kill -9 in the middle)", "36"), flush=True)
        process = subprocess.Popen(
            [HOLDFAST, "apply", stack, "--yes", "--quiet"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not marker.exists() and process.poll() is None:
            time.sleep(0.05)
        for pid in children_of(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def git(self, *arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=quickstart", "-c", "user.email=quickstart@example.com", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.folder / path
        file.write_text(file.read_text().replace(old, new) if old else file.read_text() + new)
        print(styled(f"   · edited {path}", "2"), flush=True)


CRASH = """
resource "terraform_data" "first" {
  input = "made before the kill"
}

resource "terraform_data" "second" {
  input = terraform_data.first.id

  provisioner "local-exec" {
    command = "touch '%s' && sleep 20"
  }
}
"""


def children_of(parent: int) -> list[int]:
    """Every process below a process, the deepest first."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == parent:
            found.append(int(stat.parent.name))
    return [*(below for child in found for below in children_of(child)), *found]


def crash(story: Story, place: Path) -> None:
    """What nobody else survives: a kill between "created" and "recorded"."""
    marker = place / "second-has-begun"
    folder = story.folder / "crash"
    folder.mkdir()
    (folder / "main.tf").write_text(CRASH % marker)
    story.edit(
        "holdfast.yaml", "stacks:\n", "stacks:\n  - { name: crash, module: crash, environment: acme-dev-1 }\n"
    )
    story.killed_apply("crash", marker)
    said = story.stopped("plan", "crash", code=UNKNOWN)
    (folder / "main.tf").write_text(CRASH.replace("sleep 20", "true") % marker)
    run = said.split("runs reconcile ")[1].split()[0]
    story.holdfast("runs", "reconcile", run, "--yes")
    story.holdfast("plan", "crash", "--quiet")


def main() -> None:
    began = time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="holdfast-quickstart-"))
    story = Story(place / "accounts")
    shutil.copytree(ROOT / "examples" / "accounts", story.folder, ignore=shutil.ignore_patterns(".holdfast"))
    story.git("init", "--quiet")
    story.git("add", "--all")
    story.git("commit", "--quiet", "--message", "The example")

    print(styled("Holdfast in a minute", "1"))
    print("A company keeps one variables file per deployment: Accounts/<account>/<service>/<name>.tfvars.")
    print("No cloud, no terraform program, no database is needed: Terraform comes with the package.")

    story.chapter("Here are the stacks of the repository")
    story.holdfast("stacks")

    story.chapter("Plan some of them, by name or by what they are (env:, account:, region:, target:)")
    story.holdfast("plan", "acme-dev-1/*")

    story.chapter("Apply everything: each stack is planned, and exactly that plan is applied")
    story.holdfast("apply", "--yes", "--quiet")

    story.chapter("Somebody keeps messages longer and trusts another service. What does that touch?")
    story.edit("Accounts/acme-dev-1/queue/orders.tfvars", "", "\nretention_days = 14\n")
    story.edit("Accounts/acme-prod-2/role/trust-policy.json", "ecs-tasks", "lambda")
    story.holdfast("stacks", "--since", "HEAD")

    story.chapter("Plan only those, keep the plans, and apply exactly them")
    bundle = str(place / "bundle")
    story.holdfast("plan", "--since", "HEAD", "--out", bundle)
    story.holdfast("apply", "--plan", bundle, "--quiet")

    story.chapter("Plan everything again: nothing is left to do")
    story.holdfast("plan", "--quiet")

    story.chapter("Somebody writes a key into a variables file: found before anything runs")
    story.edit("Accounts/acme-dev-2/queue/orders.tfvars", "", f'\nbackup_key = "{KEY}"\n')
    story.stopped("check", "acme-dev-2/*", code=REFUSED)
    story.git("checkout", "--quiet", "Accounts/acme-dev-2")

    story.chapter("Another engine for a database in production would replace it: refused, and why")
    database = "Accounts/acme-prod-1/database/orders.tfvars"
    story.edit(database, "", 'engine  = "postgres-19"\n')
    saved = str(place / "dangerous")
    story.stopped("plan", "--changed", database, "--out", saved, code=REFUSED)
    print("   Somebody who means it says so for that one plan, with a reason; the record keeps both:")
    summary = json.loads((place / "dangerous/acme-prod-1/database/orders/summary.json").read_text())
    reason = "moved to 19, copied before"
    story.holdfast("apply", "--plan", saved, "--override", summary["digest"], "--reason", reason, "--quiet")
    story.holdfast("audit", "show", "--limit", "3")

    if Path("/proc/self/stat").exists():
        story.chapter("Something is killed in the middle of an apply. What is known, and the way back")
        crash(story, place)

    print(f"\nAll that took {time.monotonic() - began:.0f} seconds. What to try next:")
    print(f"  cd {story.folder} && export HOLDFAST_HOME={place / 'home'}")
    print(f"  {HOLDFAST} plan 'env:prod' --destroy      see what a tear-down would do")
    print(f"  {HOLDFAST} doctor                         see what would run each stack, and why")
    print(f"  {HOLDFAST} init                           in a repository of your own")


if __name__ == "__main__":
    main()
