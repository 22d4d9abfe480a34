"""`env:NAME`, `file:PATH` and `dotenv:PATH#NAME`: secrets on this machine."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from holdfast.config.secret_refs import SecretRef, forbidden_locator
from holdfast.kernel.errors import UsageError
from holdfast.kernel.secret import Secret
from holdfast.secrets.sources.interface import MAX_BYTES, ReadSecret, Source
from holdfast.system import files, git
from holdfast.system.access_rules import ForbiddenFiles

_ASSIGNMENT = re.compile(
    r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(?P<value>.*?)\s*", re.ASCII
)
_QUOTED = re.compile(r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)')\s*(?:\#.*)?""")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class LocalSecrets(Source):
    """An empty value is an error."""

    batches = True

    def read(self, ref: SecretRef) -> ReadSecret:
        if why := forbidden_locator(ref.scheme, ref.locator):
            # Placeholders hid it from the check of the configuration.
            raise _forbidden(ref, why)
        match ref.scheme:
            case "env":
                return ReadSecret(Secret(self._variable(ref)), "the environment of this command")
            case "file":
                return ReadSecret(Secret(self._file(ref)), "this user")
            case _:
                return ReadSecret(Secret(self._dotenv(ref)), "this user")

    def create(self, ref: SecretRef, values: Mapping[str, str]) -> bool:
        """A file is created; a `.env` file gets another line. Neither may be one that Git would commit."""
        if ref.scheme == "env":
            return super().create(ref, values)
        path = self.root / ref.locator
        tree = git.find(self.root, self.environment.variables)
        if path.resolve().is_relative_to(self.environment.home.resolve()):
            raise _forbidden(ref, "it is in the data directory of Holdfast")
        if tree is not None and not tree.would_ignore(path):
            raise UsageError(
                "HF-SEED-2",
                f"{ref.locator} is not ignored by Git: a secret in it could be committed",
                hint=f"Add {ref.locator} to .gitignore.",
            )
        if ref.scheme == "file":
            return files.create(path, values[""])
        return self._append(ref, path, values)

    def _append(self, ref: SecretRef, path: Path, values: Mapping[str, str]) -> bool:
        with files.hold_lock(path.with_name(f".{path.name}.lock")):
            text = self._read_text(ref, ref.locator) if path.exists() else ""
            known = _assignments(text)
            if any(known.get(name) for name in values):
                return False
            lines = "".join(f'{name}="{_escape(value)}"\n' for name, value in values.items())
            mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
            files.write(path, text + ("\n" if text and not text.endswith("\n") else "") + lines, mode=mode)
        return True

    def _variable(self, ref: SecretRef) -> str:
        value = self.environment.get(ref.locator)
        if value is None:
            raise UsageError(
                "HF-SEC-2",
                f"the environment variable {ref.locator} is not set ({ref})",
                hint="Set the variable, or correct the reference.",
            )
        return value

    def _file(self, ref: SecretRef) -> str:
        value = self._read_text(ref, ref.locator).removesuffix("\n").removesuffix("\r")
        if not value:
            raise UsageError(
                "HF-SEC-5",
                f"the file of {ref} is empty",
                hint="Write the secret into it, or correct the reference.",
            )
        return value

    def _dotenv(self, ref: SecretRef) -> str:
        path, _, name = ref.locator.rpartition("#")
        if not path or not name:
            raise UsageError(
                "HF-SEC-7",
                f"`{ref}` does not name a variable",
                hint="Write it as `dotenv:PATH#NAME`, such as dotenv:.env#TOKEN.",
            )
        value = _assignments(self._read_text(ref, path)).get(name)
        if not value:
            raise UsageError(
                "HF-SEC-8",
                f"{path} has no value for {name} ({ref})",
                hint=f"Add `{name}=…` on a line of its own and close every quote, or correct the reference.",
            )
        return value

    def _read_text(self, ref: SecretRef, path: str) -> str:
        return _read_text(ref, self.root / path, ForbiddenFiles(self.environment))


def _read_text(ref: SecretRef, path: Path, forbidden: ForbiddenFiles) -> str:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()) in forbidden:
                raise _forbidden(ref, "it leads to a key of Holdfast, or to a running process")
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(
            "HF-SEC-3",
            f"the file of {ref} does not exist: {path}",
            hint="Create it, or correct the reference. Relative paths start at the repository root.",
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name is not a path"
        raise UsageError(
            "HF-SEC-4",
            f"cannot read the file of {ref}: {reason}",
            hint="It must be a file that this user can read.",
        ) from None
    if len(content) > MAX_BYTES:
        raise UsageError(
            "HF-SEC-6", f"the file of {ref} is larger than {MAX_BYTES} bytes", hint="Is it the right file?"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(
            "HF-SEC-6",
            f"the file of {ref} is not UTF-8 text",
            hint="Check that it is the right file. Encode binary data as base64.",
        ) from None


def _forbidden(ref: SecretRef, why: str) -> UsageError:
    return UsageError("HF-SEC-20", f"{ref} is refused: {why}", hint="Use a variable or a file of your own.")


def _assignments(text: str) -> dict[str, str]:
    """`NAME=value`, quoted or not, `export` allowed; the last one wins. Nothing is expanded."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        match = _ASSIGNMENT.fullmatch(line)
        if match is None or line.lstrip().startswith("#"):
            continue
        value = _unquote(match["value"])
        if value is not None:
            values[match["name"]] = value
    return values


def assignments(text: str) -> dict[str, str]:
    """Of a file with `NAME=value` lines; empty values do not count."""
    return {name: value for name, value in _assignments(text).items() if value}


def _escape(value: str) -> str:
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        value = value.replace(plain, escaped)
    return value


def _unquote(text: str) -> str | None:
    """None for an open quote: half a secret is worse than none."""
    if text[:1] not in {'"', "'"}:
        return re.split(r"\s#", text, maxsplit=1)[0].rstrip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return None
    if quoted["single"] is not None:
        return str(quoted["single"])
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted["double"])
