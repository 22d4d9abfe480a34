"""Translates the components of Atmos stacks to entries.

Their states, workspaces and variables are named as Atmos names them; what depends on templates, on functions
that run programs, or on the version of Atmos is held back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from holdfast.hcl.eval.code import Code
from holdfast.kernel.text import plural
from holdfast.onboarding.naming import environment_word
from holdfast.onboarding.starter_entries import unused_name, valid_name
from holdfast.onboarding.translators.atmos_files import (
    AtmosConfig,
    Manifest,
    Tagged,
    deep_merge,
    read_config,
    read_manifests,
)
from holdfast.onboarding.translators.draft import RESERVED_KEY, Draft, has_reserved_key
from holdfast.onboarding.translators.translation import TranslatedStack, Translation, variable_mark
from holdfast.stacks.listing import join_path

_REFERENCE: Final = re.compile(r"\{\{\s*\.([A-Za-z0-9_.]+)\s*\}\}")
_OUTPUT: Final = re.compile(
    r"(\S+?)(?:\s+([^\s.]\S*))?\s+\.?([A-Za-z_][\w-]*)(?:\s*//\s*[\"']?([^\"']*)[\"']?)?"
)
"""The arguments of `!terraform.output`: component, stack, output, and a value if there is no output yet."""
_TOKEN: Final = re.compile(r"\{([a-z_-]+)\}")
_CONTEXT: Final = ("namespace", "tenant", "environment", "stage")
_SET_BACKEND: Final = "Set `backend` and `workspace` to where its state is."


class Component(Struct, frozen=True, kw_only=True):
    """A component in a stack, with everything that it inherits."""

    manifest: Manifest
    name: str
    metadata: Mapping[str, object]
    section: Mapping[str, object]
    """`vars`, `env`, `backend` and so on, with those of the stack."""
    inherited: bool
    """Whether only a component that it inherits from says which code it has."""

    def mapping(self, key: str) -> Mapping[str, object]:
        value = self.section.get(key)
        return value if isinstance(value, Mapping) else {}

    @property
    def base(self) -> str:
        """The component whose code it has."""
        base = self.metadata.get("component") or self.section.get("component")
        return base if isinstance(base, str) else self.name


def translate_atmos(code: Code, paths: Sequence[str]) -> Translation:
    """`paths`: the files of the repository. Never raises because of their content."""
    config = read_config(code, paths)
    manifests = read_manifests(code, config, paths) if config is not None else []
    components = [component for manifest in manifests for component in _components(manifest)]
    drafts = [ComponentDraft(code, config, component) for component in components if config is not None]
    names: dict[tuple[str, str], str] = {}
    counted = Counter(draft.name for draft in drafts)
    used: set[str] = set()
    for draft in drafts:
        if counted[draft.name] > 1:
            draft.hold_back(f"Several files have a stack {draft.stack_name} with this component.")
        draft.name = unused_name(draft.name, used)
        used.add(draft.name)
        names.setdefault((draft.stack_name, draft.component.name), draft.name)
    stacks = tuple(draft.translate(names) for draft in drafts)
    top = config.folder("components", "terraform", default="components/terraform") if config else ""
    return Translation(
        tool="Atmos",
        found=f"Atmos with {plural(len(manifests), 'stack')} and {plural(len(stacks), 'component')} in them",
        stacks=stacks,
        folders=tuple({path.rpartition("/")[0] for path in paths if path.startswith(f"{top}/")}),
    )


def _components(manifest: Manifest) -> Iterator[Component]:
    content = manifest.content
    listed = deep_merge({}, content.get("components")).get("terraform")
    components = listed if isinstance(listed, Mapping) else {}
    common = deep_merge({}, content.get("terraform"))
    stack = {key: content[key] for key in ("vars", "env") if key in content}
    for name, own in components.items():
        metadata = deep_merge({}, own.get("metadata") if isinstance(own, Mapping) else None)
        if metadata.get("type") == "abstract" or metadata.get("enabled") is False:
            continue
        chain = _inherited(name, components, ())
        bases = [*_bases(own), own.get("component")] if isinstance(own, Mapping) else []
        yield Component(
            manifest=manifest,
            name=name,
            metadata=metadata,
            section=deep_merge(deep_merge(stack, common), chain),
            inherited=bool([base for base in bases if base]) and "component" not in metadata,
        )


def _inherited(name: str, components: Mapping[str, object], above: tuple[str, ...]) -> Mapping[str, object]:
    own = components.get(name)
    if not isinstance(own, Mapping) or name in above:
        return {}
    section: Mapping[str, object] = {}
    for base in _bases(own):
        section = deep_merge(section, _inherited(base, components, (*above, name)))
    return deep_merge(section, {key: value for key, value in own.items() if key != "metadata"})


def _bases(component: Mapping[str, object]) -> list[str]:
    metadata = component.get("metadata")
    listed = metadata.get("inherits") if isinstance(metadata, Mapping) else None
    base = component.get("component")
    return [each for each in (base, *(listed if isinstance(listed, list) else ())) if isinstance(each, str)]


class ComponentDraft(Draft):
    def __init__(self, code: Code, config: AtmosConfig, component: Component) -> None:
        self.component, self._config = component, config
        top = config.folder("components", "terraform", default="components/terraform")
        folder = component.metadata.get("component_folder_prefix")
        top = join_path(top, folder) if isinstance(folder, str) else top
        super().__init__(code, "Atmos", join_path(top, component.base))
        self.reasons += component.manifest.problems
        self.workspace = self.stack_name = ""
        self.stack_name = self._stack_name()
        self.workspace = self._workspace()
        self.name = valid_name(f"{self.stack_name}/{component.name}")

    def translate(self, names: Mapping[tuple[str, str], str]) -> TranslatedStack:
        component, path = self.component, self.component.manifest.path
        if component.inherited:
            self.hold_back(
                "Which code a component inherits depends on the version of Atmos. Set `metadata.component` "
                f"of {component.name} in {path}, then run `holdfast init --force`."
            )
        if not self.code.module(self.module).files:
            self.hold_back(f"{self.module} has no code. Run `atmos vendor pull`, or set `module`.")
        for key in ("overrides", "hooks", "source", "generate", "providers"):
            if component.mapping(key):
                self.hold_back(f"`{key}` is not translated. Write what it does in the entry.")
        self.add(f"{path} components.terraform.{component.name}", f"module: {self.module}")
        self.add(f"stack {self.stack_name}", f"workspace: {self.workspace}")
        self._read_backend()
        self._read_inputs(names)
        self.keys["workspace"] = self.workspace if self.workspace != "default" else None
        env = component.mapping("env")
        self.keys["env"] = {name: self._value(f"env.{name}", value) for name, value in env.items()}
        self.keys["engine"] = {"use": "tofu"} if "tofu" in str(component.section.get("command")) else None
        return self.stack(path, self.name, tuple(self._depends_on(names)), self._environment())

    # Names

    def _stack_name(self) -> str:
        """As Atmos names the stack: by the manifest, the template, the pattern or the file."""
        manifest, variables = self.component.manifest, self.component.mapping("vars")
        name, template, pattern = (
            manifest.given_name,
            self._config.setting("stacks", "name_template"),
            self._config.setting("stacks", "name_pattern"),
        )
        if isinstance(name, str) and name:
            return name
        if isinstance(template, str) and template:
            if (text := self._rendered(template)) is not None:
                return text
            self.hold_back(f"Only Atmos can evaluate `name_template`. {_SET_BACKEND}")
        elif isinstance(pattern, str) and pattern:
            tokens = [token for token in _TOKEN.findall(pattern) if token in _CONTEXT]
            values = [variables.get(token) for token in tokens]
            if tokens and all(isinstance(value, str) and value for value in values):
                return "-".join(map(str, values))
        return manifest.name.replace("/", "-")

    def _rendered(self, text: str) -> str | None:
        """A template that only names values; None if only Atmos can evaluate it."""
        section = {**self.component.section, "metadata": self.component.metadata}
        own = {
            "atmos_component": self.component.name,
            "atmos_stack": self.stack_name,
            "atmos_stack_file": self.component.manifest.name,
            "stack": self.stack_name,
            "workspace": self.workspace,
        }

        def value(match: re.Match[str]) -> str:
            found: object = {**section, **own}
            for key in match.group(1).split("."):
                found = found.get(key) if isinstance(found, Mapping) else None
            return str(found) if found and isinstance(found, str | int) and found is not True else "{{"

        rendered = _REFERENCE.sub(value, text)
        return rendered if "{{" not in rendered else None

    def _workspace(self) -> str:
        component, metadata = self.component, self.component.metadata
        enabled = self._config.setting("components", "terraform", "workspaces_enabled") is not False
        settings = component.mapping("settings")
        if not enabled or settings.get("workspaces_enabled") is False or self._backend_type() == "http":
            return "default"
        base = component.base if component.base != component.name else ""
        workspace = f"{self.stack_name}-{component.name}" if base else self.stack_name
        if isinstance(exact := metadata.get("terraform_workspace"), str):
            workspace = self._rendered(exact) or "{"
        if isinstance(pattern := metadata.get("terraform_workspace_pattern"), str):
            known = {**component.mapping("vars"), "component": component.name, "base-component": base}
            workspace = _TOKEN.sub(lambda match: str(known.get(match.group(1), match.group())), pattern)
        if isinstance(template := metadata.get("terraform_workspace_template"), str):
            workspace = self._rendered(template) or "{"
        if "{" in workspace:
            self.hold_back(f"Only Atmos can evaluate the name of its workspace. {_SET_BACKEND}")
        return workspace.replace("/", "-")

    def _environment(self) -> str | None:
        variables = self.component.mapping("vars")
        values = (variables.get(name) for name in ("stage", "environment"))
        texts = [value for value in values if isinstance(value, str)]
        return next((text for text in texts if environment_word(text)), texts[0] if texts else None)

    # The state

    def _backend_type(self) -> str | None:
        type_ = self.component.section.get("backend_type")
        return type_ if isinstance(type_, str) else None

    def _read_backend(self) -> None:
        type_ = self._backend_type()
        generated = self._config.setting("components", "terraform", "auto_generate_backend_file")
        if generated is None and type_ is not None:
            self.hold_back(
                f"Set `auto_generate_backend_file` in {self._config.path}: its default differs by version."
            )
        if generated is False or type_ is None:
            if not self.keep_backend(local=True):
                # Terraform stores the state of each workspace beside the code.
                inside = f"terraform.tfstate.d/{self.workspace}/" if self.workspace != "default" else ""
                file = f"{self.module}/{inside}terraform.tfstate"
                if generated or self.code.content(file) is None:
                    self.hold_back(f"It has no backend, and {file} is not here. {_SET_BACKEND}")
                self.add("no backend", "backend: local")
                self.keys["backend"] = {"type": "local"}
            return
        common, own = (
            deep_merge({}, section.get("backend")) if isinstance(section, Mapping) else {}
            for section in (self.component.manifest.content.get("terraform"), self.component.section)
        )
        settings = dict(deep_merge({}, own.get(type_)))
        self._name_state(type_, settings, deep_merge({}, common.get(type_)))
        settings = {name: self._value(f"backend.{name}", value) for name, value in settings.items()}
        self.set_backend(type_, settings)
        self.add(f"backend.{type_}", f"backend: {type_}")

    def _name_state(self, type_: str, settings: dict[str, object], common: Mapping[str, object]) -> None:
        """The settings that Atmos derives from the component's name."""
        component = self.component
        separator = self._config.setting("components", "terraform", "workspace", "prefix_separator")
        name = str(component.metadata.get("name") or component.base)
        prefix = name.replace("/", separator if isinstance(separator, str) else "-")
        match type_:
            case "s3" if not settings.get("workspace_key_prefix"):
                settings["workspace_key_prefix"] = prefix
            case "gcs" if not settings.get("prefix"):
                settings["prefix"] = prefix
            case "azurerm" if settings.get("key") in (None, "", common.get("key")):
                above = (str(common["key"]),) if common.get("key") else ()
                settings["key"] = "/".join((*above, f"{prefix}.terraform.tfstate"))
            case _:
                pass

    # Variables and order

    def _read_inputs(self, names: Mapping[tuple[str, str], str]) -> None:
        declared = self.code.module(self.module).variables
        variables = self.component.mapping("vars")
        inputs = {
            name: self._output(name, value, names) or self._value(f"vars.{name}", value)
            for name, value in variables.items()
            if name in declared or not declared
        }
        left_out = [name for name in variables if name not in inputs]
        self.set_inputs(inputs, "vars", left_out, "the module has no such variable")

    def _output(self, name: str, value: object, names: Mapping[tuple[str, str], str]) -> object:
        """`!terraform.output COMPONENT [STACK] OUTPUT` as an output of that stack."""
        if not isinstance(value, Tagged) or value.function not in ("terraform.output", "terraform.state"):
            return None
        arguments = _OUTPUT.fullmatch(self._rendered(value.text) or "")
        key = (arguments[2] or self.stack_name, arguments[1]) if arguments else ("", "")
        if arguments is None or key not in names:
            self.hold_back(f"`vars.{name}` is computed from an output. Write its value under `inputs`.")
            return None
        mock = {"mock": arguments[4]} if arguments[4] else {}
        return {"output": f"{names[key]}.{arguments[3]}", **mock}

    def _value(self, where: str, value: object) -> object:
        """A value without templates and functions; otherwise the stack is held back."""
        match value:
            case Tagged(function="env") if value.text.split():
                name, _, default = value.text.partition(" ")
                if default:
                    self.hold_back(f"It uses the default of !env {name}. Check what depends on it.")
                return default.strip("\"' ") or variable_mark(name)
            case Tagged():
                if value.function not in ("terraform.output", "terraform.state"):
                    self.hold_back(f"`{where}` depends on !{value.function}. Write its value.")
                return None
            case str() if "{{" in value and self._config.setting("templates", "settings", "enabled") is True:
                if (text := self._rendered(value)) is None:
                    self.hold_back(f"`{where}` is a template. Write its value.")
                return text
            case Mapping():
                if has_reserved_key(value):
                    self.hold_back(f"`{where}` {RESERVED_KEY}")
                return {key: self._value(where, item) for key, item in value.items()}
            case list():
                return [self._value(where, item) for item in value]
            case _:
                return value

    def _depends_on(self, names: Mapping[tuple[str, str], str]) -> Iterator[str]:
        settings = self.component.mapping("settings").get("depends_on")
        listed = self.component.mapping("dependencies").get("components")
        items = (*(settings.values() if isinstance(settings, Mapping) else ()), *(listed or ()))  # type: ignore[misc]
        for item in items:
            if isinstance(item, Mapping):
                component = item.get("component") or item.get("name")
                key = (str(item.get("stack") or self.stack_name), str(component))
                if key in names:
                    yield names[key]
                else:
                    self.hold_back(f"It depends on {key[1]}, which is not in {key[0]}. Set `depends_on`.")
