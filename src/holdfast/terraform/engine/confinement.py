"""How the workers of a pool are confined, and what to say where they are not."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from holdfast.kernel.errors import Refused
from holdfast.system import confine, files
from holdfast.system.access_rules import AccessRules, access_rules, secret_files
from holdfast.system.confine import Confinement
from holdfast.system.environment import Environment

_USED = ("work", "providers")
"""What Terraform needs of Holdfast's home; nothing that appears beside the key later can be used."""
_PAGE = "docs/engines.md, Confinement"


class WorkerConfinement:
    """The rules of one pool. Rulesets are built when a worker is started and used for all that follow."""

    def __init__(
        self, environment: Environment, *, store: Path | None = None, required: bool = False
    ) -> None:
        self.secrets = secret_files(environment)
        self._environment = environment
        self._store = store
        self._required = required
        self._rules: dict[tuple[Path | None, tuple[Path, ...]], AccessRules] = {}
        self._rulesets: dict[AccessRules, int] = {}

    def rules(self, writes: Path | None, own: tuple[Path, ...] = ()) -> AccessRules:
        """For a command that writes files in this folder, in a compartment with these folders."""
        if (writes, own) not in self._rules:
            rules = access_rules(self._environment, store=self._store, writes=writes, own=own)
            self._rules[writes, own] = rules
        return self._rules[writes, own]

    def ruleset(self, rules: AccessRules) -> int:
        """A descriptor; negative without Landlock."""
        if rules not in self._rulesets:
            with contextlib.suppress(OSError):
                for name in _USED:
                    files.private_folder(self._environment.home / name)
            self._rulesets[rules] = confine.create_ruleset(rules.rules())
        return self._rulesets[rules]

    def rules_for_program(self, writes: Path | None, own: tuple[Path, ...] = ()) -> int:
        """The ruleset for a program that Holdfast starts itself, after a look at what it confines."""
        ruleset = self.ruleset(self.rules(writes, own))
        if self._required:

            def look() -> Confinement:
                return Confinement(confine.confine_thread(ruleset), confine.readable_secrets(self.secrets))

            thread = confine.CallThread()
            try:
                self.require(thread.call(look))
            finally:
                thread.end()
        return ruleset

    def require(self, confinement: Confinement) -> None:
        if self._required and not confinement.effective:
            raise Refused(
                "HF-ENG-9",
                f"Terraform cannot be confined here, and `engine.confine` requires it: {reason(confinement)}",
                hint=f"Run it on a machine that allows it ({_PAGE}), or set `engine: {{confine: auto}}`.",
            )

    def close(self) -> None:
        for ruleset in self._rulesets.values():
            if ruleset >= 0:
                os.close(ruleset)
        self._rulesets.clear()


def reason(confinement: Confinement) -> str:
    """Why a confinement is not effective."""
    if confinement.leaks:
        return f"code in a plan can read {' and '.join(confinement.leaks)}"
    return "this machine offers no Landlock, no capabilities to drop and no user namespaces"


def note(confinement: Confinement) -> str | None:
    """For a plan whose code was not confined."""
    if confinement.effective:
        return None
    return f"code in this plan was not confined: {reason(confinement)} ({_PAGE})"
