"""AlterConfigs, 0 to 2: replaces all settings that a topic, a group or the broker was given.

Kafka's counterpart: `ConfigAdminManager`.
"""

from collections.abc import Sequence

from ottla.base.errors import ApiError
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from ottla.server.altering import ResourceAlteration, alter_all, check_count, check_names, responses
from ottla.server.request_context import RequestContext


def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    context.may_take_long()
    errors = alter_all(
        context.broker, alterations(request, context), validate_only=request.validate_only
    )
    return answer(request, errors)


def alterations(request: AlterConfigsRequest, context: RequestContext) -> list[ResourceAlteration]:
    return freed_in_turns(
        [_alteration(resource, context.who) for resource in in_turns(request.resources)]
    )


def answer(request: AlterConfigsRequest, errors: Sequence[ApiError | None]) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=responses(request.resources, errors))


def _alteration(resource: AlterConfigsResource, by: str) -> ResourceAlteration:
    configs = freed_in_turns(resource.configs)

    def alteration() -> Alteration:
        check_count(len(configs))
        check_names(
            [one.name for one in configs], [one.name for one in configs if one.value is None]
        )
        changes = [ConfigChange(name=one.name, value=one.value or "") for one in configs]
        return Alteration(changes=changes, is_whole=True, by=by)

    return ResourceAlteration(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        alteration=alteration,
    )
