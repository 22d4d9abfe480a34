"""The provider, its resource and its data sources, in the words of the `tf` package.

`lab_object` can be told to fail by its own `kind`, so that a configuration alone shows a failed apply:
`fail-create`, `fail-update`, `fail-delete` and `fail-read` do nothing and fail; `lose-create` makes the
object and fails as if the answer were lost; `taint-create` makes it, fails, and leaves it tainted.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, ClassVar

from tf import iface
from tf.schema import Attribute, Schema
from tf.types import List, Map, Number, String, Unknown

from provider.store import DirectoryStore, ServiceStore, Store, StoreError, look_up, the_one_named

State = dict[str, Any]


def _object_attributes(*, computed: bool, color: bool) -> list[Attribute]:
    """The fields that both the resource and the data source have; a data source only reads them."""
    how = {"computed": True} if computed else {"optional": True}
    attributes = [
        Attribute("body", String(), description="What the object holds.", **how),
        Attribute("kind", String(), description="What the object is; some kinds fail on purpose.", **how),
        Attribute(
            "replace", String(), description="A change makes a new object.", requires_replace=True, **how
        ),
        Attribute("secret", String(), description="Never shown.", sensitive=True, **how),
    ]
    if color:
        attributes.append(Attribute("color", String(), description="Since 2.0.0.", **how))
    return attributes


class LabObject(iface.Resource):  # type: ignore[misc]  # the package has no types
    color: ClassVar = False

    def __init__(self, provider: LabProvider) -> None:
        self._provider = provider

    @classmethod
    def get_name(cls) -> str:
        return "object"

    @classmethod
    def get_schema(cls) -> Schema:
        return Schema(
            version=1,
            attributes=[
                Attribute("id", String(), computed=True, description="Given when the object is made; stays."),
                Attribute(
                    "name", String(), required=True, description="What people call it; need not be unique."
                ),
                *_object_attributes(computed=False, color=cls.color),
            ],
        )

    def create(self, ctx: iface.CreateContext, planned: State) -> State | None:
        kind = planned["kind"]
        try:
            _fail_on_purpose("create", kind)
            made = self._provider.store.create(_without_id(planned))
        except StoreError as error:
            return _reported(ctx, error, None)
        self._provider.wait()
        if kind == "lose-create":
            return _reported(
                ctx, StoreError("The answer was lost", f'kind is "{kind}": the object was made.'), None
            )
        if kind == "taint-create":
            ctx.diagnostics.add_error("The object is not ready", f'kind is "{kind}": the object was made.')
        return self._state(made)

    def read(self, ctx: iface.ReadContext, current: State) -> State | None:
        try:
            _fail_on_purpose("read", current["kind"])
            found = self._provider.store.read(current["id"])
        except StoreError as error:
            return _reported(ctx, error, current)
        return None if found is None else self._state(found)

    def update(self, ctx: iface.UpdateContext, current: State, planned: State) -> State | None:
        try:
            _fail_on_purpose("update", planned["kind"])
            changed = self._provider.store.update(current["id"], _without_id(planned))
        except StoreError as error:
            return _reported(ctx, error, current)
        self._provider.wait()
        return self._state(changed)

    def delete(self, ctx: iface.DeleteContext, current: State) -> State | None:
        try:
            _fail_on_purpose("delete", current["kind"])
            self._provider.store.delete(current["id"])
        except StoreError as error:
            return _reported(ctx, error, current)
        self._provider.wait()
        return None

    def import_(self, ctx: iface.ImportContext, id: str) -> State | None:  # noqa: A002 (the package's name)
        try:
            return self._state(look_up(self._provider.store, id))
        except StoreError as error:
            return _reported(ctx, error, None)

    def _state(self, stored: State) -> State:
        return {each.name: stored.get(each.name) for each in self.get_schema().attributes}


class LabObjectWithColor(LabObject):
    color: ClassVar = True


class LabObjectData(iface.DataSource):  # type: ignore[misc]  # the package has no types
    color: ClassVar = False

    def __init__(self, provider: LabProvider) -> None:
        self._provider = provider

    @classmethod
    def get_name(cls) -> str:
        return "object"

    @classmethod
    def get_schema(cls) -> Schema:
        return Schema(
            version=1,
            attributes=[
                Attribute("id", String(), optional=True, computed=True, description="Give this or the name."),
                Attribute("name", String(), optional=True, computed=True, description="Give this or the id."),
                *_object_attributes(computed=True, color=cls.color),
            ],
        )

    def validate(self, diags: Any, type_name: str, config: State) -> None:
        super().validate(diags, type_name, config)
        if (config.get("id") is None) == (config.get("name") is None):
            diags.add_error("Give either id or name", f"{type_name} finds its object by one of them.")

    def read(self, ctx: iface.ReadDataContext, config: State) -> State | None:
        store_key, name = config["id"], config["name"]
        try:
            store = self._provider.store
            found = the_one_named(store, name) if store_key is None else look_up(store, store_key)
        except StoreError as error:
            return _reported(ctx, error, None)
        return {each.name: found.get(each.name) for each in self.get_schema().attributes}


class LabObjectDataWithColor(LabObjectData):
    color: ClassVar = True


class LabEnvironment(iface.DataSource):  # type: ignore[misc]  # the package has no types
    """What the provider's process was given: how a test proves that nothing of another run reached it."""

    def __init__(self, provider: LabProvider) -> None:
        pass

    @classmethod
    def get_name(cls) -> str:
        return "environment"

    @classmethod
    def get_schema(cls) -> Schema:
        return Schema(
            version=1,
            attributes=[
                Attribute("names", List(String()), required=True, description="Which variables to show."),
                Attribute("values", Map(String()), computed=True, description="Those of them that are set."),
                Attribute("pid", Number(), computed=True, description="The provider's process."),
            ],
        )

    def read(self, ctx: iface.ReadDataContext, config: State) -> State:  # noqa: ARG002 (the package's signature)
        values = {name: os.environ[name] for name in config["names"] if name in os.environ}
        return {"names": config["names"], "values": values, "pid": os.getpid()}


