"""HF111 to HF119: backends that are missing, local, without lock or encryption, or told to look away."""

from __future__ import annotations

import pytest
from checkouts import check, lines, messages, of, skips

from holdfast.checks.backends.backend_types import BACKEND_TYPES
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.report import Report
from holdfast.checks.rules.backends.hf111_backend_type import HF111 as MISSING
from holdfast.checks.rules.backends.hf111_backend_type import HF112 as LOCAL
from holdfast.checks.rules.backends.hf111_backend_type import HF113 as NO_SUCH
from holdfast.checks.rules.backends.hf114_state_lock import HF114 as LOCK
from holdfast.checks.rules.backends.hf114_state_lock import HF115 as DYNAMO
from holdfast.checks.rules.backends.hf116_state_encryption import HF116 as CLEAR
from holdfast.checks.rules.backends.hf116_state_encryption import HF117 as KEY
from holdfast.checks.rules.backends.hf116_state_encryption import HF118 as NO_KEY
from holdfast.checks.rules.backends.hf119_disabled_safety_check import RULE as GUARD

JUDGES = (NO_SUCH, LOCK, DYNAMO, CLEAR, KEY, NO_KEY, GUARD)
FOUND: dict[str, tuple[str, str]] = {
    "HF113": ("swift", ""),
    "HF114": ("s3", ""),
    "HF115": ("s3", 'dynamodb_table = "t"'),
    "HF116": ("s3", ""),
    "HF117": ("s3", 'kms_key_id = "k"'),
    "HF118": ("s3", "encrypt = true"),
    "HF119": ("s3", "insecure = true"),
}
"""What each of them finds something in."""


def block(type_: str, settings: str = "") -> str:
    """A backend that says all it needs to, and these settings."""
    needs = (
        "".join(f'    {name} = "a"\n' for name in BACKEND_TYPES[type_].needs)
        if type_ in BACKEND_TYPES
        else ""
    )
    return f'terraform {{\n  backend "{type_}" {{\n{needs}    {settings}\n  }}\n}}\n'


def said(rule: Rule, type_: str, settings: str = "") -> list[str]:
    return messages(check(rule, {"main.tf": block(type_, settings)}), rule)


def entry(settings: str, more: str = "") -> str:
    """A stack whose code says `backend "s3" {}`, or nothing, and whose entry says the rest."""
    return f"version: 1\nstacks:\n  - {{ name: a, module: ., environment: prod, {settings} }}\n{more}"


# HF111: none at all.

NO_BACKEND = {"main.tf": "locals {}\n"}


def one_stack(environment: str | None, *, owner: str = "developers", store: str = ".holdfast") -> str:
    environments = "environments: { dev: { match: [dev] } }"
    stated = f", environment: {environment}" if environment is not None else ""
    stack = f"{{ name: a, module: ., target: t{stated} }}"
    targets = f"targets: {{ t: {{ owner: {owner} }} }}"
    return f"version: 1\n{environments}\n{targets}\nstore: {store}\nstacks: [{stack}]\n"


def test_a_state_that_is_shared_needs_a_backend() -> None:
    """In production a folder is not enough; in doubt it is a note, and where CI is the owner an error."""
    for environment, owner, severity in (
        ("prod", "developers", Severity.WARNING),
        (None, "developers", Severity.NOTE),
        ("dev", "ci", Severity.ERROR),
        ("dev", "developers", None),
    ):
        found = of(check(MISSING, NO_BACKEND, config=one_stack(environment, owner=owner)), MISSING)
        assert [one.severity for one in found] == ([severity] if severity is not None else [])


def test_a_run_store_that_is_shared_is_enough() -> None:
    """The state is in it; and a backend, whichever it is, is not missing."""
    for store in ("s3://acme-runs/holdfast", "https://holdfast.example.com"):
        shared = one_stack("prod", store=store)
        assert messages(check(MISSING, NO_BACKEND, config=shared), MISSING) == []
    for code in ('terraform {\n  backend "s3" {}\n}\n', "terraform {\n  cloud {}\n}\n"):
        assert messages(check(MISSING, {"main.tf": code}, config=one_stack("prod")), MISSING) == []
    configured = entry("backend: { type: s3 }")
    assert messages(check(MISSING, NO_BACKEND, config=configured), MISSING) == []


