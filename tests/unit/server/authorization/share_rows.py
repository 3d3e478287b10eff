"""Requests of members of share groups to the leaders of partitions."""

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import share_acknowledge, share_fetch
from tests.unit.server.authorization.row import GROUP, TOPIC_ID, G, Op, Row, T

ROWS: dict[ApiKey, list[Row]] = {
    ApiKey.SHARE_FETCH: [
        Row(
            lambda: share_fetch.ShareFetchRequest(
                group_id=GROUP,
                member_id="m",
                share_session_epoch=0,
                max_records=1,
                topics=[
                    share_fetch.FetchTopic(
                        topic_id=TOPIC_ID,
                        partitions=[
                            share_fetch.FetchPartition(
                                partition_index=0, acknowledgement_batches=[]
                            )
                        ],
                    )
                ],
                forgotten_topics_data=[],
            ),
            1,
            ((Op.READ, G), (Op.READ, T)),
        )
    ],
    ApiKey.SHARE_ACKNOWLEDGE: [
        Row(
            lambda: share_acknowledge.ShareAcknowledgeRequest(
                group_id=GROUP, member_id="m", share_session_epoch=1, topics=[]
            ),
            1,
            ((Op.READ, G),),
        )
    ],
}
