"""A person's word is taken for one saved plan that is still open, and is in the record before it counts."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from bundle_made import bundle
from context_made import change_context
from memory_blobs import MemoryBlobs
from msgspec.structs import replace

from holdfast.audit import proof
from holdfast.audit.actor import GITHUB_ACTIONS, PERSON, Actor
from holdfast.audit.entry import Entry
from holdfast.audit.log import Audit
from holdfast.guard.decision import Allow, Deny
from holdfast.guard.evaluate import REJECTED, with_approvals
from holdfast.kernel.errors import Failed, HoldfastError, Refused, UsageError
from holdfast.plans.context import ChangeContext
from holdfast.plans.saved_plan import BundledChange
from holdfast.plans.status import Status
from holdfast.review.decide import approvals_for
from holdfast.runs.approval import RecordedApproval, override_denials, record_approval, record_approvals
from holdfast.runs.record import store_run_secrets
from holdfast.store.approvals import Approval, ApprovalKind
from holdfast.system import clock

DIGEST = "d" * 64
RUN = "01RUNA"
ADA = Actor(kind=GITHUB_ACTIONS, name="ada", host="runner", verified=True, because="a token", claims={})
BOB = Actor(kind=PERSON, name="bob", host="laptop", verified=False, because="nothing", claims={})


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChangeContext:
    """A plan of ada's is saved and waits. Whoever speaks is bob, until a token proves that it is ada."""
    monkeypatch.setattr(proof, "verify_actor", lambda *_: ADA)
    made = change_context(tmp_path, blobs=MemoryBlobs())
    made.store.runs.finish(RUN, {"digest": DIGEST, "stack": "db", "status": Status.WAITING.value})
    made.store.approvals.record_author(DIGEST, BOB.document(), stack="db", run=RUN)
    made.identity.audit.who = BOB
    return made


def said(
    opened: ChangeContext,
    word: ApprovalKind = ApprovalKind.APPROVAL,
    *,
    run: str = RUN,
    reason: str = "looked at it",
) -> RecordedApproval:
    (given,) = asyncio.run(record_approval(opened, run, word, reason))
    return given


def refused(opened: ChangeContext, word: ApprovalKind = ApprovalKind.APPROVAL, *, run: str = RUN) -> str:
    """The code of the refusal. Nobody's word was kept."""
    before = opened.store.approvals.of(DIGEST)
    with pytest.raises((Refused, UsageError)) as caught:
        said(opened, word, run=run)
    assert opened.store.approvals.of(DIGEST) == before
    return caught.value.problem.code


class Recording(Audit):
    """A log that remembers what was recorded, and how many words were kept by then; or that fails."""

    def __init__(self, opened: ChangeContext, *, fails: bool = False) -> None:
        super().__init__(opened.store, BOB, redactor=opened.redactor)
        self.opened, self.fails = opened, fails
        self.recorded: list[tuple[Entry, int]] = []

    def record(self, entry: Entry) -> None:
        if self.fails:
            raise Failed("HF-TEST-1", "the log cannot be written")
        self.recorded.append((entry, len(self.opened.store.approvals.of(str(entry.digest)))))


def test_a_word_is_kept_for_the_digest_of_the_run(opened: ChangeContext) -> None:
    """With who said it, verified by then, and why; it has no end but the plan's."""
    given = said(opened, run="01runa")
    assert (given.run, given.digest, given.stack) == (RUN, DIGEST, "db")
    (kept,) = opened.store.approvals.of(DIGEST)
    assert (kept.kind, kept.run, kept.reason, kept.until) == (
        ApprovalKind.APPROVAL,
        RUN,
        "looked at it",
        None,
    )
    assert kept.who == ADA.document()
    assert kept.shown == "ada"
    assert opened.store.approvals.of("e" * 64) == ()


def test_what_cannot_be_recorded_is_not_given(opened: ChangeContext) -> None:
    """The log comes first: a word that nobody could look up later does not count."""
    opened.identity.audit = log = Recording(opened)
    said(opened)
    ((entry, kept_before),) = log.recorded
    assert (entry.what, entry.digest, entry.reason) == ("approve", DIGEST, "looked at it")
    assert kept_before == 0
    opened.identity.audit = Recording(opened, fails=True)
    with pytest.raises(HoldfastError, match="the log cannot be written"):
        said(opened)
    assert len(opened.store.approvals.of(DIGEST)) == 1


