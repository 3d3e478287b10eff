"""How far a reproducing mirror is in a partition, and of which log that was said.

A group's offset has only a topic's name, which another cluster, or a topic that was created again,
may have too. So a position is committed with metadata: the cluster, the topic's id, and a digest
of the last record that was sent. `MirrorMaker` of Kafka keeps a source's alias instead, which says
nothing about a topic that was created again.
"""

import hashlib
import json
from collections.abc import Mapping

from ottla.base.ids import Uuid, parse_uuid, uuid_text
from ottla.base.values import dataclass
from ottla.mirror.plan import Refusal
from ottla.mirror.source import Bounds
from ottla.record.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The log that an offset belongs to; `None` is unknown."""

    cluster_id: str | None = None
    topic_id: Uuid | None = None

    def __str__(self) -> str:
        topic = "without an id" if self.topic_id is None else f"id {uuid_text(self.topic_id)}"
        return f"cluster {self.cluster_id or 'without an id'}, topic {topic}"


UNKNOWN = Origin()


@dataclass(frozen=True, slots=True)
class Sent:
    """The last record that was sent, by its offset and a digest of its content."""

    offset: int
    digest: str

    def is_of(self, record: Record) -> bool:
        return sent(record) == self


def sent(record: Record) -> Sent:
    headers = [(name, value) for name, value in record.headers]
    content = repr((record.timestamp_ms, record.key, record.value, headers))
    return Sent(record.offset, hashlib.blake2b(content.encode(), digest_size=8).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The next offset to send, of which log, and what was sent last."""

    offset: int
    origin: Origin = UNKNOWN
    last: Sent | None = None

    def metadata(self) -> str:
        """What is committed with the offset."""
        topic_id, last = self.origin.topic_id, self.last
        fields = {
            "cluster": self.origin.cluster_id,
            "topic": None if topic_id is None else uuid_text(topic_id),
            "last": None if last is None else [last.offset, last.digest],
        }
        given = {name: value for name, value in fields.items() if value is not None}
        return json.dumps({"ottla-mirror": 1, **given}, separators=(",", ":"))


def parse_position(offset: int, metadata: str | None) -> Position:
    """The position of a committed offset; with other metadata its origin is unknown."""
    try:
        fields = json.loads(metadata or "{}")
        if not isinstance(fields, Mapping) or fields.get("ottla-mirror") != 1:
            return Position(offset=offset)
        cluster, topic, last = (fields.get(name) for name in ("cluster", "topic", "last"))
        return Position(
            offset=offset,
            origin=Origin(
                cluster_id=None if cluster is None else str(cluster),
                topic_id=None if topic is None else parse_uuid(str(topic)),
            ),
            last=None if last is None else Sent(int(last[0]), str(last[1])),
        )
    except (ValueError, TypeError, LookupError, RecursionError):
        return Position(offset=offset)


@dataclass(frozen=True, slots=True)
class Restart:
    """The topic is another one of the same cluster, to be sent from its start."""

    reason: str


def compare_origins(position: Position, source: Origin, name: str) -> Refusal | Restart | None:
    """Whether a position of the mirror `name` is that of the source; `None` if nothing differs."""
    known = position.origin
    clusters = known.cluster_id, source.cluster_id
    if None not in clusters and known.cluster_id != source.cluster_id:
        return Refusal(
            f"the position of the mirror {name} is that of another source ({known}), and this is "
            f"{source}: give each source a --name of its own"
        )
    if known.topic_id == source.topic_id or None in (known.topic_id, source.topic_id):
        return None
    if None in clusters:
        return Refusal(
            f"the position of the mirror {name} is that of another topic ({known}), and this is "
            f"{source}: the topic was deleted and created again, or this is another source; "
            "another --name sends it from its start"
        )
    return Restart(
        "the topic was deleted and created again in the source: it is sent from its start, and "
        f"what the earlier one had from offset {position.offset:,} on was not sent"
    )


def check_content(
    position: Position, bounds: Bounds, found: Record | None, *, may_be_gone: bool
) -> Refusal | None:
    """A refusal if the source no longer has what was sent: also where no ids are known.

    `found` is the source's record at the offset that was sent last; `may_be_gone` if compaction may
    have removed it.
    """
    if position.offset > bounds.end:
        return Refusal(
            f"the source ends at offset {bounds.end:,}, and records up to {position.offset:,} were "
            "sent: it was truncated, created again, or is another source; another --name sends it "
            "from its start"
        )
    last = position.last
    if last is None or last.offset < bounds.start:
        return None
    if found is None and may_be_gone:
        return None
    if found is not None and last.is_of(found):
        return None
    return Refusal(
        f"the source's record at offset {last.offset:,} is not the one that was sent: the source "
        "was truncated, created again, or is another one; another --name sends it from its start"
    )
