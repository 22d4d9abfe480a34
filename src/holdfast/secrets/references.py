"""Where a secret is to be had, turned into the secret: what lies on this machine, and the way to all others.

`env:NAME`, `file:PATH` and `dotenv:PATH#NAME` are read here; `sources/` reads what is behind a network. Each
source is one line in a catalogue. Messages name the reference, never the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from holdfast.config.valid import SECRET_SCHEMES, SecretRef
from holdfast.kernel.errors import UsageError
from holdfast.kernel.secret import Secret
from holdfast.system.environment import Environment

MOST_BYTES = 64 * 1024
_ASSIGNMENT = re.compile(
    r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(?P<value>.*?)\s*", re.ASCII
)
_QUOTED = re.compile(r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)')\s*(?:\#.*)?""")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def resolve(ref: SecretRef, environment: Environment, root: Path) -> Secret:
    """The value behind a reference; relative paths start at `root`. An empty value is an error.

    Whoever needs several, or the same again, takes a `Reader`: it reads each once.
    """
    if (source := SOURCES.get(ref.scheme)) is not None:
        return Secret(source(ref, environment, root))
    from holdfast.secrets.reader import Reader  # noqa: PLC0415 - few stacks have a source behind a network

    return Reader(environment, root).read(ref)


def unknown_source(ref: SecretRef) -> UsageError:
    return UsageError(
        "HF-SEC-1",
        f"secrets cannot be taken from `{ref.scheme}:` ({ref})",
        hint=f"There is: {', '.join(f'{name}:' for name in SECRET_SCHEMES)}.",
    )


def _from_environment(ref: SecretRef, environment: Environment, root: Path) -> str:
    del root
    value = environment.get(ref.locator)
    if value is None:
        raise UsageError(
            "HF-SEC-2",
            f"the environment variable {ref.locator} is not set ({ref})",
            hint="Set it, or mend the reference.",
        )
    return value


def _from_file(ref: SecretRef, environment: Environment, root: Path) -> str:
    del environment
    text = _text(ref, root / ref.locator)
    value = text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise UsageError(
            "HF-SEC-5", f"the file of {ref} is empty", hint="Write the secret into it, or mend the reference."
        )
    return value


def _from_dotenv(ref: SecretRef, environment: Environment, root: Path) -> str:
    del environment
    path, _, name = ref.locator.rpartition("#")
    if not path or not name:
        raise UsageError(
            "HF-SEC-7",
            f"`{ref}` names no variable",
            hint="Write it as `dotenv:PATH#NAME`, such as dotenv:.env#TOKEN.",
        )
    value = _assignments(_text(ref, root / path)).get(name)
    if not value:
        raise UsageError(
            "HF-SEC-8",
            f"{path} has no value for {name} ({ref})",
            hint=f"Add a line `{name}=…` on one line with both quotes if it has any, or mend the reference.",
        )
    return value


Source = Callable[[SecretRef, Environment, Path], str]
SOURCES: Mapping[str, Source] = MappingProxyType(
    {"env": _from_environment, "file": _from_file, "dotenv": _from_dotenv}
)
"""What lies on this machine: quick to read, and nobody has to be asked."""


def _text(ref: SecretRef, path: Path) -> str:
    try:
        with path.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(
            "HF-SEC-3",
            f"the file of {ref} is not there: {path}",
            hint="Put the secret there, or mend the reference. Relative paths start at the root.",
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name is not a path"
        raise UsageError(
            "HF-SEC-4",
            f"the file of {ref} cannot be read: {reason}",
            hint="It must be a file, and this user must be allowed to read it.",
        ) from None
    if len(content) > MOST_BYTES:
        raise UsageError(
            "HF-SEC-6", f"the file of {ref} is larger than {MOST_BYTES} bytes", hint="Is it the right file?"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(
            "HF-SEC-6",
            f"the file of {ref} is not text in UTF-8",
            hint="Is it the right file? Encode binary data as base64.",
        ) from None


def _assignments(text: str) -> dict[str, str]:
    """`NAME=value`, quoted or not, `export` allowed; the last one wins. Nothing is expanded."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _ASSIGNMENT.fullmatch(line)
        if match is None or line.lstrip().startswith("#"):
            continue
        value = _value(match["value"])
        if value is not None:
            found[match["name"]] = value
    return found


def _value(text: str) -> str | None:
    """None for a quote that is not closed: half a secret is worse than none."""
    if text[:1] not in {'"', "'"}:
        return re.split(r"\s#", text, maxsplit=1)[0].rstrip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return None
    if quoted["single"] is not None:
        return str(quoted["single"])
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted["double"])
