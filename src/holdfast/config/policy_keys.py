"""The keys of `checks` that policy documents, names and tags are held against."""

from __future__ import annotations

from typing import Final

from holdfast.config.shape import Key, Names, Text
from holdfast.config.texts import NAME_PATTERN, NAME_SAYS

_AT_MOST_EIGHT_STARS: Final = r"(?!(?:[^*]*\*){9})"
_CONVENTION: Final = Text(
    says="text with up to eight `*`, and {company}, {environment}, {account}, {region} or {stack}",
    pattern=_AT_MOST_EIGHT_STARS + r"(?:[^{}\x00-\x1f]|\{(?:company|environment|account|region|stack)\})+",
)

POLICY_KEYS: Final = (
    Key(
        name="accounts",
        shape=Names(
            value=Text(says="the twelve digits of an account", pattern=r"[0-9]{12}"),
            pattern=NAME_PATTERN,
            says=NAME_SAYS,
        ),
        doc="Your own AWS accounts: the name of each (a stack's `account`) and its number.",
    ),
    Key(
        name="names",
        shape=Names(
            value=_CONVENTION,
            pattern=_AT_MOST_EIGHT_STARS + r"[A-Za-z_*][A-Za-z0-9_*-]*",
            says="a type such as `aws_s3_bucket`, with up to eight `*`",
        ),
        doc="How resources of a type are named (HF515); the longest type that matches wins.",
    ),
    Key(
        name="tags",
        shape=Names(value=_CONVENTION, pattern=r"[^\x00-\x1f]{1,128}", says="the name of a tag"),
        doc="Tags that every resource with tags must have, and what they say (HF516); `*` is anything.",
    ),
)
