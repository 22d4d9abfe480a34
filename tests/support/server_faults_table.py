"""How runs on the server came out of kills: lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any


def server_table(scenarios: Sequence[dict[str, Any]], violations: int) -> Iterator[str]:
    """Kills by victim, then runs by how they ended while there were kills."""
    kills, statuses, codes = (_sum(scenarios, name) for name in ("kills", "statuses", "codes"))
    yield f"{'victim':<16}{'kills':>10}{'missed':>10}"
    for victim in sorted({key.split()[0] for key in kills}):
        hit, missed = kills[f"{victim} hit"], kills[f"{victim} missed"]
        yield f"{victim:<16}{hit:>10}{missed:>10}"
    hits = sum(count for key, count in kills.items() if key.endswith("hit"))
    yield f"{'all':<16}{hits:>10}{sum(kills.values()) - hits:>10}"
    yield f"{'runs':<16}{sum(statuses.values()):>10}"
    for status, count in statuses.most_common():
        yield f"  {status:<14}{count:>10}"
    if codes:
        yield f"errors of runs: {', '.join(f'{code} {count}' for code, count in codes.most_common())}"
    reconciled = sum(one["reconciled"] for one in scenarios)
    yield f"scenarios: {len(scenarios)}, reconciles: {reconciled}, violations: {violations}"


def _sum(scenarios: Sequence[dict[str, Any]], name: str) -> Counter[str]:
    return sum((Counter(one[name]) for one in scenarios), Counter())
