"""Patterns of the configuration for rules, paths, addresses and stacks."""

from __future__ import annotations

import fnmatch
import functools
import re

_SAMPLE = re.compile(
    r"(?i)(?:^|/)(?:[\w.]+[-_])?(?:examples?|samples?|tests|testing|test[-_]?data|mocks?|stubs?|fixtures?"
    r"|sandbox(?:es)?|playgrounds?|templates?|skeletons?|boilerplates?|demos?|tutorials?|lessons?|workshops?"
    r"|poc)(?:[-_][^/]*)?(?:/|$)|(?:^|/)(?:cookiecutter|\{\{)"
)
_RETIRED = re.compile(
    r"(?i)(?:^|/)(?:[\w.]*[-_])?(?:old|obsolete|deprecated|decom(?:m?issioned)?|archived|retired|unused|attic|graveyard"
    r"|cold[-_]?storage|trash|to[-_]be[-_]deleted)(?:[-_][^/]*)?/|(?:^|/)(?:_*archives?/[^/]+|[_.]+archives?)/"
)
_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def is_rule(pattern: str, rule: str) -> bool:
    """`HF101` or `HF1*`, in any case."""
    wanted, has = pattern.casefold(), rule.casefold()
    return has.startswith(wanted[:-1]) if wanted.endswith("*") else wanted == has


def is_sample(folder: str) -> bool:
    """Whether a folder of code is an example, a test, a template to be copied, or a sandbox."""
    return _SAMPLE.search(folder) is not None


def is_retired(path: str) -> bool:
    """Whether a file is in a folder of old code: `obsolete`, `z_old`, `uat-decom`, `archive/2021`."""
    return _RETIRED.search(path) is not None


def is_path(pattern: str, path: str | None) -> bool:
    """A file, or anything below a folder. `*` matches part of a name, `**` any folders."""
    if path is None:
        return False
    matcher = _matcher(pattern)
    parts = path.split("/")
    return pattern == "." or any(
        matcher.fullmatch("/".join(parts[:count])) is not None for count in range(len(parts), 0, -1)
    )


@functools.lru_cache(maxsize=1024)
def _matcher(pattern: str) -> re.Pattern[str]:
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", pattern)
    return re.compile("".join(_WILD.get(token) or re.escape(token) for token in tokens), re.DOTALL)


def is_name(pattern: str, name: str | None) -> bool:
    """An address or a stack. Only `*` is special, since addresses contain `[`."""
    if name is None:
        return False
    return name == pattern or fnmatch.fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]"))
