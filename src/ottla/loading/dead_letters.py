"""The dead-letter topic of loads: copies of the records that could not be made rows.

They are sent, and acknowledged, before the commit that sets their records aside: so each is in the
topic at least once, and more than once if a load is killed or overtaken in between. Headers say
where a record is from, and what is wrong with it, by the names of KIP-1191.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.values import dataclass
from ottla.sources.log_source import LogSource, read_ranges
from ottla.sources.opening import open_log, topic_options
from ottla.tables import Action, DataFile, DataFiles, FileRole, Table, of_role

if TYPE_CHECKING:
    from ottla.client.producing.sending import Sending

PREFIX = "__dlq.errors."
TOPIC, PARTITION, OFFSET, MESSAGE = (
    f"{PREFIX}{name}" for name in ("topic", "partition", "offset", "message")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """The topic, in a data directory or at brokers. `settings` are those of the client."""

    topic: str
    target: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def send(self, table: Table, action: Action, written: Sequence[DataFile]) -> int:
        """Sends the records in quarantine among the written ones; returns how many there are.

        A rerun does not send those that are in quarantine already. Raises `UserError` if one is
        refused; the table is then unchanged.
        """
        aside = of_role(written, FileRole.QUARANTINE)
        if not aside:
            return 0
        there = table.current_files() if action is Action.RERUN else ()
        before = of_role(there, FileRole.QUARANTINE)
        known = {place for part in before for place in _places(table.files, part)}
        from ottla.client.producing.producer import Producer

        with Producer(self.target, settings=dict(self.settings)) as producer:
            sent = [
                _send(producer, self.topic, row)
                for part in aside
                for row in table.files.rows(part).to_pylist()
                if (row["partition"], row["offset"]) not in known
            ]
            for one in sent:
                one.result()
        return len(sent)

    def places(self, topic: str) -> dict[TopicPartition, OffsetRange]:
        """From the first to the last offset that letters of a topic name, by partition."""
        log = open_log(topic_options(self.target, self.topic, client=self.settings))
        found: dict[TopicPartition, OffsetRange] = {}
        for place, offset in _named(log):
            if place.topic == topic:
                before = found.get(place, OffsetRange(from_offset=offset, until_offset=offset + 1))
                found[place] = OffsetRange(
                    from_offset=min(before.from_offset, offset),
                    until_offset=max(before.until_offset, offset + 1),
                )
        return found


def _send(producer: Any, topic: str, row: Mapping[str, Any]) -> "Sending":
    ours = {
        TOPIC: row["topic"],
        PARTITION: str(row["partition"]),
        OFFSET: str(row["offset"]),
        MESSAGE: row["reason"],
    }
    headers = [(one["key"], one["value"]) for one in row["headers"] or ()]
    headers += [(name, text.encode()) for name, text in ours.items()]
    time = row["timestamp"]
    sending: Sending = producer.send(
        topic,
        row["value"],
        row["key"],
        headers=headers,
        timestamp_ms=None if time is None else round(time.timestamp() * 1000),
    )
    return sending


def _places(files: DataFiles, part: DataFile) -> Iterator[tuple[int, int]]:
    return ((part.partition, offset) for offset in files.offsets(part).tolist())


def _named(log: LogSource) -> Iterator[tuple[TopicPartition, int]]:
    """The places that the headers of a dead-letter topic name."""
    for partition in log.partitions():
        wanted = OffsetRange(from_offset=partition.start_offset, until_offset=partition.end_offset)
        rows = read_ranges(log, {partition.place: wanted}, ("headers",))
        for headers in rows["headers"].to_pylist():
            told = {one["key"]: one["value"] for one in headers}
            try:
                place = TopicPartition(told[TOPIC].decode(), int(told[PARTITION]))
                yield place, int(told[OFFSET])
            except (KeyError, ValueError, AttributeError):
                continue  # It is no letter of a load.
