"""The entry of a stack while a translator puts it together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.checks.backends.backend_types import BACKEND_TYPES
from holdfast.config.stack_rules import BACKEND_TYPES as CONFIGURABLE_TYPES
from holdfast.hcl.eval.code import Code
from holdfast.kernel.text import first_names
from holdfast.onboarding.translators.translation import Part, TranslatedStack, marked_variables
from holdfast.stacks.backend import code_backend

_KEYS: Final = (
    *("variables_files", "inputs", "backend", "workspace", "generate", "credentials", "env", "hooks"),
    "engine",
)
_SHOWN: Final = 4
RESERVED_KEY: Final = "has a key `secret` or `output`. Put it in a variables file."


class Draft:
    def __init__(self, code: Code, tool: str, module: str) -> None:
        self.code, self.tool, self.module = code, tool, module
        self.keys: dict[str, object] = {}
        self.parts: list[Part] = []
        self.reasons: list[str] = []

    def hold_back(self, reason: str) -> None:
        self.reasons.append(reason)

    def add(self, original: str, keys: str) -> None:
        """A part of the original and the keys that it became."""
        self.parts.append(Part(original=original, keys=keys))

    def set_backend(self, type_: str, settings: Mapping[str, object], *, replaces: bool = True) -> None:
        """`replaces`: the tool writes the backend, instead of adding settings to that of the code."""
        if type_ not in CONFIGURABLE_TYPES:
            self.hold_back(f"Holdfast cannot generate the backend `{type_}`. Write it in {self.module}.")
            return
        wanted = {name: value for name, value in settings.items() if value is not None}
        for name in BACKEND_TYPES[type_].secrets if type_ in BACKEND_TYPES else ():
            if name in wanted:
                wanted[name] = {"secret": f"env:{name.upper()}"}
                self.hold_back(f"The backend contains {name}. Use a secret reference.")
        in_code = code_backend(self.code, self.module)
        same = in_code is None or (
            in_code.type == type_ and not (replaces and in_code.settings.keys() - wanted)
        )
        if in_code is not None and not same:
            self.hold_back(
                f'{self.tool} replaces the backend "{in_code.type}" in its code. Remove that block.'
            )
        self.keys["backend"] = {"type": type_, "settings": wanted}

    def keep_backend(self, *, local: bool) -> bool:
        """Whether the code has a backend, which stays there. `local`: it may be a local one."""
        backend = code_backend(self.code, self.module)
        if backend is None:
            return False
        known = BACKEND_TYPES.get(backend.type)
        incomplete = known is None or backend.computed or set(known.needs) - backend.settings.keys()
        if incomplete or (backend.type == "local" and not local):
            self.hold_back(
                f"The backend in {self.module} does not say where its state is. Set `backend` in the entry."
            )
        self.add(f"the backend in {self.module}", "stays in the code")
        return True

    def set_inputs(self, inputs: Mapping[str, object], original: str, left_out: list[str], why: str) -> None:
        self.keys["inputs"] = inputs
        self.add(original, f"inputs: {first_names(list(inputs), _SHOWN)}")
        if left_out:
            self.add(first_names(left_out, _SHOWN), f"left out: {why}")

    def stack(
        self, original: str, name: str, depends_on: tuple[str, ...], environment: str | None = None
    ) -> TranslatedStack:
        for variable in sorted(set(marked_variables(self.keys))):
            self.hold_back(f"It reads {variable} from the environment. Set `values: {{ {variable}: … }}`.")
        return TranslatedStack(
            original=original,
            name=name,
            module=self.module,
            keys={key: self.keys[key] for key in _KEYS if self.keys.get(key)},
            environment=environment,
            depends_on=depends_on,
            parts=tuple(self.parts),
            reasons=tuple(dict.fromkeys(self.reasons)),
        )


def has_reserved_key(value: object) -> bool:
    """Whether the configuration would take a mapping in it for a reference."""
    if isinstance(value, Mapping):
        return bool({"secret", "output"} & value.keys()) or any(map(has_reserved_key, value.values()))
    return isinstance(value, list | tuple) and any(map(has_reserved_key, value))
