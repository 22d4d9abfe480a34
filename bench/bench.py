"""Holdfast beside plain Terraform, OpenTofu and Terragrunt: the same stacks, the same machine, in turn.

Prints ratios, and writes them with versions and date to bench/results.md. What is not on the machine is
"not measured". Tools come from PATH, or from bin/, libtofu/ and the mirror in the folder HOLDFAST_TOOLS.

    python bench/bench.py [NAME…] [--rounds N]
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import fleet_bench
import repository
import runs_bench
import server_bench
import warm_bench

HOLDFAST = Path(sys.executable).with_name("holdfast")
HERE = Path(__file__).resolve().parent
NOT_MEASURED = "not measured"

Prepare = Callable[[Path], None]
Work = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Row:
    work: str
    bar: str
    """What the ratio must stay below, or the aim of a figure in seconds."""
    ratio: str
    detail: str
    seconds: tuple[float, float] | None = None
    """Of Holdfast and of the other side."""


class Bench:
    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.place = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
        self.tools = Path(os.environ["HOLDFAST_TOOLS"]) if os.environ.get("HOLDFAST_TOOLS") else None
        places = [*([str(self.tools), str(self.tools / "bin")] if self.tools else []), os.environ["PATH"]]
        self.path = os.pathsep.join(places)
        self.terraform = shutil.which("terraform", path=self.path)
        self.tofu = shutil.which("tofu", path=self.path)
        self.terragrunt = shutil.which("terragrunt", path=self.path)
        libtofu = self.tools / "libtofu" if self.tools and (self.tools / "libtofu").is_dir() else None
        self.has_libtofu = libtofu is not None or importlib.util.find_spec("holdfast_libtofu") is not None
        self.mirror = self.tools / "cli.tfrc" if self.tools and (self.tools / "cli.tfrc").exists() else None
        self.environment = {
            # Neither Terraform's settings nor Python's (such as one that forbids to keep compiled code).
            **{name: value for name, value in os.environ.items() if not name.startswith(("TF_", "PYTHON"))},
            "PATH": self.path,
            **({"PYTHONPATH": str(libtofu)} if libtofu else {}),
            "CHECKPOINT_DISABLE": "1",
            "TF_IN_AUTOMATION": "1",
            **({"TF_CLI_CONFIG_FILE": str(self.mirror)} if self.mirror else {}),
        }
        self.count = 0

    def fresh(self, name: str, prepare: Prepare) -> Path:
        self.count += 1
        folder = self.place / f"{self.count}-{name}"
        folder.mkdir()
        prepare(folder)
        return folder

    def run(self, words: list[str], folder: Path, *, answers: tuple[int, ...] = (0,), **extra: str) -> None:
        done = subprocess.run(
            words,
            cwd=folder,
            env={**self.environment, **extra},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in answers:
            told = f"{done.stdout}\n{done.stderr}"
            sys.exit(f"{' '.join(words)} in {folder} ended with {done.returncode}\n{told}")

    def holdfast(self, folder: Path, *words: str) -> None:
        self.run([str(HOLDFAST), *words], folder, HOLDFAST_HOME=str(self.place / "home"))

    def raw(self, folder: Path, script: str) -> None:
        """Two at a time, as a careful person would with a shell."""
        stacks = "\n".join(str(path) for path in sorted((folder / "stacks").iterdir()))
        command = ["xargs", "-P2", "-I{}", "sh", "-c", f"cd {{}} && {script}"]
        done = subprocess.run(
            command, input=stacks, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{script} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")

    def side_by_side(self, ours: Callable[[], Work], theirs: Callable[[], Work]) -> tuple[float, float]:
        """The medians of rounds taken in turn, so that a noisy minute hits both."""
        mine, other = [], []
        for _ in range(self.rounds):
            other.append(timed(theirs()))
            mine.append(timed(ours()))
        return statistics.median(mine), statistics.median(other)


def timed(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def own_cpu(words: list[str], folder: Path, environment: dict[str, str]) -> tuple[float, float]:
    """The CPU seconds of a command: of its own process, and of the processes that it started.

    A process that has ended and is not yet waited for still has its figures.
    """
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    if process.returncode:
        sys.exit(f"{' '.join(words)} in {folder} ended with {process.returncode}")
    user, system, children_user, children_system = (int(field) for field in fields[11:15])
    ticks = os.sysconf("SC_CLK_TCK")
    return (user + system) / ticks, (children_user + children_system) / ticks


DATA = 'resource "terraform_data" "d" {\n  count = 5\n  input = "${count.index}-stack"\n}\n'
PROVIDERS = """terraform {
  required_providers {
    random = { source = "hashicorp/random" }
    time   = { source = "hashicorp/time" }
    null   = { source = "hashicorp/null" }
    local  = { source = "hashicorp/local" }
  }
}
resource "random_pet" "p" {}
resource "time_static" "t" {}
resource "null_resource" "n" {}
resource "local_file" "f" {
  content  = random_pet.p.id
  filename = "${path.module}/out.txt"
}
"""
LIFE = (
    "terraform init -input=false -no-color && terraform plan -input=false -no-color -out=p"
    " && terraform show -json p > show.json && terraform apply -input=false -no-color p"
)


def stacks_of(count: int, code: str, *, use: str = "terraform") -> Prepare:
    def prepare(folder: Path) -> None:
        for number in range(count):
            stack = folder / "stacks" / f"s{number:02}"
            stack.mkdir(parents=True)
            (stack / "main.tf").write_text(code)
        (folder / "holdfast.yaml").write_text(
            "version: 1\nenvironments: { dev: { match: [dev] } }\n"
            'stacks: [{ folder: "stacks/{name}", environment: dev }]\n'
            f"engine: {{ use: {use} }}\n"
        )

    return prepare


def terragrunt_of(count: int, code: str) -> Prepare:
    def prepare(folder: Path) -> None:
        stacks_of(count, code)(folder)
        for stack in (folder / "stacks").iterdir():
            (stack / "terragrunt.hcl").write_text("")

    return prepare


def against_raw(bench: Bench, name: str, code: str, count: int, bar: str, *, use: str = "terraform") -> Row:
    """Against OpenTofu where Holdfast uses that, otherwise against Terraform."""
    raw = "tofu" if use == "tofu" else "terraform"
    missing = [raw] if getattr(bench, raw) is None else []
    missing += ["OpenTofu library"] if use == "tofu" and not bench.has_libtofu else []
    if missing:
        why = f"no {' and no '.join(missing)} on this machine"
        return Row(work=name, bar=bar, ratio=NOT_MEASURED, detail=why)

    def ours() -> Work:
        folder = bench.fresh("ours", stacks_of(count, code, use=use))
        return lambda: bench.holdfast(folder, "apply", "--yes", "--quiet")

    def theirs() -> Work:
        folder = bench.fresh("raw", stacks_of(count, code))
        return lambda: bench.raw(folder, LIFE.replace("terraform", raw))

    return row(name, bar, *bench.side_by_side(ours, theirs))


def against_terragrunt(bench: Bench, name: str, code: str, count: int, bar: str) -> Row:
    if bench.terragrunt is None or bench.terraform is None:
        return Row(work=name, bar=bar, ratio=NOT_MEASURED, detail="no terragrunt on this machine")

    def ours() -> Work:
        folder = bench.fresh("ours", stacks_of(count, code))
        return lambda: bench.holdfast(folder, "apply", "--yes", "--quiet")

    def theirs() -> Work:
        folder = bench.fresh("terragrunt", terragrunt_of(count, code))
        words = ["terragrunt", "run", "--all", "apply", "--non-interactive", "--parallelism", "2"]
        return lambda: bench.run(words, folder / "stacks", TG_TF_PATH=str(bench.terraform))

    return row(name, bar, *bench.side_by_side(ours, theirs))


def second_plan(bench: Bench, name: str, bar: str) -> Row:
    if bench.terraform is None:
        return Row(work=name, bar=bar, ratio=NOT_MEASURED, detail="no terraform on this machine")
    mine = bench.fresh("ours", stacks_of(40, DATA))
    bench.holdfast(mine, "apply", "--yes", "--quiet")
    other = bench.fresh("raw", stacks_of(40, DATA))
    bench.raw(other, LIFE)
    again = "terraform plan -input=false -no-color -out=p && terraform show -json p > show.json"
    return row(
        name,
        bar,
        *bench.side_by_side(
            lambda: lambda: bench.holdfast(mine, "plan", "--quiet"), lambda: lambda: bench.raw(other, again)
        ),
    )


def drift(bench: Bench, name: str, code: str, count: int, bar: str) -> Row:
    """A check of stacks in which nothing changed, against a refresh-only plan of each."""
    if bench.terraform is None:
        return Row(work=name, bar=bar, ratio=NOT_MEASURED, detail="no terraform on this machine")
    mine = bench.fresh("ours", stacks_of(count, code))
    bench.holdfast(mine, "apply", "--yes", "--quiet")
    other = bench.fresh("raw", stacks_of(count, code))
    bench.raw(other, LIFE)
    # With some providers the exit code is 2 although it says that nothing differs.
    again = "{ terraform plan -refresh-only -detailed-exitcode -input=false -no-color || [ $? = 2 ]; }"
    return row(
        name,
        bar,
        *bench.side_by_side(
            lambda: lambda: bench.holdfast(mine, "drift", "--quiet"), lambda: lambda: bench.raw(other, again)
        ),
    )


def cpu(bench: Bench, name: str, bar: str) -> Row:
    """The CPU seconds of Holdfast's own process for 40 stacks; its workers are Terraform and their part."""
    if not Path("/proc/self/stat").exists():
        return Row(work=name, bar=bar, ratio=NOT_MEASURED, detail="needs /proc")
    figures = []
    for _ in range(bench.rounds + 1):
        folder = bench.fresh("cpu", stacks_of(40, DATA))
        environment = {**bench.environment, "HOLDFAST_HOME": str(bench.place / "home")}
        figures.append(own_cpu([str(HOLDFAST), "apply", "--yes", "--quiet"], folder, environment))
    # The first round creates the key and asks the engines for their versions.
    own, workers = (statistics.median(column) for column in zip(*figures[1:], strict=True))
    return Row(
        work=name, bar=bar, ratio=f"{own:.2f} s", detail=f"the workers, with Terraform: {workers:.2f} s"
    )


