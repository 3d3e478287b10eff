"""A stream's progress as committed offsets of a consumer group, so that every Kafka tool sees it.

The group has no members: offsets are committed as tools do that reset them, and the broker refuses
them while somebody else is a member. Kafka's counterpart: `OffsetCommit` without a member id.
"""

from collections.abc import Mapping
from typing import Any

from ottla.spark.continuity import Position
from ottla.spark.plan import TopicPartition
from ottla.spark.wire import as_user_errors, client_module, logger


class GroupCommits:
    """Commits to one group. The client is made at the first commit, and kept until `close`."""

    def __init__(self, client: Mapping[str, str], group_id: str) -> None:
        self._client = {**client, "group.id": group_id}
        self._group_id = group_id
        self._consumer: Any = None

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Returns when the broker has the offsets; raises `UserError`."""
        client = client_module()
        offsets = [
            client.TopicPartition(
                place.topic,
                place.partition,
                one.offset,
                leader_epoch=-1 if one.leader_epoch is None else one.leader_epoch,
            )
            for place, one in positions.items()
        ]
        with as_user_errors(client, f"{self._client['bootstrap.servers']}, group {self._group_id}"):
            if self._consumer is None:
                settings = {"enable.auto.commit": False, "logger": logger}
                self._consumer = client.Consumer({**self._client, **settings})
            for done in self._consumer.commit(offsets=offsets, asynchronous=False):
                if done.error is not None:
                    raise client.KafkaException(done.error)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
