from __future__ import annotations

import re

from holdfast.checks.model.contents import ContentKind, holds_key, is_packed_plan, is_shown_plan, is_state
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.subjects import Checkout
from holdfast.checks.secrets.committed_files import Content, Suspect, in_git, is_source_or_document, name_of
from holdfast.checks.secrets.evidence import holds_usable_key, is_expired, is_for_localhost, is_made_up
from holdfast.checks.secrets.texts import may_hold_secrets
from holdfast.kernel.patterns import pattern

_STATE_NAME = pattern(r"\.tfstate(?:$|[^A-Za-z])", re.IGNORECASE)
_POSSIBLE_STATE_NAME = pattern(r"^[^.]+$|\.(?:json|bak|backup|old|orig|save|state|txt)$", re.IGNORECASE)
_RESOURCES = pattern(rb'"(?:resources|primary)"\s*:\s*[\[{]\s*[{"]|"sensitive"\s*:\s*true')
"""Of any version."""
_TYPES = pattern(rb'"type"\s*:\s*"([a-z0-9]+_\w+)"')
_STORE = pattern(
    rb"aws_(?:s3_bucket\w*|s3_account_public_access_block|dynamodb_table|kms_(?:key|alias|key_policy)"
    rb"|iam_(?:policy\w*|(?:user|group|role)(?:_polic\w+|_(?:group_)?membership)?|instance_profile|openid_connect_provider"
    rb"|account_alias)|caller_identity|region|partition|availability_zones|canonical_user_id|organizations_organization)"
    rb"|google_(?:storage_bucket\w*|project|project_services?|(?:project|service_account|kms_crypto_key)_iam_\w+"
    rb"|service_account|iam_workload_identity_pool\w*|kms_(?:crypto_key|key_ring))"
    rb"|azurerm_(?:resource_group|storage_container|client_config|subscription|role_(?:assignment|definition))"
    rb"|random_(?:id|pet|integer)|tls_certificate"
)
"""What a state is stored in and locked with, and who may use it: such a state often has no other place."""
_MOVE = "Move the state to a backend (`holdfast state push` or `adopt`), run `git rm --cached`"
_SENSITIVE = pattern(rb'"sensitive_attributes"\s*:\s*\[\s*[^\]\s]|"sensitive"\s*:\s*true')
_OTHER_NAME = pattern(
    r"\.(?:enc|enc\.json|gpg|asc|age|sops|sops\.json|vault|sig|(?:sha\d+|md5)(?:sums?)?)$", re.IGNORECASE
)
"""Encrypted, or a checksum."""
_CHECKSUM = pattern(rb"\s*(?:[0-9a-fA-F]{32,128}(?:[ \t][^\r\n]*)?(?:[\r\n]|$)|(?:SHA\d+|MD5) ?\()")
_LOCK_NAME = pattern(r"\.tfstate\.lock\.info$", re.IGNORECASE)
_OUTPUTS = pattern(rb'"outputs"\s*:\s*\{\s*"')
_STATE_FILE = pattern(r"(?:.*/)?[^/]*?\.tfstate", re.IGNORECASE)
_ELSEWHERE = pattern(r"(?:^|/)\.terra(?:form|grunt-cache)/")


def _classify_state(path: str, content: Content | None) -> Suspect | None:
    name = name_of(path)
    if _ELSEWHERE.search(path) or is_source_or_document(name):
        return None
    if _STATE_NAME.search(name):
        inside = content() if content is not None else None
        if _OTHER_NAME.search(name) if content is None else _CHECKSUM.match(inside or b""):
            return None
        return _named_state(path, inside)
    if content is None or not _POSSIBLE_STATE_NAME.search(name):
        return None
    return Suspect(ContentKind.STATE.value) if is_state(content() or b"") else None


def _named_state(path: str, inside: bytes | None) -> Suspect:
    if _LOCK_NAME.search(path):
        hint = "Run `git rm --cached` and add `*.tfstate.lock.info` to `.gitignore`."
        return Suspect("the lock of a state", severity=Severity.NOTE, hint=hint)
    first = _STATE_FILE.match(path)
    belongs_to = first[0] if first is not None else None
    if not _holds_little(inside):
        return Suspect("a state file", belongs_to=belongs_to)
    is_empty = _is_empty(inside or b"")
    what = "a state without resources" if is_empty else "a state file"
    severity = Severity.NOTE if is_empty else Severity.WARNING
    hint = f"{_MOVE}, and add `*.tfstate*` to `.gitignore`."
    return Suspect(what, severity=severity, belongs_to=belongs_to, hint=hint)


def _holds_little(inside: bytes | None) -> bool:
    """Nothing, only the bucket and the lock of the other states, or the state of another program.

    What cannot be read may hold anything.
    """
    if inside is None:
        return False
    if not _RESOURCES.search(inside) or (b'"lineage"' in inside and b'"terraform_version"' not in inside):
        return True
    types = _TYPES.findall(inside)
    return bool(types) and all(map(_STORE.fullmatch, types)) and not _SENSITIVE.search(inside)


