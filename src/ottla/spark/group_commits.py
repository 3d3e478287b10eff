"""A stream's progress as committed offsets of a consumer group, so that every Kafka tool sees it.

The group has no members: offsets are committed as tools do that reset them, and the broker refuses
them while somebody is a member. Kafka's counterpart: `Admin.alterConsumerGroupOffsets`.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ottla.base.errors import UserError
from ottla.spark.continuity import Position
from ottla.spark.plan import TopicPartition
from ottla.spark.wire import ANSWER_SECONDS, admin_client, as_user_errors, client_module


class GroupCommits:
    """Commits to one group. The client is made at the first commit, and kept."""

    def __init__(self, client: Mapping[str, str], group_id: str) -> None:
        self._client = client
        self._group_id = group_id

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
        wanted = client.ConsumerGroupTopicPartitions(self._group_id, offsets)
        with as_user_errors(client, f"{self._client['bootstrap.servers']}, group {self._group_id}"):
            (future,) = self._admin.alter_consumer_group_offsets(
                [wanted], request_timeout=ANSWER_SECONDS
            ).values()
            for done in future.result().topic_partitions:
                if done.error is not None:
                    raise self._refused(client, done.error)

    @cached_property
    def _admin(self) -> Any:
        return admin_client(self._client)

    def _refused(self, client: Any, error: Any) -> Exception:
        if error.code() == client.KafkaError.UNKNOWN_MEMBER_ID:
            return UserError(
                f"group {self._group_id} has members of its own; give each query another "
                f"kafka.group.id"
            )
        return client.KafkaException(error)  # type: ignore[no-any-return]
