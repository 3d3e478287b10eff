"""The position of a stream as JSON in Spark's checkpoint: offsets, and what identifies the log.

    {"orders": {"0": 12}, ":ottla {...}": {}}

The offsets are as in Spark's own Kafka source, and appear in a query's progress. What identifies
the log is in the name of a topic without partitions, which no topic can have, so that Spark's own
source, which reads topics, partitions and offsets, finds nothing in it and can continue:

    {"version": 3, "topic_ids": {"orders": "2Xk..."}, "leader_epochs": {"orders": {"0": 3}},
     "started": {"orders": {"0": 5}}}

`started` is only in the end of a query's first batch and gives the start of that
batch: a query that is killed in it begins there again, whatever the latest offsets are by then.
Offsets of Spark's own source, without that name, are accepted, and those of version 2, which was
the value of the name `:ottla` (Spark's own source stopped at it).
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.base.errors import UserError
from ottla.base.ids import Uuid, parse_uuid, uuid_text
from ottla.base.json_files import UnknownVersionError, check_version
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.sources.stream.continuity import Position

VERSION = 3
OURS = ":ottla"
"""How the name begins that no topic can have."""

_VERSION_OF_MEMBER = 2

INITIAL: Mapping[str, Any] = {"initial": True}
"""The offset that Spark passes before a query's first batch, when no offsets are chosen yet."""

Positions = Mapping[TopicPartition, Position]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """The position in each partition; `started` are the start offsets of the first batch."""

    positions: Positions
    started: Mapping[TopicPartition, int] | None = None

    @property
    def start(self) -> Positions:
        """The positions at which the first batch begins; raises `UserError` if not stored."""
        if self.started is None:
            raise UserError(
                "the checkpoint does not store where its first batch began, and Spark's own Kafka "
                "source did not finish it: finish it with that source, or begin a new checkpoint"
            )
        return {
            place: Position(offset=offset, topic_id=self.positions[place].topic_id)
            for place, offset in self.started.items()
        }

    def to_json(self) -> dict[str, Any]:
        """The JSON object, always in the same order because Spark compares texts."""
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
        ours = {"version": VERSION, "topic_ids": ids, "leader_epochs": _nested(epochs)}
        if self.started is not None:
            ours["started"] = _nested(self.started)
        return {**offsets_json(self.positions), f"{OURS} {json.dumps(ours)}": {}}


def offsets_json(positions: Positions) -> dict[str, dict[str, int]]:
    """The offsets as Spark's own Kafka source writes them."""
    return _nested({place: one.offset for place, one in positions.items()})


def parse_stream_offset(found: Mapping[str, Any]) -> StreamOffset:
    """The inverse of `to_json`; raises `UserError` for JSON that is not from this source."""
    try:
        offsets = {name: value for name, value in found.items() if not name.startswith(OURS)}
        ours = _ours(found)
        if ours is None:
            return StreamOffset(positions=_positions(_flat(offsets), {}, {}))
        ids = {topic: parse_uuid(text) for topic, text in ours["topic_ids"].items()}
        started = ours.get("started")
        return StreamOffset(
            positions=_positions(_flat(offsets), ids, _flat(ours["leader_epochs"])),
            started=None if started is None else _flat(started),
        )
    except UnknownVersionError as error:
        raise UserError(f"the checkpoint's offsets: {error}") from error
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"the checkpoint holds no offsets of this source: {found}") from error


def _ours(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """What identifies the log, as this source wrote it; `None` in offsets of Spark's own source."""
    for name, value in found.items():
        if name == OURS:
            check_version(value["version"], _VERSION_OF_MEMBER)
            return dict(value)
        if name.startswith(OURS):
            ours = json.loads(name.removeprefix(OURS))
            check_version(ours["version"], VERSION)
            return dict(ours)
    return None


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
