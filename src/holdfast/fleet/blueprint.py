"""A blueprint: a folder with a Terraform module and blueprint.yaml, checked and packed for workers.

The packed folder is what an upload of the command line is, with one stack: `device`. The same files always
give the same bytes, whether they come from a Git checkout or a copy of it.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from holdfast.config import yaml
from holdfast.config.blueprint import (
    DEVICE,
    FILE_NAME,
    BlueprintSettings,
    RetryRule,
    load_blueprint_settings,
)
from holdfast.config.problems import Problems, did_you_mean
from holdfast.config.read import FILE_NAME as GENERATED_FILE
from holdfast.fleet.payload import closed_schema, schema_mistakes
from holdfast.fleet.variable_schema import JsonSchema, schema_of_variables
from holdfast.hcl.eval.code import Code, ModuleCode, is_auto_loaded
from holdfast.hcl.eval.worktree import Worktree
from holdfast.hcl.reader import constant
from holdfast.kernel.errors import ConfigError, Place, Problem, UsageError
from holdfast.kernel.patterns import pattern
from holdfast.system import environment as system_environment
from holdfast.system.access_rules import ForbiddenFiles
from holdfast.system.environment import Environment
from holdfast.system.source_archive import all_names, pack

__all__ = ["DEVICE", "Blueprint", "blueprint_document", "load_blueprint", "load_blueprints"]

_LEFT_OUT: Final = pattern(
    r"(?:.*/)?(?:[^/]*\.tfstate(?:\.[^/]*)?|[^/]*\.tfplan|[^/]*\.tfvars(?:\.json)?|crash(?:\.[^/]*)?\.log"
    r"|\.env(?:\.[^/]*)?|\.terraformrc|terraform\.rc)"
)
"""States, saved plans, values and credentials of whoever worked in the folder."""
_PRIVATE_KEY: Final = pattern(rb"-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----")


class Blueprint(Struct, frozen=True, kw_only=True):
    name: str
    version: str
    description: str | None
    outputs: tuple[str, ...]
    deletion: str
    """`allow`, `approve` or `deny`."""
    vanished: str
    """`recreate` or `report`."""
    retries: RetryRule
    concurrency: int | None
    """None: no limit."""
    credentials_key: str
    """What the limit counts for: the account, or else the name of the blueprint."""
    environment: str | None
    labels: Mapping[str, str]
    parallelism: int | None
    warm_providers: bool
    not_read: tuple[str, ...]
    schema: JsonSchema
    content: bytes
    digest: str
    """SHA-256 of the content."""


def load_blueprints(folders: Sequence[Path], environment: Environment | None = None) -> dict[str, Blueprint]:
    """By name. Each folder is a blueprint or contains some. Raises every mistake in all of them at once."""
    problems: list[Problem] = []
    blueprints: dict[str, Blueprint] = {}
    places: dict[str, Path] = {}
    for folder in dict.fromkeys(path for given in folders for path in _blueprint_folders(given)):
        try:
            blueprint = load_blueprint(folder, environment)
        except UsageError as error:
            problems += error.problems
            continue
        if blueprint.name in blueprints:
            message = f"{places[blueprint.name]} and {folder} are both named `{blueprint.name}`"
            hint = "Give one of them another name."
            place = Place(file=f"{folder.name}/{FILE_NAME}")
            problems.append(Problem(code="HF-BLUE-2", message=message, hint=hint, place=place))
        blueprints[blueprint.name] = blueprint
        places[blueprint.name] = folder
    if problems:
        raise ConfigError(tuple(problems))
    return blueprints


def _blueprint_folders(given: Path) -> list[Path]:
    folder = given.absolute()
    if (folder / FILE_NAME).is_file():
        return [folder]
    inside = sorted(file.parent for file in folder.glob(f"*/{FILE_NAME}") if file.is_file())
    if not inside:
        raise UsageError(
            "HF-BLUE-1",
            f"there is no {FILE_NAME} in {given} or in a folder in it",
            hint="Create a blueprint with: holdfast blueprints new NAME",
        )
    return inside


def load_blueprint(folder: Path, environment: Environment | None = None) -> Blueprint:
    """Raises ConfigError with every mistake in blueprint.yaml, or else in the module and the schema."""
    settings = load_blueprint_settings(folder)
    forbidden = ForbiddenFiles(environment if environment is not None else system_environment.read())
    code = Code(Worktree(settings.folder, forbidden))
    module = code.module(settings.module)
    problems = Problems()
    _check_module(settings, code, problems)
    schema = _schema(settings, module, problems)
    if module.files and schema:
        _check_names(settings, module, schema, problems)
    names = list(_packed_names(settings, problems))
    problems.raise_any()
    packed = pack(
        settings.folder,
        names,
        forbidden=forbidden,
        generated={GENERATED_FILE: settings.configuration.encode()},
    )
    for name in packed.left_out:
        problems.add(
            "HF-BLUE-5",
            f"{name} leads out of the blueprint's folder, or is a key of Holdfast",
            place=Place(file=f"{settings.folder.name}/{name}"),
            hint="Copy what the module needs into the folder.",
        )
    problems.raise_any()
    return Blueprint(
        name=settings.name,
        version=settings.version,
        description=settings.description,
        outputs=settings.outputs,
        deletion=settings.deletion,
        vanished=settings.vanished,
        retries=settings.retries,
        concurrency=settings.concurrency,
        credentials_key=settings.account or settings.name,
        environment=settings.environment,
        labels=settings.labels,
        parallelism=settings.engine.parallelism,
        warm_providers=settings.warm_providers,
        not_read=settings.not_read,
        schema=schema,
        content=packed.content,
        digest=hashlib.sha256(packed.content).hexdigest(),
    )


def blueprint_document(blueprint: Blueprint) -> dict[str, object]:
    """As clients see it."""
    return {
        "name": blueprint.name,
        "version": blueprint.version,
        "description": blueprint.description,
        "digest": blueprint.digest,
        "outputs": list(blueprint.outputs),
        "deletion": blueprint.deletion,
        "vanished": blueprint.vanished,
        "concurrency": blueprint.concurrency,
        "payload_schema": blueprint.schema,
    }


# The module


def _check_module(settings: BlueprintSettings, code: Code, problems: Problems) -> None:
    module = code.module(settings.module)
    here = settings.place_of("module")
    if not module.files:
        message = f"the module {settings.module} does not exist, or contains no Terraform code"
        problems.add("HF-BLUE-3", message, place=here, hint="Name the folder of the root module: `module:`.")
        return
    states = [module.backend.place] if module.backend is not None else []
    for place in (*states, *([module.cloud] if module.cloud is not None else [])):
        problems.add(
            "HF-BLUE-8",
            "the module declares where its state is; the state of each device is managed by Holdfast",
            place=_shown(settings, place),
            hint="Remove the `backend` or `cloud` block.",
        )
    waiting, known = [module], {settings.module}
    while waiting:
        current = waiting.pop()
        for problem in current.problems:
            place = _shown(settings, problem.place or Place(file=current.folder))
            problems.add(problem.code, problem.message, place=place, hint=problem.hint)
        for folder in _called(settings, code, current, problems):
            if folder not in known:
                known.add(folder)
                waiting.append(code.module(folder))


def _called(settings: BlueprintSettings, code: Code, module: ModuleCode, problems: Problems) -> Iterator[str]:
    """Folders of called modules in the blueprint. Other sources are downloaded by init."""
    for call in module.calls:
        source = constant(call.source) if call.source is not None else None
        if not isinstance(source, str) or not source.startswith(("./", "../", "/")):
            continue
        place = _shown(settings, call.place)
        folder = posixpath.normpath(posixpath.join(module.folder, source))
        if folder.startswith(("../", "/")) or folder == "..":
            problems.add(
                "HF-BLUE-4",
                f"the module {source} is outside the blueprint's folder, and workers get only that",
                place=place,
                hint="Move it into the folder, or use a registry or Git address with a version.",
            )
        elif not code.module(folder).files:
            message = f"the module {source} does not exist, or contains no Terraform code"
            problems.add("HF-BLUE-4", message, place=place, hint="Check the path of `source`.")
        else:
            yield folder


def _check_names(
    settings: BlueprintSettings, module: ModuleCode, schema: JsonSchema, problems: Problems
) -> None:
    outputs = {block.labels[0] for block in module.blocks("output") if block.labels}
    named = [("outputs", name, outputs, "output") for name in settings.outputs]
    named += [("inputs", name, set(module.variables), "variable") for name in settings.inputs]
    payload = schema.get("properties", {})
    named += [("payload", name, set(module.variables), "variable") for name in payload]
    for key, name, known, noun in named:
        if name not in known:
            message = f"`{key}` names `{name}`, but the module has no such {noun}"
            hint = did_you_mean(name, known) or f'Add it to the module: {noun} "{name}" {{ … }}'
            problems.add("HF-BLUE-7", message, place=settings.place_of(key, name), hint=hint)
    for name in payload:
        if name in settings.inputs:
            message = f"the payload may set `{name}`, but `inputs` gives its value"
            problems.add("HF-BLUE-7", message, place=settings.place_of("payload"), hint="Remove one of them.")
    for variable in module.variables.values():
        if variable.default is None and variable.name not in {*payload, *settings.inputs}:
            problems.add(
                "HF-BLUE-7",
                f"the variable `{variable.name}` has no default, and nothing sets it",
                place=_shown(settings, variable.place),
                hint="Add it to the schema of the payload, or to `inputs`.",
            )


# The schema


def _schema(settings: BlueprintSettings, module: ModuleCode, problems: Problems) -> JsonSchema:
    """Empty if it has mistakes."""
    if settings.payload is None:
        return schema_of_variables(module, fixed=settings.inputs)
    place = settings.place_of("payload")
    written: Any = settings.payload
    if isinstance(written, str):
        file = settings.folder / written
        place = Place(file=f"{settings.folder.name}/{written}")
        try:
            with file.open("rb") as opened:
                written = json.loads(opened.read(yaml.MAX_BYTES))
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not valid JSON"
            message = f"the schema {settings.payload} cannot be read: {reason}"
            problems.add("HF-BLUE-6", message, place=place, hint="Check the file that `payload` names.")
            return {}
    mistakes = schema_mistakes(written)
    for mistake in mistakes:
        problems.add(
            "HF-BLUE-6",
            f"the schema of the payload is not valid: {mistake}",
            place=place,
            hint="See docs/blueprints.md, or remove `payload` to derive it from the variables.",
        )
    return {} if mistakes else closed_schema(written)


# The files


def _packed_names(settings: BlueprintSettings, problems: Problems) -> Iterator[str]:
    for name in sorted(all_names(settings.folder)):
        path = settings.folder / name
        folder, _, file = name.rpartition("/")
        refused: tuple[str, str] | None = None
        if name == GENERATED_FILE:
            refused = ("is generated by Holdfast for each blueprint", f"Write its keys in {FILE_NAME}.")
        elif is_auto_loaded(file) and (folder or ".") == settings.module:
            hint = "Write fixed values in `inputs`, and defaults in the code."
            refused = ("would be mixed with the payload", hint)
        elif _LEFT_OUT.fullmatch(name):
            continue
        elif not path.is_symlink() and path.is_file() and _PRIVATE_KEY.search(path.read_bytes()):
            refused = ("contains a private key", "Use a secret reference in `inputs`.")
        if refused is not None:
            place = Place(file=f"{settings.folder.name}/{name}")
            problems.add("HF-BLUE-5", f"{name} {refused[0]}", place=place, hint=refused[1])
        else:
            yield name


def _shown(settings: BlueprintSettings, place: Place) -> Place:
    return place._replace(file=f"{settings.folder.name}/{place.file}")
