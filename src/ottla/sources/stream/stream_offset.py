"""How far a stream is, as JSON in Spark's checkpoint: offsets, and by what to know the log again.

    {"version": 1, "offsets": {"orders": {"0": 12}}, "topic_ids": {"orders": "2Xk..."},
     "leader_epochs": {"orders": {"0": 3}}, "started": {"orders": {"0": 5}}}

`offsets` may be copied into the option `startingOffsets`. `started` stands in the end of a query's
first batch only, which so says itself where it begins: a query that is killed in that batch begins
there again, whatever is latest by then. Offsets as Spark's own Kafka source writes them, without
anything around, are taken too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.base.errors import UserError
from ottla.base.ids import Uuid, parse_uuid, uuid_text
from ottla.base.partitions import TopicPartition
from ottla.sources.stream.continuity import Position

VERSION = 1

INITIAL: Mapping[str, Any] = {"initial": True}
"""The offset that Spark gets before a query's first batch, when nothing is settled yet."""

Positions = Mapping[TopicPartition, Position]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """Where each partition is; `started` says where, in the first batch."""

    positions: Positions
    started: Mapping[TopicPartition, int] | None = None

    @property
    def start(self) -> Positions:
        """The positions from which the first batch reads."""
        assert self.started is not None, "only the first batch's end says where it begins"
        return {
            place: Position(offset=offset, topic_id=self.positions[place].topic_id)
            for place, offset in self.started.items()
        }

    def to_json(self) -> dict[str, Any]:
        """Always in the same order: Spark compares texts."""
        ids = {
            place.topic: uuid_text(one.topic_id)
            for place, one in sorted(self.positions.items())
            if one.topic_id is not None
        }
        epochs = {
            place: one.leader_epoch
            for place, one in self.positions.items()
            if one.leader_epoch is not None
        }
        told = {
            "version": VERSION,
            "offsets": _nested({place: one.offset for place, one in self.positions.items()}),
            "topic_ids": ids,
            "leader_epochs": _nested(epochs),
        }
        return told if self.started is None else {**told, "started": _nested(self.started)}


def parse_stream_offset(told: Mapping[str, Any]) -> StreamOffset:
    """The inverse of `to_json`; raises `UserError` for what is not of this source."""
    try:
        if not isinstance(told.get("version"), int):
            return StreamOffset(positions=_positions(_flat(told), {}, {}))
        if told["version"] > VERSION:
            raise UserError("the checkpoint was written by a newer ottla; use that one")
        ids = {topic: parse_uuid(text) for topic, text in told["topic_ids"].items()}
        started = told.get("started")
        return StreamOffset(
            positions=_positions(_flat(told["offsets"]), ids, _flat(told["leader_epochs"])),
            started=None if started is None else _flat(started),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"the checkpoint holds no offsets of this source: {told}") from error


def _positions(
    offsets: Mapping[TopicPartition, int],
    ids: Mapping[str, Uuid],
    epochs: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Position]:
    return {
        place: Position(
            offset=offset, topic_id=ids.get(place.topic), leader_epoch=epochs.get(place)
        )
        for place, offset in offsets.items()
    }


def _nested(values: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for place in sorted(values):
        found.setdefault(place.topic, {})[str(place.partition)] = values[place]
    return found


def _flat(nested: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    pairs: Iterable[tuple[TopicPartition, Any]] = (
        (TopicPartition(topic, int(number)), value)
        for topic, numbers in nested.items()
        for number, value in numbers.items()
    )
    found = dict(pairs)
    if any(type(value) is not int for value in found.values()):
        raise ValueError("an offset is a whole number")
    return found