def test_stacks_of_one_entry_miss_it_together() -> None:
    """One finding at the entry, however many stacks it finds."""
    config = "version: 1\nstacks:\n  - { variables: 'vars/{name}.tfvars', module: ., name: '{name}' }\n"
    files = {**NO_BACKEND, "vars/a.tfvars": "", "vars/b.tfvars": ""}
    assert lines(check(MISSING, files, config=config), MISSING) == [("holdfast.yaml", 3)]


def test_a_missing_backend_can_be_waived() -> None:
    """In the configuration, for a stack."""
    waiver = "checks: { waivers: [{ rule: HF111, stack: a, owner: us, reason: a lab, until: 2027-01-01 }] }\n"
    report = check(MISSING, NO_BACKEND, config=one_stack("prod") + waiver)
    assert [one.waived for one in of(report, MISSING)] == [True]


# HF112: local.


def test_local_is_for_what_is_not_shared() -> None:
    """It is found in production, in doubt, and where CI is the owner; not on a developer's own target."""
    files = {"main.tf": block("local")}
    for environment, owner, found in (
        ("prod", "developers", True),
        (None, "developers", True),
        ("dev", "ci", True),
        ("dev", "developers", False),
    ):
        report = check(LOCAL, files, config=one_stack(environment, owner=owner))
        assert bool(of(report, LOCAL)) is found


def test_a_local_backend_in_the_configuration_is_reported_there() -> None:
    """At the entry, for there is no block."""
    report = check(LOCAL, NO_BACKEND, config=entry("backend: { type: local }"))
    assert lines(report, LOCAL) == [("holdfast.yaml", 3)]


def test_a_state_in_memory_is_never_shared() -> None:
    """It is lost in development too."""
    report = check(LOCAL, {"main.tf": block("inmem")}, config=one_stack("dev"))
    assert messages(report, LOCAL) == ["with the inmem backend the state is lost when Terraform exits"]


def test_no_other_backend_is_local() -> None:
    """A path that is computed makes local no better."""
    assert said(LOCAL, "s3") == []
    assert len(said(LOCAL, "local", "path = var.p")) == 1


# HF113: no such backend.


@pytest.mark.parametrize("type_", sorted(BACKEND_TYPES))
def test_every_backend_there_is_is_known(type_: str) -> None:
    """None of them is called unknown, and none makes any rule break."""
    code = block(type_) if type_ != "cloud" else "terraform {\n  cloud {}\n}\n"
    report = check(JUDGES, {"main.tf": code})
    assert messages(report, NO_SUCH) == []
    assert [one for one in report.findings if one.rule.id == "HF905"] == []


@pytest.mark.parametrize("type_", ["artifactory", "etcd", "etcdv3", "manta", "swift", "azure"])
def test_a_backend_that_was_taken_away_is_found(type_: str) -> None:
    """With what the closest is."""
    found = of(check(NO_SUCH, {"main.tf": block(type_)}), NO_SUCH)
    assert found[0].message == f"Terraform 1.3 removed the {type_} backend"
    assert "the closest is" in (found[0].hint or "")


def test_a_misspelt_backend_is_found() -> None:
    """A block without a name, too."""
    assert said(NO_SUCH, "azuremr") == ["unknown backend `azuremr`"]
    assert len(of(check(NO_SUCH, {"main.tf": "terraform {\n  backend {}\n}\n"}), NO_SUCH)) == 1


# HF114: locks.


