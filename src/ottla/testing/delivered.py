"""Which records the members of a share group were given."""

from collections.abc import Iterable, Iterator

from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.embedded.log import Log
from ottla.testing.produced import ProducedRecord


def delivered(
    log: Log, group: str, records: Iterable[ProducedRecord]
) -> Iterator[tuple[ProducedRecord, bool]]:
    """Those of some records that a share group was given, and whether it has finished each."""
    open_offsets: dict[tuple[str, int], tuple[int, dict[int, int]]] = {}

    def look(topic: str, partition: int) -> tuple[int, dict[int, int]]:
        """The end of what was given, and the deliveries of each record that is not finished."""

        def ask(broker: Broker, at: Timestamps) -> tuple[int, dict[int, int]]:
            found = broker.topics.find(topic)
            assert found is not None
            place = found.topic_id, partition
            progress = broker.shares.progress(group, place)
            if progress is None:
                return 0, {}
            return progress[1], {
                offset: one.delivery_count
                for one in broker.shares.in_flight(group, place, at)
                for offset in range(one.first, one.last + 1)
            }

        asked: tuple[int, dict[int, int]] = log.hold(ask)
        return asked

    for one in records:
        place = one.topic, one.partition
        if place not in open_offsets:
            open_offsets[place] = look(*place)
        end, counts = open_offsets[place]
        if one.offset < end and counts.get(one.offset, 1) > 0:
            yield one, one.offset not in counts
