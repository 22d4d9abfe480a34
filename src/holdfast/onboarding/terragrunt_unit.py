"""A unit of Terragrunt: its file together with those that it includes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from holdfast.hcl.eval.code import Code, Variable
from holdfast.hcl.nodes import Attribute, Block, Expression
from holdfast.onboarding.terragrunt_files import (
    ALL_OUTPUTS,
    Config,
    Members,
    OutputOf,
    Place,
    merged,
    missing,
    object_items,
)
from holdfast.onboarding.terragrunt_stacks import UnitPlace
from holdfast.onboarding.translation import Part
from holdfast.stacks.listing import ROOT


class Layers:
    """The file of a unit and those that it includes, the strongest last."""

    def __init__(self, code: Code, unit: UnitPlace, *, environment: bool) -> None:
        place = Place(unit=unit.folder, folder=unit.folder, values=unit.values)
        self.own = Config(code, unit.path, place, environment=environment)
        included = [include for include in self.own.includes if include.strategy != "no_merge"]
        self.deep = [include.strategy == "deep" for include in included]
        self.configs = [*(include.config for include in included), self.own]
        dependencies = Members((), self._outputs_of)
        for config in self.configs:
            config.dependencies = dependencies

    def attribute(self, name: str) -> tuple[Config, Attribute] | None:
        found = ((config, config.attribute(name)) for config in reversed(self.configs))
        return next(((config, attribute) for config, attribute in found if attribute is not None), None)

    def value(self, name: str) -> object:
        found = self.attribute(name)
        return found[0].value(found[1].expression) if found is not None else None

    def blocks(self, *types: str) -> Iterator[tuple[Config, Block]]:
        return ((config, block) for config in self.configs for block in config.blocks(*types))

    def labelled(self, *types: str) -> dict[str, tuple[Config, Block]]:
        return {
            block.labels[0] if block.labels else "": (config, block) for config, block in self.blocks(*types)
        }

    def in_terraform(self, *types: str) -> dict[str, tuple[Config, Block]]:
        """Blocks inside `terraform`, by type and label."""
        return {
            " ".join((inner.type, *inner.labels)): (config, inner)
            for config, block in self.blocks("terraform")
            for inner in block.body.blocks_of(*types)
        }

    def source(self) -> tuple[Config, Attribute] | None:
        found = ((config, config.attribute("source", block)) for config, block in self.blocks("terraform"))
        return next(((c, a) for c, a in reversed(list(found)) if a is not None), None)

    def source_value(self) -> object:
        found = self.source()
        return found[0].value(found[1].expression) if found is not None else None

    def inputs(self) -> object:
        value = self.own.attribute_value("inputs")
        for config, deep in zip(reversed(self.configs[:-1]), reversed(self.deep), strict=True):
            value = merged(config.attribute_value("inputs"), value, deep=deep)
        return {} if value is None else value

    def input_expression(self, name: str) -> tuple[Config, Expression] | None:
        for config in reversed(self.configs):
            attribute = config.attribute("inputs")
            if attribute is not None:
                return config, object_items(attribute.expression).get(name, attribute.expression)
        return None

    def dependency(self, name: str) -> Mapping[str, object]:
        """The attributes of a dependency; with a deep merge, those of an included file remain."""
        found: dict[str, object] = {}
        for config, block in self.blocks("dependency"):
            if block.labels[:1] == (name,):
                own = {each.name: config.value(each.expression) for each in block.body.attributes}
                path = own.get("config_path")
                own["folder"] = config.inside(path) if isinstance(path, str) else None
                found = {**(found if any(self.deep) else {}), **own}
        return found

    def _outputs_of(self, name: str) -> object:
        attributes = self.dependency(name)
        if not attributes:
            raise KeyError(name)
        mocks = attributes.get("mock_outputs")
        folder = attributes["folder"]

        def output(key: str) -> object:
            mock = mocks.get(key) if isinstance(mocks, Mapping) else None
            return OutputOf(folder if isinstance(folder, str) else None, key, mock)

        return Members(
            ("outputs",),
            lambda part: Members((ALL_OUTPUTS,), output) if part == "outputs" else missing(part),
        )


class Unit:
    def __init__(self, code: Code, place: UnitPlace) -> None:
        self.code, self.place = code, place
        self.folder = place.folder
        self.source_folder = posixpath.dirname(place.path) or ROOT
        """Where its files are; Terragrunt copies them to `folder` if that is another one."""
        self.layers = Layers(code, place, environment=True)
        self._certain: Layers | None = None

    @property
    def certain(self) -> Layers:
        """The same without environment variables. Evaluate a value with `layers` before."""
        if not self.layers.own.place.shared.variables:
            return self.layers
        if self._certain is None:
            self._certain = Layers(self.code, self.place, environment=False)
        return self._certain

    @property
    def is_unit(self) -> bool:
        """Other files are only included."""
        return self.layers.source() is not None or bool(self.code.module(self.folder).files)

    @property
    def is_excluded(self) -> bool:
        block = next((pair for pair in self.layers.blocks("exclude")), None)
        excluded = block is not None and block[0].attribute_value("if", block[1]) is True
        return excluded or self.layers.own.attribute_value("skip") is True


class Draft:
    """The entry of one unit while it is put together."""

    def __init__(self, unit: Unit, names: Mapping[str, str]) -> None:
        """`names`: of the stacks, by the folders of their units."""
        self.unit, self.names, self.code = unit, names, unit.code
        self.layers = unit.layers
        self.module = unit.folder
        self.files: list[str] = []
        """Variables files, the strongest last."""
        self.keys: dict[str, object] = {}
        self.parts: list[Part] = []
        self.reasons: list[str] = []

    def hold_back(self, reason: str) -> None:
        self.reasons.append(reason)

    def add(self, config: Config, at: Attribute | Block, what: str, keys: str) -> None:
        self.add_part(f"{config.path}:{at.line} {what}", keys)

    def add_part(self, original: str, keys: str) -> None:
        self.parts.append(Part(original=original, keys=keys))

    def why(self, config: Config, expression: Expression) -> str:
        call = config.uncertain(expression)
        return f"it depends on {call}" if call is not None else "only Terragrunt can evaluate it"

    def mapping(self, key: str) -> Mapping[str, object]:
        value = self.keys.get(key)
        return value if isinstance(value, Mapping) else {}

    @property
    def variables(self) -> Mapping[str, Variable]:
        """Those of the module, with the files that are generated for it."""
        files = {
            self.code.tree.join(self.module, name): str(file["content"])
            for name, file in self.mapping("generate").items()
            if isinstance(file, Mapping)
        }
        return self.code.with_files(files).module(self.module).variables

    @property
    def used_stacks(self) -> set[str]:
        """Stacks whose outputs are inputs."""
        inputs = (value for value in self.mapping("inputs").values() if isinstance(value, Mapping))
        return {str(value["output"]).rpartition(".")[0] for value in inputs if "output" in value}


def texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, tuple) else ()