@pytest.mark.parametrize(
    ("type_", "settings"),
    [
        ("s3", "use_lockfile = true"),
        ("s3", 'use_lockfile = "true"'),
        ("s3", 'dynamodb_table = "t"'),
        ("s3", "dynamodb_table = var.t"),
        ("http", 'lock_address = "https://a"\n    unlock_address = "https://a"'),
        ("consul", ""),
        ("oss", 'tablestore_table = "t"'),
        *((name, "") for name in ("azurerm", "gcs", "pg", "kubernetes", "cos", "oci", "remote", "local")),
    ],
)
def test_backends_that_lock(type_: str, settings: str) -> None:
    """By themselves, or because they are told to."""
    assert said(LOCK, type_, settings) == []


@pytest.mark.parametrize(
    ("type_", "settings", "line"),
    [
        ("s3", "", 2),
        ("s3", "use_lockfile = false", 5),
        ("s3", 'dynamodb_table = ""', 2),
        ("http", "", 2),
        ("http", 'lock_address = "https://a"', 4),
        ("consul", "lock = false", 4),
        ("oss", "", 2),
    ],
)
def test_backends_that_do_not_lock(type_: str, settings: str, line: int) -> None:
    """At the setting, or at the block where it is missing."""
    assert lines(check(LOCK, {"main.tf": block(type_, settings)}), LOCK) == [("main.tf", line)]


def test_a_lock_that_is_computed_is_not_known() -> None:
    """That is a skip with its reason."""
    for type_, name in (("s3", "use_lockfile"), ("consul", "lock")):
        report = check(LOCK, {"main.tf": block(type_, f"{name} = var.x")})
        assert messages(report, LOCK) == []
        assert skips(report, LOCK) == [
            f"`{name}` of the {type_} backend is computed, so its value is not known"
        ]


def test_the_configuration_fills_in_what_the_code_leaves_open() -> None:
    """It wins over the code; what neither says is missing in the block."""
    files = {"main.tf": 'terraform {\n  backend "s3" {\n    use_lockfile = false\n  }\n}\n'}
    given = "settings: { bucket: b, key: k, use_lockfile: true }"
    assert messages(check(LOCK, files, config=entry(f"backend: {{ {given} }}")), LOCK) == []
    empty = {"main.tf": 'terraform {\n  backend "s3" {}\n}\n'}
    without = entry("backend: { settings: { bucket: b, key: k } }")
    assert lines(check(LOCK, empty, config=without), LOCK) == [("main.tf", 2)]


def test_addresses_for_locks_may_come_by_environment() -> None:
    """The http backend reads them there, from a secret too."""
    config = entry("env: { TF_HTTP_LOCK_ADDRESS: 'https://a', TF_HTTP_UNLOCK_ADDRESS: { secret: 'env:A' } }")
    assert messages(check(LOCK, {"main.tf": block("http")}, config=config), LOCK) == []


# HF115: DynamoDB.


def test_a_lock_in_dynamodb_is_a_note_with_the_way_out() -> None:
    """First both, then one."""
    found = of(check(DYNAMO, {"main.tf": block("s3", 'dynamodb_table = "t"')}), DYNAMO)
    assert found[0].severity is Severity.NOTE
    assert "use_lockfile = true" in (found[0].hint or "")
    both = block("s3", 'dynamodb_table = "t"\n    use_lockfile = true')
    assert (of(check(DYNAMO, {"main.tf": both}), DYNAMO)[0].hint or "").startswith("Once everyone")
    assert len(said(DYNAMO, "s3", "dynamodb_table = var.t")) == 1
    assert said(DYNAMO, "s3", "use_lockfile = true") == []


def test_opentofu_keeps_the_table() -> None:
    """By its files or by the engine that the configuration names."""
    code = block("s3", 'dynamodb_table = "t"')
    assert messages(check(DYNAMO, {"main.tofu": code}), DYNAMO) == []
    config = entry("engine: { use: tofu }")
    assert messages(check(DYNAMO, {"main.tf": code}, config=config), DYNAMO) == []


# HF116 to HF118: encryption.


