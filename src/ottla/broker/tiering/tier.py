"""What all work on the tier shares: the store, the metadata, the clock, and what is counted."""

import logging
from collections.abc import Callable
from dataclasses import field
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import FileSystem
from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.broker.quotas.replication_quota import ReplicationQuota
from ottla.broker.tiering.remote_log_metadata import RemoteLogMetadata
from ottla.broker.tiering.steps import Deed, InTurns, Steps, Until
from ottla.config.broker import BrokerConfig
from ottla.storage.files.filenames import REMOTE_LOG_METADATA
from ottla.storage.remote.metadata_records import Event, SegmentUpdate
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata, SegmentState

logger = logging.getLogger(__name__)

CREATION_RETRY_MS: Final = 100
CREATION_MS: Final = 10_000
"""How long to wait for the topic of the metadata to be created, before a job is tried again."""


@dataclass(slots=True)
class TopicCounts:
    """What was done of one topic since the start."""

    copied_bytes: int = 0
    copies: int = 0
    copy_errors: int = 0
    deletions: int = 0
    deletion_errors: int = 0
    builds: int = 0
    build_errors: int = 0
    """Replicas that were begun with what the tier has of their state."""


@dataclass(slots=True)
class TierCounts:
    """By topic; and whether the store answers.

    `failing_since_ms` is the wall time since which no request has succeeded, `None` while they do.
    """

    topics: dict[str, TopicCounts] = field(default_factory=dict)
    failing_since_ms: int | None = None
    failure: str = ""
    throttled_ms: float = 0.0
    """How long copies have waited for the quota."""

    def of(self, topic: str) -> TopicCounts:
        return self.topics.setdefault(topic, TopicCounts())


class Tier:
    """`now` is the time of the current call."""

    def __init__(
        self,
        storage: RemoteStorage,
        metadata: RemoteLogMetadata,
        file_system: FileSystem,
        config: Callable[[], BrokerConfig],
        identity: tuple[int, Callable[[], Uuid]],
    ) -> None:
        """`identity` is the broker's id, and what makes ids of uploads."""
        self.storage = storage
        self.metadata = metadata
        self.file_system = file_system
        self.config = config
        self.node_id, self.new_id = identity
        self.now = Timestamps(now_ms=0, monotonic_ms=0.0)
        self.counts = TierCounts()
        settings = config()
        self.copy_quota = ReplicationQuota(
            lambda: config().remote_log_manager_copy_max_bytes_per_second,
            settings.remote_log_manager_copy_quota_window_num,
            settings.remote_log_manager_copy_quota_window_size_seconds * 1000,
        )
        self.on_answer: Callable[[], None] = _pass
        """Called when the store has done what it was asked."""
        self._is_preparing = False

    # Metadata

    def publish(self, event: Event) -> Steps[None]:
        """Writes a record of metadata; what follows may rely on it, even after a power failure.

        Raises `ApiError` if it is not known whether the record is committed.
        """
        yield from self.prepare()
        published = self.metadata.publish(event, self.now)
        if not published.is_applied and published.error is None:
            yield published
        if published.error is not None:
            raise published.error
        log = self.metadata.log_of(published)
        plan = None if log is None else log.maintenance.plan_flush(published.offset + 1)
        if log is None or plan is None:
            return
        # Without this a power failure could lose the record, and keep what was done by it: local
        # segments deleted of which nobody knows that the tier has them.
        try:
            yield Deed(lambda: plan.carry_out(self.file_system))
        except OSError as error:
            raise log.health.fail(error) from error
        log.maintenance.finish_flush(plan, self.now.monotonic_ms)

    def prepare(self) -> Steps[None]:
        """Creates the topic of the metadata, unless it exists; many jobs may need it at once."""
        while self._is_preparing:
            yield Until(self.now.monotonic_ms + CREATION_RETRY_MS)
        if self.metadata.is_created:
            return
        self._is_preparing = True
        try:
            yield InTurns(self.metadata.prepare)
            # In a cluster it is the controller that creates the topic.
            deadline_ms = self.now.monotonic_ms + CREATION_MS
            while not self.metadata.is_created:
                if self.now.monotonic_ms >= deadline_ms:
                    reason = f"the topic {REMOTE_LOG_METADATA} is not created"
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
                yield Until(self.now.monotonic_ms + CREATION_RETRY_MS)
        finally:
            self._is_preparing = False

    def becomes(
        self,
        segment: RemoteLogSegmentMetadata,
        state: SegmentState,
        custom_metadata: bytes | None = None,
    ) -> Steps[None]:
        """Writes that an upload has another state."""
        yield from self.publish(
            SegmentUpdate(
                partition=segment.partition,
                segment_id=segment.segment_id,
                broker_id=self.node_id,
                event_timestamp_ms=self.now.now_ms,
                state=state,
                custom_metadata=custom_metadata,
            )
        )

    # The store

    def delete(self, segment: RemoteLogSegmentMetadata) -> Steps[None]:
        """Deletes an upload, or continues to. Raises `ApiError`, `TierError`."""
        # First: a reader must not be sent to objects that are gone, nor a start after a crash.
        if segment.state is not SegmentState.DELETE_SEGMENT_STARTED:
            yield from self.becomes(segment, SegmentState.DELETE_SEGMENT_STARTED)
        yield from self.delete_objects(segment)
        yield from self.becomes(segment, SegmentState.DELETE_SEGMENT_FINISHED)

    def delete_objects(self, segment: RemoteLogSegmentMetadata) -> Steps[None]:
        counts = self.counts.of(segment.partition.topic)
        counts.deletions += 1
        try:
            yield Deed(lambda: self.storage.delete_segment(segment))
        except Exception:
            counts.deletion_errors += 1
            raise
        self.on_answer()

    def answers_again(self) -> None:
        """Notes that no job waits for the store to answer."""
        counts = self.counts
        if counts.failing_since_ms is not None:
            after_s = (self.now.now_ms - counts.failing_since_ms) / 1000
            logger.warning("the tier %s answers again after %.0f s", self.storage.address, after_s)
            counts.failing_since_ms, counts.failure = None, ""

    def fails(self, since_ms: int, failure: str) -> None:
        """Notes that the store has failed a job."""
        counts = self.counts
        if counts.failing_since_ms is None:
            logger.error(
                "the tier %s fails: %s; what it fails is tried again, and local segments that are "
                "not in it stay: watch the space on the disks",
                self.storage.address, failure,
            )  # fmt: skip
            counts.failing_since_ms = since_ms
        counts.failure = failure


def _pass() -> None:
    """What is done at first when the store answers."""