def _is_empty(inside: bytes) -> bool:
    """Neither resources nor outputs."""
    written = inside.strip()
    return not written or (
        written.startswith(b"{") and not _RESOURCES.search(inside) and not _OUTPUTS.search(inside)
    )


HF201 = Rule(
    id="HF201",
    title="State file in Git",
    fix=f"{_MOVE}, add `*.tfstate*` to `.gitignore`, and rotate every secret in it.",
    severity=Severity.ERROR,
    **in_git(_classify_state, ContentKind.STATE),
    secret=True,
)


_PLAN_NAME = pattern(
    r"(?:^|[._-])tfplan(?:$|[._-])|^(?:plan|tf|terraform|tofu)\.(?:out|plan)$|\.planfile$", re.IGNORECASE
)
_CHANGE = pattern(rb'"change"\s*:')
_MASK = pattern(rb'sensitive(?:_values)?"\s*:\s*(?:true|[\[{]\s*[^\]}\s])')
_POSSIBLE_PLAN_NAME = pattern(r"(?:^[^.]+|\.(?:\w*plan|out|bin|dat|zip|tmp))$", re.IGNORECASE)


def _classify_plan(path: str, content: Content | None) -> Suspect | None:
    name = name_of(path)
    if is_source_or_document(name):
        return None
    if _PLAN_NAME.search(name):
        little = content is not None and _plans_little(content() or b"")
        return Suspect("a plan file", group="plan", severity=Severity.WARNING if little else None)
    if content is None:
        return None
    if name.lower().endswith(".json"):
        return None if is_made_up(path) else _classify_plan_json(content() or b"")
    inside = content() or b"" if _POSSIBLE_PLAN_NAME.search(name) else b""
    return Suspect(ContentKind.PLAN.value) if is_packed_plan(inside) else None


def _plans_little(inside: bytes) -> bool:
    """One resource at most, and nothing sensitive, in a plan that can be read."""
    changes = sum(1 for _ in _CHANGE.finditer(inside))
    return is_shown_plan(inside) and changes <= 1 and not _MASK.search(inside)


def _classify_plan_json(inside: bytes) -> Suspect | None:
    is_plan = is_shown_plan(inside)
    return Suspect(ContentKind.SHOWN_PLAN.value, severity=Severity.WARNING) if is_plan else None


HF202 = Rule(
    id="HF202",
    title="Plan file in Git",
    fix="Run `git rm --cached`, add `*.tfplan` and `tfplan*` to `.gitignore`, and rotate every secret in it.",
    severity=Severity.ERROR,
    **in_git(_classify_plan, ContentKind.PLAN, ContentKind.SHOWN_PLAN),
    secret=True,
)


_FOLDERS = (".terraform", ".terragrunt-cache")
_LITTLE = pattern(
    r"(?:^|/)\.terraform/(?:modules/modules\.json$|providers/(?:.*/)?(?:LICENSE|README|CHANGELOG|NOTICE)(?:\.[a-z]+)?$)"
)
"""The list of modules, and what providers bring along."""
_IGNORES = pattern(r"^\*\*/|/(?:\*{1,2})?$")
"""Around a name that is ignored in every folder."""


def _classify_folder(path: str, content: Content | None) -> Suspect | None:
    if ".terra" not in path:
        return None
    # The name of a workspace. It does not appear in the history.
    is_name = path.endswith("/.terraform/environment") or path == ".terraform/environment"
    if is_name and content is None:
        return None
    parts = path.split("/")
    for at, part in enumerate(parts[:-1]):
        if part in _FOLDERS:
            folder = "/".join(parts[: at + 1])
            severity = Severity.NOTE if is_name else Severity.WARNING if _LITTLE.search(path) else None
            hint = _hint_for_folder(folder, part, content)
            return Suspect("a working directory of Terraform", folder=folder, severity=severity, hint=hint)
    return None


def _hint_for_folder(folder: str, name: str, content: Content | None) -> str | None:
    if content is not None and _is_ignored(folder, name, content.checkout):
        return f"It is already ignored, but still tracked: run `git rm -r --cached {folder}`."
    if name == ".terraform":
        return None
    return f"Run `git rm -r --cached {folder}` and add `{name}/` to `.gitignore`."


def _is_ignored(folder: str, name: str, checkout: Checkout) -> bool:
    """Whether a `.gitignore` above it has a line with its name."""
    parents = folder.split("/")[:-1]
    files = ("/".join((*parents[:depth], ".gitignore")) for depth in range(len(parents) + 1))
    lines = (line.strip() for path in files for line in checkout.lines(path))
    return any(_IGNORES.sub("", line) == name for line in lines)


HF203 = Rule(
    id="HF203",
    title="Terraform's working directory in Git",
    fix="Run `git rm -r --cached` on it and add `.terraform/` to `.gitignore`. `.terraform.lock.hcl` "
    "next to it belongs in Git.",
    severity=Severity.ERROR,
    **in_git(_classify_folder),
    secret=True,
)


