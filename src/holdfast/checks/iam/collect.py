"""Collects the policy documents of modules and variables files with their uses, once each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from holdfast.checks.code.bodies import holds, lines_with
from holdfast.checks.iam import data_source
from holdfast.checks.iam.danger import has_relevant_unknowns
from holdfast.checks.iam.document import HOLE, Fields, Issue, Malformed, Node, encode_json, flatten
from holdfast.checks.iam.expressions import (
    DATA_SOURCE,
    DocumentReader,
    UnresolvedDocument,
    WrittenDocument,
    data_source_names,
)
from holdfast.checks.iam.policies import (
    MARK,
    IamPolicy,
    MalformedPolicy,
    Policies,
    has_statement,
    make_policy,
    may_be_policy,
    policies_in_file,
    read_variables_policies,
)
from holdfast.checks.iam.policy_types import (
    BOUNDARY,
    RESOURCE_CONTROL,
    PolicyKind,
    PolicyUse,
    combine_uses,
    guess_use,
    looks_like_policy,
    uses_by_type,
)
from holdfast.checks.model.interface import CheckResult, Finding, Severity, finding
from holdfast.checks.model.subjects import (
    CheckedStack,
    Checkout,
    Module,
    Resource,
    VariablesFile,
    bodies,
    nested,
    value,
)
from holdfast.hcl.nodes import (
    Attribute,
    Block,
    Call,
    Expression,
    Literal,
    Object,
    Template,
    references,
    walk,
)
from holdfast.kernel.errors import Place
from holdfast.kernel.patterns import pattern

_MARKS = pattern(rb"Statement|file\(")
"""A document, or a file that may be one."""
_CLOUDS: Final = (
    *("alicloud", "baiducloud", "byteplus", "flexibleengine", "huaweicloud", "ksyun", "opentelekomcloud"),
    *("sbercloud", "scaleway", "tencentcloud", "volcengine"),
)


def policies_of_module(module: Module) -> Policies:
    policies: Policies = module.checkout.code.once(
        ("policies", module.folder), lambda: _PolicyCollector(module).all()
    )
    return policies


def policies_of_variables(variables: VariablesFile) -> Policies:
    key = ("policies of", variables.path)
    policies: Policies = variables.checkout.code.once(key, lambda: read_variables_policies(variables))
    return policies


def policy_files(subject: Module | VariablesFile | CheckedStack) -> Iterator[str]:
    """The JSON files that were searched for documents."""
    match subject:
        case Module():
            yield from policies_of_module(subject).files
        case VariablesFile():
            yield from policies_of_variables(subject).files
        case CheckedStack():
            for folder in subject.folders:
                yield from policies_of_module(subject.checkout.module(folder)).files


class _PolicyCollector:
    def __init__(self, module: Module) -> None:
        self._module = module
        self._reader = DocumentReader(module)
        self._policies: list[IamPolicy] = []
        self._malformed: list[MalformedPolicy] = []
        self._unresolved: list[tuple[str, str]] = []
        self._seen: set[tuple[str, int, int, str]] = set()
        self._data_uses: dict[str, list[PolicyUse]] = {}
        self._files: set[str] = set()

    def all(self) -> Policies:
        bounding = boundary_policies(self._module)
        for resource in self._module.resources(mode="managed"):
            if resource.type in uses_by_type():
                self._resource(resource, bounding=resource.address in bounding)
        self._data_sources()
        self._add_others()
        self._json_files()
        partly = [
            (policy.file, policy.address or policy.file)
            for policy in self._policies
            if has_relevant_unknowns(policy.document, policy.kind, policy.statements)
        ]
        return Policies(
            tuple(self._policies),
            tuple(self._malformed),
            tuple(self._unresolved),
            tuple(partly),
            tuple(sorted(self._files)),
        )

    def _resource(self, resource: Resource, *, bounding: bool) -> None:
        for name, listed in uses_by_type()[resource.type].items():
            use = resolve_use(resource, listed, bounding=bounding)
            block, _, inner = name.rpartition(".")
            bodies = [inside.body for inside in nested(resource.body, block)] if block else [resource.body]
            for body in bodies:
                attribute = body.attribute(inner)
                if attribute is not None:
                    self._add_used(attribute.expression, use, resource)

    def _add_used(
        self, expression: Expression, use: PolicyUse, resource: Resource, *, part: bool = False
    ) -> None:
        """`part`: it is included in another document, which may have all the statements."""
        for name in dict.fromkeys(data_source_names(expression)):
            self._data_uses.setdefault(name, []).append(use)
        file = resource.block.file
        ways = tuple(self._reader.documents_in(expression, file))
        for way in ways:
            if isinstance(way, WrittenDocument):
                if not part or not _is_bare(way.document):
                    certain = len(ways) == 1 or way.one_of_many
                    self._add(replace(way, certain=certain), use, resource.address)
            elif not data_source_names(way.expression):
                self._unresolved.append((file, resource.address))

    def _add(
        self, written: WrittenDocument, use: PolicyUse | None, address: str | None, name: str = ""
    ) -> None:
        key = (written.file, written.line, written.column, written.text)
        if key in self._seen:
            return
        self._seen.add(key)
        if written.own_file:
            self._files.add(written.file)
            address = None
        document = written.document
        if isinstance(document, Malformed):
            if HOLE in written.text:
                self._unresolved.append((written.file, address or written.file))
            elif use is not None and written.text.strip():
                self._malformed.append(MalformedPolicy(document, written.file, address))
        elif use is not None and _is_unresolved(document):
            self._unresolved.append((written.file, address or written.file))
        elif (use is not None and use.kind is not PolicyKind.ORGANIZATION) or looks_like_policy(document):
            used = guess_use(f"{name} {written.file}", document) if written.one_of_many else use
            if used is None or (use is not None and used.kind in (use.kind, PolicyKind.UNCLEAR)):
                used = use or guess_use(name, document)
            policy = make_policy(document, used, written.text, written.file, address)
            self._policies.append(replace(policy, certain=written.certain))

    def _data_sources(self) -> None:
        """With their uses; an included document has the use of the one that includes it."""
        sources = {source.name: source for source in self._module.resources(DATA_SOURCE, mode="data")}
        waiting = list(self._data_uses)
        while waiting:
            name = waiting.pop()
            for expression in data_source.merged_documents(sources[name].body) if name in sources else ():
                for other in data_source_names(expression):
                    more = [
                        use
                        for use in self._data_uses[name]
                        if use not in self._data_uses.setdefault(other, [])
                    ]
                    self._data_uses[other].extend(more)
                    waiting.extend([other] if more else [])
        for resource in sources.values():
            self._data_source(resource)

    def _data_source(self, resource: Resource) -> None:
        line, column = resource.block.line, resource.block.column
        document = data_source.document_from_data_source(resource.body, self._reader, line, column)
        uses = self._data_uses.get(resource.name)
        use = combine_uses(uses) if uses else guess_use(resource.name, document)
        listed = document.fields.get("Statement")
        if listed is not None and listed.items:
            text = encode_json(document)
            self._policies.append(make_policy(document, use, text, resource.place.file, resource.address))
        for expression in data_source.merged_documents(resource.body):
            self._add_used(expression, use, resource, part=True)

    def _add_others(self) -> None:
        """Documents in locals, module arguments, and resources that are not in the table."""
        for file in self._module.files:
            content = self._module.checkout.content(file.path) or b""
            if MARK not in content and b"file(" not in content:
                continue
            marked = lines_with(_MARKS, content)
            for block in file.body.blocks:
                if not _is_known_use(block) and not _is_foreign(block) and holds(block, marked):
                    for body in bodies(block):
                        for attribute in body.attributes:
                            self._expression(attribute, block, file.path)

    def _expression(self, attribute: Attribute, block: Block, file: str) -> None:
        name = f"{' '.join(block.labels)} {attribute.name}"
        address = _address(block, attribute.name)
        for part in walk(attribute.expression):
            if isinstance(part, Object) and has_statement(part):
                self._add(self._reader.object_document(part, file), None, address, name)
            elif _may_be_document(part):
                for way in self._reader.documents_in(part, file):
                    if isinstance(way, UnresolvedDocument):
                        continue
                    self._add(way, None, address, f"{name} {way.file}" if way.own_file else name)

    def _json_files(self) -> None:
        tree, folder = self._module.checkout.code.tree, self._module.folder
        for name in tree.names(folder):
            path = tree.join(folder, name)
            if path not in self._files and may_be_policy(path):
                self._files.add(path)
                policies = policies_in_file(self._module.checkout, path)
                self._policies.extend(policies.policies)
                self._malformed.extend(policies.malformed)
                self._unresolved.extend(policies.unresolved)


def _is_bare(document: Node | Malformed) -> bool:
    """An object without statements: `{"Id": "…"}`."""
    if isinstance(document, Malformed) or not isinstance(document.content, Fields):
        return False
    return not document.fields.has("Statement") and not document.fields.more


def _is_unresolved(document: Node) -> bool:
    """Whether all of its statements are unknown."""
    listed = document.fields.get("Statement")
    if listed is None:
        return not document.exists or document.fields.more
    items = tuple(flatten(listed))
    return bool(items) and not any(item.exists for item in items)


def _may_be_document(part: Expression) -> bool:
    match part:
        case Call(name="file" | "templatefile"):
            return True
        case Literal(value=str() as text):
            return '"Statement"' in text
        case Template(pieces=pieces):
            return any(isinstance(piece, Literal) and '"Statement"' in str(piece.value) for piece in pieces)
        case _:
            return False


def _is_known_use(block: Block) -> bool:
    """A block whose documents were already found by their use."""
    kind = (block.type, block.labels[0] if block.labels else "")
    return (kind[0] == "resource" and kind[1] in uses_by_type()) or kind == ("data", DATA_SOURCE)


def _is_foreign(block: Block) -> bool:
    """A resource of a cloud with policies that look like those of AWS and have another grammar."""
    return block.type in ("resource", "data") and "".join(block.labels[:1]).partition("_")[0] in _CLOUDS


def _address(block: Block, name: str) -> str | None:
    match block:
        case Block(type="locals"):
            return f"local.{name}"
        case Block(type="resource", labels=(type_, label)):
            return f"{type_}.{label}"
        case Block(type=("module" | "variable" | "output") as kind, labels=(label,)):
            return f"{'var' if kind == 'variable' else kind}.{label}"
        case _:
            return None


# What a resource uses its document as, if its type alone does not tell

_POLICY = "aws_iam_policy"
_BOUNDARY = "permissions_boundary"


def resolve_use(resource: Resource, listed: PolicyUse, *, bounding: bool) -> PolicyUse:
    """`listed`: the use in the table of types."""
    if listed.kind is PolicyKind.ORGANIZATION and value(resource.body, "type") == "RESOURCE_CONTROL_POLICY":
        return RESOURCE_CONTROL
    return BOUNDARY if bounding else listed


def boundary_policies(module: Module) -> frozenset[str]:
    """The managed policies that are permissions boundaries and are not attached in this module.

    Their name says so, or a `permissions_boundary` of the module refers to them.
    """
    policies = {policy.address: policy for policy in module.resources(_POLICY, mode="managed")}
    if not policies or not any(
        b"boundary" in (module.checkout.content(path) or b"") for path in module.paths
    ):
        return frozenset()
    called = {
        address
        for address, policy in policies.items()
        if "boundary" in f"{policy.name} {value(policy.body, 'name')}".lower()
    }
    bounding: set[str] = set()
    attached: set[str] = set()
    for resource in module.resources(mode="managed"):
        for name, address in _named_policies(resource):
            (bounding if name == _BOUNDARY else attached).add(address)
    return frozenset((called | bounding) & policies.keys() - attached)


def _named_policies(resource: Resource) -> Iterator[tuple[str, str]]:
    """The managed policies that it refers to, each with the argument."""
    for body in bodies(resource.block):
        for attribute in body.attributes:
            for reference in references(attribute.expression):
                if reference.root == _POLICY and len(reference.names) > 1:
                    yield attribute.name, f"{_POLICY}.{reference.names[1]}"


# Rules about policy documents

IssueFinder = Callable[[IamPolicy], Iterable[Issue]]
PolicyCheck = Callable[[Policies, Checkout], Iterable[CheckResult]]


def for_policies(check: PolicyCheck) -> dict[str, Any]:
    """The functions of a `Rule` about policy documents in code and variables files."""
    return {
        "source": lambda module: check(policies_of_module(module), module.checkout),
        "variables": lambda file: check(policies_of_variables(file), file.checkout),
        "extra_files": policy_files,
        "everywhere": True,
    }


def policy_rule(find: IssueFinder, severity: Severity) -> dict[str, Any]:
    """The severity of a `Rule` about single policy documents, and its functions."""
    check = partial(findings_from_policies, find, severity)
    return {"severity": severity, **for_policies(lambda policies, _: check(policies))}


def findings_from_policies(find: IssueFinder, severity: Severity, policies: Policies) -> Iterator[Finding]:
    for policy in policies.policies:
        for issue in find(policy):
            yield finding_from_issue(policy, issue, severity)


def finding_from_issue(
    policy: IamPolicy, issue: Issue, severity: Severity, stack: str | None = None
) -> Finding:
    is_certain = issue.severe and policy.certain and id(issue.at) not in policy.possible_parts
    return finding(
        Place(file=policy.file, line=issue.at.line or None, column=issue.at.column or None),
        issue.message,
        address=policy.address,
        hint=issue.hint,
        group=issue.group,
        severity=Severity.NOTE if issue.is_note else severity if is_certain else severity.milder,
        stack=stack,
    )
