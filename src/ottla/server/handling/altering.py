"""The common part of AlterConfigs and IncrementalAlterConfigs: changes or refuses each resource.

Kafka's counterpart: `ConfigAdminManager.preprocess`.
"""

from collections.abc import Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.resource_kinds import ResourceKind
from ottla.base.turns import counted, turn_list
from ottla.broker.configs.config_changes import ResourceAlteration
from ottla.broker.control.controller import Soon
from ottla.broker.controlling.outcomes import Outcome
from ottla.broker.waiting.rooms import Later
from ottla.protocol.messages.alter_configs import AlterConfigsResource, AlterConfigsResourceResponse
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalAlterConfigsResource,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.handling.broker_loggers import alter_loggers, check_logger_name

MAX_SETTINGS = 1000
"""Three times as many as there are: names may be unknown, but each only once."""


def alter_all(
    context: RequestContext, wanted: Sequence[ResourceAlteration], *, validate_only: bool
) -> Soon[Sequence[Outcome]]:
    """Changes resources, those of the cluster through the controller; returns the outcome of each.

    Loggers are this broker's own.
    """
    counts = counted((one.resource_type, one.resource_name) for one in wanted)
    results: list[Outcome] = turn_list()
    left: list[ResourceAlteration] = turn_list()
    places: list[int] = turn_list()
    for number, one in enumerate(wanted):
        result: Outcome = None
        if counts[one.resource_type, one.resource_name] > 1:
            result = ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        elif one.resource_type == ResourceKind.BROKER_LOGGER:
            result = _alter_loggers(context, one, validate_only=validate_only)
        else:
            left.append(one)
            places.append(number)
        results.append(result)

    def merged(outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        for number, outcome in zip(places, outcomes, strict=True):
            results[number] = outcome
        return results

    if not left:
        return results
    altered = context.broker.controller.alter_configs(left, validate_only=validate_only)
    return altered.then(merged) if isinstance(altered, Later) else merged(altered)


def _alter_loggers(
    context: RequestContext, wanted: ResourceAlteration, *, validate_only: bool
) -> Outcome:
    try:
        alteration = wanted.alteration()
        check_logger_name(wanted.resource_name, context.broker.node_id)
        alter_loggers(alteration, validate_only=validate_only)
    except ApiError as error:
        return error.without_traceback()
    return None


def responses(
    resources: Sequence[AlterConfigsResource | IncrementalAlterConfigsResource],
    errors: Sequence[ApiError | None],
) -> list[AlterConfigsResourceResponse]:
    return [
        AlterConfigsResourceResponse(
            error_code=error.code if error else 0,
            error_message=error.message if error else None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, error in zip(resources, errors, strict=True)
    ]


def check_count(number: int) -> None:
    """Raises `ApiError` for more settings than exist."""
    if number > MAX_SETTINGS:
        raise ApiError(ErrorCode.INVALID_REQUEST, "A resource has fewer settings than are named.")


def check_names(names: Sequence[str], without_value: Sequence[str]) -> None:
    """Raises `ApiError` for a setting that is named twice, or has no value."""
    if len(set(names)) < len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if without_value:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Null value not supported for : {', '.join(without_value)}",
        )