_CRASH = pattern(r"^crash(?:\.[\w-]+)*\.log$", re.IGNORECASE)
_LOG_LEVELS = (b"[TRACE]", b"[DEBUG]")
_LOGGER = pattern(rb"\b(?:terraform|tofu|provider\.terraform-provider)", re.IGNORECASE)


def _classify_log(path: str, content: Content | None) -> Suspect | None:
    name = name_of(path).lower()
    if not name.endswith((".log", ".tflog")):
        return None
    inside = content() or b"" if content is not None else b""
    if _CRASH.match(name):
        harmless = inside and not may_hold_secrets(inside.decode(errors="replace"))
        return Suspect("a crash log", severity=Severity.WARNING if harmless else None)
    logged = any(level in inside for level in _LOG_LEVELS) and _LOGGER.search(inside)
    return Suspect("a Terraform debug log") if logged else None


HF204 = Rule(
    id="HF204",
    title="Terraform log in Git",
    fix="Run `git rm --cached`, add `crash*.log` to `.gitignore`, and rotate every secret in it.",
    severity=Severity.ERROR,
    **in_git(_classify_log),
    secret=True,
)


_KEY_NAME = pattern(
    r"^id_(?:rsa|dsa|ecdsa|ecdsa_sk|ed25519|ed25519_sk)$|\.(?:ppk|p12|pfx|jks|keystore|kdbx)$", re.IGNORECASE
)
_POSSIBLE_KEY_NAME = pattern(r"\.(?:pem|key|p8|pk8|priv|rsa|gpg|asc)$", re.IGNORECASE)
_KEY_STORE = pattern(r"\.(?:p12|pfx|jks|keystore|kdbx)$", re.IGNORECASE)
_FOR_TESTS = pattern(
    r"(?<![A-Za-z])(?i:tests?|testing|dev|develop(?:ment)?|demo|local|ci|dummy)(?![a-z])|(?i:snakeoil)"
)
_ONLY_TESTS = pattern(
    r"(?i)(?:^|/)(?:molecule|\.vagrant|emulators?|simulators?)/|(?<![a-z])test[-_]?ca(?![a-z])|(?:^|[/_-])fixtures?/"
)
_ENVIRONMENT = pattern(r"(?i)(?:^|/)(?:environments?|envs?|stages?|accounts?|live)/[^/]+/")
"""`environments/dev/`: what runs there is not on a developer's machine."""
_NOT_LIVE = pattern(r"(?i)\bkeys?\b[^.]{0,80}\btesting\b|\bnot\b[^.]{0,40}\bproduction\b")
"""What a README says of the keys beside it."""
_CERTIFICATES = (".pem", ".crt", ".cer", ".cert")
_OTHER_KEY_NAME = pattern(r"^[^.]+$|\.(?:crt|cer|cert|txt|ovpn|pub|bak|old)$", re.IGNORECASE)


def _classify_key(path: str, content: Content | None) -> Suspect | None:
    name = name_of(path)
    if "trust" in name.lower():  # Certificates of others.
        return None
    perhaps = _POSSIBLE_KEY_NAME.search(name)
    if _KEY_NAME.search(name):
        return Suspect("a private key or key store", severity=_severity_of_key(content))
    if content is None:
        named = perhaps and "pub" not in name.lower() and not re.search(r"(?i)cert|chain|ca\.|bundle", name)
        return Suspect("a possible private key", severity=Severity.WARNING) if named else None
    if perhaps or _OTHER_KEY_NAME.search(name):
        if not holds_key(content() or b""):
            return None
        severity = _severity_of_key(content)
        group = f"key {name}" if severity is Severity.NOTE else None
        return Suspect(ContentKind.KEY.value, severity=severity, group=group)
    return None


def _severity_of_key(content: Content | None) -> Severity | None:
    """One that only this machine trusts is a note; for tests, or with a password, a warning."""
    if content is None:
        return None
    certificates = tuple(content.beside(_CERTIFICATES))
    if _ONLY_TESTS.search(content.path) or any(map(is_for_localhost, certificates)):
        return Severity.NOTE
    if is_expired(b"\n".join(certificates), f"{content.checkout.today:%Y%m%d}".encode()):
        return Severity.WARNING
    readme = b"\n".join(content.beside(("/README.md", "/README"))).decode(errors="replace")
    for_tests = _FOR_TESTS.search(_ENVIRONMENT.sub("/", content.path)) or _NOT_LIVE.search(readme)
    if for_tests or _KEY_STORE.search(content.path) or not holds_usable_key(content() or b""):
        return Severity.WARNING
    return None


HF205 = Rule(
    id="HF205",
    title="Private key in Git",
    fix="Replace the key wherever it is trusted, run `git rm --cached`, and store the new one in a "
    "secret store.",
    severity=Severity.ERROR,
    **in_git(_classify_key, ContentKind.KEY),
    secret=True,
)
