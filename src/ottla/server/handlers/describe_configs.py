"""DescribeConfigs, 0 to 4: settings of topics, groups and this broker, and where they come from.

Kafka's counterpart: `ConfigHelper`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.resource_kinds import ResourceKind
from ottla.base.turns import count_elements, in_turns, turn_list
from ottla.broker.configs.resources import check_broker_name, check_group_name, no_settings
from ottla.broker.configs.settings import ConfigSource
from ottla.codec.schema import Message
from ottla.metadata.deciding.topic_rules import check_name
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.handling.config_entries import (
    ConfigEntry,
    all_brokers_entries,
    broker_entries,
    client_metrics_entries,
    group_entries,
    logger_entries,
    topic_entries,
)

if TYPE_CHECKING:
    from ottla.broker.topics.topics import Topic

FoundTopics = Mapping[str, "Topic"]


def handle(request: DescribeConfigsRequest, context: RequestContext) -> Message | PendingResponse:
    context.may_take_long()
    names = turn_list(
        [one.resource_name for one in request.resources if one.resource_type == ResourceKind.TOPIC]
    )

    def answer(found: FoundTopics) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(
            results=[_describe(resource, request, context, found) for resource in request.resources]
        )

    return respond(context.broker.controller.find_topics(names), answer)


def _describe(
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    context: RequestContext,
    found: FoundTopics,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="",  # as in Kafka not null, even without an error
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    try:
        entries = _entries(resource, context, found)
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    count_elements(len(entries))
    keys = set(resource.configuration_keys or ())
    result.configs = [
        _config(entry, request, context.api_version)
        for entry in in_turns(entries)
        if not keys or entry.name in keys
    ]
    return result


def _entries(
    resource: DescribeConfigsResource, context: RequestContext, found: FoundTopics
) -> list[ConfigEntry]:
    broker, name = context.broker, resource.resource_name
    match resource.resource_type:
        case ResourceKind.TOPIC:
            check_name(name)
            topic = found.get(name)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return topic_entries(topic.config, topic.overrides, broker.settings)
        case ResourceKind.BROKER if name == "":
            return all_brokers_entries(broker.settings)
        case ResourceKind.BROKER:
            check_broker_name(name, broker.node_id)
            return broker_entries(broker.settings)
        case ResourceKind.GROUP:
            check_group_name(name)
            return group_entries(name, broker.settings)
        case ResourceKind.BROKER_LOGGER:
            # Rarely asked for, and not worth an import by who lists topics.
            from ottla.server.handling.broker_loggers import check_logger_name, logger_levels

            check_logger_name(name, broker.node_id)
            return logger_entries(logger_levels())
        case ResourceKind.CLIENT_METRICS if broker.controller.has_client_metrics:
            if not name:
                message = "Client metrics subscription name must not be empty"
                raise ApiError(ErrorCode.INVALID_REQUEST, message)
            return client_metrics_entries(name, broker.settings)
    raise no_settings(resource.resource_type)


def _config(
    entry: ConfigEntry, request: DescribeConfigsRequest, api_version: int
) -> DescribeConfigsResourceResult:
    config = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=not entry.row.is_dynamic,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        config_type=entry.type_code,
        documentation=(entry.row.doc or None) if request.include_documentation else None,
    )
    if api_version == 0:
        config.is_default = entry.source is ConfigSource.DEFAULT
    if request.include_synonyms:
        config.synonyms = [
            DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source)
            for one in entry.synonyms
        ]
    return config
