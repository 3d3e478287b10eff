"""A follower's fetch session with one leader, and its requests (`base/fetching_session.py`)."""

from collections.abc import Iterable
from typing import Final

from ottla.base.fetching_session import FINAL_EPOCH, FetchingSession
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.broker.replication.fetches import Fetch
from ottla.codec.primitives import records_size
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

FIRST_TOPIC_ID_VERSION: Final = 13
FIRST_REPLICA_STATE_VERSION: Final = 15
FIRST_SESSION_VERSION: Final = 7

Key = tuple[TopicPartition, Uuid]
"""A partition of a topic; one that was created again has another id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """replica.fetch.wait.max.ms, .min.bytes, .response.max.bytes, and replica.fetch.max.bytes.

    For a partition that is far behind more than `partition_max_bytes` are requested.
    """

    wait_max_ms: int = 500
    min_bytes: int = 1
    response_max_bytes: int = 10_485_760
    partition_max_bytes: int = 1_048_576


class FollowerSession:
    """A fetch session. `newest` is the Fetch version of the cluster's inter-broker version, which
    may be raised.
    """

    def __init__(self, broker_id: int, newest: int, limits: FetchLimits) -> None:
        self._broker_id = broker_id
        self.newest = newest
        self._limits = limits
        self._session: FetchingSession[Key, Fetch] = FetchingSession()
        self._topic_ids: dict[TopicPartition, Uuid] = {}
        self._names: dict[Uuid, str] = {}
        self._without_id: set[TopicPartition] = set()
        self._far_behind: set[TopicPartition] = set()
        """Partitions whose last response was long: larger requests reduce the cost of each byte."""
        self._sent_with_ids: bool | None = None

    @property
    def is_empty(self) -> bool:
        return not self._topic_ids

    def put(self, fetch: Fetch, topic_id: Uuid | None) -> None:
        """Sets the next fetch of a partition."""
        partition, found = fetch.partition, topic_id or ZERO_UUID
        known = self._topic_ids.get(partition, found)
        if known != found:
            self._session.remove((partition, known))
        self._session.put((partition, found), fetch)
        self._topic_ids[partition] = found
        if found == ZERO_UUID:
            self._without_id.add(partition)
        else:
            self._without_id.discard(partition)
            self._names[found] = partition.topic

    def remove(self, partition: TopicPartition) -> None:
        """Removes a partition that is not, or not now, fetched from this leader."""
        topic_id = self._topic_ids.pop(partition, None)
        if topic_id is not None:
            self._session.remove((partition, topic_id))
            self._without_id.discard(partition)
            self._far_behind.discard(partition)

    def partitions(self) -> list[TopicPartition]:
        return list(self._topic_ids)

    def begin_again(self) -> None:
        """Starts a new session that names all partitions, after an error or a lost connection."""
        self._session.begin_again()

    @property
    def version(self) -> int:
        """The version to send; topics without ids are fetched by name."""
        by_name = min(self.newest, FIRST_TOPIC_ID_VERSION - 1)
        return by_name if self._without_id else self.newest

    def request(self, broker_epoch: int) -> tuple[FetchRequest, int]:
        """The next request and its version."""
        version, limits = self.version, self._limits
        has_ids = version >= FIRST_TOPIC_ID_VERSION
        if has_ids is not self._sent_with_ids:
            self.begin_again()
        self._sent_with_ids = has_ids
        named, forgotten = self._session.named()
        request = FetchRequest(
            max_wait_ms=limits.wait_max_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_max_bytes,
            session_id=self._session.id,
            session_epoch=self._session.epoch if version >= FIRST_SESSION_VERSION else FINAL_EPOCH,
            topics=self._topics(named),
            forgotten_topics_data=_forgotten(forgotten),
        )
        if version >= FIRST_REPLICA_STATE_VERSION:
            request.replica_state = ReplicaState(
                replica_id=self._broker_id, replica_epoch=broker_epoch
            )
        else:
            request.replica_id = self._broker_id
        return request, version

    def _topics(self, named: Iterable[Key]) -> list[FetchTopic]:
        topics: dict[str, FetchTopic] = {}
        usual, catching_up = self._limits.partition_max_bytes, self._catching_up_max_bytes()
        for key in named:
            fetch = self._session.wanted[key]
            one, topic_id = key
            topic = topics.get(one.topic)
            if topic is None:
                topic = topics[one.topic] = FetchTopic(
                    topic=one.topic, topic_id=topic_id, partitions=[]
                )
            topic.partitions.append(
                FetchPartition(
                    partition=one.partition,
                    current_leader_epoch=fetch.leader_epoch,
                    fetch_offset=fetch.fetch_offset,
                    last_fetched_epoch=fetch.last_fetched_epoch,
                    log_start_offset=fetch.log_start_offset,
                    partition_max_bytes=catching_up if one in self._far_behind else usual,
                    high_watermark=fetch.high_watermark,
                )
            )
        return list(topics.values())

    def _catching_up_max_bytes(self) -> int:
        """Half of a response is shared equally by partitions far behind; the rest is for the
        others.
        """
        limits = self._limits
        share = limits.response_max_bytes // (2 * max(1, len(self._far_behind)))
        return max(limits.partition_max_bytes, share)

    def take(self, response: FetchResponse) -> list[tuple[Fetch, PartitionData]]:
        """Returns the data of each fetch; after an error restarts the session, returns nothing."""
        if response.error_code:
            self.begin_again()
            return []
        self._session.answered(response.session_id)
        found = []
        for topic in response.responses:
            name = topic.topic or self._names.get(topic.topic_id, "")
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                topic_id = self._topic_ids.get(partition)
                if topic_id is not None:
                    self._note_size(partition, records_size(data.records or b""))
                    found.append((self._session.wanted[partition, topic_id], data))
        return found

    def _note_size(self, partition: TopicPartition, size: int) -> None:
        # A response contains whole batches only, so it may be shorter than the limit.
        if 2 * size >= self._limits.partition_max_bytes:
            self._far_behind.add(partition)
        else:
            self._far_behind.discard(partition)


def _forgotten(keys: Iterable[Key]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, Uuid], ForgottenTopic] = {}
    for one, topic_id in keys:
        key = (one.topic, topic_id)
        if key not in topics:
            topics[key] = ForgottenTopic(topic=one.topic, topic_id=topic_id, partitions=[])
        topics[key].partitions.append(one.partition)
    return list(topics.values())