class LabProvider(iface.Provider):  # type: ignore[misc]  # the package has no types
    """One configuration per process, as with any provider: `directory` or `url`, and a `delay`."""

    def __init__(self, version: str) -> None:
        self._color = int(version.partition(".")[0]) > 1
        self._store: Store | StoreError = StoreError(
            "The provider is not configured", "Configure was not called."
        )
        self._delay = 0.0

    @property
    def store(self) -> Store:
        if isinstance(self._store, StoreError):
            raise self._store
        return self._store

    def wait(self) -> None:
        """Answer as late as the configuration says; the store has done its work by then."""
        time.sleep(self._delay)

    def get_model_prefix(self) -> str:
        return "lab_"

    def full_name(self) -> str:
        return "holdfast.dev/labs/lab"

    def get_provider_schema(self, diags: Any) -> Schema:  # noqa: ARG002 (the package's signature)
        return Schema(
            version=1,
            attributes=[
                Attribute(
                    "directory", String(), optional=True, description="Objects as files; or LAB_DIRECTORY."
                ),
                Attribute(
                    "url", String(), optional=True, description="Objects behind the lab service; or LAB_URL."
                ),
                Attribute(
                    "delay",
                    Number(),
                    optional=True,
                    description="Seconds until a change is answered; or LAB_DELAY.",
                ),
            ],
        )

    def validate_config(self, diags: Any, config: State) -> None:
        if config.get("directory") is not None and config.get("url") is not None:
            diags.add_error("Give either directory or url", "Objects are kept in one place.")

    def configure_provider(self, diags: Any, config: State) -> None:
        try:
            self._store = _chosen_store(config)
        except StoreError as error:
            self._store = error
        delay = config.get("delay")
        text = os.environ.get("LAB_DELAY", "0") if delay is None or delay is Unknown else delay
        try:
            self._delay = max(0.0, float(text))
        except ValueError:
            diags.add_error("LAB_DELAY is not a number of seconds", f'It is "{text}".')

    def interrupted(self) -> None:
        """Terraform asked to stop: calls that run are finished all the same."""
        if isinstance(self._store, ServiceStore):
            self._store.tell_of_stop()

    def get_data_sources(self) -> list[type[iface.DataSource]]:
        return [LabObjectDataWithColor if self._color else LabObjectData, LabEnvironment]

    def get_resources(self) -> list[type[iface.Resource]]:
        return [LabObjectWithColor if self._color else LabObject]


def _chosen_store(config: State) -> Store:
    """The configuration decides; where it is silent, the environment does."""
    directory, url = config.get("directory"), config.get("url")
    if directory is None and url is None:
        directory, url = os.environ.get("LAB_DIRECTORY"), os.environ.get("LAB_URL")
    if Unknown in (directory, url):
        raise StoreError(
            "The place of lab objects is not known yet", "directory or url is known after apply only."
        )
    if directory and url:
        raise StoreError("Give either LAB_DIRECTORY or LAB_URL", "Objects are kept in one place.")
    if directory:
        return DirectoryStore(Path(directory).absolute())
    if url:
        return ServiceStore(url)
    raise StoreError(
        "The lab provider does not know where objects are kept",
        "Set directory or url in the provider block, or LAB_DIRECTORY or LAB_URL in the environment.",
    )


def _without_id(values: State) -> State:
    return {name: value for name, value in values.items() if name != "id"}


def _fail_on_purpose(operation: str, kind: str | None) -> None:
    if kind == f"fail-{operation}":
        raise StoreError(f"The {operation} failed on purpose", f'kind is "{kind}".')


def _reported(ctx: Any, error: StoreError, state: State | None) -> State | None:
    ctx.diagnostics.add_error(error.summary, error.detail)
    return state
