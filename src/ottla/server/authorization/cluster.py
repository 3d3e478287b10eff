"""Guards of requests about the whole cluster: either allowed, or refused as a whole."""

from collections.abc import Callable
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import turn_dict
from ottla.metadata.acls import CLUSTER_NAME, Operation, ResourceType
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryResult,
)
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ottla.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.protocol.messages.describe_cluster import DescribeClusterResponse
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.server.authorization.access import Access, Answer, Guard, Handle
from ottla.server.dispatching.request_context import RequestContext, amended
from ottla.server.handling.operations import CLUSTER_OPERATIONS

DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

FIRST_ELECTION_ERROR_VERSION = 1


def needs(operation: Operation, refused: Callable[[Any], Any]) -> Guard:
    """A guard for requests that need one operation on the cluster."""

    def guard(request: Any, context: RequestContext, access: Access, handle: Handle) -> Answer:
        if access.cluster(operation):
            return handle(request, context)
        refusal: Answer = refused(request)
        return refusal

    return guard


def with_code(response: Callable[..., Any], **more: Any) -> Callable[[Any], Any]:
    """A response with one error for all."""
    return lambda _: response(error_code=DENIED, **more)


def refused_create_acls(request: CreateAclsRequest) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=DENIED, error_message=DENIED.description)
            for _ in request.creations
        ]
    )


def refused_delete_acls(request: DeleteAclsRequest) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=DENIED, error_message=DENIED.description)
            for _ in request.filters
        ]
    )


def refused_alter_quotas(request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryResult(error_code=DENIED, error_message=DENIED.description, entity=one.entity)
            for one in request.entries
        ]
    )


def elect_leaders(
    request: ElectLeadersRequest, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    """A refusal names each partition too: version 0 has no error for all of them."""
    if access.cluster(Operation.ALTER):
        return handle(request, context)
    response = ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(
                        partition_id=index, error_code=DENIED, error_message=DENIED.description
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ]
    )
    if context.api_version >= FIRST_ELECTION_ERROR_VERSION:
        response.error_code = DENIED
    return response


def refused_moves(request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=DENIED)
                    for index in topic.partitions
                ],
            )
            for wanted in request.dirs
            for topic in wanted.topics
        ]
    )


def refused_alter_users(
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse:
    names = turn_dict((one.name, None) for one in request.deletions)
    for one in request.upsertions:
        names[one.name] = None
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=name, error_code=DENIED, error_message=DENIED.description
            )
            for name in names
        ]
    )


def refused_describe_users(
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse:
    """With one answer for each user that was named, which does not name it, as Kafka's."""
    return DescribeUserScramCredentialsResponse(
        error_code=DENIED,
        error_message=DENIED.description,
        results=[
            DescribeUserScramCredentialsResult(error_code=DENIED, error_message=DENIED.description)
            for _ in request.users or []
        ],
    )


def describe_cluster(
    request: Any, context: RequestContext, access: Access, handle: Handle
) -> Answer:
    """Everyone may see the brokers; the client's rights on the cluster are filled in."""

    def amend(response: DescribeClusterResponse) -> None:
        if request.include_cluster_authorized_operations:
            is_seen = access.sees(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
            response.cluster_authorized_operations = (
                access.operations(CLUSTER_OPERATIONS, ResourceType.CLUSTER, CLUSTER_NAME)
                if is_seen
                else 0
            )

    return amended(handle(request, context), amend)
