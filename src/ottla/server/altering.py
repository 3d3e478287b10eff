"""The common part of AlterConfigs and IncrementalAlterConfigs: changes or refuses each resource.

Kafka's counterpart: `ConfigAdminManager.preprocess`.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import freed_in_turns, in_turns
from ottla.base.values import dataclass
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration
from ottla.broker.configs.settings import ConfigSource
from ottla.broker.topics.topic_rules import check_name
from ottla.protocol.messages.alter_configs import AlterConfigsResource, AlterConfigsResourceResponse
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalAlterConfigsResource,
)
from ottla.server.broker_loggers import alter_loggers, check_logger_name
from ottla.server.resources import (
    ResourceType,
    check_broker_name,
    check_group_name,
    no_settings,
)

MAX_SETTINGS = 1000
"""Three times as many as there are: names may be unknown, but each only once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAlteration:
    """One resource of a request; `alteration` raises `ApiError` if it is invalid."""

    resource_type: int
    resource_name: str
    alteration: Callable[[], Alteration]


def alter_all(
    broker: Broker, wanted: Sequence[ResourceAlteration], *, validate_only: bool
) -> list[ApiError | None]:
    """Changes resources, all groups together; returns the result of each."""
    counts = freed_in_turns(
        Counter((one.resource_type, one.resource_name) for one in in_turns(wanted))
    )
    results: list[ApiError | None] = freed_in_turns([])
    groups: dict[str, Callable[[], Alteration]] = {}
    for one in in_turns(wanted):
        try:
            if counts[one.resource_type, one.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if one.resource_type == ResourceType.GROUP:
                check_group_name(one.resource_name)
                groups[one.resource_name] = one.alteration
            else:
                _alter(broker, one, validate_only=validate_only)
            results.append(None)
        except ApiError as error:
            results.append(error.without_traceback())
    if not groups:
        return results
    refusals = broker.admin.alter_groups(groups, validate_only=validate_only)
    return [
        result
        or (refusals.get(one.resource_name) if one.resource_type == ResourceType.GROUP else None)
        for one, result in in_turns(zip(wanted, results, strict=True))
    ]


def _alter(broker: Broker, wanted: ResourceAlteration, *, validate_only: bool) -> None:
    name, alteration = wanted.resource_name, wanted.alteration()
    match wanted.resource_type:
        case ResourceType.TOPIC:
            check_name(name)
            broker.admin.alter_topic(name, alteration, validate_only=validate_only)
        case ResourceType.BROKER:
            scope = ConfigSource.ALL_BROKERS
            if name:
                check_broker_name(name, broker.node_id)
                scope = ConfigSource.BROKER
            broker.admin.alter_broker(scope, alteration, validate_only=validate_only)
        case ResourceType.BROKER_LOGGER:
            check_logger_name(name, broker.node_id)
            alter_loggers(alteration, validate_only=validate_only)
        case ResourceType.CLIENT_METRICS:
            broker.admin.alter_client_metrics(name, alteration, validate_only=validate_only)
        case _:
            raise no_settings(wanted.resource_type)


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
        for resource, error in in_turns(zip(resources, errors, strict=True))
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