def test_nobody_approves_what_a_token_proves_to_be_their_own(opened: ChangeContext) -> None:
    """Who speaks is verified before the rule is asked; to reject one's own is allowed."""
    opened.store.runs.finish("01RUNB", {"digest": "own", "stack": "db"})
    opened.store.approvals.record_author("own", ADA.document(), stack="db", run="01RUNB")
    assert refused(opened, run="01RUNB") == "HF-APPR-3"
    assert said(opened, ApprovalKind.REJECTION, run="01RUNB").notes == ()


def test_an_approval_of_a_refused_plan_says_that_it_lifts_nothing(opened: ChangeContext) -> None:
    """Only an override does, and the note names it."""
    assert not any("--override" in note for note in said(opened).notes)
    opened.store.runs.finish(RUN, {"digest": DIGEST, "stack": "db", "status": Status.REFUSED.value})
    assert any(f"--override {DIGEST}" in note for note in said(opened).notes)


def test_no_word_about_a_plan_that_was_used(opened: ChangeContext) -> None:
    """What is done cannot be approved or rejected any more."""
    opened.store.mark_used(DIGEST, run=RUN, stack="db", who="ci")
    assert refused(opened) == "HF-APPR-2"
    assert refused(opened, ApprovalKind.REJECTION) == "HF-APPR-2"


def test_no_word_about_a_plan_that_was_not_saved(opened: ChangeContext) -> None:
    """Nor about a run that has no plan."""
    opened.store.runs.finish("01RUNB", {"digest": "another", "stack": "db"})
    opened.store.runs.finish("01RUNC", {"digest": None, "stack": "db"})
    assert refused(opened, run="01RUNB") == "HF-APPR-2"
    assert refused(opened, run="01RUNC") == "HF-APPR-2"


def test_an_allowed_plan_can_be_rejected_and_is_never_applied(opened: ChangeContext) -> None:
    """It needs no approval, and a note says so; but a rejection of a saved plan always counts."""
    opened.store.runs.finish(RUN, {"digest": DIGEST, "stack": "db", "status": Status.PLANNED.value})
    assert any("without an approval" in note for note in said(opened).notes)
    said(opened, ApprovalKind.REJECTION)
    decision = with_approvals(Allow(), approvals_for(opened.store, DIGEST, "db"), now=clock.now().isoformat())
    assert [reason.code for reason in decision.reasons] == [REJECTED]
    assert isinstance(decision, Deny)


def test_a_rejection_is_the_last_word(opened: ChangeContext) -> None:
    """Neither an approval nor another rejection comes after it."""
    said(opened, ApprovalKind.REJECTION)
    assert refused(opened) == "HF-APPR-2"
    assert refused(opened, ApprovalKind.REJECTION) == "HF-APPR-2"


def test_a_run_is_named_by_a_beginning_that_only_it_has(opened: ChangeContext) -> None:
    """What several begin with, or none, names no run."""
    opened.store.runs.finish("01RUNB", {"digest": "another", "stack": "db"})
    assert refused(opened, run="01RUN") == "HF-RUN-21"
    assert refused(opened, run="01X") == "HF-RUN-20"


@pytest.mark.parametrize("known_by", ["the change", "the run"])
def test_no_reason_keeps_a_secret(opened: ChangeContext, known_by: str) -> None:
    """Neither one that this command knows nor one that the run had known."""
    if known_by == "the change":
        opened.redactor.register("hunter2-hunter2")
    else:
        store_run_secrets(opened.store, RUN, ["hunter2-hunter2"])
    said(opened, reason="because it is hunter2-hunter2")
    (kept,) = opened.store.approvals.of(DIGEST)
    assert kept.reason == "because it is ***"


# Overrides


def let_through(opened: ChangeContext, *digests: str, among: tuple[str, ...] = ("one", "two")) -> None:
    plans = [bundle(name, run=f"run of {name}", plan=name.encode()) for name in among]
    asyncio.run(override_denials(opened, plans, BundledChange(), digests, "it is meant"))


ONE, TWO = (bundle(name, plan=name.encode()).digest for name in ("one", "two"))


def test_an_override_is_for_one_plan_and_one_day(opened: ChangeContext) -> None:
    """It names its end, the person and the run whose plan it is; the plan beside it has none."""
    let_through(opened, ONE)
    (kept,) = opened.store.approvals.of(ONE)
    assert (kept.kind, kept.stack, kept.run, kept.reason) == (
        ApprovalKind.OVERRIDE,
        "one",
        "run of one",
        "it is meant",
    )
    assert kept.who == ADA.document()
    assert kept.until is not None
    lasts = datetime.fromisoformat(kept.until) - datetime.fromisoformat(kept.at)
    assert timedelta(hours=23, minutes=59) < lasts <= timedelta(hours=24)
    assert opened.store.approvals.of(TWO) == ()


