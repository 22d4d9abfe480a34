"""One stack of lab objects, a state that lives where the scenario says, and everything that can be held."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from faults_scenarios import (
    CALLS,
    AtCall,
    AtPlan,
    AtSave,
    Home,
    Operation,
    Point,
    Saving,
    Scenario,
    Victim,
)
from faults_states import CANARY, objects, state_of, there_before
from flaky_s3 import FlakyS3, LateAnswer, LateArrival
from lab_stacks import lab_module, left_behind
from program import Program, eventually
from state_server import Held, StateServer

from provider.service import Fault, LabService

STACK = "a"
_FOR_EVER = 600.0
_SIGNED = (
    "AWS4-HMAC-SHA256 Credential=AKIAHOLDFASTTESTS001/20250101/eu-west-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0"
)
"""An owner of objects may look at them; moto asks who it is, and believes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The server behind which a state lives, if there is one."""

    s3: FlakyS3 | None = None
    bucket: str = ""
    http: StateServer | None = None


@contextlib.contextmanager
def places(home: Home) -> Iterator[Places]:
    """The server that a state of this home needs."""
    match home:
        case Home.S3:
            # Servers of one process share what they keep: only the name of the bucket is our own.
            bucket = f"states-{secrets.token_hex(6)}"
            with FlakyS3() as s3:
                s3.make_bucket(bucket)
                yield Places(s3=s3, bucket=bucket)
        case Home.HTTP:
            with StateServer() as server:
                yield Places(http=server)
        case _:
            yield Places()


class World:
    """The repository before and after the change that is killed, and the lab it is about."""

    def __init__(self, scenario: Scenario, program: Program, lab: LabService, at: Places) -> None:
        self.scenario = scenario
        self.program = program
        self.lab = lab
        self.at = at
        program.environment["CANARY"] = CANARY
        if at.s3 is not None:
            program.environment |= {
                name: value for name, value in at.s3.variables.items() if name.startswith("AWS_")
            }

    # What is configured.

    def write(self, *, changed: bool) -> None:
        """The repository before the change, or with it."""
        if not (self.program.folder / "holdfast.yaml").exists():
            self.program.write("holdfast.yaml", json.dumps(self._configuration()))
        self.program.write(
            "a/main.tf", lab_module(self._backend() + objects(self.scenario.operation, changed=changed))
        )

    def _configuration(self) -> dict[str, Any]:
        env: dict[str, Any] = {
            "LAB_URL": self.lab.url,
            "TF_VAR_canary": {"secret": "env:CANARY"},
        }
        if self.at.http is not None:
            address = self.at.http.address(STACK)
            names = ("TF_HTTP_ADDRESS", "TF_HTTP_LOCK_ADDRESS", "TF_HTTP_UNLOCK_ADDRESS")
            env |= {**dict.fromkeys(names, address), "TF_HTTP_RETRY_MAX": "0"}
        return {
            "version": 1,
            "environments": {"dev": {"match": ["dev"]}},
            "stacks": [{"name": STACK, "module": "a", "environment": "dev", "env": env}],
            "engine": {"use": str(self.scenario.engine)},
        }

    def _backend(self) -> str:
        match self.scenario.home:
            case Home.MANAGED:
                return ""
            case Home.LOCAL:
                return 'terraform {\n  backend "local" {}\n}\n'
            case Home.HTTP:
                return 'terraform {\n  backend "http" {}\n}\n'
            case Home.S3:
                return (
                    'terraform {\n  backend "s3" {\n'
                    f'    bucket = "{self.at.bucket}"\n    key = "{STACK}/terraform.tfstate"\n'
                    "    use_lockfile = true\n    use_path_style = true\n"
                    "    skip_credentials_validation = true\n    skip_region_validation = true\n"
                    "    skip_requesting_account_id = true\n    skip_metadata_api_check = true\n"
                    "  }\n}\n"
                )

    # What must be true in the end.

    @property
    def wanted(self) -> set[str]:
        """The names of the objects that the changed configuration asks for."""
        match self.scenario.operation:
            case Operation.FIRST:
                return {"x", "y"}
            case Operation.DELETE:
                return {"z"}
            case _:
                return {"x", "y", "z"}

    @property
    def creates(self) -> dict[str, int]:
        """How often the change makes an object of each name when it is made once."""
        made = [call.name for call in CALLS[self.scenario.operation] if call.kind == "create"]
        return dict.fromkeys(made, 1)

    # The state, where it lives.

    def seed(self, file: Path) -> bool:
        """Put objects and their state in place without Terraform. True: `file` is still to be pushed."""
        if self.scenario.operation is Operation.FIRST:
            return False
        names = ["z"] if self.scenario.operation is Operation.CREATE else ["x", "y", "z"]
        before = [there_before(name) for name in names]
        for one in before:
            self.lab.put(one["id"], one)
        state = state_of(before, swap=self.scenario.operation is Operation.SWAP)
        if self.at.http is not None:
            self.at.http.versions[STACK] = [state]
        elif self.at.s3 is not None:
            self._s3_object("PUT", state)
        else:
            kept = self.scenario.home is Home.MANAGED
            (file if kept else self.program.folder / "a/terraform.tfstate").write_bytes(state)
        return self.scenario.home is Home.MANAGED

    def recorded(self) -> dict[str, str]:
        """The names of everything that the state knows, by id; deposed objects too."""
        content = self._state()
        return {
            instance["attributes"]["id"]: resource["name"]
            for resource in (json.loads(content)["resources"] if content.strip() else ())
            if resource["mode"] == "managed"
            for instance in resource["instances"]
        }

    def deposed(self) -> set[str]:
        """Ids of old objects that a replacement has yet to take away, as the state knows them."""
        content = self._state()
        return {
            instance["attributes"]["id"]
            for resource in (json.loads(content)["resources"] if content.strip() else ())
            for instance in resource["instances"]
            if instance.get("deposed")
        }

    def _state(self) -> bytes:
        if self.at.http is not None:
            return self.at.http.versions.get(STACK, [b""])[-1]
        if self.at.s3 is not None:
            return self._s3_object("GET")
        if self.scenario.home is Home.LOCAL:
            file = self.program.folder / "a/terraform.tfstate"
            return file.read_bytes() if file.exists() else b""
        return self.program.ok("state", "pull", STACK).out.encode()

    def _s3_object(self, method: str, content: bytes | None = None) -> bytes:
        assert self.at.s3 is not None
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{self.at.s3.url}/{self.at.bucket}/{STACK}/terraform.tfstate",
            content,
            {"Content-Type": "application/json", "Authorization": _SIGNED},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - loopback
                found: bytes = answer.read()
                return found
        except urllib.error.HTTPError as error:
            with error:
                if error.code != HTTPStatus.NOT_FOUND:
                    raise
            return b""

    # What is held.

    def arm(self) -> Callable[[], bool]:
        """Hold what the scenario is about. The answer tells whether the moment has come."""
        match self.scenario.moment:
            case AtCall(number=number, point=point):
                call = CALLS[self.scenario.operation][number - 1]
                self.lab.misbehave(
                    Fault(
                        operation=call.kind,
                        what="hold",
                        name=call.name,
                        before=point is not Point.MADE,
                        fragile=point is Point.BEFORE,
                    )
                )
                return lambda: self.lab.held(call.kind, call.name)
            case AtSave(point=point):
                return self._arm_saving(point)
            case AtPlan():
                self.lab.misbehave(Fault(operation="read", what="hold", name="z"))
                return lambda: self.lab.held("read", "z")
            case _:
                kinds = {call.kind for call in CALLS[self.scenario.operation]}
                return lambda: any(call.operation in kinds for call in self.lab.calls())

    def _arm_saving(self, point: Saving) -> Callable[[], bool]:
        if self.at.http is not None:
            server = self.at.http
            ways: dict[Saving, Held] = {Saving.LOST: "fragile", Saving.LATE: "late", Saving.SAVED: "saved"}
            server.hold_writes = ways[point]
            return lambda: server.held > 0
        if self.at.s3 is not None:
            s3 = self.at.s3
            fault = LateArrival(_FOR_EVER) if point is Saving.LATE else LateAnswer(_FOR_EVER)
            s3.disturb(fault, method="PUT", path="terraform.tfstate?")
            known = len(s3.calls)
            return lambda: any(
                call.method == "PUT" and "terraform.tfstate?" in call.path for call in s3.calls[known:]
            )
        before = self._saved()
        return lambda: self._saved() != before

    def _saved(self) -> object:
        """Something that changes when a state in a file does."""
        if self.scenario.home is Home.LOCAL:
            with contextlib.suppress(OSError):
                found = (self.program.folder / "a/terraform.tfstate").stat()
                return (found.st_mtime_ns, found.st_size, found.st_ino)
            return None
        return sorted(path.name for path in (self.program.folder / ".holdfast/states").rglob("*"))

    def release(self) -> None:
        self.lab.behave()
        if self.at.http is not None:
            self.at.http.release()
        if self.at.s3 is not None:
            self.at.s3.calm()

    # Who can be killed.

    def processes(self, victim: Victim) -> list[int]:
        """Living processes of the program, as seen by their command lines."""
        found = {pid: _words(pid) for pid in left_behind(self.program)}
        if victim is Victim.ALL:
            return list(found)
        return [pid for pid, words in found.items() if _is(victim, words)]

    def kill(self, victim: Victim) -> list[int]:
        """SIGKILL. What is to die together is stopped first, so that nobody sees another's death."""
        pids = self.processes(victim)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        eventually(lambda: not any(_holds_on(pid) for pid in pids), what="what was killed is gone")
        return pids

    def leaks(self, *folders: Path) -> list[str]:
        """Files that hold the canary in clear. A local state of Terraform's own may: the code asks for it."""
        own = self.program.folder / "a" if self.scenario.home is Home.LOCAL else None
        return [
            str(path)
            for folder in folders
            for path in folder.rglob("*")
            if path.is_file()
            and CANARY.encode() in path.read_bytes()
            and not (path.parent == own and path.name.startswith("terraform.tfstate"))
        ]


def _holds_on(pid: int) -> bool:
    """Whether a process may still have connections open: it is over when its last thread is."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" or len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except OSError:
        return False


def _words(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _is(victim: Victim, words: list[bytes]) -> bool:
    supervisor = any(word.endswith(b"supervisor/main.py") for word in words)
    provider = any(word.endswith(b"provider/main.py") for word in words)
    holdfast = b"holdfast" in words
    match victim:
        case Victim.SUPERVISOR:
            return supervisor
        case Victim.PROVIDER:
            return provider
        case Victim.HOLDFAST:
            return holdfast
        case _:
            named = any(word.endswith((b"/terraform", b"/launch.py")) for word in words)
            return named and not (supervisor or provider or holdfast)
