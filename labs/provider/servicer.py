"""The plugin protocol where the `tf` package answers less exactly than a provider should.

It refuses to plan a delete, says nothing of what it can do with its schema, and hands old states on without
the attributes that are new. Everything else is the package's.
"""

from __future__ import annotations

import json
import os
from typing import Any

from tf.gen import tfplugin_pb2 as pb
from tf.provider import ProviderServicer
from tf.utils import Diagnostics, read_dynamic_value, to_dynamic_value

from provider.store import StoreError


class PluginServicer(ProviderServicer):  # type: ignore[misc]  # the package has no types
    def GetProviderSchema(self, request: Any, context: Any) -> Any:  # noqa: N802 (the protocol's name)
        """As the common Go frameworks: deletes are planned, and a schema once read may be kept."""
        answer = super().GetProviderSchema(request, context)
        answer.server_capabilities.plan_destroy = True
        answer.server_capabilities.get_provider_schema_optional = True
        return answer

    def PlanResourceChange(self, request: Any, context: Any) -> Any:  # noqa: N802 (the protocol's name)
        if read_dynamic_value(request.proposed_new_state) is None:
            return pb.PlanResourceChange.Response(planned_state=request.proposed_new_state)
        return super().PlanResourceChange(request, context)

    def UpgradeResourceState(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 (the protocol's)
        """A state of any version becomes one of this version: same attributes, missing ones null."""
        stored = json.loads(request.raw_state.json)
        known = self._get_res_attrs(request.type_name)
        state = {name: stored.get(name) for name in known}
        return pb.UpgradeResourceState.Response(upgraded_state=to_dynamic_value(state))


class LabServicer(PluginServicer):
    def GetProviderSchema(self, request: Any, context: Any) -> Any:  # noqa: N802 (the protocol's name)
        answer = super().GetProviderSchema(request, context)
        if os.environ.get("LAB_PANIC"):
            # A schema without its block: Terraform and OpenTofu themselves panic.
            answer.resource_schemas["lab_broken"].version = 1
        return answer

    def StopProvider(self, request: Any, context: Any) -> Any:  # noqa: N802 (the protocol's name)
        """Terraform was interrupted. The service is told, so that a test can wait for that moment."""
        self.app.interrupted()
        return super().StopProvider(request, context)

    def PlanResourceChange(self, request: Any, context: Any) -> Any:  # noqa: N802 (the protocol's name)
        try:
            _ = self.app.store
        except StoreError as error:
            diagnostics = Diagnostics().add_error(error.summary, error.detail)
            return pb.PlanResourceChange.Response(diagnostics=diagnostics.to_pb())
        return super().PlanResourceChange(request, context)
