"""The dead-letter topic of loads: copies of the records that could not be made rows.

They are sent, and acknowledged, before the commit that sets their records aside: so each is in the
topic at least once, and more than once if a load is killed or overtaken in between. Headers say
where a record is from, and what is wrong with it, by the names of KIP-1191.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.values import dataclass
from ottla.loading.letter_source import Letters
from ottla.record.columns import COLUMNS, schema
from ottla.sources.log_source import LogSource, read_ranges
from ottla.sources.opening import open_log, topic_options
from ottla.tables import Action, DataFile, DataFiles, FileRole, Table, of_role

if TYPE_CHECKING:
    from ottla.client.producing.sending import Sending

PREFIX = "__dlq.errors."
OURS = tuple(f"{PREFIX}{name}" for name in ("topic", "partition", "offset", "message"))
TOPIC, PARTITION, OFFSET, MESSAGE = OURS


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """The topic, in a data directory or at brokers. `settings` are those of the client."""

    topic: str
    target: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def check_apart(self, source: str, topic: str) -> None:
        """Raises `UserError` if it is the topic that is loaded: each load would find what the one
        before had set aside, without end.
        """
        if topic == self.topic and _place(source) == _place(self.target):
            raise UserError(
                f"--dead-letter-topic {topic} is the topic that is loaded, so that what is set "
                f"aside would be loaded and set aside again; name another topic"
            )

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

    def letters(self, topic: str, aside: Letters) -> Letters:
        """The letters of a topic; of those of one record the last that is not as it is `aside`, in
        quarantine: someone mended it.
        """
        import pyarrow as pa

        was = {
            place: dict(zip(some["offset"].to_pylist(), some["value"].to_pylist(), strict=True))
            for place, some in aside.rows.items()
        }
        log = open_log(topic_options(self.target, self.topic, client=self.settings))
        found: dict[TopicPartition, dict[int, dict[str, Any]]] = {}
        for place, letter in _letters(log):
            if place.topic == topic:
                there, offset = found.setdefault(place, {}), letter["offset"]
                # Those that are sent again are the same.
                known = was.get(place, {})
                is_mended = offset in known and letter["value"] != known[offset]
                if is_mended or offset not in there:
                    there[offset] = letter
        return Letters(
            {
                place: pa.Table.from_pylist([some[one] for one in sorted(some)], schema())
                for place, some in found.items()
            }
        )


def _place(text: str) -> str:
    """A directory, or brokers, in one way of writing."""
    return os.path.realpath(text) if os.path.isdir(text) else text


def set_aside(table: Table, letters: Letters) -> Letters:
    """Those whose records are in the table's quarantine."""
    import pyarrow as pa

    aside = of_role(table.current_files(), FileRole.QUARANTINE)
    places = {place for part in aside for place in _places(table.files, part)}
    rows = {
        place: some.filter(
            pa.array([(place.partition, one) in places for one in some["offset"].to_pylist()])
        )
        for place, some in letters.rows.items()
    }
    return Letters({place: some for place, some in rows.items() if some.num_rows})


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


def _letters(log: LogSource) -> Iterator[tuple[TopicPartition, dict[str, Any]]]:
    """The records that a dead-letter topic has, as they were in the places that headers name."""
    for partition in log.partitions():
        wanted = OffsetRange(from_offset=partition.start_offset, until_offset=partition.end_offset)
        for row in read_ranges(log, {partition.place: wanted}, COLUMNS).to_pylist():
            headers = row["headers"] or []
            # Ours are the last of their names.
            told = {one["key"]: one for one in headers if one["key"] in OURS}
            try:
                place = TopicPartition(told[TOPIC]["value"].decode(), int(told[PARTITION]["value"]))
                offset = int(told[OFFSET]["value"])
            except (KeyError, ValueError, AttributeError, TypeError):
                continue  # It is no letter of a load.
            theirs = [one for one in headers if one is not told.get(one["key"])]
            yield place, {**row, "offset": offset, "headers": theirs}
