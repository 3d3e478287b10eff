"""Requests about groups: members, offsets, descriptions."""

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from tests.unit.server.authorization.row import (
    GROUP,
    TOPIC,
    TOPIC_ID,
    TXN,
    G,
    Op,
    Row,
    T,
    X,
    offsets,
)

ROWS: dict[ApiKey, list[Row]] = {
    ApiKey.OFFSET_COMMIT: [
        Row(
            lambda: offset_commit.OffsetCommitRequest(
                group_id=GROUP, topics=[offsets(offset_commit, "OffsetCommit")]
            ),
            7,
            ((Op.READ, G), (Op.READ, T)),
        ),
        Row(
            lambda: offset_commit.OffsetCommitRequest(
                group_id=GROUP, topics=[offsets(offset_commit, "OffsetCommit", by_id=True)]
            ),
            10,
            ((Op.READ, G), (Op.READ, T)),
        ),
    ],
    ApiKey.OFFSET_FETCH: [
        Row(
            lambda: offset_fetch.OffsetFetchRequest(
                group_id=GROUP,
                topics=[offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])],
            ),
            7,
            ((Op.DESCRIBE, G), (Op.DESCRIBE, T)),
        ),
        Row(
            lambda: offset_fetch.OffsetFetchRequest(
                groups=[
                    offset_fetch.OffsetFetchRequestGroup(
                        group_id=GROUP,
                        topics=[
                            offset_fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
                        ],
                    )
                ]
            ),
            8,
            ((Op.DESCRIBE, G), (Op.DESCRIBE, T)),
        ),
        Row(
            lambda: offset_fetch.OffsetFetchRequest(
                groups=[
                    offset_fetch.OffsetFetchRequestGroup(
                        group_id=GROUP,
                        topics=[
                            offset_fetch.OffsetFetchRequestTopics(
                                topic_id=TOPIC_ID, partition_indexes=[0]
                            )
                        ],
                    )
                ]
            ),
            10,
            ((Op.DESCRIBE, G), (Op.DESCRIBE, T)),
        ),
    ],
    ApiKey.FIND_COORDINATOR: [
        Row(
            lambda: find_coordinator.FindCoordinatorRequest(key=GROUP, key_type=0),
            3,
            ((Op.DESCRIBE, G),),
        ),
        Row(
            lambda: find_coordinator.FindCoordinatorRequest(coordinator_keys=[TXN], key_type=1),
            4,
            ((Op.DESCRIBE, X),),
        ),
    ],
    ApiKey.JOIN_GROUP: [
        Row(
            lambda: join_group.JoinGroupRequest(
                group_id=GROUP, session_timeout_ms=10_000, protocol_type="consumer"
            ),
            5,
            ((Op.READ, G),),
        )
    ],
    ApiKey.HEARTBEAT: [
        Row(lambda: heartbeat.HeartbeatRequest(group_id=GROUP, member_id="m"), 3, ((Op.READ, G),))
    ],
    ApiKey.LEAVE_GROUP: [
        Row(lambda: leave_group.LeaveGroupRequest(group_id=GROUP), 3, ((Op.READ, G),))
    ],
    ApiKey.SYNC_GROUP: [
        Row(lambda: sync_group.SyncGroupRequest(group_id=GROUP, member_id="m"), 3, ((Op.READ, G),))
    ],
    ApiKey.DESCRIBE_GROUPS: [
        Row(lambda: describe_groups.DescribeGroupsRequest(groups=[GROUP]), 5, ((Op.DESCRIBE, G),))
    ],
    ApiKey.LIST_GROUPS: [
        Row(
            list_groups.ListGroupsRequest,
            4,
            ((Op.DESCRIBE, G),),
            shows=lambda answer: [one.group_id for one in answer.groups],
        )
    ],
    ApiKey.DELETE_GROUPS: [
        Row(lambda: delete_groups.DeleteGroupsRequest(groups_names=[GROUP]), 2, ((Op.DELETE, G),))
    ],
    ApiKey.OFFSET_DELETE: [
        Row(
            lambda: offset_delete.OffsetDeleteRequest(
                group_id=GROUP, topics=[offsets(offset_delete, "OffsetDelete")]
            ),
            0,
            ((Op.DELETE, G), (Op.READ, T)),
        )
    ],
    ApiKey.CONSUMER_GROUP_HEARTBEAT: [
        Row(
            lambda: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id="m", member_epoch=5, subscribed_topic_names=[TOPIC]
            ),
            0,
            ((Op.READ, G), (Op.DESCRIBE, T)),
        )
    ],
    ApiKey.CONSUMER_GROUP_DESCRIBE: [
        Row(
            lambda: consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[GROUP]),
            0,
            ((Op.DESCRIBE, G),),
        )
    ],
}
