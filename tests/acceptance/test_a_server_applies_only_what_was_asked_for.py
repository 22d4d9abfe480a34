"""Plans that were shown are applied as they are or not at all, and only for who may still ask for it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from program import Program
from served import serving
from server_runs_made import ServerRuns, server_runs, worker
from terminal import Terminal

from holdfast.identity.principal import Principal
from holdfast.identity.roles import Role
from holdfast.identity.token_rows import TokenRows
from holdfast.store.approvals import ApprovalKind
from holdfast.store.server_runs.contents import plan_name
from holdfast.store.server_runs.rows import Run, RunRows
from holdfast.system import clock

CONFIGURATION = """\
version: 1
guard:
  environments:
    prod: {approvals: 1}
environments:
  dev: {}
stacks:
  - {name: dev, module: dev, environment: dev}
  - {name: prod, module: prod, environment: prod}
"""
RESOURCE = 'resource "terraform_data" "x" {\n  input = %d\n}\n'
COMMENT = "comment `holdfast plan`"


def outcome(runs: ServerRuns, change: str, stack: str) -> tuple[str, str | None]:
    runs.wait(change)
    run = runs.run_of(change, stack)
    return run.phase.value, run.status


def test_only_the_plan_that_was_shown_is_applied(holdfast: Program, tmp_path: Path) -> None:
    data = tmp_path / "data"
    holdfast.write("holdfast.yaml", CONFIGURATION)
    for name in ("dev", "prod"):
        holdfast.write(f"{name}/main.tf", RESOURCE % 1)
    author = Principal(id="", name="github:ann", kind="webhook", role=Role.OPERATOR)
    with serving(holdfast, data), server_runs(holdfast, data) as runs, worker(holdfast, data):

        def planned(stack: str) -> str:
            return runs.run_of(runs.wait(runs.submit("plan", stack, requester=author)).id, stack).id

        def apply_shown(stack: str, shown: str) -> tuple[tuple[str, str | None], str]:
            change = runs.submit("apply", stack, requester=author, retried_from=shown)
            state, run = outcome(runs, change, stack), runs.run_of(change, stack).id
            return state, "\n".join(runs.log(run))

        def refused(shown: str, code: str) -> bool:
            state, log = apply_shown("dev", shown)
            return state == ("done", "refused") and code in log and COMMENT in log

        assert apply_shown("dev", planned("dev"))[0] == ("done", "applied")
        # One that needs an approval waits for it, and is applied then.
        change = runs.submit("apply", "prod", requester=author, retried_from=planned("prod"))
        assert outcome(runs, change, "prod") == ("waiting", "waiting")
        waiting = runs.run_of(change, "prod")
        assert any(f"holdfast runs approve {waiting.id}" in line for line in runs.log(waiting.id))
        runs.decide(waiting, ApprovalKind.APPROVAL, runs.person("bob", Role.APPROVER))
        assert outcome(runs, change, "prod") == ("done", "applied")

        holdfast.write("dev/main.tf", RESOURCE % 2)
        stale, gone = planned("dev"), planned("dev")
        runs.store.encrypted.remove(plan_name(gone))
        assert refused(gone, "HF-RUN-33")
        holdfast.write("dev/main.tf", RESOURCE % 3)
        assert refused(stale, "HF-BUND-6")  # The code.
        assert outcome(runs, runs.submit("apply", "dev"), "dev") == ("done", "applied")
        holdfast.write("dev/main.tf", RESOURCE % 2)
        assert refused(stale, "HF-BUND-11")  # The state.
        again = runs.submit("apply", "dev", requester=author, retried_from=stale)
        outcome(runs, again, "dev")
        # A retry of the apply does not plan either.
        assert refused(runs.run_of(again, "dev").id, "HF-BUND-11")
        holdfast.write("dev/main.tf", RESOURCE % 3)
        assert outcome(runs, runs.submit("plan", "dev"), "dev") == ("done", "unchanged")


def test_a_terminal_applies_and_destroys_exactly_what_it_showed(holdfast: Program, tmp_path: Path) -> None:
    """The digest that was shown is applied. What changed while the question was open refuses it."""
    data = tmp_path / "data"
    holdfast.write("holdfast.yaml", CONFIGURATION)
    for name in ("dev", "prod"):
        holdfast.write(f"{name}/main.tf", RESOURCE % 1)
    with (
        serving(holdfast, data) as client,
        server_runs(holdfast, data) as runs,
        worker(holdfast, data),
    ):
        env = {name: str(value) for name, value in client.items()}

        def ask() -> Terminal:
            terminal = Terminal(holdfast, ["apply", "dev", "--server"], columns=140, env=env)
            terminal.until("Apply 1 plan on the server, exactly as shown?")
            return terminal

        def newest(operation: str) -> Run:
            listed = RunRows(runs.database).list("default", stack="dev")
            return next(run for run in listed if run.operation == operation)

        first = ask()
        first.press("y\n")
        first.until("1 applied")
        assert first.end() == 0
        shown, applied = newest("plan"), newest("apply")
        assert (applied.status, applied.digest, applied.retried_from) == ("applied", shown.digest, shown.id)
        assert shown.digest is not None
        assert (runs.store.used(shown.digest) or {})["run"] == applied.id

        holdfast.write("dev/main.tf", RESOURCE % 2)
        late = ask()
        runs.statuses(runs.submit("apply", "dev"))  # Another apply changes the state.
        late.press("y\n")
        late.until("HF-BUND-11")
        late.until("holdfast apply dev --server")
        assert late.end() == 3
        stale = newest("plan")
        assert stale.digest is not None
        assert runs.store.used(stale.digest) is None

        def ask_to_destroy() -> Terminal:
            terminal = Terminal(holdfast, ["destroy", "dev", "--server"], columns=140, env=env)
            terminal.until("terraform_data.x")
            terminal.until("Type the stack's name to confirm:")
            return terminal

        kept = ask_to_destroy()
        kept.press("yes\n")
        kept.until("Nothing was changed.")
        assert kept.end() == 1
        destroyed = ask_to_destroy()
        destroyed.press("dev\n")
        destroyed.until("1 destroyed")
        assert destroyed.end() == 0
        shown, applied = newest("plan"), newest("destroy")
        assert (applied.status, applied.digest, applied.retried_from) == ("applied", shown.digest, shown.id)


def test_a_plan_that_is_out_of_date_cannot_be_approved(holdfast: Program, tmp_path: Path) -> None:
    """It is made again and waits again; one whose code is older than what was applied ends."""
    data = tmp_path / "data"
    holdfast.write("holdfast.yaml", CONFIGURATION)
    for name in ("dev", "prod"):
        holdfast.write(f"{name}/main.tf", RESOURCE % 1)
    with serving(holdfast, data) as client, server_runs(holdfast, data) as runs, worker(holdfast, data):

        def waits() -> tuple[str, Run]:
            change = runs.submit("apply", "prod", requester=runs.person("ann"))
            assert outcome(runs, change, "prod") == ("waiting", "waiting")
            return change, runs.run_of(change, "prod")

        def approve(run: Run, code: int) -> str:
            given = holdfast.run("runs", "approve", run.id, "--reason", "fine", "--server", env=client)
            assert given.code == code, given.err
            return given.err

        (earliest, first), (early, second), (late, third) = waits(), waits(), waits()
        approve(second, 0)
        assert outcome(runs, early, "prod") == ("done", "applied")
        error = approve(third, 3)
        assert "HF-RUN-25" in error
        assert f"(run {second.id} was applied)" in error
        assert f"holdfast runs show {third.id} --plan" in error
        runs.wait(late, lambda now: now.phase.value == "done")
        assert runs.run_of(late, "prod").status == "unchanged"  # The new plan.
        assert "which was submitted later" in approve(first, 3)
        assert outcome(runs, earliest, "prod") == ("done", "refused")
        assert runs.store.approvals.of(str(first.digest)) == ()


def test_approval_rules_of_the_server_hold_for_every_repository(holdfast: Program, tmp_path: Path) -> None:
    """Whatever its holdfast.yaml says: who may approve, for how long, and what an admin can do instead."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "server.yaml").write_text(
        "version: 1\napprovals:\n  - {tenant: default, environments: [prod], count: 1, group: dba}\n"
    )
    holdfast.write("holdfast.yaml", CONFIGURATION.replace("approvals: 1", "approvals: 0"))
    for name in ("dev", "prod"):
        holdfast.write(f"{name}/main.tf", RESOURCE % 1)
    with serving(holdfast, data), server_runs(holdfast, data) as runs:
        # The rules are in the database: a worker on another machine has no such file.
        (data / "server.yaml").unlink()
        with worker(holdfast, data):
            ann, bob = runs.person("ann"), runs.person("bob", Role.APPROVER)
            dan = runs.person("dan", Role.APPROVER, ("dba",))
            assert outcome(runs, runs.submit("apply", "dev", requester=ann), "dev") == ("done", "applied")

            def waits(change: str) -> Run:
                assert outcome(runs, change, "prod") == ("waiting", "waiting")
                return runs.run_of(change, "prod")

            change = runs.submit("apply", "prod", requester=ann)
            run = waits(change)
            missing = "1 approval of the group dba is missing"
            assert any(missing in line for line in runs.log(run.id))
            fence = runs.now(change).fence
            runs.decide(run, ApprovalKind.APPROVAL, bob)  # Not of the group.
            past = (clock.now() - timedelta(hours=1)).isoformat()
            runs.wait(change, lambda now: now.fence > fence and now.phase.value == "waiting")
            runs.decide(waits(change), ApprovalKind.APPROVAL, dan, until=past)  # It expired meanwhile.
            runs.wait(change, lambda now: now.fence > fence + 1 and now.phase.value == "waiting")
            runs.decide(waits(change), ApprovalKind.APPROVAL, dan)
            assert outcome(runs, change, "prod") == ("done", "applied")
            assert runs.run_of(change, "prod").digest == run.digest

            holdfast.write("prod/main.tf", RESOURCE % 2)
            urgent = runs.submit("apply", "prod", requester=ann)
            root = runs.person("root", Role.ADMIN)
            runs.decide(waits(urgent), ApprovalKind.OVERRIDE, root, break_glass=True)
            assert outcome(runs, urgent, "prod") == ("done", "applied")