@pytest.mark.parametrize(
    ("type_", "settings"),
    [
        ("s3", "encrypt = true"),
        ("cos", ""),
        ("oss", "encrypt = true"),
        ("http", 'lock_address = "http://127.0.0.1:8080/lock"'),
        ("consul", 'scheme = "http"'),
        ("consul", 'address = "https://consul.example.com"'),
        ("consul", 'address = "consul.example.com"\n    scheme = var.scheme'),
        ("consul", 'address = "consul.example.com:8501"\n    scheme = "https"'),
        ("pg", ""),
        ("s3", 'encrypt = true\n    endpoints = { s3 = "http://localhost:9000" }'),
        *((name, "") for name in ("azurerm", "gcs", "oci", "remote", "kubernetes", "local")),
    ],
)
def test_backends_that_encrypt(type_: str, settings: str) -> None:
    """Or that do not leave this machine."""
    assert said(CLEAR, type_, settings) == []


@pytest.mark.parametrize(
    ("type_", "settings", "word"),
    [
        ("s3", "", "encrypt"),
        ("s3", "encrypt = false", "encrypt"),
        ("cos", "encrypt = false", "encrypt"),
        ("oss", "", "encrypt"),
        ("s3", 'encrypt = true\n    endpoints = { s3 = "http://minio.example.com" }', "endpoints.s3"),
        ("http", 'lock_address = "http://states.example.com/lock"', "lock_address"),
        ("consul", 'address = "consul.example.com:8500"\n    scheme = "http"', "scheme"),
        ("consul", 'address = "consul.example.com:8500"', "scheme"),
        ("gcs", 'storage_custom_endpoint = "http://gcs.example.com"', "storage_custom_endpoint"),
        ("kubernetes", 'host = "http://10.0.0.1"', "host"),
    ],
)
def test_backends_that_do_not_encrypt(type_: str, settings: str, word: str) -> None:
    """Where it lies, or on its way."""
    found = said(CLEAR, type_, settings)
    assert len(found) == 1
    assert word in found[0]


@pytest.mark.parametrize("text", ["postgres://db/tf?sslmode=disable", "host=db sslmode=disable"])
def test_a_database_without_tls_is_found(text: str) -> None:
    """In either way of writing where it is."""
    code = f'terraform {{\n  backend "pg" {{\n    conn_str = "{text}"\n  }}\n}}\n'
    assert lines(check(CLEAR, {"main.tf": code}), CLEAR) == [("main.tf", 3)]


@pytest.mark.parametrize(
    "text",
    [
        "postgres://localhost/tf?sslmode=disable",
        "postgres://[::1]:5432/tf?sslmode=disable",
        "host=127.0.0.1 sslmode=disable",
        "host=/var/run/postgresql sslmode=disable",
    ],
)
def test_a_database_of_this_machine_needs_no_tls(text: str) -> None:
    """Nothing goes over a network."""
    code = f'terraform {{\n  backend "pg" {{\n    conn_str = "{text}"\n  }}\n}}\n'
    assert messages(check(CLEAR, {"main.tf": code}), CLEAR) == []


@pytest.mark.parametrize(
    ("type_", "env"),
    [
        ("pg", "PG_CONN_STR: 'postgres://db.example.com/tf?sslmode=disable'"),
        ("pg", "PGSSLMODE: disable"),
        ("http", "TF_HTTP_ADDRESS: 'http://states.example.com/a'"),
        ("consul", "CONSUL_HTTP_ADDR: 'http://consul.example.com:8500'"),
    ],
)
def test_environment_variables_of_a_backend_count(type_: str, env: str) -> None:
    """Where the code leaves it open; the finding is at the entry."""
    files = {"main.tf": f'terraform {{\n  backend "{type_}" {{}}\n}}\n'}
    assert lines(check(CLEAR, files, config=entry(f"env: {{ {env} }}")), CLEAR) == [("holdfast.yaml", 3)]


