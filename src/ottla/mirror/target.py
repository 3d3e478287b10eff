"""The data directory that a mirror writes, locked by the mirror.

Retention, compaction and timers of coordinators do not run: topics, records and offsets are those
of the source. A crash leaves a directory like that of a broker: the next open recovers it, and the
mirror continues at its logs' ends.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Final

from ottla.base.clock import Clock, read_clock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import OttlaError, UserError
from ottla.base.ids import ZERO_UUID
from ottla.base.partitions import TopicPartition
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.broker.topics.topics import Topic
from ottla.client.administration.group_offsets import Committed
from ottla.config.group_coordinator import with_local_defaults
from ottla.config.setting import settings_of
from ottla.config.topic import TopicConfig
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.requests import MemberClaim
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.mirror.plan import TargetState
from ottla.mirror.source import SourceTopic
from ottla.mirror.staging import discard_staging
from ottla.record.batch import iter_batches
from ottla.runtime.opening import open_broker
from ottla.storage.log.partition_log import PartitionLog

UNKNOWN: Final = "the source of its mirror does not have its settings"


class Target:
    """A target directory; use it in a `with` statement.

    Methods raise `ApiError`, `StorageError` and `UserError`.
    """

    def __init__(self, broker: Broker, clock: Clock) -> None:
        self.broker = broker
        self._clock = clock

    @classmethod
    def open(
        cls, path: str, clock: Clock, on_progress: Callable[[str], None] = lambda _: None
    ) -> "Target":
        """Opens the directory, and creates it if missing; raises `UserError` if it is in use."""
        broker = open_broker([path], with_local_defaults({}), clock=clock, on_progress=on_progress)
        discard_staging(path)
        return cls(broker, clock)

    def __enter__(self) -> "Target":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the broker; after an unexpected error, leaves the directory as a crash would."""
        # An `OttlaError` is raised between two steps, so the state is consistent.
        if error is None or isinstance(error, OttlaError):
            self.broker.close()
            return
        for directory in self.broker.directories:
            directory.abandon()

    # Topics

    def prepare(self, wanted: SourceTopic) -> list[str]:
        """Creates a topic as in the source, or updates it; returns the unknown settings."""
        known = settings_of(TopicConfig)
        overrides = {name: text for name, text in (wanted.overrides or {}).items() if name in known}
        topic = self.broker.topics.find(wanted.name)
        if topic is None:
            self._create(wanted, overrides)
        else:
            if wanted.overrides is not None and self.broker.unconfirmed.is_unknown(topic.name):
                self.broker.admin.confirm_topics({topic.name: overrides})
            self._follow(topic, wanted, overrides)
        return sorted((wanted.overrides or {}).keys() - overrides.keys())

    def _create(self, wanted: SourceTopic, overrides: Mapping[str, str]) -> None:
        self.broker.admin.create_topic(
            NewTopic(
                name=wanted.name,
                partition_count=wanted.partition_count,
                overrides=overrides,
                topic_id=wanted.topic_id,
                unknown=UNKNOWN if wanted.overrides is None else None,
            )
        )

    def _follow(self, topic: Topic, wanted: SourceTopic, overrides: Mapping[str, str]) -> None:
        if wanted.partition_count > topic.partition_count:
            self.broker.admin.grow_topic(
                TopicGrowth(name=topic.name, partition_count=wanted.partition_count)
            )
        if wanted.overrides is not None and overrides != topic.overrides:
            changes = [ConfigChange(name=name, value=text) for name, text in overrides.items()]
            self.broker.admin.alter_topic(topic.name, Alteration(changes=changes, is_whole=True))

    def topic(self, name: str) -> Topic | None:
        return self.broker.topics.find(name)

    # One partition

    def log(self, topic: str, partition: int) -> PartitionLog:
        return self.broker.topics.online_partition(topic, partition).log

    def state(self, topic: str, partition: int) -> TargetState:
        log = self.log(topic, partition)
        topic_id = self.broker.topics.get(topic).topic_id
        return TargetState(
            topic_id=None if topic_id == ZERO_UUID else topic_id,
            start=log.log_start_offset,
            end=log.log_end_offset,
            last=log.reader.last_batch(),
        )

    def begin(self, topic: str, partition: int, offset: int) -> None:
        """Empties a partition, which continues at `offset`."""
        log = self.log(topic, partition)
        log.maintenance.truncate_fully_and_start_at(offset, now_ms=self._clock.now_ms())

    def append(self, topic: str, partition: int, records: memoryview) -> None:
        """Appends whole batches byte for byte, with their offsets."""
        log = self.log(topic, partition)
        for part in split(records, log.config.segment_bytes):
            log.writer.append_as_follower(part, now_ms=self._clock.now_ms())
            log.writer.write_out()
        if log.rolled_until > log.offsets.recovery_point:
            # Flushes full segments, as a broker does, so that a power failure loses little.
            log.writer.flush()

    def skip_to(self, topic: str, partition: int, offset: int) -> None:
        """Moves the log's end after offsets at the source's end that have no records any more."""
        self.log(topic, partition).writer.skip_to(offset, now_ms=self._clock.now_ms())

    def follow_start(self, topic: str, partition: int, start: int) -> None:
        """Deletes records before the source's log start offset."""
        log = self.log(topic, partition)
        wanted = min(start, log.high_watermark)
        if wanted <= log.log_start_offset:
            return
        log.maintenance.delete_records_before(wanted)
        # Written before files are deleted, or a crash would bring back a start without files.
        self.broker.topics.partition(topic, partition).directory.checkpoints.write_log_starts()
        for deleted in log.maintenance.delete_segments_below_start():
            with log.health.guarding(changes_files=True):
                deleted.remove()

    # Groups, and the disk

    def commit(self, offsets: Iterable[Committed]) -> int:
        """Commits offsets that differ from the committed ones; returns their number."""
        by_group: dict[str, dict[TopicPartition, NewOffset]] = {}
        for one in offsets:
            new = NewOffset(offset=one.offset, leader_epoch=one.leader_epoch, metadata=one.metadata)
            by_group.setdefault(one.group, {})[TopicPartition(one.topic, one.partition)] = new
        return sum(self._commit(group, new) for group, new in sorted(by_group.items()))

    def _commit(self, group: str, offsets: Mapping[TopicPartition, NewOffset]) -> int:
        at = read_clock(self._clock)
        claim = MemberClaim(group_id=group)
        groups = self.broker.groups
        known = groups.machine_of(group, at).fetch_offsets(claim, offsets)
        changed = {
            where: new
            for where, new in offsets.items()
            if (found := known[where].committed) is None
            or (found.offset, found.leader_epoch, found.metadata)
            != (new.offset, new.leader_epoch, new.metadata)
        }
        if not changed:
            return 0
        decision = groups.machine_of(group, at).commit(
            CommitRequest(claim=claim, offsets=changed), at
        )
        answer = groups.carry_out(decision, at)
        self.broker.appends.write_out()
        for code in (answer.error, *answer.partitions.values()):
            if code:
                raise UserError(f"group {group}: its offsets were refused: {ErrorCode(code).name}")
        return len(changed)

    def checkpoint(self) -> None:
        """Writes the checkpoints of all directories, for the next start."""
        for directory in self.broker.directories:
            directory.checkpoints.write()


def split(records: memoryview, max_size: int) -> Iterator[memoryview]:
    """Splits batches into parts of at most `max_size` bytes; a larger batch is its own part."""
    start = position = 0
    for batch in iter_batches(records):
        if position > start and position + batch.size - start > max_size:
            yield records[start:position]
            start = position
        position += batch.size
    if start < len(records):
        yield records[start:]
