"""`ottla.SimpleConsumer`: stateless fetches, as in Kafka 0.7.

The caller keeps the offsets.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.base.arguments import check_count, check_offset, check_place, check_time
from ottla.base.closing import Closing
from ottla.base.errors import ApiError, UserError
from ottla.base.partitions import TopicPartition
from ottla.base.unknown_arguments import answers_unknown_arguments
from ottla.base.values import dataclass
from ottla.client.bulk.fetching import whole_batches
from ottla.client.bulk.reading import (
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetched,
    FetchedPartitions,
    FetchFrom,
    list_offset,
    segment_offsets,
    send_fetches,
)
from ottla.client.connecting.cluster import Cluster
from ottla.client.connecting.connection import Connection
from ottla.client.connecting.target import Target, open_target
from ottla.client.consumer.arguments import consumer_settings
from ottla.client.consumer.deserializers import Deserializer, deserializer_of
from ottla.client.consumer.records import ConsumerRecord, Decoding
from ottla.client.consumer.shared_cluster import SharedCluster
from ottla.client.refusals import refusals
from ottla.runtime.loops import check_may_block

if TYPE_CHECKING:
    from ottla.config.typed_settings import ConsumerSettings

DEFAULT_SIZE = 1 << 20
INSTEAD = "await asyncio.to_thread(...) with it, or use ottla.aio.Consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPosition:
    """The offset at which `multifetch` reads one partition, and the approximate number of bytes.

    >>> position = ottla.FetchPosition(topic="orders", partition=0, offset=2)
    >>> found = simple.multifetch([position])
    >>> [record.value for record in found["orders", 0]]
    [b'cake']
    """

    topic: str
    partition: int = 0
    offset: int = 0
    max_bytes: int = DEFAULT_SIZE


class SimpleConsumer(Closing):
    """Reads partitions from given offsets. Use it in a `with` statement, and from one thread.

    >>> with ottla.SimpleConsumer(log) as simple:
    ...     [record.value for record in simple.fetch("orders", partition=0, offset=1)]
    [b'coffee', b'cake']
    """

    @answers_unknown_arguments
    def __init__(
        self,
        target: Target,
        *,
        settings: "ConsumerSettings | Mapping[str, Any] | None" = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
    ) -> None:
        """As `ottla.Consumer`; settings of groups have no effect."""
        self._config, client = consumer_settings(settings)
        self._decoding = Decoding(
            key=deserializer_of(key_deserializer),
            value=deserializer_of(value_deserializer),
            check_crcs=self._config.check_crcs,
        )
        is_committed = self._config.isolation_level == "read_committed"
        self._isolation = READ_COMMITTED if is_committed else READ_UNCOMMITTED
        self._cluster: Cluster = open_target(target, client)

    def close(self) -> None:
        """Closes its connections.

        >>> simple.close()
        """
        self._cluster.close()

    def fetch(
        self, topic: str, partition: int = 0, offset: int = 0, max_bytes: int = DEFAULT_SIZE
    ) -> list[ConsumerRecord]:
        """The records from an offset on, of about `max_bytes`; none at the end of the log. The
        broker waits fetch.max.wait.ms for the first. Raises `UserError`, also for an offset that is
        not in the log.

        >>> [record.value for record in simple.fetch("orders", offset=1)]
        [b'coffee', b'cake']
        """
        asked = FetchPosition(topic=topic, partition=partition, offset=offset, max_bytes=max_bytes)
        return self.multifetch([asked])[TopicPartition(topic, partition)]

    def multifetch(
        self, positions: Iterable[FetchPosition]
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The same for several partitions, with one request to each broker.

        >>> positions = [ottla.FetchPosition(topic="orders", partition=number) for number in (0, 1)]
        >>> {place.partition: len(found) for place, found in simple.multifetch(positions).items()}
        {0: 3, 1: 1}
        """
        check_may_block("fetch()", INSTEAD)
        listed = positions if isinstance(positions, Iterable) else [positions]
        wanted = {_place_of(one): one for one in listed}
        found = self._cluster.again(lambda: self._ask(wanted)) if wanted else {}
        return {place: self._records(place, one, found[place]) for place, one in wanted.items()}

    def offsets_before(
        self, topic: str, partition: int = 0, timestamp_ms: int = LATEST, max_count: int = 1
    ) -> list[int]:
        """Base offsets of segments that were written before a time, the latest first. With the
        default the log end offset comes first. Brokers from Kafka 4.0 on return one offset: the
        first at that time or later.

        >>> simple.offsets_before("orders")
        [3]
        """
        check_may_block("offsets_before()", INSTEAD)
        place, time_ms = check_place((topic, partition)), check_time(timestamp_ms)
        check_count(max_count, "offsets", least=1)

        def ask(broker: Connection) -> list[int]:
            found = segment_offsets(broker, place, time_ms, max_count)
            if found is None:
                found = [list_offset(broker, topic, partition, time_ms)]
            return [one for one in found if one >= 0][:max_count]

        self._check(place)
        with refusals(str(place)):
            return self._cluster.ask_leader(topic, partition, ask)

    def _ask(self, wanted: Mapping[TopicPartition, FetchPosition]) -> dict[TopicPartition, Fetched]:
        for place in wanted:
            self._check(place)
        found: dict[TopicPartition, Fetched] = {}
        for leader, places in self._cluster.by_leader(wanted):
            answer = self._fetch(leader, [wanted[one] for one in places])
            for place in places:
                one = answer.partitions[place]
                if isinstance(one, ApiError):
                    with refusals(f"{place} from offset {wanted[place].offset}"):
                        raise one
                found[place] = one
        return found

    def _fetch(self, leader: Connection, wanted: list[FetchPosition]) -> FetchedPartitions:
        asked = [
            FetchFrom(
                topic=one.topic,
                partition=one.partition,
                offset=one.offset,
                max_size=one.max_bytes,
                isolation_level=self._isolation,
                min_size=self._config.fetch_min_bytes,
                max_wait_ms=self._config.fetch_max_wait_ms,
            )
            for one in wanted
        ]
        answer = send_fetches(leader, asked, self._config.fetch_max_bytes)()
        time.sleep(answer.throttle_ms / 1000)
        return answer

    def _check(self, place: TopicPartition) -> None:
        """Raises `UserError` for a partition that does not exist."""
        SharedCluster(self._cluster).check_topic(*place)

    def _records(
        self, place: TopicPartition, asked: FetchPosition, found: Fetched
    ) -> list[ConsumerRecord]:
        wanted = FetchFrom(
            topic=asked.topic,
            partition=asked.partition,
            offset=asked.offset,
            max_size=asked.max_bytes,
        )
        records, _ = whole_batches(found.records, wanted)
        whole = replace(found, records=records)
        lists = self._decoding.records(place, whole, asked.offset)
        return [record for one in lists for record in one]


def _place_of(position: FetchPosition) -> TopicPartition:
    if not isinstance(position, FetchPosition):
        raise UserError(
            "multifetch takes positions such as "
            f'ottla.FetchPosition(topic="orders", partition=0, offset=17), not {position!r}'
        )
    check_offset(position.offset)
    check_count(position.max_bytes, "bytes")
    return check_place((position.topic, position.partition))