def test_an_address_that_is_secret_or_computed_is_a_skip() -> None:
    """Nobody saw whether it has TLS."""
    files = {"main.tf": 'terraform {\n  backend "gcs" {}\n}\n'}
    given = "settings: { bucket: b, storage_custom_endpoint: { secret: 'env:A' } }"
    report = check(CLEAR, files, config=entry(f"backend: {{ {given} }}"))
    name = "storage_custom_endpoint"
    assert skips(report, CLEAR) == [
        f"`{name}` of the gcs backend comes from a secret store, so its value is not known"
    ]
    code = block("s3", "encrypt = true\n    endpoints = { s3 = var.s }")
    assert skips(check(CLEAR, {"main.tf": code}), CLEAR) == [
        "`endpoints.s3` of the s3 backend is computed, so its value is not known"
    ]


def test_consul_may_be_set_by_environment() -> None:
    """That it speaks TLS, where the code does not say so."""
    files = {"main.tf": block("consul", 'address = "consul.example.com"')}
    assert messages(check(CLEAR, files, config=entry("env: { CONSUL_HTTP_SSL: 'true' }")), CLEAR) == []


def test_encryption_by_a_server_is_not_visible() -> None:
    """Of a database, a cluster, Consul and a server nobody says here whether they encrypt."""
    for type_ in ("pg", "kubernetes", "consul", "http"):
        assert len(skips(check(CLEAR, {"main.tf": block(type_)}), CLEAR)) == 1
    assert skips(check(CLEAR, {"main.tf": block("s3", "encrypt = var.x")}), CLEAR) == [
        "`encrypt` of the s3 backend is computed, so its value is not known"
    ]


def test_what_opentofu_encrypts_itself_is_encrypted_everywhere() -> None:
    """An `encryption` block for the state is enough; one for plans, or that is open or unread, is not."""
    text = "terraform {\n  encryption {\n    %s {\n      method = method.aes_gcm.a\n    }\n  }\n}\n"
    for what, found in (("state", 0), ("plan", 1)):
        report = check(CLEAR, {"main.tf": block("s3"), "seal.tofu": text % what})
        assert len(of(report, CLEAR)) == found
    unread = {"main.tf": block("s3"), "seal.tf": text % "state", "seal.tofu": ""}
    assert len(of(check(CLEAR, unread), CLEAR)) == 1
    for method, found in (("aes_gcm", 0), ("unencrypted", 1)):
        native = {"a.tofu": (text % "state").replace("aes_gcm", method)}
        for written in (f"${{method.{method}.a}}", f"method.{method}.a"):
            json = f'{{"terraform": {{"encryption": {{"state": {{"method": "{written}"}}}}}}}}'
            for name, seal in {**native, "a.tofu.json": json}.items():
                assert len(of(check(CLEAR, {"main.tf": block("s3"), name: seal}), CLEAR)) == found


@pytest.mark.parametrize("name", ["kms_key_id", "sse_customer_key"])
def test_a_key_needs_encrypt(name: str) -> None:
    """Else it has no effect, and that is said once, by HF117 alone."""
    report = check((CLEAR, KEY), {"main.tf": block("s3", f'{name} = "k"')})
    assert messages(report) == [f"`{name}` has no effect without `encrypt = true`"]
    right = block("s3", f'{name} = "k"\n    encrypt = true')
    assert messages(check((CLEAR, KEY, NO_KEY), {"main.tf": right})) == []
    computed = check(KEY, {"main.tf": block("s3", f'{name} = "k"\n    encrypt = var.x')})
    assert (messages(computed, KEY), len(skips(computed, KEY))) == ([], 1)
    assert said(KEY, "s3") == []


def test_encrypt_without_a_key_of_ones_own_is_a_note() -> None:
    """A key that is computed is a key; another backend has no such thing."""
    found = of(check(NO_KEY, {"main.tf": block("s3", "encrypt = true")}), NO_KEY)
    assert [(one.severity, one.line) for one in found] == [(Severity.NOTE, 5)]
    assert said(NO_KEY, "s3", "encrypt = true\n    kms_key_id = var.k") == []
    assert said(NO_KEY, "s3", "encrypt = var.x") == []
    assert said(NO_KEY, "oss", "encrypt = true") == []


# HF119: looking away.


