"""A tour in a copy of examples/accounts: select, plan, apply, refuse, recover; then sites by API."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fleet_tour

ROOT = Path(__file__).resolve().parent.parent
HOLDFAST = Path(sys.executable).with_name("holdfast")
REFUSED = 3
TOKEN = "ghp_" + "R7kd2VxQm9LwZt4Yc8NsB3hJf6Pg1UaE5iXo"
"""Not a real token: it only looks like one."""
UNKNOWN = 6
COLOUR = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def styled(text: str, code: str) -> str:
    return f"\033[{code}m{text}\033[0m" if COLOUR else text


class Story:
    """Prints and runs each command, and stops at the first unexpected exit code."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "HOLDFAST_HOME": str(folder.parent / "home"),
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        if os.environ.get("CI", "").strip().lower() not in {"", "0", "false"}:
            # In CI, Holdfast requires a configured key; elsewhere it creates one.
            self.environment.setdefault("HOLDFAST_KEY", base64.b64encode(os.urandom(32)).decode())
        self.number = 0

    def chapter(self, text: str) -> None:
        self.number += 1
        print(f"\n{styled(f'{self.number}. {text}', '1')}", flush=True)

    def holdfast(self, *arguments: str) -> None:
        print(styled(f"   $ holdfast {shlex.join(arguments)}", "36"), flush=True)
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
        """Run a command that must end with this exit code, and return its output."""
        print(styled(f"   $ holdfast {shlex.join(arguments)}", "36"), flush=True)
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
        """Apply, and kill the engine and its children as soon as the marker file exists."""
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
    """All descendants of a process, parents first: an engine must not see its program end."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == parent:
            found.append(int(stat.parent.name))
    return [*found, *(below for child in found for below in children_of(child))]


def crash(story: Story, place: Path) -> None:
    """Kill an apply between creating a resource and recording it, then recover."""
    marker = place / "marks" / "second-has-begun"
    marker.parent.mkdir()
    folder = story.folder / "crash"
    folder.mkdir()
    (folder / "main.tf").write_text(CRASH % marker)
    story.edit(
        "holdfast.yaml", "stacks:\n", "stacks:\n  - { name: crash, module: crash, environment: acme-dev-1 }\n"
    )
    story.killed_apply("crash", marker)
    output = story.stopped("plan", "crash", code=UNKNOWN)
    (folder / "main.tf").write_text(CRASH.replace("sleep 20", "true") % marker)
    run = output.split("runs reconcile ")[1].split()[0]
    print("   The first resource is imported. The second may be created again: it has no lasting effect.")
    story.holdfast("runs", "reconcile", run, "--yes", "--recreate", "terraform_data.second")
    story.holdfast("plan", "crash", "--quiet")


def begin(story: Story, engine: str) -> None:
    """Copy the example, and say what follows."""
    shutil.copytree(ROOT / "examples" / "accounts", story.folder, ignore=shutil.ignore_patterns(".holdfast"))
    if engine:
        config = story.folder / "holdfast.yaml"
        config.write_text(config.read_text().replace("\nengine: {", f"\nengine: {{ use: {engine},"))
    story.git("init", "--quiet")
    story.git("add", "--all")
    story.git("commit", "--quiet", "--message", "The example")

    print(styled("Holdfast in two minutes", "1"))
    print("A repository with one variables file per deployment: Accounts/<account>/<service>/<name>.tfvars.")
    if engine == "tofu":
        print("It runs on OpenTofu only: `tofu` on PATH, or the library, which `make libtofu` builds.")
    else:
        print("It needs no cloud account and no terraform: `make setup` installs it as a library (BUSL-1.1).")
        print("On OpenTofu only: make quickstart ENGINE=tofu")


def main(engine: str = "") -> None:
    """`engine`: `tofu` or `terraform`, if the tour must not use another one."""
    started = time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="holdfast-quickstart-"))
    story = Story(place / "accounts")
    begin(story, engine)

    story.chapter("List the stacks of the repository")
    story.holdfast("stacks")

    story.chapter("Plan some of them, by name, glob or filter (env:, account:, region:, target:)")
    story.holdfast("plan", "acme-dev-1/*")

    story.chapter("Apply all stacks: each is planned, and exactly that plan is applied")
    story.holdfast("apply", "--yes", "--quiet")

    story.chapter("Change a variable and a trust policy. Which stacks are affected?")
    story.edit("Accounts/acme-dev-1/queue/orders.tfvars", "", "\nretention_days = 14\n")
    story.edit("Accounts/acme-prod-2/role/trust-policy.json", "ecs-tasks", "lambda")
    story.holdfast("stacks", "--since", "HEAD")

    story.chapter("Plan only those, save the plans, and apply exactly those plans")
    bundle = str(place / "bundle")
    story.holdfast("plan", "--since", "HEAD", "--out", bundle)
    story.holdfast("apply", "--plan", bundle, "--quiet")

    story.chapter("Plan all stacks again: no changes")
    story.holdfast("plan", "--quiet")

    story.chapter("Put an access token into a variables file: check finds it before anything runs")
    story.edit("Accounts/acme-dev-2/queue/orders.tfvars", "", f'\nbackup_token = "{TOKEN}"\n')
    story.stopped("check", "acme-dev-2/*", code=REFUSED)
    story.git("checkout", "--quiet", "Accounts/acme-dev-2")

    story.chapter("Upgrade a production database, which would replace it: refused, with the reason")
    database = "Accounts/acme-prod-1/database/orders.tfvars"
    story.edit(database, "", 'engine  = "postgres-19"\n')
    saved = str(place / "dangerous")
    story.stopped("plan", "--changed", database, "--out", saved, code=REFUSED)
    print("   If it is intentional, override the denial of that one plan; the audit log records the reason:")
    summary = json.loads((place / "dangerous/acme-prod-1/database/orders/summary.json").read_text())
    reason = "moved to 19, copied before"
    story.holdfast("apply", "--plan", saved, "--override", summary["digest"], "--reason", reason, "--quiet")
    story.holdfast("audit", "show", "--limit", "3")

    if Path("/proc/self/stat").exists():
        story.chapter("Kill the engine during an apply: the outcome is unknown, and reconcile recovers it")
        crash(story, place)

    print(f"\n{styled('The second use: a server that configures sites of Cato and Versa', '1')}")
    print("Both are simulated on this machine; the blueprints are those for the real services.")
    with fleet_tour.serving(place) as fleet:
        fleet_tour.tell(fleet, story.chapter, lambda text: print(text, flush=True))

    print(f"\nThis took {time.monotonic() - started:.0f} seconds. Try next:")
    print(f"  cd {story.folder} && export HOLDFAST_HOME={place / 'home'}")
    print(f"  {HOLDFAST} plan 'env:prod' --destroy      show what a destroy would delete")
    print(f"  {HOLDFAST} doctor                         show which engine runs each stack, and why")
    print(f"  {HOLDFAST} init                           in a repository of your own")
    print("  make demo                                 the server with its sites, which stays for you to try")


if __name__ == "__main__":
    main(*sys.argv[1:2])
