"""A small story in a temporary copy of examples/accounts: find, plan, apply, and nothing left to do."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOLDFAST = Path(sys.executable).with_name("holdfast")
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
    story.edit("Accounts/acme-dev-1/queue/orders.tfvars", "", "retention_days = 14\n")
    story.edit("Accounts/acme-prod-2/role/trust-policy.json", "ecs-tasks", "lambda")
    story.holdfast("stacks", "--since", "HEAD")

    story.chapter("Plan only those, keep the plans, and apply exactly them")
    bundle = str(place / "bundle")
    story.holdfast("plan", "--since", "HEAD", "--out", bundle)
    story.holdfast("apply", "--plan", bundle, "--quiet")

    story.chapter("Plan everything again: nothing is left to do")
    story.holdfast("plan", "--quiet")

    print(f"\nAll that took {time.monotonic() - began:.0f} seconds. What to try next:")
    print(f"  cd {story.folder} && export HOLDFAST_HOME={place / 'home'}")
    print(f"  {HOLDFAST} plan 'env:prod' --destroy      see what a tear-down would do")
    print(f"  {HOLDFAST} doctor                         see what would run each stack, and why")
    print(f"  {HOLDFAST} init                           in a repository of your own")


if __name__ == "__main__":
    main()