def test_a_digest_may_be_shortened_to_twelve_characters(opened: ChangeContext) -> None:
    """Fewer could be a slip."""
    for short in (ONE[:11], ONE[1:], "", "0" * 64):
        with pytest.raises(Refused) as caught:
            let_through(opened, short)
        assert caught.value.problem.code == "HF-APPR-4"
    assert opened.store.approvals.of(ONE) == ()
    let_through(opened, ONE[:12])
    assert len(opened.store.approvals.of(ONE)) == 1


def test_a_beginning_that_two_plans_share_names_neither(opened: ChangeContext) -> None:
    """An override is never given to the wrong one of them."""
    plans = [replace(bundle(name), digest=f"{'0' * 20}{name}") for name in ("one", "two")]
    with pytest.raises(Refused) as caught:
        asyncio.run(override_denials(opened, plans, BundledChange(), ["0" * 20], "it is meant"))
    assert caught.value.problem.code == "HF-APPR-4"
    asyncio.run(override_denials(opened, plans, BundledChange(), [f"{'0' * 20}one"], "it is meant"))


def test_nothing_is_overridden_where_one_of_them_was_used(opened: ChangeContext) -> None:
    """Every plan is looked at before the first word is kept."""
    opened.store.mark_used(TWO, run="01R", stack="two", who="ci")
    with pytest.raises(Refused) as caught:
        let_through(opened, ONE, TWO)
    assert caught.value.problem.code == "HF-BUND-4"
    assert opened.store.approvals.of(ONE) == ()


# What is kept


def kept(word: ApprovalKind, who: Actor, digest: str = DIGEST) -> Approval:
    return Approval(
        kind=word, digest=digest, stack="db", run=RUN, who=who.document(), reason="why", at="2026-01-01"
    )


def test_a_person_and_a_job_of_one_name_are_two(opened: ChangeContext) -> None:
    """Whose word it is: the kind counts as much as the name."""
    person = Actor(kind=PERSON, name="ada", host="laptop", verified=False, because="nothing", claims={})
    for who in (ADA, person):
        opened.store.approvals.add(kept(ApprovalKind.APPROVAL, who))
    words = opened.store.approvals.of(DIGEST)
    assert len({one.by for one in words}) == 2
    assert {one.shown for one in words} == {"ada", "ada, unverified"}


def test_approvals_are_listed_in_the_order_they_were_given(
    opened: ChangeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the ids of one millisecond sort the other way."""
    for id_, at in (("02", "2026-01-01T00:00:00.000100+00:00"), ("01", "2026-01-01T00:00:00.000200+00:00")):
        monkeypatch.setattr(clock, "new_id", lambda id_=id_: id_)
        opened.store.approvals.add(replace(kept(ApprovalKind.APPROVAL, ADA), at=at, reason=id_))
    assert [approval.reason for approval in opened.store.approvals.of(DIGEST)] == ["02", "01"]


@pytest.mark.parametrize("damage", ["another plan's", "a newer version's"])
def test_a_word_that_is_not_about_this_plan_stops_everything(opened: ChangeContext, damage: str) -> None:
    """Put there by somebody, or written by a Holdfast that is not known: it is never read as consent."""
    opened.store.approvals.add(kept(ApprovalKind.APPROVAL, ADA, "another"))
    (name,) = opened.store.encrypted.names("approvals/another")
    found = opened.store.encrypted.read(name)
    assert found is not None
    data = found.data.replace(b'"version":1', b'"version":2') if damage.startswith("a newer") else found.data
    to = DIGEST if damage.startswith("another") else "another"
    opened.store.encrypted.write(f"approvals/{to}/00", data)
    with pytest.raises(HoldfastError) as caught:
        opened.store.approvals.of(to)
    assert caught.value.problem.code == "HF-STORE-2"


def test_a_decision_about_a_bundle_is_about_the_plans_in_it(opened: ChangeContext) -> None:
    """A plan job writes the record of its run: it must name the digest that the bundle seals."""
    with pytest.raises(Refused) as caught:
        asyncio.run(record_approvals(opened, {RUN: "e" * 64}, ApprovalKind.APPROVAL, "looked at it"))
    assert caught.value.problem.code == "HF-BUND-20"
    assert not opened.store.approvals.of(DIGEST)
    asyncio.run(record_approvals(opened, {RUN: DIGEST}, ApprovalKind.APPROVAL, "looked at it"))
    assert opened.store.approvals.of(DIGEST)
