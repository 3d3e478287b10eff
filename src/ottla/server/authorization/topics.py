"""Guards of topics: describing, creating, changing and deleting them, and settings of all kinds."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.base.resource_kinds import ResourceKind
from ottla.base.turns import turn_dict, turn_list
from ottla.metadata.acls import CLUSTER_NAME, Operation, ResourceType
from ottla.protocol.messages import alter_configs, incremental_alter_configs
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from ottla.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.server.authorization.access import Access, Answer, Handle, joined
from ottla.server.dispatching.request_context import RequestContext, amended
from ottla.server.handling.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def metadata(
    request: MetadataRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    wanted = request.topics
    if wanted is None or (context.api_version == 0 and not wanted):
        refused: list[MetadataResponseTopic] = []
    else:
        allowed, refused = _split_metadata(wanted, request, context, access)
        if context.api_version == 0 and not allowed:
            allowed = [MetadataRequestTopic(name="")]  # none at all would be every topic
        request.topics = allowed
    bits = request.include_topic_authorized_operations
    wants_cluster = request.include_cluster_authorized_operations

    def amend(response: MetadataResponse) -> None:
        response.topics = _visible(response.topics, access)
        if refused and context.api_version == 0:
            response.topics = [one for one in response.topics if one.name]
        if wants_cluster:
            response.cluster_authorized_operations = _cluster_operations(access)
        for topic in response.topics if bits else ():
            if not topic.error_code and topic.name is not None:
                topic.topic_authorized_operations = access.operations(
                    TOPIC_OPERATIONS, ResourceType.TOPIC, topic.name
                )
        response.topics.extend(refused)

    return amended(handle(request, context), amend)


def _visible(topics: list[MetadataResponseTopic], access: Access) -> list[MetadataResponseTopic]:
    """Splits topics into those that may be described, and responses that do not name the others."""
    return turn_list(
        [
            one
            for one in topics
            if not one.name or access.sees(Operation.DESCRIBE, ResourceType.TOPIC, one.name)
        ]
    )


def _cluster_operations(access: Access) -> int:
    if access.sees(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return access.operations(CLUSTER_OPERATIONS, ResourceType.CLUSTER, CLUSTER_NAME)
    return 0


def _split_metadata(
    wanted: list[MetadataRequestTopic],
    request: MetadataRequest,
    context: RequestContext,
    access: Access,
) -> tuple[list[MetadataRequestTopic], list[MetadataResponseTopic]]:
    """Splits topics into those that may be described, and responses that hide whether the others
    exist.
    """
    may_make = (
        request.allow_auto_topic_creation
        and context.broker.settings.config.auto_create_topics_enable
    )
    catalog = context.broker.catalog
    allowed: list[MetadataRequestTopic] = turn_list()
    refused: list[MetadataResponseTopic] = []
    for one in wanted:
        is_by_id = one.name is None or one.topic_id != ZERO_UUID
        name = access.name_of(one.topic_id) if is_by_id else one.name
        if name is None:
            allowed.append(one)
        elif not access.topic(Operation.DESCRIBE, name) or (
            may_make and catalog.find(name) is None and not _may_create(name, access)
        ):
            hidden = MetadataResponseTopic(error_code=DENIED, name=name, topic_id=ZERO_UUID)
            if is_by_id:
                hidden.name = None if context.api_version >= 12 else ""
                hidden.topic_id = one.topic_id
            refused.append(hidden)
        else:
            allowed.append(one)
    return allowed, refused


def _may_create(name: str, access: Access) -> bool:
    return access.sees(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME) or access.topic(
        Operation.CREATE, name
    )


def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest,
    context: RequestContext,
    access: Access,
    handle: Handle,
) -> Answer:
    """Leaves out topics that may not be described, also from the cursor."""
    allowed, denied = access.split(
        request.topics, lambda one: access.topic(Operation.DESCRIBE, one.name)
    )
    refused = [
        DescribeTopicPartitionsResponseTopic(name=one.name, error_code=DENIED, topic_id=ZERO_UUID)
        for one in denied
    ]
    if denied and not allowed:
        return DescribeTopicPartitionsResponse(topics=refused, next_cursor=None)
    request.topics = allowed

    def amend(response: DescribeTopicPartitionsResponse) -> None:
        for topic in response.topics:
            topic.topic_authorized_operations = access.operations(
                TOPIC_OPERATIONS, ResourceType.TOPIC, topic.name or ""
            )
        response.topics.extend(refused)

    may_describe = partial(access.sees, Operation.DESCRIBE, ResourceType.TOPIC)
    return amended(handle(request, context, may_describe), amend)


def create_topics(
    request: CreateTopicsRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    def may_create(one: CreatableTopic) -> bool:
        return _may_create(one.name, access)

    request.topics, denied = access.split(request.topics, may_create)
    refused = [
        CreatableTopicResult(
            name=one.name, error_code=DENIED, error_message="Authorization failed.", configs=[]
        )
        for one in turn_dict((one.name, one) for one in denied).values()
    ]

    if not request.topics:
        return CreateTopicsResponse(topics=refused)

    def amend(response: CreateTopicsResponse) -> None:
        for one in response.topics:
            if not one.error_code and not access.sees(
                Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, one.name
            ):
                one.topic_config_error_code = DENIED
                one.num_partitions = one.replication_factor = -1
                one.configs = []
        response.topics.extend(refused)

    return amended(handle(request, context), amend)


def delete_topics(
    request: DeleteTopicsRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    """A topic given by its id is only named in the response if the client may describe it."""
    refused: list[DeletableTopicResult] = []

    def may_delete(one: DeleteTopicState) -> bool:
        name = one.name
        if name is None:
            name = access.name_of(one.topic_id)
        if name is None:
            return True  # the handler answers UNKNOWN_TOPIC_ID
        if access.sees(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME) or access.topic(
            Operation.DELETE, name
        ):
            return True
        is_visible = access.sees(Operation.DESCRIBE, ResourceType.TOPIC, name)
        refused.append(
            DeletableTopicResult(
                name=name if is_visible or one.name is not None else None,
                topic_id=one.topic_id,
                error_code=DENIED,
                error_message=DENIED.description,
            )
        )
        return False

    request.topics, _ = access.split(request.topics, may_delete)
    request.topic_names = turn_list(
        [name for name in request.topic_names if may_delete(DeleteTopicState(name=name))]
    )
    allowed = [*request.topics, *request.topic_names]
    refusal = DeleteTopicsResponse(responses=refused)
    return joined(allowed, partial(handle, request, context), refusal, "responses")


def create_partitions(
    request: CreatePartitionsRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    request.topics, denied = access.split(
        request.topics, lambda one: access.topic(Operation.ALTER, one.name)
    )
    refused = [
        CreatePartitionsTopicResult(name=name, error_code=DENIED, error_message=DENIED.description)
        for name in turn_dict((one.name, None) for one in denied)
    ]
    refusal = CreatePartitionsResponse(results=refused)
    return joined(request.topics, partial(handle, request, context), refusal, "results")


CONFIG_RESOURCES = {
    ResourceKind.TOPIC: (ResourceType.TOPIC, DENIED),
    ResourceKind.GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}
"""Settings of other resource types need access to the cluster."""


def _config_resource(one: Any) -> tuple[ResourceType, str, ErrorCode]:
    cluster = (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    resource_type, code = CONFIG_RESOURCES.get(one.resource_type, cluster)
    is_cluster = resource_type is ResourceType.CLUSTER
    return resource_type, CLUSTER_NAME if is_cluster else one.resource_name, code


def configs(
    operation: Operation, response: Callable[..., Any], result: type[Any], answers: str
) -> Callable[[Any, RequestContext, Access, Handle], Answer]:
    """A guard of requests about the settings of `resources`, answered one by one."""

    def may_use(one: Any, access: Access) -> bool:
        resource_type, name, _ = _config_resource(one)
        return access.allows(operation, resource_type, name)

    def guard(request: Any, context: RequestContext, access: Access, handle: Handle) -> Answer:
        request.resources, denied = access.split(
            request.resources, lambda one: may_use(one, access)
        )
        refused = []
        for one in denied:
            code = _config_resource(one)[2]
            refused.append(
                result(
                    error_code=code,
                    error_message=code.description,
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                )
            )
        refusal = response(**{answers: refused})
        return joined(request.resources, partial(handle, request, context), refusal, answers)

    return guard


describe_configs = configs(
    Operation.DESCRIBE_CONFIGS, DescribeConfigsResponse, DescribeConfigsResult, "results"
)
alter = configs(
    Operation.ALTER_CONFIGS,
    alter_configs.AlterConfigsResponse,
    alter_configs.AlterConfigsResourceResponse,
    "responses",
)
alter_incrementally = configs(
    Operation.ALTER_CONFIGS,
    incremental_alter_configs.IncrementalAlterConfigsResponse,
    alter_configs.AlterConfigsResourceResponse,
    "responses",
)