def test_a_revoked_token_starts_nothing_and_one_that_expired_takes_nothing_back(
    holdfast: Program, tmp_path: Path
) -> None:
    """Whether its change was queued or waited. An expired one can still be revoked."""
    data = tmp_path / "data"
    holdfast.write("holdfast.yaml", CONFIGURATION)
    for name in ("dev", "prod"):
        holdfast.write(f"{name}/main.tf", RESOURCE % 1)
    with serving(holdfast, data), server_runs(holdfast, data) as runs:
        ann, ben, cleo, dora = (runs.person(name) for name in ("ann", "ben", "cleo", "dora"))
        queued = runs.submit("apply", "dev", requester=ann)
        runs.execute("update tokens set revoked = now(), expires = now() where id = %s", ann.id)
        gone = runs.submit("apply", "dev", requester=cleo)
        runs.execute("delete from tokens where id = %s", cleo.id)
        with worker(holdfast, data):
            waiting = runs.submit("apply", "prod", requester=ben)
            assert outcome(runs, waiting, "prod") == ("waiting", "waiting")
            runs.execute("update tokens set revoked = now() where id = %s", ben.id)
            runs.decide(
                runs.run_of(waiting, "prod"), ApprovalKind.APPROVAL, runs.person("bob", Role.APPROVER)
            )
            for change in (queued, gone, waiting):
                now = runs.wait(change, lambda now: now.phase.value == "done")
                assert (now.error or {})["code"] == "HF-RUN-31"
                assert {run.status for run in now.runs} <= {"refused"}
            for stack in ("dev", "prod"):
                change = runs.submit("plan", stack)
                assert runs.wait(change).runs[0].status in {"planned", "waiting"}  # Nothing was created.
            late = runs.submit("apply", "prod", requester=dora)
            assert outcome(runs, late, "prod") == ("waiting", "waiting")
            # As a token of CI, long ago: its row stays for the change.
            expired = "update tokens set expires = now() - interval '2 hours', kind = 'oidc' where id = %s"
            runs.execute(expired, dora.id)
            TokenRows(runs.database).remove_expired()
            runs.decide(runs.run_of(late, "prod"), ApprovalKind.APPROVAL, runs.person("bob", Role.APPROVER))
            assert outcome(runs, late, "prod") == ("done", "applied")
            assert TokenRows(runs.database).remove_expired() == 1