FIRST_COMMAND = """
import os, sys, time
from holdfast.__main__ import main
from holdfast.terraform.engine.worker_client import WorkerClient

async def run(self, *_, **__):
    print(time.time() - float(os.environ["HOLDFAST_BENCH_START"]), flush=True)
    self._child.kill_group()
    os._exit(0)

WorkerClient.run = run
sys.argv[1:] = ["apply", "--yes", "--quiet"]
main()
"""


def first_command(bench: Bench, name: str, bar: str) -> Row:
    """From the start of `holdfast apply` until the first Terraform command is handed to a worker."""
    seconds = []
    for _ in range(2 * bench.rounds + 1):
        folder = bench.fresh("first", stacks_of(40, DATA))
        started = subprocess.run(
            [sys.executable, "-c", FIRST_COMMAND],
            cwd=folder,
            env={
                **bench.environment,
                "HOLDFAST_HOME": str(bench.place / "home"),
                "HOLDFAST_BENCH_START": str(time.time()),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        seconds.append(float(started.stdout))
    median = statistics.median(seconds[1:])
    return Row(work=name, bar=bar, ratio=f"{median:.2f} s", detail=f"fastest {min(seconds):.2f} s")


def many_files(bench: Bench, name: str, bar: str) -> Row:
    """`holdfast stacks` on 2,000 variables files, against a loop that reads and parses them."""

    def prepare(folder: Path) -> None:
        (folder / "main.tf").write_text('variable "account" {}\nvariable "name" {}\n')
        for number in range(2000):
            file = folder / "Accounts" / f"a{number % 50:02}" / f"s{number % 20:02}" / f"n{number:04}.tfvars"
            file.parent.mkdir(parents=True, exist_ok=True)
            text = f'account = "a{number % 50}"\nname = "n{number}"\nenvironment = "dev"\nsize = {number}\n'
            file.write_text(text + 'tags = { team = "x", cost = "y" }\n')
        (folder / "holdfast.yaml").write_text(
            "version: 1\nenvironments: { dev: { match: [dev] } }\nstacks:\n"
            '  - variables: "Accounts/{account}/{service}/{name}.tfvars"\n'
            '    environment: "{var.environment}"\n'
        )

    folder = bench.fresh("many", prepare)
    loop = (
        "import pathlib, sys\nfrom holdfast.hcl.reader import read, values\n"
        "for file in pathlib.Path('Accounts').rglob('*.tfvars'):\n"
        "    values(read(file.read_bytes(), str(file)))\n"
    )
    start = statistics.median(
        timed(lambda: bench.run([sys.executable, "-c", "pass"], folder)) for _ in range(5)
    )
    mine, other = bench.side_by_side(
        lambda: lambda: bench.holdfast(folder, "stacks", "--quiet"),
        lambda: lambda: bench.run([sys.executable, "-c", loop], folder),
    )
    return row(name, bar, mine - start, other - start)


CHECKED = """
variable "name_{n}" {{
  type        = string
  description = "What the bucket of part {n} is called."
}}

resource "aws_s3_bucket" "b{n}" {{
  bucket = "acme-${{var.name_{n}}}-{n}"
  tags   = {{ team = "part-{n}", cost = "shared", environment = "dev" }}
}}

resource "aws_security_group" "g{n}" {{
  name        = "group-{n}"
  description = "Allows part {n} to be reached from the inside, and to reach its database."
  ingress {{
    from_port   = 443
    to_port     = 443
    protocol    = "tcp"
    cidr_blocks = ["10.0.{m}.0/24"]
  }}
  egress {{
    from_port   = 5432
    to_port     = 5432
    protocol    = "tcp"
    cidr_blocks = ["10.1.{m}.0/24"]
  }}
}}

resource "aws_iam_role" "r{n}" {{
  name = "role-{n}"
{trust}}}

output "bucket_{n}" {{
  description = "The bucket of part {n}."
  value       = aws_s3_bucket.b{n}.arn
}}
"""


def checks(bench: Bench, name: str, bar: str) -> Row:
    """500 files, 1.7 MB, in 25 modules; no rule that needs Terraform. Checkov without its downloads."""
    checkov = shutil.which("checkov", path=bench.path)
    if checkov is None:
        return Row(work=name, bar=bar, ratio=NOT_MEASURED, detail="no checkov on this machine")

    def prepare(folder: Path) -> None:
        (folder / "holdfast.yaml").write_text(
            "version: 1\nenvironments: { dev: { match: [dev] } }\n"
            'stacks: [{ folder: "live/{name}", environment: dev }]\n'
        )
        for number in range(500):
            file = folder / "live" / f"m{number % 25:02}" / f"part{number:03}.tf"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(
                "".join(CHECKED.format(n=f"{number}_{i}", m=i, trust=repository.TRUST) for i in range(3))
            )

    folder = bench.fresh("checked", prepare)
    size = sum(file.stat().st_size for file in folder.rglob("*.tf"))
    words = [checkov, "-d", ".", "--framework", "terraform", "-o", "json", "--compact", "--skip-download"]

    def ours() -> None:
        # Without Checkov on its PATH: where it is found, `holdfast check` runs it too.
        own = os.environ["PATH"]
        bench.run([str(HOLDFAST), "check", "--quiet", "--json"], folder, answers=(0, 3), PATH=own)

    def theirs() -> None:
        bench.run(words, folder, answers=(0, 1))

    mine, other = bench.side_by_side(lambda: ours, lambda: theirs)
    return row(f"{name} (500 files, {size / 1e6:.1f} MB)", bar, mine, other)


def measured(words: list[str], folder: Path, environment: dict[str, str]) -> tuple[float, float]:
    """The CPU seconds of a command with what it started, and the most memory of its process in MB."""
    process = subprocess.Popen(
        words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 3):
        sys.exit(f"{' '.join(words)} in {folder} ended with {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def large_repository(bench: Bench, *, words: tuple[str, ...], what: str, bar: str) -> Row:
    """`what`: the memory for 4,000 files, or how much more CPU time these take than 1,000."""
    (few, small), (many, large) = (figures(bench, words, files) for files in (1000, 4000))
    detail = f"{many:.1f} s of CPU against {few:.1f} s; {large:.0f} MB against {small:.0f} MB for 1,000 files"
    name = f"`holdfast {words[0]}` on a repository of 4,000 files: {what}"
    ratio = f"{large:.0f} MB" if what == "memory" else f"{many / few:.1f}"
    return Row(work=name, bar=bar, ratio=ratio, detail=detail)


@functools.cache
def figures(bench: Bench, words: tuple[str, ...], files: int) -> tuple[float, ...]:
    folder = bench.fresh(f"files-{files}", lambda folder: repository.write(folder, files))
    # Without Checkov on its PATH: where it is found, `holdfast check` runs it too.
    environment = {
        **bench.environment,
        "HOLDFAST_HOME": str(bench.place / "home"),
        "PATH": os.environ["PATH"],
    }
    rounds = [measured([str(HOLDFAST), *words], folder, environment) for _ in range(bench.rounds)]
    return tuple(statistics.median(column) for column in zip(*rounds, strict=True))


def version_start(bench: Bench, name: str, bar: str) -> Row:
    rounds, bench.rounds = bench.rounds, 15
    mine, other = bench.side_by_side(
        lambda: lambda: bench.holdfast(bench.place, "--version"),
        lambda: lambda: bench.run([sys.executable, "-c", "pass"], bench.place),
    )
    bench.rounds = rounds
    return row(name, bar, mine, other)


def row(work: str, bar: str, mine: float, other: float) -> Row:
    detail = f"{mine:.2f} s against {other:.2f} s"
    return Row(work=work, bar=bar, ratio=f"{mine / other:.2f}", detail=detail, seconds=(mine, other))


def guard_on_a_large_plan(bench: Bench, *, what: str, words: tuple[str, ...], bar: str) -> Row:
    """One of the two figures that `bench/guard.py` prints, in a process of its own."""
    del bench
    name = f"guard on a plan of 100 MB{', everything deleted' if words else ''}: {what}"
    done = subprocess.run(
        [sys.executable, HERE / "guard.py", *words], capture_output=True, text=True, check=False
    )
    line = next((one for one in done.stdout.splitlines() if one.startswith(f"{what}:")), None)
    if line is None:
        sys.exit(f"bench/guard.py ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    ratio, _, rest = line.partition(":")[2].strip().partition(" ")
    return Row(work=name, bar=bar, ratio=ratio, detail=rest.strip("()").split(";")[0])


def server_apply(bench: Bench, name: str, bar: str) -> Row:
    program = bench.terraform or bench.tofu
    if program is None:
        return Row(work=name, bar=bar, ratio=NOT_MEASURED, detail="no terraform and no tofu on this machine")
    return row(name, bar, *server_bench.terraform_apply(bench, program))


def server_rate(bench: Bench, method: str, bar: str) -> Row:
    ours, bare = server_bench.large_states(bench)[method]
    name = f"server: rate of {method} of a state of 1 MB, against a bare server"
    detail = f"{ours:.0f} against {bare:.0f} in a second"
    return Row(work=name, bar=bar, ratio=f"{ours / bare:.2f}", detail=detail)


def server_clients(bench: Bench, name: str, bar: str) -> Row:
    """An error ends the program."""
    rate = server_bench.many_clients(bench)
    return Row(work=name, bar=bar, ratio="no error", detail=f"{rate:.0f} requests in a second")


def server_idle(bench: Bench, name: str, bar: str) -> Row:
    first, later, own, database = server_bench.idle(bench)
    seconds = f"{later:.2f} s, the first time {first:.2f} s"
    detail = f"{own:.0f} MB, and PostgreSQL {database:.0f} MB"
    return Row(work=name, bar=bar, ratio=seconds, detail=detail)


def fleet_call(bench: Bench, name: str, bar: str) -> Row:
    found = fleet_bench.calls(bench)
    detail = (
        f"{1000 * found.median:.0f} ms (99 of 100: {1000 * found.slowest:.0f} ms) "
        f"against {1000 * found.bare:.0f} ms in a warm process"
    )
    return Row(work=name, bar=bar, ratio=f"{found.median / found.bare:.2f}", detail=detail)


def fleet_creations(bench: Bench, name: str, bar: str, *, warm: bool) -> Row:
    if bench.terraform is None:
        return Row(work=name, bar=bar, ratio=NOT_MEASURED, detail="no terraform")
    ours, raw, two = fleet_bench.creations(bench, warm=warm)
    detail = f"{ours:.1f} devices in a second against {raw:.2f}; against two loops at once, {two:.2f}"
    return Row(work=name, bar=bar, ratio=f"{ours / raw:.1f}", detail=detail)


def fleet_idle(bench: Bench, name: str, bar: str) -> Row:
    size, share = fleet_bench.idle(bench)
    detail = f"{size / 1000:.1f} kB each in the database, {100 * share:.1f} % of a core"
    return Row(work=name, bar=bar, ratio=f"{size * 10_000 / 1e6:.0f} MB", detail=detail)


def runs_pickup(bench: Bench, name: str, bar: str) -> Row:
    own, bare, size = runs_bench.pickup(bench, stacks_of(1, DATA))
    other = "not installed" if bare is None else f"{bare:.1f} ms"
    ratio = NOT_MEASURED if bare is None else f"{own - bare:.1f} ms"
    detail = f"{own:.1f} ms against {other}; {size / 1000:.0f} kB in the database for a plan of a small stack"
    return Row(work=name, bar=bar, ratio=ratio, detail=detail)


CHECK = ("check", "--quiet", "--json")
INIT = ("init", "--force", "--quiet")
ROWS: dict[str, Callable[[Bench], Row]] = {
    "data": lambda b: against_raw(
        b, "40 stacks × 5 terraform_data, embedded, against raw", DATA, 40, "≤ 0.4"
    ),
    "data-terragrunt": lambda b: against_terragrunt(b, "the same against Terragrunt", DATA, 40, "≤ 0.6"),
    "drift": lambda b: drift(
        b,
        "drift of 200 unchanged stacks × 5 terraform_data, against raw refresh-only plans",
        DATA,
        200,
        "≤ 0.4",
    ),
    "drift-providers": lambda b: with_mirror(
        b,
        lambda: drift(
            b,
            "drift of 40 unchanged stacks × 4 providers, against raw refresh-only plans",
            PROVIDERS,
            40,
            "≤ 0.4",
        ),
    ),
    "data-binary": lambda b: against_raw(
        b, "the same with the binary engine, against raw", DATA, 40, "≤ 1.1", use="binary"
    ),
    "data-tofu": lambda b: against_raw(
        b, "40 stacks × 5 terraform_data, embedded OpenTofu, against raw tofu", DATA, 40, "≤ 0.4", use="tofu"
    ),
    "providers": lambda b: with_mirror(
        b, lambda: against_raw(b, "20 stacks × 4 providers, embedded, against raw", PROVIDERS, 20, "≤ 0.4")
    ),
    "providers-terragrunt": lambda b: with_mirror(
        b, lambda: against_terragrunt(b, "the same against Terragrunt", PROVIDERS, 20, "≤ 0.5")
    ),
    "providers-binary": lambda b: with_mirror(
        b,
        lambda: against_raw(
            b, "the same with the binary engine, against raw", PROVIDERS, 20, "≤ 0.7", use="binary"
        ),
    ),
    "providers-tofu": lambda b: with_mirror(
        b,
        lambda: against_raw(
            b,
            "20 stacks × 4 providers, embedded OpenTofu, against raw tofu",
            PROVIDERS,
            20,
            "≤ 0.25",
            use="tofu",
        ),
    ),
    "warm-cold": lambda b: row(
        "40 stacks with a slow provider, warm providers, against without",
        "≤ 0.5",
        *warm_bench.against_cold(b),
    ),
    "warm-raw": lambda b: warm_against_raw(b, "the same against raw init and apply", "≤ 0.2"),
    "cpu": lambda b: cpu(b, "CPU of Holdfast's own process for the 40 stacks", "aim 0.5 s"),
    "first-command": lambda b: first_command(
        b, "from the start to the first Terraform command", "aim 0.18 s"
    ),
    "second-plan": lambda b: second_plan(b, "second plan of 40 unchanged stacks", "≤ 0.5"),
    "stacks": lambda b: many_files(
        b, "`holdfast stacks` on 2,000 variables files, against a bare loop", "≤ 3"
    ),
    "checks": lambda b: checks(b, "`holdfast check` against Checkov", "≤ 0.1"),
    "check-memory": lambda b: large_repository(b, words=CHECK, what="memory", bar="≤ 350 MB"),
    "check-growth": lambda b: large_repository(b, words=CHECK, what="time against 1,000 files", bar="≤ 4.6"),
    "init-memory": lambda b: large_repository(b, words=INIT, what="memory", bar="≤ 350 MB"),
    "init-growth": lambda b: large_repository(b, words=INIT, what="time against 1,000 files", bar="≤ 4.6"),
    "guard-time": lambda b: guard_on_a_large_plan(b, what="time", words=(), bar="≤ 2"),
    "guard-worst": lambda b: guard_on_a_large_plan(b, what="time", words=("--destroy",), bar="≤ 2"),
    "guard-memory": lambda b: guard_on_a_large_plan(b, what="memory", words=(), bar="≤ 5"),
    "server-apply": lambda b: server_apply(
        b, "server: `terraform apply` of 100 terraform_data, against a local state", "≤ 1.15"
    ),
    "server-store": lambda b: row(
        "server: `holdfast apply` of the same, against a folder as run store",
        "≤ 1.15",
        *server_bench.holdfast_apply(b),
    ),
    "server-get": lambda b: server_rate(b, "GET", "≥ 0.5"),
    "server-post": lambda b: server_rate(b, "POST", "≥ 0.5"),
    "server-clients": lambda b: server_clients(b, "server: 50 clients at once", "no error"),
    "server-idle": lambda b: server_idle(b, "server: from the start until it is ready; memory", "reported"),
    "runs-hundred": lambda b: row(
        "server: `holdfast apply` of 100 small stacks on two workers, against the command line alone",
        "≤ 1.3",
        *runs_bench.hundred(b, stacks_of(100, DATA)),
    ),
    "runs-second-plan": lambda b: row(
        "server: second plan of a small stack on a warm worker, against `holdfast plan`",
        "≤ 0.5",
        *runs_bench.second_plan(b, stacks_of(1, DATA)),
    ),
    "runs-pickup": lambda b: runs_pickup(
        b, "server: until a worker begins a run, above bare Procrastinate", "≤ 20 ms"
    ),
    "fleet-call": lambda b: fleet_call(
        b, "fleet: a call that creates a device and returns its outputs, against plan and apply", "≤ 3"
    ),
    "fleet-warm": lambda b: fleet_creations(
        b,
        "fleet: 1,000 devices on two workers, warm providers, against a loop of raw Terraform",
        "≥ 5",
        warm=True,
    ),
    "fleet-cold": lambda b: fleet_creations(
        b, "fleet: the same without warm providers", "reported", warm=False
    ),
    "fleet-idle": lambda b: fleet_idle(b, "fleet: 10,000 devices at rest", "reported"),
    "version": lambda b: version_start(b, "`holdfast --version` against `python -c pass`", "≤ 5"),
}


def warm_against_raw(bench: Bench, name: str, bar: str) -> Row:
    if bench.terraform is None:
        return Row(work=name, bar=bar, ratio=NOT_MEASURED, detail="no terraform on this machine")
    return row(name, bar, *warm_bench.against_raw(bench))


def with_mirror(bench: Bench, measure: Callable[[], Row]) -> Row:
    if bench.mirror is None:
        why = "no mirror (HOLDFAST_TOOLS)"
        return Row(work="20 stacks × 4 providers", bar="", ratio=NOT_MEASURED, detail=why)
    return measure()


def said(program: str | None, *words: str) -> str:
    if program is None:
        return NOT_MEASURED
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0].strip() if done.stdout else "?"


def side_by_side(rows: dict[str, Row]) -> list[str]:
    """The seconds of both products, where both were measured."""
    lines = []
    for name, work in (("data", "40 stacks × 5 terraform_data"), ("providers", "20 stacks × 4 providers")):
        both = [rows[name].seconds, rows[f"{name}-tofu"].seconds]
        figures = [f"{seconds:.2f} s" for pair in both if pair is not None for seconds in pair]
        if len(figures) == 2 * len(both):
            lines.append(f"| {work} | {' | '.join(figures)} |")
    head = "| | embedded Terraform | raw terraform | embedded OpenTofu | raw tofu |"
    return ["Both products side by side:", "", head, "|---|---|---|---|---|", *lines, ""] if lines else []


def report(bench: Bench, rows: dict[str, Row]) -> str:
    engines = json.loads(
        subprocess.run(
            [HOLDFAST, "doctor", "--json"],
            capture_output=True,
            text=True,
            cwd=bench.place,
            env={**bench.environment, "HOLDFAST_HOME": str(bench.place / "home")},
            check=False,
        ).stdout
    )
    embedded = ", ".join(
        f"{one['product']} {one['version']}" for one in engines["engines"] if one["kind"] == "embedded"
    )
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    versions = (
        f"raw: {said(bench.terraform, 'version')}, {said(bench.tofu, 'version')}; "
        f"Terragrunt: {said(bench.terragrunt, '--version')}; embedded: {embedded or 'none'}."
    )
    lines = [
        "# Figures",
        "",
        f"Measured {datetime.now(UTC):%Y-%m-%d} on {machine}; medians of {bench.rounds} rounds. {versions}",
        "Holdfast runs as it comes (four stacks at once), the other tools two at a time.",
        "",
        "| work | bar | ratio | seconds |",
        "|---|---|---|---|",
        *(f"| {one.work} | {one.bar} | {one.ratio} | {one.detail} |" for one in rows.values()),
        "",
        *side_by_side(rows),
    ]
    return "\n".join(lines)


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("names", nargs="*", help=f"which: {', '.join(ROWS)}; all without")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if wrong := [name for name in given.names if name not in ROWS]:
        parser.error(f"no such row: {', '.join(wrong)}; there are {', '.join(ROWS)}")
    bench = Bench(given.rounds)
    rows = {}
    try:
        for name in given.names or ROWS:
            rows[name] = one = ROWS[name](bench)
            print(f"{one.work}: {one.ratio} ({one.detail}; bar {one.bar})", flush=True)
        if not given.names:
            (HERE / "results.md").write_text(report(bench, rows))
            print("wrote bench/results.md")
    finally:
        shutil.rmtree(bench.place, ignore_errors=True)


if __name__ == "__main__":
    main()
