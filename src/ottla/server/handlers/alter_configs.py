"""AlterConfigs, 0 to 2: replaces all settings that a topic, a group or the broker was given.

Kafka's counterpart: `ConfigAdminManager`.
"""

from collections.abc import Sequence

from ottla.base.turns import turn_list
from ottla.broker.configs.config_changes import Alteration, ConfigChange, ResourceAlteration
from ottla.broker.controlling.outcomes import Outcome
from ottla.codec.schema import Message
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.handling.altering import alter_all, check_count, check_names, responses


def handle(request: AlterConfigsRequest, context: RequestContext) -> Message | PendingResponse:
    context.may_take_long()
    wanted = turn_list([alteration_of(one, context.who) for one in request.resources])

    def answer(outcomes: Sequence[Outcome]) -> AlterConfigsResponse:
        return AlterConfigsResponse(responses=responses(request.resources, outcomes))

    altered = alter_all(context, wanted, validate_only=request.validate_only)
    return respond(altered, answer)


def alteration_of(resource: AlterConfigsResource, by: str) -> ResourceAlteration:
    configs = resource.configs

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
