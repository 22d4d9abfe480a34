"""What holdfast.yaml says becomes a Config, or every mistake at once with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.engine import EnginePin, EngineUse, RefusedCreate, Retries, TimeLimits
from holdfast.config.read import decode, parse
from holdfast.config.secret_refs import SecretRef
from holdfast.config.settings import (
    BackupSettings,
    Config,
    Environment,
    Owner,
    RedactionSettings,
    Target,
    Work,
)
from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.errors import ConfigError, Exit, Problem

FULL = """\
version: 1
company: acme
environments:
  prod: { match: ["prod", "*-prod-*"], production: true }
  dev:  { match: "*-dev-*" }
  live: {}
targets:
  aws:   { owner: ci, lane: cloud }
  local: { owner: developers }
stacks:
  - variables: ./Accounts/{account}/{service}/{name}.tfvars
    module: modules/{service}/
    name: "{account}/{service}/{name}"
    environment: "{account}"
    region: eu-west-1
    target: aws
    backend:
      type: s3
      settings: { bucket: "{company}-{environment}", encrypt: true, retries: 3, assume_role: { t: [a, b] } }
    credentials:
      aws: { role_arn: "arn:aws:iam::{var.id}:role/x", external_id: { secret: "env:EXT" }, duration: 1h }
      azure: { client_secret: { secret: "azure-kv:{environment}/s" } }
    env: { TOKEN: { secret: "file:/run/t" }, PORT: 8080, RATIO: 1.10, OFF: off, DEBUG: True }
    engine: { use: tofu, version: 1.10 }
  - folder: live/{environment}/{component}
    depends_on: ["live/{environment}/network"]
    variables: { nothing: null, zone: "{environment}-a" }
  - name: bootstrap
    variables_files: [common.tfvars]
    account: 012345678901
engine:
  use: embedded
  version: ">= 1.9, < 2.0"
  parallelism: 8
  time_limits: { apply: 1h30m, plan: 90 }
  retries:
    attempts: 5
    wait: 0s
    also: [the moon is up]
    refused_creates: [{ provider: labs/lab, text: no blobs }]
store: s3://bucket/prefix
work: { max_age: 90s, max_size: 1GiB }
backups: { keep: 5, max_age: 10d }
redaction: { off: [jwt], words: [parole], entropy: 3 }
"""


def read(text: str) -> Config:
    return parse(text, file="holdfast.yaml", root=Path("/r"), path=Path("/r/holdfast.yaml"))


def mistakes(text: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert caught.value.exit is Exit.USAGE
    return caught.value.problems


def entry(text: str) -> str:
    """A file with one stack entry, in flow style, in line 3."""
    return f"version: 1\nstacks:\n  - {text}\n"


def test_the_whole_file_is_believed_as_written() -> None:
    """Every key reaches its field, with its type."""
    config = read(FULL)
    assert config.company == "acme"
    assert config.environments == (
        Environment(name="prod", match=("prod", "*-prod-*"), production=True),
        Environment(name="dev", match=("*-dev-*",), production=False),
        Environment(name="live", match=(), production=True),
    )
    assert config.targets == (
        Target(name="aws", owner=Owner.CI, lane="cloud"),
        Target(name="local", owner=Owner.DEVELOPERS),
    )
    assert config.engine.pin == EnginePin(use=EngineUse.EMBEDDED, version=">= 1.9, < 2.0")
    assert config.engine.parallelism == 8
    assert config.engine.time_limits == TimeLimits(init=1800.0, plan=90.0, apply=5400.0, grace=3600.0)
    assert config.engine.retries == Retries(
        attempts=5,
        wait=0.0,
        also=("the moon is up",),
        refused_creates=(RefusedCreate(provider="labs/lab", text="no blobs"),),
    )
    assert config.store == "s3://bucket/prefix"
    assert config.store_named
    assert config.work == Work(max_age=90.0, max_size=1024**3)
    assert config.backups == BackupSettings(keep=5, max_age=864_000.0)
    assert config.redaction == RedactionSettings(off=("jwt",), words=("parole",), entropy=3)


def test_what_is_not_written_has_its_default() -> None:
    """A store that the file does not name is the default one, and is known not to be named."""
    config = read("version: 1\n")
    assert (config.store, config.store_named) == (".holdfast", False)
    assert config.backups == BackupSettings(keep=30, max_age=90 * 86400.0)
    assert config.redaction == RedactionSettings()
    named = read("version: 1\nstore: .holdfast\n")
    assert (named.store, named.store_named) == (".holdfast", True)


def test_an_entry_by_variables_file() -> None:
    """Paths are shortened, numbers in `env` stay as written, references are not values."""
    rule = read(FULL).stacks[0]
    assert rule.kind is RuleKind.VARIABLES
    assert rule.pattern == "Accounts/{account}/{service}/{name}.tfvars"
    assert rule.module == "modules/{service}"
    assert rule.backend is not None
    assert rule.backend.settings["assume_role"] == {"t": ("a", "b")}
    assert (rule.backend.settings["encrypt"], rule.backend.settings["retries"]) == (True, 3)
    assert rule.credentials["aws"]["external_id"] == SecretRef(scheme="env", locator="EXT")
    assert rule.credentials["aws"]["duration"] == 3600
    assert rule.credentials["azure"]["use_azuread"] is True
    assert dict(rule.env) == {
        "TOKEN": SecretRef(scheme="file", locator="/run/t"),
        "PORT": "8080",
        "RATIO": "1.10",
        "OFF": "off",
        "DEBUG": "True",
    }
    assert rule.engine == EnginePin(use=EngineUse.TOFU, version="1.10")
    assert str(rule.place) == "holdfast.yaml:11:5"


def test_the_other_two_kinds() -> None:
    """`variables` as a mapping leaves an entry what it is; an account's number keeps its zero."""
    _, folder, named = read(FULL).stacks
    assert (folder.kind, folder.pattern) == (RuleKind.FOLDER, "live/{environment}/{component}")
    assert dict(folder.variables) == {"nothing": None, "zone": "{environment}-a"}
    assert (named.kind, named.name, named.account) == (RuleKind.NAMED, "bootstrap", "012345678901")


