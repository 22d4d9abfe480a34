"""Options and commands of Terraform: accepted where Holdfast has them, otherwise answered with its way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import click

_LEAVE_OUT = "Leave it out: {}."
_STATE = "The stack's backend says where its state is stored: `backend` in holdfast.yaml, or the code."
_STATE_MOVES = "To bring a state under another backend: holdfast state adopt --help"
INSTEAD: Mapping[str, str] = {
    "auto-approve": "Use --yes. For destroy: --yes-destroy NAME",
    "lock-timeout": "Use --wait DURATION with apply and destroy. In CI, Holdfast waits without it.",
    "lock": _LEAVE_OUT.format("Holdfast always locks what it changes"),
    "input": _LEAVE_OUT.format(
        "Terraform never asks for values here. Set them with -var or in holdfast.yaml"
    ),
    "refresh": _LEAVE_OUT.format("every plan compares the state with the real resources"),
    "compact-warnings": _LEAVE_OUT.format("warnings are shown in one line each"),
    "concise": _LEAVE_OUT.format("the output is short; --verbose shows more"),
    "parallelism": "Set `terraform_parallelism` of the stack, or of `defaults`, in holdfast.yaml. "
    "How many stacks run at once is engine.parallelism.",
    "state": _STATE,
    "state-out": _STATE,
    "backup": "Holdfast backs up every state: holdfast state versions STACK",
    "backend-config": "Set `backend` of the stack in holdfast.yaml.",
    "upgrade": "Use holdfast plan --lockfile update",
    "reconfigure": _STATE_MOVES,
    "migrate-state": _STATE_MOVES,
    "chdir": "Name the stacks instead, or the configuration file with --config: holdfast plan STACK",
    "generate-config-out": "Holdfast does not write code. Run terraform itself, then holdfast plan.",
    "release": "Use --override: holdfast apply --plan DIR --override DIGEST --reason TEXT",
}
"""By the name of an option that Holdfast does not have."""

_ALL_STACKS = "holdfast plan or holdfast apply, which take all stacks unless you name some"
COMMANDS_INSTEAD: Mapping[str, str] = {
    "apply": "holdfast apply",
    "destroy": "holdfast destroy STACK",
    "plan": "holdfast plan",
    "import": "holdfast import STACK ADDR ID",
    "taint": "holdfast plan --replace ADDR",
    "untaint": "holdfast plan",
    "refresh": "holdfast plan --refresh-only",
    "init": "holdfast plan, which runs init when needed",
    "force-unlock": "holdfast state unlock STACK ID --reason TEXT",
    "unlock": "holdfast state unlock STACK ID --reason TEXT",
    "state pull": "holdfast state pull STACK (here the output would be redacted)",
    "state push": "holdfast state push STACK FILE",
    "state mv": "holdfast state mv STACK FROM TO",
    "state rm": "holdfast state rm STACK ADDR",
    "state replace-provider": "a change of required_providers, then holdfast plan",
    "validate": "holdfast check --engine",
    "fmt": "holdfast check --engine --fix",
    "hclfmt": "holdfast check --engine --fix",
    "show": "holdfast runs show RUN --plan, or holdfast state show STACK",
    "console": "holdfast terraform STACK -- console",
    "providers": "holdfast terraform STACK -- providers",
    "workspace": "`workspace` of a stack in holdfast.yaml",
    "version": "holdfast --version",
    "help": "holdfast --help",
    "list": "holdfast stacks",
    "find": "holdfast stacks",
    "render": "holdfast config show STACK",
    "run": _ALL_STACKS,
    "run-all": _ALL_STACKS,
    "plan-all": _ALL_STACKS,
    "apply-all": _ALL_STACKS,
}
"""By the name of a command of Terraform, Terragrunt or Atlantis."""


def with_two_dashes(command: click.Command, context: click.Context, arguments: list[str]) -> list[str]:
    """`-target=ADDR` becomes `--target=ADDR`. What follows `--`, and values of options, stay as they are."""
    options = (parameter for parameter in command.get_params(context) if isinstance(parameter, click.Option))
    by_name = {name: option for option in options for name in (*option.opts, *option.secondary_opts)}
    try:
        return list(_spell_all(arguments, by_name))
    except click.NoSuchOption as error:
        if context.resilient_parsing:  # While a shell completes a word, it may be any.
            return arguments
        error.ctx = context
        raise


def _spell_all(arguments: Iterable[str], by_name: Mapping[str, click.Option]) -> Iterator[str]:
    words = iter(arguments)
    for word in words:
        if word == "--":
            yield word
            break
        spelled = _spell(word, by_name)
        if spelled is not None:
            yield spelled
        option = by_name.get(spelled or "")
        if option is not None and not option.is_flag:
            yield from (value for value in [next(words, None)] if value is not None)
    yield from words


def _spell(word: str, by_name: Mapping[str, click.Option]) -> str | None:
    """None for a flag that is `=false`, as Terraform writes the default."""
    name, equals, value = word.partition("=")
    if not name.startswith("-") or len(name.strip("-")) < 2:  # noqa: PLR2004 - a short option, or none
        return word
    long = name if name in by_name else f"-{name}"
    option = by_name.get(long)
    if option is None:
        if name.startswith("--") or all(f"-{letter}" in by_name for letter in name[1:]):
            return word
        import difflib

        raise click.NoSuchOption(name, possibilities=difflib.get_close_matches(f"-{name}", by_name))
    if option.is_flag and value.lower() in {"true", "false"}:
        return long if value.lower() == "true" else None
    return long + equals + value
