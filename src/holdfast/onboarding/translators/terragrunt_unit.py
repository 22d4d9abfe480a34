"""A unit of Terragrunt: its file together with those that it includes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from holdfast.hcl.eval.code import Code
from holdfast.hcl.nodes import Attribute, Block, Expression
from holdfast.onboarding.translators.draft import Draft
from holdfast.onboarding.translators.terragrunt_files import (
    ALL_OUTPUTS,
    Config,
    Members,
    OutputOf,
    Place,
    merged,
    missing,
    object_items,
)
from holdfast.onboarding.translators.terragrunt_stacks import UnitPlace
from holdfast.stacks.listing import ROOT

Found = tuple[Config, Attribute]
FoundBlock = tuple[Config, Block]


class Unit:
    """`configs`: its file and those that it includes, the strongest last."""

    def __init__(self, code: Code, place: UnitPlace) -> None:
        self.code, self.place, self.folder = code, place, place.folder
        self.source_folder = posixpath.dirname(place.path) or ROOT
        """Where its files are; Terragrunt copies them to `folder` if that is another one."""
        self.own = Config(
            code, place.path, Place(unit=place.folder, folder=place.folder, values=place.values)
        )
        included = [include for include in self.own.includes if include.strategy != "no_merge"]
        self._deep = [include.strategy == "deep" for include in included]
        self.configs = [*(include.config for include in included), self.own]
        dependencies = Members((), self._outputs_of)
        for config in self.configs:
            config.dependencies = dependencies

    @property
    def is_unit(self) -> bool:
        """Other files are only included."""
        return self.source() is not None or bool(self.code.module(self.folder).files)

    @property
    def is_excluded(self) -> bool:
        excluded = any(
            config.attribute_value("if", block) is True for config, block in self.blocks("exclude")
        )
        return excluded or self.own.attribute_value("skip") is True

    def attribute(self, name: str) -> Found | None:
        found = ((config, config.attribute(name)) for config in reversed(self.configs))
        return next(((config, attribute) for config, attribute in found if attribute is not None), None)

    def value(self, name: str) -> object:
        found = self.attribute(name)
        return found[0].value(found[1].expression) if found is not None else None

    def blocks(self, *types: str) -> Iterator[FoundBlock]:
        return ((config, block) for config in self.configs for block in config.blocks(*types))

    def labelled(self, *types: str) -> dict[str, FoundBlock]:
        return {" ".join(block.labels[:1]): (config, block) for config, block in self.blocks(*types)}

    def in_terraform(self, *types: str) -> dict[str, FoundBlock]:
        """Blocks inside `terraform`, by type and label."""
        return {
            " ".join((inner.type, *inner.labels)): (config, inner)
            for config, block in self.blocks("terraform")
            for inner in block.body.blocks_of(*types)
        }

    def source(self) -> Found | None:
        found = [(config, config.attribute("source", block)) for config, block in self.blocks("terraform")]
        return next(((config, each) for config, each in reversed(found) if each is not None), None)

    def inputs(self) -> object:
        value = self.own.attribute_value("inputs")
        for config, deep in zip(reversed(self.configs[:-1]), reversed(self._deep), strict=True):
            value = merged(config.attribute_value("inputs"), value, deep=deep)
        return {} if value is None else value

    def input_expression(self, name: str) -> tuple[Config, Expression] | None:
        if (found := self.attribute("inputs")) is None:
            return None
        config, attribute = found
        return config, object_items(attribute.expression).get(name, attribute.expression)

    def dependency(self, name: str) -> Mapping[str, object]:
        """The attributes of a dependency; with a deep merge, those of an included file remain."""
        found: dict[str, object] = {}
        for config, block in self.blocks("dependency"):
            if block.labels[:1] == (name,):
                own = {each.name: config.value(each.expression) for each in block.body.attributes}
                path = own.get("config_path")
                own["folder"] = config.inside(path) if isinstance(path, str) else None
                found = {**(found if any(self._deep) else {}), **own}
        return found

    def _outputs_of(self, name: str) -> object:
        attributes = self.dependency(name) or missing(name)
        mocks, folder = attributes.get("mock_outputs"), attributes["folder"]

        def output(key: str) -> object:
            mock = mocks.get(key) if isinstance(mocks, Mapping) else None
            return OutputOf(folder if isinstance(folder, str) else None, key, mock)

        return {"outputs": Members((ALL_OUTPUTS,), output)}


class UnitDraft(Draft):
    def __init__(self, unit: Unit, names: Mapping[str, str]) -> None:
        """`names`: of the stacks, by the folders of their units."""
        super().__init__(unit.code, "Terragrunt", unit.folder)
        self.unit, self.names = unit, names
        self.files: list[str] = []
        """Variables files, the strongest last."""

    def add_at(self, config: Config, at: Attribute | Block, what: str, keys: str) -> None:
        self.add(f"{config.path}:{at.line} {what}", keys)

    def why(self, config: Config, expression: Expression) -> str:
        call = config.uncertain(expression)
        return f"it depends on {call}" if call is not None else "only Terragrunt can evaluate it"


def texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, tuple) else ()
