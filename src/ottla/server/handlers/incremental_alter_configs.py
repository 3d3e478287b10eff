"""IncrementalAlterConfigs, 0 to 1: changes settings of a topic, a group or the broker (KIP-339).

Kafka's counterpart: `ConfigAdminManager`.
"""

from collections.abc import Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import turn_list
from ottla.broker.configs.config_changes import (
    Alteration,
    ConfigChange,
    ConfigOperation,
    ResourceAlteration,
)
from ottla.broker.controlling.outcomes import Outcome
from ottla.codec.schema import Message
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.handling.altering import alter_all, check_count, check_names, responses


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> Message | PendingResponse:
    context.may_take_long()
    wanted = turn_list([alteration_of(one, context.who) for one in request.resources])

    def answer(outcomes: Sequence[Outcome]) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(responses=responses(request.resources, outcomes))

    altered = alter_all(context, wanted, validate_only=request.validate_only)
    return respond(altered, answer)


def alteration_of(resource: AlterConfigsResource, by: str) -> ResourceAlteration:
    configs = resource.configs

    def alteration() -> Alteration:
        check_count(len(configs))
        without_value = [
            one.name
            for one in configs
            if one.value is None and one.config_operation != ConfigOperation.DELETE
        ]
        check_names([one.name for one in configs], without_value)
        return Alteration(changes=[_change(one) for one in configs], by=by)

    return ResourceAlteration(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        alteration=alteration,
    )


def _change(config: AlterableConfig) -> ConfigChange:
    try:
        operation = ConfigOperation(config.config_operation)
    except ValueError:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Unknown operations type {config.config_operation}"
        ) from None
    return ConfigChange(name=config.name, operation=operation, value=config.value or "")
