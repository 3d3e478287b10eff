"""The guard of each API; an API without a row fails the tests."""

from collections.abc import Mapping
from typing import Final

from ottla.broker.security.authorizer import Authorizer
from ottla.codec.schema import Message
from ottla.metadata.acls import Operation
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
)
from ottla.protocol.messages.delete_records import DeleteRecordsResponse
from ottla.protocol.messages.describe_acls import DescribeAclsResponse
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasResponse
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupResponse
from ottla.protocol.messages.list_config_resources import ListConfigResourcesResponse
from ottla.protocol.messages.list_offsets import ListOffsetsResponse
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
)
from ottla.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from ottla.protocol.messages.share_fetch import ShareFetchResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from ottla.server.authorization import (
    cluster,
    groups,
    records,
    share_groups,
    shares,
    topics,
    transactions,
)
from ottla.server.authorization.access import Access, Answer, AuditLog, Guard
from ottla.server.authorization.cluster import DENIED, needs, with_code
from ottla.server.authorization.groups import by_group
from ottla.server.authorization.records import by_topic
from ottla.server.dispatching.request_context import Handler, RequestContext

TEXT: Final = DENIED.description

GUARDS: Final[Mapping[ApiKey, Guard | None]] = {
    ApiKey.PRODUCE: records.produce,
    ApiKey.FETCH: records.fetch,
    ApiKey.LIST_OFFSETS: by_topic(
        Operation.DESCRIBE, ListOffsetsResponse, records.refused_list_offsets
    ),
    ApiKey.METADATA: topics.metadata,
    ApiKey.OFFSET_COMMIT: groups.offset_commit,
    ApiKey.OFFSET_FETCH: groups.offset_fetch,
    ApiKey.FIND_COORDINATOR: groups.find_coordinator,
    ApiKey.JOIN_GROUP: by_group(JoinGroupResponse),
    ApiKey.HEARTBEAT: by_group(HeartbeatResponse),
    ApiKey.LEAVE_GROUP: by_group(LeaveGroupResponse),
    ApiKey.SYNC_GROUP: by_group(SyncGroupResponse),
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.SASL_HANDSHAKE: None,
    ApiKey.API_VERSIONS: None,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DELETE_RECORDS: by_topic(
        Operation.DELETE, DeleteRecordsResponse, records.refused_delete_records
    ),
    ApiKey.INIT_PRODUCER_ID: records.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: records.offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets,
    ApiKey.END_TXN: transactions.end,
    ApiKey.WRITE_TXN_MARKERS: transactions.write_markers,
    ApiKey.TXN_OFFSET_COMMIT: transactions.commit_offsets,
    ApiKey.DESCRIBE_ACLS: needs(
        Operation.DESCRIBE, with_code(DescribeAclsResponse, error_message=TEXT)
    ),
    ApiKey.CREATE_ACLS: needs(Operation.ALTER, cluster.refused_create_acls),
    ApiKey.DELETE_ACLS: needs(Operation.ALTER, cluster.refused_delete_acls),
    ApiKey.DESCRIBE_CONFIGS: topics.describe_configs,
    ApiKey.ALTER_CONFIGS: topics.alter,
    ApiKey.ALTER_REPLICA_LOG_DIRS: needs(Operation.ALTER, cluster.refused_moves),
    ApiKey.DESCRIBE_LOG_DIRS: needs(Operation.DESCRIBE, with_code(DescribeLogDirsResponse)),
    ApiKey.SASL_AUTHENTICATE: None,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.CREATE_DELEGATION_TOKEN: None,
    ApiKey.RENEW_DELEGATION_TOKEN: None,
    ApiKey.EXPIRE_DELEGATION_TOKEN: None,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: None,
    ApiKey.DELETE_GROUPS: groups.delete_groups,
    ApiKey.ELECT_LEADERS: cluster.elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: topics.alter_incrementally,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: needs(
        Operation.ALTER, with_code(AlterPartitionReassignmentsResponse, error_message=TEXT)
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: needs(
        Operation.DESCRIBE, with_code(ListPartitionReassignmentsResponse, error_message=TEXT)
    ),
    ApiKey.OFFSET_DELETE: groups.offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: needs(
        Operation.DESCRIBE_CONFIGS,
        with_code(DescribeClientQuotasResponse, error_message=TEXT, entries=None),
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: needs(Operation.ALTER_CONFIGS, cluster.refused_alter_quotas),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: needs(
        Operation.DESCRIBE, cluster.refused_describe_users
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: needs(Operation.ALTER, cluster.refused_alter_users),
    ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: records.describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.describe,
    ApiKey.LIST_TRANSACTIONS: transactions.list_all,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.consumer_group_describe,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: None,
    ApiKey.PUSH_TELEMETRY: None,
    ApiKey.LIST_CONFIG_RESOURCES: needs(
        Operation.DESCRIBE_CONFIGS, with_code(ListConfigResourcesResponse)
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.describe_topic_partitions,
    ApiKey.SHARE_FETCH: shares.of_member(ShareFetchResponse),
    ApiKey.SHARE_ACKNOWLEDGE: shares.of_member(ShareAcknowledgeResponse),
    ApiKey.SHARE_GROUP_HEARTBEAT: share_groups.heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: share_groups.describe,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: share_groups.describe_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: share_groups.alter_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: share_groups.delete_offsets,
}
"""`None`: everybody may ask. Of delegation tokens the handlers decide, since their owners may."""


AUDIT: Final = AuditLog()


def guard_of(api_key: ApiKey, *, by_nodes: bool = False) -> Guard | None:
    is_of_metadata = by_nodes and api_key is ApiKey.FETCH
    if api_key in GUARDS and not is_of_metadata:
        return GUARDS[api_key]
    # A broker without a cluster does not need the messages between brokers.
    from ottla.server.authorization.members import FETCH_METADATA, GUARDS_OF_MEMBERS

    return FETCH_METADATA if is_of_metadata else GUARDS_OF_MEMBERS[api_key]


def guarded(
    api_key: ApiKey, handle: Handler, authorizer: Authorizer, *, by_nodes: bool = False
) -> Handler:
    """Wraps a handler, which then handles only what the client may do.

    `by_nodes`: it is asked at a listener of controllers.
    """
    guard = guard_of(api_key, by_nodes=by_nodes)
    if guard is None:
        return handle
    if api_key is ApiKey.PRODUCE:
        return records.quick_produce(handle, authorizer, AUDIT)
    if api_key is ApiKey.FETCH and not by_nodes:
        return records.quick_fetch(handle, authorizer, AUDIT)

    def check(request: Message, context: RequestContext) -> Answer:
        return guard(request, context, Access(authorizer, AUDIT, context), handle)

    return check