def test_defaults() -> None:
    """The smallest file is a configuration."""
    config = read("version: 1\n")
    assert config == Config(file=Path("/r/holdfast.yaml"), root=Path("/r"))


def test_every_mistake_is_reported_in_the_order_of_the_file() -> None:
    """A person mends them all before the next try."""
    problems = mistakes(
        'version: 1\ncompny: acme\nstacks:\n  - variables: A/{account}.tfvars\n    name: "{acount}"\n'
        "engine: { use: embeded, parallelism: 65 }\n"
    )
    assert [(one.code, str(one.place)) for one in problems] == [
        ("HF-CONF-4", "holdfast.yaml:2:1"),
        ("HF-CONF-9", "holdfast.yaml:5:11"),
        ("HF-CONF-7", "holdfast.yaml:6:16"),
        ("HF-CONF-21", "holdfast.yaml:6:38"),
    ]
    assert problems[0].hint == "Did you mean `company`?"
    assert problems[1].message == "{acount} is not a placeholder of the pattern A/{account}.tfvars"
    assert problems[1].hint == "Did you mean {account}?"
    assert problems[2].hint == "Did you mean `embedded`?"


def test_a_key_in_the_wrong_place_says_where_it_belongs() -> None:
    """`parallelism` in a stack is known, elsewhere."""
    (problem,) = mistakes(entry("{ name: a, time_limits: {} }"))
    assert problem.code == "HF-CONF-4"
    assert "engine.time_limits" in (problem.hint or "")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "HF-CONF-3"),
        ("- 1\n", "HF-CONF-6"),
        ("company: acme\n", "HF-CONF-12"),
        ("version: 2\n", "HF-CONF-12"),
        ("version: true\n", "HF-CONF-12"),
        ('version: "1"\n', "HF-CONF-12"),
        ("version: 1\ncompany:\n", "HF-CONF-6"),
        ("version: 1\ncompany: a b\n", "HF-CONF-6"),
        ("version: 1\nstacks: {}\n", "HF-CONF-6"),
        ("version: 1\nenvironments: { dev: { production: yes } }\n", "HF-CONF-6"),
        ("version: 1\ntargets: { aws: { owner: me } }\n", "HF-CONF-7"),
        ("version: 1\nwork: { max_age: 0s }\n", "HF-CONF-21"),
        ("version: 1\nwork: { max_age: 1w }\n", "HF-CONF-21"),
        ("version: 1\nwork: { max_size: 5 GB }\n", "HF-CONF-21"),
        ("version: 1\nwork: { max_size: 0 }\n", "HF-CONF-21"),
        ("version: 1\nengine: { parallelism: 0 }\n", "HF-CONF-21"),
        ("version: 1\nengine: { parallelism: 4.5 }\n", "HF-CONF-6"),
        ("version: 1\nengine: { version: newest }\n", "HF-CONF-6"),
        ("version: 1\nstore: gs://bucket\n", "HF-CONF-16"),
        ("version: 1\nstore: ../elsewhere\n", "HF-CONF-16"),
        (entry("{}"), "HF-CONF-17"),
        (entry("{ module: a }"), "HF-CONF-17"),
        (entry("{ variables: a.tfvars, folder: b }"), "HF-CONF-17"),
        (entry("{ folder: b, module: c }"), "HF-CONF-17"),
        (entry("{ variables: { a: 1 } }"), "HF-CONF-17"),
        (entry("{ variables: a.yaml }"), "HF-CONF-16"),
        (entry("{ variables: /a.tfvars }"), "HF-CONF-16"),
        (entry("{ folder: a/../../b }"), "HF-CONF-16"),
        (entry("{ name: a, module: .. }"), "HF-CONF-16"),
        (entry("{ name: a, variables_files: [/etc/x.tfvars] }"), "HF-CONF-16"),
        (entry("{ name: a, variables_files: x.tfvars }"), "HF-CONF-6"),
        (entry("{ name: a, region: {account} }"), "HF-CONF-6"),
        (entry("{ name: a, region: true }"), "HF-CONF-6"),
        (entry('{ name: a, region: "" }'), "HF-CONF-6"),
        (entry("{ name: a, env: { 1A: x } }"), "HF-CONF-15"),
        (entry("{ name: a, env: { A: [x] } }"), "HF-CONF-6"),
        (entry("{ name: a, env: { A: { secret: nowhere } } }"), "HF-CONF-13"),
        (entry("{ name: a, env: { A: { secret: 5 } } }"), "HF-CONF-13"),
        (entry('{ name: a, env: { A: { secret: "env:" } } }'), "HF-CONF-13"),
        (entry('{ name: a, env: { A: { secret: "env:HOLDFAST_KEY" } } }'), "HF-CONF-13"),
        (entry('{ name: a, env: { A: { secret: "env:HOLDFAST_{environment}" } } }'), "HF-CONF-13"),
        (entry('{ name: a, env: { A: { secret: "file:/proc/self/environ" } } }'), "HF-CONF-13"),
        (entry('{ name: a, env: { A: { secret: "file:/tmp/../proc/1/environ" } } }'), "HF-CONF-13"),
        (entry('{ name: a, env: { A: { secret: "dotenv:/proc/1/environ#X" } } }'), "HF-CONF-13"),
        (entry('{ name: a, env: { A: { secret: "gcp:x" } } }'), "HF-CONF-13"),
        (entry('{ name: a, env: { A: { secret: "vault:kv/app" } } }'), "HF-CONF-13"),
        (entry('{ name: a, env: { A: { secret: "azure-kv:vault.example/x" } } }'), "HF-CONF-13"),
        (entry('{ name: a, env: { A: { secret: "env:X", or: y } } }'), "HF-CONF-13"),
        (entry("{ name: a, credentials: {} }"), "HF-CONF-5"),
        (entry("{ name: a, credentials: { aws: { region: x } } }"), "HF-CONF-5"),
        (entry("{ name: a, credentials: { aws: { role_arn: x, duration: 5m } } }"), "HF-CONF-21"),
        (entry("{ name: a, credentials: { azure: { client_secret: hunter2 } } }"), "HF-CONF-13"),
        (entry("{ name: a, credentials: { gcp: {} } }"), "HF-CONF-4"),
        (entry("{ name: a, backend: { type: s4 } }"), "HF-CONF-7"),
        (entry("{ name: a, backend: { settings: { a: null } } }"), "HF-CONF-6"),
        (entry("{ name: a, target: aws }"), "HF-CONF-20"),
        (entry('{ name: "a-{company}" }'), "HF-CONF-20"),
        (entry('{ name: "a-{region}" }'), "HF-CONF-20"),
        (entry('{ name: "a-{x" }'), "HF-CONF-19"),
        (entry('{ folder: "{a}{b}" }'), "HF-CONF-19"),
        (entry('{ name: "{name}" }'), "HF-CONF-18"),
        (entry('{ name: a, environment: "{account}", account: "x-{environment}" }'), "HF-CONF-18"),
        (entry('{ name: a, variables_files: ["{var.x}.tfvars"] }'), "HF-CONF-18"),
        (entry('{ name: a, variables: { deep: [{ x: "{nope}" }] } }'), "HF-CONF-9"),
        (entry('{ name: a, env: { A: { secret: "env:{nope}" } } }'), "HF-CONF-9"),
    ],
)
def test_each_mistake_has_its_code_and_place(text: str, code: str) -> None:
    """One mistake, one problem, with a line."""
    (problem,) = mistakes(text)
    assert problem.code == code
    assert problem.place is not None
    assert problem.place.line is not None


