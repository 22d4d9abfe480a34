from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.required import may_run
from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Module, bodies, value
from holdfast.checks.secrets.known_secrets import names_secret
from holdfast.checks.secrets.secret_flow import is_marked
from holdfast.hcl.nodes import Block, Call, Expression, Literal, Traversal, references
from holdfast.hcl.reader import UNKNOWN, constant
from holdfast.kernel.patterns import pattern
from holdfast.terraform.versions import Version

_SENSITIVE = Version.parse("0.14")
"""The first version that knows the argument."""
_TEXTS = frozenset({"string", "any"})
_LISTS = frozenset({"list", "set", "map"})
_ABOUT = (
    "manage", "create", "enable", "use", "generate", "rotate", "require", "allow", "reset", "store", "random",
    "ignore", "has", "is", "with", "add", "attach", "disable", "include", "no", "min", "max",
)  # fmt: skip
_PLAIN_ENDS = (
    "_secret",
    "_secrets",
    "secret",
    "secrets",
    "_access_key",
    "_key_pair",
    "_credential",
    "_credentials",
)

_NAMES_ONE = pattern(
    r"(?i)^(?:the )?(?:[\w-]+ ){0,4}(?:names?|paths?|arns?|ids?)"
    r" (?:of|for|to|in|where|that|which|containing)\b"
)
_KEY_ID = pattern(r"(?:[a-z0-9]+_)?access_key")
_NAME = pattern(r"(?:^|_)(?:name|id|arn|path)$")


def _check(module: Module) -> Iterator[CheckResult]:
    if not may_run(module, _SENSITIVE):
        return
    words = module.checkout.config.redaction.words
    uses = _uses(module)
    for block in module.blocks("variable"):
        name = block.labels[0] if block.labels else ""
        if not names_secret(name, words) or name.split("_")[0] in _ABOUT or not _may_hold(name, block):
            continue
        if is_marked(module, "variable", name) or _is_only_a_name(module, block, uses.get(name, set())):
            continue
        default = block.body.attribute("default")
        if name not in uses and default is not None and constant(default.expression) == "":
            continue  # Nothing can be in it.
        mark = block.body.attribute("sensitive")
        if mark is not None and constant(mark.expression) is UNKNOWN:
            yield Skipped(reason=f"`sensitive` of `{name}` is computed", file=block.place.file)
            continue
        yield finding(
            block,
            f"`{name}` sounds like a secret and is not marked `sensitive`",
            address=f"var.{name}",
            severity=None if name in uses and (module.roots or not module.stacks) else Severity.NOTE,
        )


def _uses(module: Module) -> dict[str, set[str]]:
    """The variables that can get into a plan, each with the arguments that use it.

    The arguments of providers and backends do not get there.
    """
    uses: dict[str, set[str]] = {}
    for block in module.blocks("resource", "data", "module", "locals", "output", "check", "ephemeral"):
        for body in bodies(block):
            for attribute in body.attributes:
                for reference in references(attribute.expression):
                    named = reference.root == "var" and len(reference.names) > 1
                    if named and (block.type != "module" or _is_used(module, block, attribute.name)):
                        uses.setdefault(reference.names[1], set()).add(attribute.name)
    return uses


def _is_used(module: Module, call: Block, argument: str) -> bool:
    """Whether a called module uses its variable, as far as its code is there."""
    checkout, source = module.checkout, value(call.body, "source")
    folder = checkout.code.tree.inside(module.folder, str(source)) if str(source).startswith(".") else None
    files = checkout.module(folder).files if folder is not None else ()
    return not files or any(checkout.mentions(file.path, f"var.{argument}".encode()) for file in files)


def _is_only_a_name(module: Module, block: Block, arguments: set[str]) -> bool:
    """Whether its description or its uses say that it is the name of a secret, or the id of a key."""
    description = block.body.attribute("description")
    text = constant(description.expression) if description is not None else None
    if isinstance(text, str) and _NAMES_ONE.search(text):
        return True
    if _KEY_ID.fullmatch(block.labels[0]):
        return any("secret" in other.labels[0] for other in module.blocks("variable") if other.labels)
    return bool(arguments) and all(map(_NAME.search, arguments))


def _may_hold(name: str, block: Block) -> bool:
    """Whether its type can hold a secret. A `…_secret` or a list is often only the name of one."""
    type_, default = block.body.attribute("type"), block.body.attribute("default")
    kind = _type(type_.expression) if type_ is not None else None
    if kind is None and default is not None:
        literal = constant(default.expression)
        kind = "string" if isinstance(literal, str) or literal is None else type(literal).__name__
    if kind not in (None, *_TEXTS):
        return False
    written = constant(default.expression) if default is not None else None
    names_one = name.lower().endswith(_PLAIN_ENDS) and isinstance(written, str) and written != ""
    return not names_one


def _type(expression: Expression) -> str | None:
    match expression:
        case Traversal(steps=()):
            return expression.root
        case Literal(value=str() as text):
            return text
        case Call(name=name, arguments=(Traversal() as inner,)) if name in _LISTS:
            return f"{name}({inner.root})"
        case _:
            return "other"


RULE = Rule(
    id="HF211",
    title="Secret-looking variable that is not sensitive",
    fix="Add `sensitive = true`, and `ephemeral = true` if it is only passed to providers and "
    "write-only arguments.",
    severity=Severity.WARNING,
    source=_check,
)
