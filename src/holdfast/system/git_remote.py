"""A remote Git repository as our own processes reach it, through a bare repository on this machine.

The repository is not trusted. Git reads no configuration but ours, runs no hook, filter or helper program,
speaks only the protocol of the address, and verifies every object. Credentials are in a configuration that
only its processes can open, by a descriptor.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final
from urllib.parse import SplitResult, urlsplit

from holdfast.kernel.errors import Failed, UsageError
from holdfast.kernel.patterns import pattern
from holdfast.kernel.secret import Secret
from holdfast.system import processes
from holdfast.system.addresses import is_local_address

_SCP: Final = pattern(r"\w[\w.-]*@\w[\w.-]*:(?!-)[^\s:]+")
_PASSED: Final = frozenset(
    {
        "PATH", "HOME", "LANG", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO",
        "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "https_proxy", "no_proxy", "all_proxy",
    }
)  # fmt: skip
_SECONDS: Final = 600.0
_UNAUTHORIZED: Final = (b"could not read Username", b"Authentication failed", b"Permission denied (publickey")
_SETTINGS: Final = """
[core]
  hooksPath = /dev/null
  fsmonitor = false
  askPass =
[credential]
  helper =
[http]
  followRedirects = false
[fetch]
  fsckObjects = true
  recurseSubmodules = false
[fetch "fsck"]
  zeroPaddedFilemode = ignore
  missingSpaceBeforeDate = ignore
  badTimezone = ignore
[gc]
  auto = 0
[advice]
  detachedHead = false
[safe]
  directory = *
"""
"""Redirects are not followed: another host would get the credentials. Three harmless errors are common."""


class GitRemote:
    """Errors name the address, never what was sent to it."""

    check_hint: ClassVar[str]
    missing_hint: ClassVar[str]
    wrong_hint: ClassVar[str]
    """Ends where "it is USER:PASSWORD or a token" follows."""
    given: ClassVar[str]
    """The credentials are `registered`."""
    where: ClassVar[str] = ""
    """Whose environment Git gets, after a noun."""

    def __init__(
        self,
        folder: Path,
        url: str,
        variables: Mapping[str, str],
        *,
        credentials: Secret | None = None,
    ) -> None:
        """`credentials` are `USER:PASSWORD` or a token, for https."""
        self._folder = folder
        self._url = url
        self._protocol = protocol_of(url)
        self._variables = {name: value for name, value in variables.items() if name in _PASSED}
        if authority := self._variables.get("SSL_CERT_FILE"):
            # Git reads only its own variable.
            self._variables.setdefault("GIT_SSL_CAINFO", authority)
        self._credentials = credentials

    @property
    def url(self) -> str:
        return self._url

    def _create(self) -> None:
        if (self._folder / "HEAD").exists() and self._git("rev-parse", "--git-dir").code == 0:
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700)
        created = self._git("init", "--quiet", "--bare", "--template=", str(self._folder))
        # States belong to the repository with this address.
        named = self._git("config", "remote.origin.url", self._url)
        if created.code != 0 or named.code != 0:
            raise self._error("its copy cannot be created", created if created.code else named)

    def _git(
        self,
        *arguments: str,
        remote: bool = False,
        folder: Path | None = None,
        stdin: bytes | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> processes.Finished:
        """Only a request to the host gets the credentials."""
        settings = _SETTINGS + (self._authorization() if remote else "")
        where = () if folder is not None else (f"--git-dir={self._folder}",)
        with processes.OutputBuffer() as buffer:
            os.write(buffer.number, settings.encode())
            return processes.run(
                ("git", *where, *arguments),
                folder=folder or self._folder,
                environment={
                    **self._variables,
                    "GIT_CONFIG_NOSYSTEM": "1",
                    "GIT_CONFIG_GLOBAL": f"/dev/fd/{buffer.number}",
                    "GIT_ATTR_NOSYSTEM": "1",
                    "GIT_ALLOW_PROTOCOL": self._protocol,
                    "GIT_TERMINAL_PROMPT": "0",
                    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes",
                    "LC_ALL": "C",
                    **variables,
                },
                seconds=_SECONDS,
                stdin=stdin,
                fetches_code=True,
                hand_over=(buffer.number,),
            )

    def _authorization(self) -> str:
        if self._credentials is None or self._protocol not in {"https", "http"}:
            return ""
        text = self._credentials.reveal().strip()
        # Every code host takes a token as password, and GitHub needs a user.
        user = text if ":" in text else f"x-access-token:{text}"
        value = base64.b64encode(user.encode()).decode()
        parts = urlsplit(self._url)
        return f'[http "{parts.scheme}://{parts.netloc}/"]\n  extraHeader = Authorization: Basic {value}\n'

    def _error(self, what: str, answer: processes.Finished) -> Failed:
        if any(sign in answer.err for sign in _UNAUTHORIZED):
            return self._unauthorized()
        lines = answer.err.decode(errors="replace").strip().splitlines()
        why = next((line for line in lines if line.startswith(("fatal:", "error:"))), "git gave no reason")
        hint = f"{self.check_hint} Redirects are not followed."
        if "certificate" in why.lower():
            hint = f"If your own authority issued it, set SSL_CERT_FILE{self.where} to its PEM file."
        message = f"{self._url}: {what}: {why.partition(':')[2].strip() or why}"
        return Failed("HF-SRC-5", message, hint=hint)

    def _unauthorized(self) -> Failed:
        if self._protocol == "ssh":
            message, hint = "the host did not accept the SSH key", f"Check the SSH agent{self.where}."
        elif self._credentials is None:
            message = f"the host asks for credentials, and none are {self.given}"
            hint = self.missing_hint
        else:
            message = "the host did not accept the credentials"
            hint = f"{self.wrong_hint}: it is USER:PASSWORD or a token, "
            hint += "which may have expired or have no access to this repository."
        return Failed("HF-SRC-6", f"{self._url}: {message}", hint=hint)


def protocol_of(url: str) -> str:
    """Of an address that may be registered: `https` or `ssh`; or an error that says what is wrong with it."""
    why = "it is neither https:// nor SSH"
    if any(character.isspace() or not character.isprintable() or character == '"' for character in url):
        why = "it contains a character that does not belong there"
    elif "://" not in url:
        if _SCP.fullmatch(url):
            return "ssh"
    else:
        parts = _parts(url)
        accepts = _PROTOCOLS.get(parts.scheme) if parts is not None else None
        if parts is not None and accepts is not None and accepts(parts):
            return parts.scheme
        if parts is not None and "@" in parts.netloc:
            why = "it contains a user or a password, which belong in the credentials"
    # The address itself may contain a secret.
    raise UsageError(
        "HF-SRC-3",
        f"this is not the address of a repository: {why}",
        hint="Write https://HOST/PATH or git@HOST:PATH.",
    )


_PROTOCOLS: Final[Mapping[str, Callable[[SplitResult], bool]]] = {
    "https": lambda parts: bool(parts.hostname) and parts.username is None and parts.password is None,
    # Only on this machine.
    "http": lambda parts: is_local_address(parts.hostname or "") and parts.username is None,
    "ssh": lambda parts: not (parts.hostname or "-").startswith("-") and parts.password is None,
}


def _parts(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None