@pytest.mark.parametrize(
    "name",
    ["TF_CLI_ARGS", "TF_CLI_ARGS_plan", "TF_WORKSPACE", "TF_DATA_DIR", "TF_LOG", "TF_LOG_PATH", "TMPDIR",
     "TF_REATTACH_PROVIDERS", "TF_IN_AUTOMATION", "TF_INPUT", "TF_PLUGIN_CACHE_DIR", "TF_DISABLE_PLUGIN_TLS",
     "PLUGIN_UNIX_SOCKET_DIR", "HOLDFAST_KEY", "TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG", "PATH", "HOME",
     "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONSTARTUP",
     "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "BASH_ENV", "ENV", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT",
     "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "OPENSSL_CONF", "SSLKEYLOGFILE", "GCONV_PATH"],
)  # fmt: skip
def test_variables_of_holdfast_cannot_be_set(name: str) -> None:
    """What Holdfast owns is refused, with the reason."""
    (problem,) = mistakes(entry(f"{{ name: a, env: {{ {name}: x }} }}"))
    assert problem.code == "HF-CONF-14"
    assert problem.hint


@pytest.mark.parametrize(
    "name", ["TF_VAR_x", "TF_HTTP_ADDRESS", "AWS_REGION", "NODE_ENV", "ENVIRONMENT", "_x"]
)
def test_other_variables_can_be_set(name: str) -> None:
    """Only what Holdfast owns is kept from users."""
    assert read(entry(f"{{ name: a, env: {{ {name}: x }} }}")).stacks[0].env == {name: "x"}


def test_a_secret_in_the_wrong_place_is_not_repeated() -> None:
    """A password written instead of a reference never reaches the message."""
    text = entry(
        '{ name: a, env: { A: { secret: "hunter2" } }, credentials: { azure: { client_secret: pa55 } } }'
    )
    told = " ".join(f"{one.message} {one.hint}" for one in mistakes(text))
    assert "hunter2" not in told
    assert "pa55" not in told


def test_an_invalid_value_causes_no_second_mistake() -> None:
    """A region that is wrong is not also missing."""
    (problem,) = mistakes(entry('{ name: "a-{region}", region: true }'))
    assert problem.code == "HF-CONF-6"


def test_not_utf8_names_the_line() -> None:
    """A file in another encoding is told as such."""
    with pytest.raises(ConfigError) as caught:
        decode(b"version: 1\ncompany: \xff\n", file="holdfast.yaml")
    assert (caught.value.problem.code, str(caught.value.problem.place)) == ("HF-CONF-22", "holdfast.yaml:2")


def test_a_byte_order_mark_is_no_mistake() -> None:
    """Editors that write one are forgiven."""
    assert read(decode(b"\xef\xbb\xbfversion: 1\n", file="f")).company is None
