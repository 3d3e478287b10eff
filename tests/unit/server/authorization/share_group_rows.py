"""Requests about share groups: members, descriptions, and where the groups are in topics."""

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_group_describe,
    share_group_heartbeat,
)
from tests.unit.server.authorization.row import GROUP, TOPIC, G, Op, Row, T

ROWS: dict[ApiKey, list[Row]] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: [
        Row(
            lambda: share_group_heartbeat.ShareGroupHeartbeatRequest(
                group_id=GROUP, member_id="m", member_epoch=5, subscribed_topic_names=[TOPIC]
            ),
            1,
            ((Op.READ, G), (Op.DESCRIBE, T)),
        )
    ],
    ApiKey.SHARE_GROUP_DESCRIBE: [
        Row(
            lambda: share_group_describe.ShareGroupDescribeRequest(group_ids=[GROUP]),
            1,
            ((Op.DESCRIBE, G),),
        )
    ],
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: [
        Row(
            lambda: describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
                groups=[
                    describe_share_group_offsets.WantedGroup(
                        group_id=GROUP,
                        topics=[
                            describe_share_group_offsets.WantedTopic(
                                topic_name=TOPIC, partitions=[0]
                            )
                        ],
                    )
                ]
            ),
            1,
            ((Op.DESCRIBE, G), (Op.DESCRIBE, T)),
        )
    ],
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: [
        Row(
            lambda: alter_share_group_offsets.AlterShareGroupOffsetsRequest(
                group_id=GROUP,
                topics=[
                    alter_share_group_offsets.WantedTopic(
                        topic_name=TOPIC,
                        partitions=[
                            alter_share_group_offsets.WantedPartition(
                                partition_index=0, start_offset=0
                            )
                        ],
                    )
                ],
            ),
            0,
            ((Op.READ, G), (Op.READ, T)),
        )
    ],
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: [
        Row(
            lambda: delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
                group_id=GROUP,
                topics=[delete_share_group_offsets.WantedTopic(topic_name=TOPIC)],
            ),
            0,
            ((Op.DELETE, G), (Op.READ, T)),
        )
    ],
}
