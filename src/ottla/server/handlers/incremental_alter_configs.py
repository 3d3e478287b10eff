"""IncrementalAlterConfigs, 0 to 1: changes settings of a topic, a group or the broker (KIP-339).

Kafka's counterpart: `ConfigAdminManager`.
"""

from collections.abc import Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.configs.config_changes import Alteration, ConfigChange, ConfigOperation
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.server.altering import ResourceAlteration, alter_all, check_count, check_names, responses
from ottla.server.request_context import RequestContext


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    context.may_take_long()
    errors = alter_all(
        context.broker, alterations(request, context), validate_only=request.validate_only
    )
    return answer(request, errors)


def alterations(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> list[ResourceAlteration]:
    return freed_in_turns(
        [_alteration(resource, context.who) for resource in in_turns(request.resources)]
    )


def answer(
    request: IncrementalAlterConfigsRequest, errors: Sequence[ApiError | None]
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=responses(request.resources, errors))


def _alteration(resource: AlterConfigsResource, by: str) -> ResourceAlteration:
    configs = freed_in_turns(resource.configs)

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
