"""How much work an evaluation may take: a few lines of code can require endless time and memory."""

from __future__ import annotations

MOST_STEPS = 1_000_000
MOST_STEPS_IN_ALL = 20_000_000
_CHARACTERS_OF_STEP = 8


class Exhausted(Exception):  # noqa: N818 - it ends the evaluation of one expression
    """Too many steps: the value is unknown."""


class Budget:
    """The steps left for one expression, and for all those that share the budget: the code of one stack.

    A step is an expression, a part of an argument, or a few characters of a text that is built. Steps are
    counted, not seconds: the same code gives the same values on every machine.
    """

    __slots__ = ("_rest", "left")

    def __init__(self, steps: int = MOST_STEPS_IN_ALL) -> None:
        self._rest = steps
        self.left = 0

    def start(self) -> None:
        """Continue with the next expression."""
        self._rest += self.left
        self.left = max(0, min(self._rest, MOST_STEPS))
        self._rest -= self.left

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise Exhausted

    def spend_text(self, length: int) -> None:
        self.spend(length // _CHARACTERS_OF_STEP)
