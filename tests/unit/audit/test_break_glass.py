from __future__ import annotations

from holdfast.audit.break_glass import Act, acts_after, open_acts

Line = dict[str, object]


def line(seq: int, what: str, *, stack: str = "net", outcome: str = "done", **fields: object) -> Line:
    return {
        "seq": seq,
        "at": "2026-07-25T10:00:00+00:00",
        "what": what,
        "stack": stack,
        "outcome": outcome,
        "who": {"shown": "ada@laptop"},
        "reason": "why",
        **fields,
    }


def seqs(*lines: Line) -> dict[str, list[int]]:
    return {stack: [act.seq for act in acts] for stack, acts in open_acts(lines).items()}


def test_an_act_is_open_until_a_normal_apply_of_its_stack() -> None:
    """Not of another stack, not a plan, not one that failed."""
    unlock = line(1, "unlock")
    assert seqs(unlock) == {"net": [1]}
    others = (
        line(2, "apply", stack="dns", outcome="applied"),
        line(3, "plan", outcome="planned"),
        line(4, "apply", outcome="failed"),
        line(5, "apply", outcome="unknown"),
    )
    assert seqs(unlock, *others) == {"net": [1]}
    assert seqs(unlock, *others, line(6, "apply", outcome="applied")) == {}
    assert seqs(unlock, line(2, "apply", outcome="unchanged")) == {}
    assert seqs(unlock, line(2, "destroy", outcome="applied")) == {}


def test_the_apply_that_an_override_made_possible_closes_nothing() -> None:
    """It is the act itself; and both are one act to the one who looks."""
    override = line(1, "override", digest="d")
    forced = line(2, "apply", outcome="applied", digest="d", break_glass=True)
    assert seqs(override, forced) == {"net": [2]}
    assert seqs(override, forced, line(3, "apply", outcome="applied", digest="e")) == {}


def test_a_beginning_and_its_end_are_one_act() -> None:
    """Recorded before and acts_after, it is shown once."""
    assert seqs(line(1, "unlock", run="R", outcome="begun"), line(2, "unlock", run="R")) == {"net": [2]}
    assert seqs(line(1, "unlock"), line(2, "unlock")) == {"net": [1, 2]}


def test_an_act_after_the_apply_is_open() -> None:
    """The order is that of the log."""
    assert seqs(line(1, "apply", outcome="applied"), line(2, "holder-dead")) == {"net": [2]}


def test_an_act_says_who_and_why() -> None:
    """That is what a person is shown with the next plan."""
    (act,) = open_acts([line(1, "unlock")])["net"]
    assert act.shown == 'unlock by ada@laptop at 2026-07-25T10:00: "why"'


def test_a_line_that_is_heard_late_or_twice_changes_nothing() -> None:
    """Two write at once: an apply closes what stood before it in the log, and nothing that came after."""
    applied, unlock = line(1, "apply", outcome="applied"), line(2, "unlock")
    open_ = (Act.of(unlock),)
    assert acts_after(open_, applied) == open_
    assert acts_after(open_, unlock) == open_
