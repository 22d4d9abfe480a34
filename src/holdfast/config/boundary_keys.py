"""The keys of `checks.boundary` and `checks.backend`."""

from __future__ import annotations

from typing import Final

from holdfast.config.boundary_valid import ANY, BUCKET, KEY, LOCK_TABLE, Side
from holdfast.config.shape import Choice, Key, ListOf, Names, Record, Text

PLACEHOLDERS: Final = ("company", "environment", "region", "account", "target", "name", "component")

_AT_MOST_EIGHT_STARS: Final = r"(?!(?:[^*]*\*){9})"
_TYPE_PATTERN: Final = _AT_MOST_EIGHT_STARS + r"[A-Za-z_*][A-Za-z0-9_*-]*"
_TYPE_SAYS: Final = "a type such as `kubernetes_namespace`, with up to eight `*`"

BOUNDARY: Final = Record(
    keys=(
        Key(
            name="types",
            shape=Names(value=Choice(values=tuple(Side)), pattern=_TYPE_PATTERN, says=_TYPE_SAYS),
            doc="Who owns objects of a type: `gitops` or `terraform`. The most exact pattern wins.",
        ),
        Key(
            name="exempt",
            shape=ListOf(
                item=Record(
                    keys=(
                        Key(
                            name="stack",
                            shape=Text(
                                says="a name with up to eight `*`, or a filter such as `target:local`",
                                pattern=_AT_MOST_EIGHT_STARS + r"[^\x00-\x1f]+",
                            ),
                            doc="Which stacks: a name, `*` in it, or `env:`, `region:`, `target:` …",
                            required=True,
                        ),
                        Key(
                            name="types",
                            shape=ListOf(item=Text(says=_TYPE_SAYS, pattern=_TYPE_PATTERN, most=200)),
                            doc="Which types they may write; absent: all.",
                        ),
                        Key(name="reason", shape=Text(), doc="Why they may.", required=True),
                    )
                )
            ),
            doc="Stacks that may write what is otherwise GitOps' own.",
        ),
    )
)


def _name(name: str, doc: str, default: str) -> Key:
    braces = "|".join(PLACEHOLDERS)
    return Key(
        name=name,
        shape=Text(
            says=f"a name with placeholders ({', '.join(f'{{{one}}}' for one in PLACEHOLDERS)}), or `any`",
            pattern=rf"(?:[^{{}}\x00-\x1f]|\{{(?:{braces})\}})+",
            numbers=False,
        ),
        doc=doc,
        default=default,
    )


BACKEND_NAMES: Final = Record(
    keys=(
        _name("bucket", "How buckets of states are named.", BUCKET),
        _name("lock_table", "How DynamoDB tables for locks are named.", LOCK_TABLE),
        _name("key", "How the key of a state in its bucket or container is made.", KEY),
        _name("storage_account", "How Azure storage accounts of states are named.", ANY),
        _name("container", "How their containers are named.", ANY),
    )
)
