from __future__ import annotations

from holdfast.contract.comparison import OutputValue
from holdfast.contract.facts import OutputsOfStack
from holdfast.deploy.outputs import combined
from holdfast.deploy.verify import Verification, gate_alerts
from holdfast.gates.result import GateResult, Verdict
from holdfast.system import clock


def test_an_alert_lasts_until_its_gate_passes() -> None:
    """One key for a gate in an environment; unchecked is raised like failed."""
    results = tuple(
        GateResult(name=f"g{number}", kind="tcp", environment="dev", verdict=verdict, reason="because")
        for number, verdict in enumerate(Verdict)
    )
    alerts = gate_alerts(Verification(run="R", target="aws", results=results), clock.now())
    assert [(alert.key, alert.resolved) for alert in alerts] == [
        ("gate:aws/dev/g0", True),
        ("gate:aws/dev/g1", False),
        ("gate:aws/dev/g2", False),
    ]


def test_outputs_of_several_stacks() -> None:
    """One that is sensitive, or that two stacks give different values, is withheld; equal values are one."""

    def stack(name: str, **outputs: OutputValue) -> OutputsOfStack:
        return OutputsOfStack(stack=name, environment="dev", outputs=outputs)

    def value(value: object, *, sensitive: bool = False) -> OutputValue:
        return OutputValue(value=value, sensitive=sensitive)

    values, withheld = combined(
        (
            stack("a", same=value(1), other=value(1), secret=value("x", sensitive=True)),
            stack("b", same=value(1), other=value(2), secret=value("x")),
        )
    )
    assert set(withheld) == {"other", "secret"}
    assert values["same"] == 1