@pytest.mark.parametrize(
    ("type_", "settings", "severity"),
    [
        ("s3", "insecure = true", Severity.ERROR),
        ("s3", "skip_requesting_account_id = true", Severity.NOTE),
        ("s3", 'skip_requesting_account_id = true\n    allowed_account_ids = ["1"]', Severity.WARNING),
        ("s3", "skip_credentials_validation = true", Severity.NOTE),
        ("s3", "skip_s3_checksum = true", Severity.WARNING),
        ("s3", 'acl = "public-read"', Severity.WARNING),
        ("oss", 'acl = "public-read-write"', Severity.WARNING),
        ("http", "skip_cert_verification = true", Severity.ERROR),
        ("kubernetes", "insecure = true", Severity.ERROR),
        ("s3", 'insecure = true\n    endpoints = { s3 = "https://minio" }', Severity.ERROR),
    ],
)
def test_settings_that_disable_safety_checks(type_: str, settings: str, severity: Severity) -> None:
    """Each is found once; those that open the wire are errors."""
    report = check(GUARD, {"main.tf": block(type_, settings)})
    assert [one.severity for one in of(report, GUARD)] == [severity]


@pytest.mark.parametrize(
    ("type_", "settings"),
    [
        ("s3", ""),
        ("s3", "insecure = false\n    skip_region_validation = false"),
        ("s3", 'acl = "bucket-owner-full-control"'),
        ("s3", 'skip_credentials_validation = true\n    endpoints = { s3 = "https://minio" }'),
        ("pg", "skip_schema_creation = true"),
    ],
)
def test_settings_that_are_right(type_: str, settings: str) -> None:
    """S3's likes need `skip_*`; those of pg leave work to somebody else."""
    assert said(GUARD, type_, settings) == []


def test_a_switch_that_is_computed_is_a_skip() -> None:
    """Its value cannot be told."""
    assert len(skips(check(GUARD, {"main.tf": block("s3", "insecure = var.x")}), GUARD)) == 1


# What all of them have in common.


def orphan(rule: Rule, code: str) -> Report:
    return check(rule, {"old/main.tf": code}, config="version: 1\n")


@pytest.mark.parametrize("rule", JUDGES, ids=lambda rule: rule.id)
def test_root_modules_that_no_stack_uses_are_checked(rule: Rule) -> None:
    """By what their code says; what it leaves open may come from elsewhere, and then that is a skip."""
    assert len(of(orphan(rule, block(*FOUND[rule.id])), rule)) == 1
    report = orphan(rule, 'terraform {\n  backend "s3" {}\n}\n')
    assert messages(report, rule) == []
    if rule in (LOCK, CLEAR, KEY, NO_KEY):
        assert skips(report, rule) == ["`bucket` of the s3 backend is not set in the code or by a stack"]
    else:
        assert skips(report, rule) == []


@pytest.mark.parametrize("rule", JUDGES, ids=lambda rule: rule.id)
def test_a_waiver_in_the_block_applies(rule: Rule) -> None:
    """On a line of the block; it counts for every stack of the code, and is not unused."""
    comment = f"# holdfast:ignore {rule.id} until=2027-01-01 reason=moving"
    type_, settings = FOUND[rule.id]
    report = check(rule, {"main.tf": block(type_, f"{settings} {comment}")})
    assert [one.waived for one in of(report, rule)] == [True]
    assert len(report.findings) == 1


def test_stacks_of_one_module_say_it_once() -> None:
    """Many stacks, one block, one finding."""
    config = """
    version: 1
    stacks:
      - { name: a, module: ., environment: prod, workspace: a }
      - { name: b, module: ., environment: prod, workspace: b }
    """
    assert len(of(check(LOCK, {"main.tf": block("s3")}, config=config), LOCK)) == 1


def test_the_last_block_counts() -> None:
    """An override file has the last word, as with Terraform."""
    files = {"main.tf": block("s3"), "z_override.tf": block("s3", "use_lockfile = true")}
    assert messages(check(LOCK, files), LOCK) == []
