"""Reads of offsets that lie in the remote tier, for fetches and for searches by time.

Each is planned in the broker's thread, carried out in a thread that may wait for the store
(`runtime/tier_readers.py`), and finished in the broker's thread. In between it takes the broker's
lock only to look an upload up, by the leader epochs that the log has at that moment: uploads and
local segments come and go meanwhile.

A read that comes too late for its fetch goes on, and the next fetch of the same offset gets what it
has found: so a consumer makes progress however slow a store is. Kafka cancels it, which can also
break its cached transaction index. Kafka's counterparts: `RemoteLogReader`,
`RemoteLogOffsetReader`, `RemoteLogManager.read`.
"""

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError, UserError
from ottla.base.files import FileSlice
from ottla.base.ids import Uuid
from ottla.base.memory_files import MemoryFile
from ottla.base.values import dataclass
from ottla.broker.quotas.replication_quota import ReplicationQuota
from ottla.broker.topics.partition import Partition
from ottla.broker.waiting.fetch_queries import LISTS
from ottla.config.broker import BrokerConfig
from ottla.storage.files.filenames import REMOTE_LOG_METADATA
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.offsets import FoundOffset, Isolation
from ottla.storage.log.reader import FetchData
from ottla.storage.remote.lineage import Piece, piece_at
from ottla.storage.remote.remote_storage import MissingObjectError, RemoteStorage
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_reading import Region, SegmentReading

logger = logging.getLogger(__name__)

KEPT_SIZE: Final = 64 << 20
"""The bytes that reads may have for which no fetch has come: those that came too late, and those
that were begun ahead. The newest is kept anyway.
"""

KEPT_MS: Final = 30_000
"""How long they are kept."""

EXPECTED_COUNT: Final = 1000
"""Of how many fetches it is remembered where they would go on."""

PIECES_PER_LOCK: Final = 64
"""How many uploads a search by time looks at before it lets go of the lock: half a millisecond."""

SAID_COUNT: Final = 1000
"""How many faults are remembered as said."""

QUEUE: Final = "remote.log.reader.max.pending.tasks"

Lock = Callable[[], AbstractContextManager[object]]
"""Returns what holds the broker's lock while it is entered."""


class Tier(Protocol):
    """The remote tier of a broker (`broker/tiering/remote_logs.py`)."""

    @property
    def storage(self) -> RemoteStorage: ...

    def index_of(self, topic_id: Uuid, partition: int) -> SegmentIndex | None: ...

    def is_ready(self, topic_id: Uuid, partition: int) -> bool: ...


class Threads(Protocol):
    """Threads that carry out reads."""

    @property
    def queue_size(self) -> int:
        """How many reads wait for a thread."""

    def submit(self, work: "TierWork") -> bool:
        """Has a thread call `work.carry_out`, then `TierReads.done`; returns whether it will: too
        many may be waiting already.
        """


class TierNotReadyError(ApiError):
    """The list of uploads is still being read."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR, "The list of uploads in the tier has not been read yet."
        )


class TierWork:
    """One read of a partition in the tier."""

    def __init__(self, reads: "TierReads", partition: Partition, topic_id: Uuid) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.error: ApiError | None = None
        self.is_done = False
        self._reads = reads
        self._cut_count = partition.log.offsets.cut_count

    def carry_out(self, lock: Lock) -> None:
        """As `perform`, but never raises: what goes wrong is in `error`."""
        try:
            self.perform(lock)
        except ApiError as error:
            self.error = error.without_traceback()
        except Exception as error:
            with lock():
                self.error = self._reads.explain(self, error)
        else:
            self._reads.succeeded(self)

    def perform(self, lock: Lock) -> None:
        """Reads. Raises `ApiError`, and as `SegmentReading` does."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    @property
    def is_deleted(self) -> bool:
        """Whether retention has deleted what is read, under the lock."""
        return False

    @property
    def is_valid(self) -> bool:
        """Whether the log was not truncated since: otherwise it may have other records now."""
        return self._cut_count == self.partition.log.offsets.cut_count

    def piece_at(self, offset: int) -> Piece | None:
        """The upload with an offset, under the lock; `None` if the offset is local now. Raises
        `ApiError`, and `CorruptionError` if no upload has it.
        """
        log = self.partition.log
        if offset >= log.offsets.local_start_offset:
            return None
        if offset < log.log_start_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        tier = self._reads.tier
        index = tier.index_of(self.topic_id, self.partition.index)
        piece = None if index is None else piece_at(index, log.epochs.entries, offset)
        if piece is not None:
            return piece
        if not tier.is_ready(self.topic_id, self.partition.index):
            raise TierNotReadyError
        # A gap: neither damage nor the end of the log, after which a reader would go on elsewhere.
        raise CorruptionError(
            tier.storage.address,
            0,
            f"no upload has offset {offset} of {self.name}, nor has this disk; put the upload and "
            f"its records in {REMOTE_LOG_METADATA} back, or give up what precedes the next one: "
            f"`ottla delete-records`",
        )


class TierRead(TierWork):
    """Batches from an offset on. It has found `region`, unless `next_offset` is local."""

    def __init__(
        self,
        reads: "TierReads",
        partition: Partition,
        topic_id: Uuid,
        offset: int,
        isolation: Isolation,
    ) -> None:
        super().__init__(reads, partition, topic_id)
        self.offset = offset
        self.isolation = isolation
        self.max_size = 0
        self.skips_markers = False
        """Whether markers of transactions alone are of no use, as for consumers of old formats."""
        self.is_sequential = False
        """Whether a fetch has ended where this one begins."""
        self.begun_ms = 0.0
        self.next_offset = offset
        self.region: Region | None = None
        self.aborted: list[AbortedTransaction] | None = None

    @property
    def key(self) -> Hashable:
        return self.key_at(self.offset)

    def key_at(self, offset: int) -> Hashable:
        """The key of a read like this one from another offset on."""
        return self.topic_id, self.partition.index, offset, self.isolation, self.skips_markers

    @property
    def is_deleted(self) -> bool:
        return self.next_offset < self.partition.log.log_start_offset

    @property
    def size(self) -> int:
        return 0 if self.region is None else len(self.region.data)

    def records(self, max_size: int | None = None) -> FileSlice | None:
        """What was read, up to `max_size` bytes of it."""
        region = self.region
        if region is None or not region.data:
            return None
        size = self.size if max_size is None else min(max_size, self.size)
        return FileSlice(MemoryFile(region.path, region.data), 0, size)

    def data(self, max_size: int, *, one_anyway: bool) -> FetchData:
        """What a fetch gets of a finished read. Raises `ApiError`, and `OffsetInTierError` if it
        must be repeated.
        """
        if self.error is not None:
            raise self.error
        log, region = self.partition.log, self.region
        if region is None:
            return log.reader.read(
                self.next_offset, max_size, self.isolation, min_one_message=one_anyway
            )
        if one_anyway:
            max_size = max(max_size, region.first_size)
        return FetchData(
            self.records(max_size) if region.first_size <= max_size else None,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            self.aborted,
        )

    def perform(self, lock: Lock) -> None:
        reading = self._reads.reading
        while True:
            with lock():
                piece = self._bounded(self.piece_at(self.next_offset))
            if piece is None:
                return
            region = reading.read(piece, self.next_offset, self.max_size)
            if region is None:
                self.next_offset = piece.last_offset + 1
                continue
            self.region = region
            if self.skips_markers and region.data and not region.has_records:
                self.next_offset = region.next_offset
                continue
            if self.isolation is Isolation.LAST_STABLE:
                self.aborted = self._aborted(lock, piece, region)
            return

    def _bounded(self, piece: Piece | None) -> Piece | None:
        """The piece up to what the reader may see, which is less on a follower that lags."""
        if piece is None:
            return None
        bound = self.partition.log.reader.bound(self.isolation)
        if bound <= self.next_offset:
            return None
        return Piece(piece.segment, piece.first_offset, min(piece.last_offset, bound - 1))

    def _aborted(self, lock: Lock, piece: Piece, region: Region) -> list[AbortedTransaction]:
        """The aborted transactions that overlap a region: those in the index of its segment and of
        the following ones, until none of them can begin before the region's end.
        """
        reading, bound = self._reads.reading, region.upper_bound
        found, is_complete = reading.aborted(piece.segment, self.next_offset, bound)
        while not is_complete and not self._reads.all_ended(piece, bound):
            following = piece.last_offset + 1
            with lock():
                found_piece = self.piece_at(following)
                if found_piece is None:
                    found += self.partition.log.reader.aborted_transactions(following, bound)
                    break
            piece = found_piece
            more, is_complete = reading.aborted(piece.segment, self.next_offset, bound)
            found += more
        return found


class TierSearch(TierWork):
    """The first record at or after a time. `found` is `None` if the tier has none before
    `until_offset`: then local segments are searched from there.
    """

    def __init__(
        self, reads: "TierReads", partition: Partition, topic_id: Uuid, timestamp_ms: int
    ) -> None:
        super().__init__(reads, partition, topic_id)
        self.timestamp_ms = timestamp_ms
        self.until_offset = partition.log.log_start_offset
        self.found: FoundOffset | None = None

    @property
    def is_behind(self) -> bool:
        """Whether local segments that were still to be searched have gone to the tier."""
        is_local = self.error is None and self.found is None
        return is_local and self.until_offset < self.partition.log.offsets.local_start_offset

    def perform(self, lock: Lock) -> None:
        while True:
            with lock():
                piece = self._next_candidate()
            if piece is None:
                return
            if piece.segment.max_timestamp_ms >= self.timestamp_ms:
                found = self._reads.reading.find_time(piece, self.timestamp_ms)
                if found is not None:
                    with lock():
                        epoch = self.partition.log.epochs.epoch_for_offset(found.offset)
                    self.found = FoundOffset(
                        found.offset, found.timestamp_ms, -1 if epoch is None else epoch
                    )
                    return
            self.until_offset = piece.last_offset + 1

    def _next_candidate(self) -> Piece | None:
        """The next piece that may have the record, or the last of many that have not; `None` if the
        rest is local.
        """
        self.until_offset = max(self.until_offset, self.partition.log.log_start_offset)
        piece = self.piece_at(self.until_offset)
        for _ in range(PIECES_PER_LOCK):
            if piece is None or piece.segment.max_timestamp_ms >= self.timestamp_ms:
                return piece
            self.until_offset = piece.last_offset + 1
            piece = self.piece_at(self.until_offset)
        return piece


@dataclass(slots=True)
class ReadCounts:
    """What fetches have read of one topic since the start; `errors` are reads that failed."""

    reads: int = 0
    read_bytes: int = 0
    errors: int = 0


class TierReads:
    """All reads. `threads` carry them out; without, the caller does, and waits for the store."""

    def __init__(
        self,
        tier: Tier,
        reading: SegmentReading,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self.tier = tier
        self.reading = reading
        self.threads: Threads | None = None
        self.counts: dict[str, ReadCounts] = {}
        """By topic."""
        self._config = config
        now = config()
        self._quota = ReplicationQuota(
            lambda: config().remote_log_manager_fetch_max_bytes_per_second,
            now.remote_log_manager_fetch_quota_window_num,
            now.remote_log_manager_fetch_quota_window_size_seconds * 1000,
        )
        self._expected: dict[Hashable, None] = {}
        """The keys of reads that would go on with what a fetch has got."""
        self._kept: dict[Hashable, TierRead] = {}
        """Reads that no fetch has been answered with, running or finished, the oldest first."""
        self._done: deque[TierWork] = deque()
        self._has_list = False
        self._said: dict[str, None] = {}
        self._first_open: dict[Uuid, int | None] = {}

    # In the broker's thread

    @property
    def max_wait_ms(self) -> int:
        """How long a fetch waits for its reads."""
        return self._config().remote_fetch_max_wait_ms

    def is_ready(self, partition: Partition, topic_id: Uuid) -> bool:
        """Whether it is known what the tier has of a partition."""
        return self.tier.is_ready(topic_id, partition.index)

    def is_throttled(self, now_ms: float) -> bool:
        """Whether fetches have read more of the tier than they may (KIP-956)."""
        return self._quota.is_exceeded(now_ms)

    def read_of(
        self, partition: Partition, topic_id: Uuid, offset: int, isolation: Isolation
    ) -> TierRead:
        """A read to be begun, or to be performed by the caller."""
        return TierRead(self, partition, topic_id, offset, isolation)

    def begin(self, read: TierRead, now_ms: float) -> TierRead:
        """Has a read carried out, or returns a kept one of the same offset."""
        key = read.key
        kept = self._kept.get(key)
        if kept is not None and kept.is_valid:
            return kept
        read.is_sequential = self._expected.pop(key, False) is None
        read.begun_ms = self.reading.indexes.now_ms = now_ms
        self._kept[key] = read
        self._submit(read)
        return read

    def claim(self, read: TierRead, now_ms: float) -> None:
        """A fetch is answered with a finished read."""
        if self._kept.get(read.key) is not read:
            return
        del self._kept[read.key]
        self._quota.record(read.size, now_ms)
        counts = self.counts.setdefault(read.partition.topic, ReadCounts())
        counts.reads += 1
        counts.read_bytes += read.size
        if read.error is not None:
            counts.errors += 1
        elif read.region is not None:
            self._go_on(read, read.region.next_offset, now_ms)

    def _go_on(self, read: TierRead, offset: int, now_ms: float) -> None:
        """Begins what the next fetch will want, if the last one has gone on likewise."""
        self._drop_old(now_ms)
        key = read.key_at(offset)
        if not read.is_sequential:
            self._expected[key] = None
            for one in list(self._expected)[:-EXPECTED_COUNT]:
                del self._expected[one]
            return
        log = read.partition.log
        taken = sum(max(one.max_size, one.size) for one in self._kept.values())
        is_wanted = offset < log.offsets.local_start_offset and key not in self._kept
        if not is_wanted or taken + read.max_size > KEPT_SIZE or self.is_throttled(now_ms):
            self._expected[key] = None
            return
        ahead = self.read_of(read.partition, read.topic_id, offset, read.isolation)
        ahead.skips_markers, ahead.max_size = read.skips_markers, read.max_size
        ahead.is_sequential, ahead.begun_ms = True, now_ms
        if self.threads is not None and self.threads.submit(ahead):
            self._kept[key] = ahead

    def _drop_old(self, now_ms: float) -> None:
        """Drops what no fetch has come for: its consumer is gone, or reads elsewhere."""
        for key, one in list(self._kept.items()):
            if now_ms - one.begun_ms < KEPT_MS:
                return
            if one.is_done:
                del self._kept[key]

    def search_of(self, partition: Partition, topic_id: Uuid, timestamp_ms: int) -> TierSearch:
        """A search to be begun, or to be performed by the caller."""
        return TierSearch(self, partition, topic_id, timestamp_ms)

    def begin_search(self, search: TierSearch) -> None:
        self._submit(search)

    def _submit(self, work: TierWork) -> None:
        if self.threads is None:
            work.carry_out(nullcontext)
            self.done(work)
        elif not self.threads.submit(work):
            work.error = ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                "Too many reads of the remote tier are waiting; see remote.log.reader.threads and "
                "remote.log.reader.max.pending.tasks.",
            )
            self._say(
                QUEUE,
                "%d reads of the remote tier wait for remote.log.reader.threads=%d, and further "
                "ones are refused; see whether its store is slow, or raise one of the two",
                self._config().remote_log_reader_max_pending_tasks,
                self._config().remote_log_reader_threads,
            )
            self.done(work)

    def list_is_read(self) -> None:
        """The list of some partitions' uploads is complete now."""
        self._has_list = True

    @property
    def has_news(self) -> bool:
        return self._has_list or bool(self._done)

    def take_news(self) -> Iterator[Hashable]:
        """What has come that fetches and searches may wait for: reads that are done, and lists."""
        if self._has_list:
            self._has_list = False
            yield LISTS
        while self._done:
            work = self._done.popleft()
            if isinstance(work, TierRead):
                self._keep_within_bounds()
            yield work

    def _keep_within_bounds(self) -> None:
        finished = [(key, one) for key, one in self._kept.items() if one.is_done]
        size = sum(one.size for _, one in finished)
        for key, one in finished[:-1]:
            if size <= KEPT_SIZE and one.error is None:
                continue
            size -= one.size
            del self._kept[key]

    # In any thread

    def done(self, work: TierWork) -> None:
        work.is_done = True
        self._done.append(work)

    def all_ended(self, piece: Piece, bound: int) -> bool:
        """Whether all transactions that begin before `bound` have ended by the end of an upload.

        The producer snapshot that is uploaded with it has the open ones. So not every later
        transaction index must be asked for, of which Kafka reads all up to the log's end.
        """
        segment = piece.segment
        if piece.last_offset != segment.end_offset:
            return False
        if segment.segment_id not in self._first_open:
            try:
                self._first_open[segment.segment_id] = self.reading.first_open_offset(segment)
            except CorruptionError:
                return False
            for one in list(self._first_open)[:-SAID_COUNT]:
                self._first_open.pop(one, None)
        first_open = self._first_open[segment.segment_id]
        return first_open is None or first_open >= bound

    def succeeded(self, work: TierWork) -> None:
        """The store answers: what it says from now on of this partition is news."""
        if self._said:
            self._said.pop(f"store/{work.name}", None)
            self._said.pop(QUEUE, None)

    # Under the lock

    def explain(self, work: TierWork, error: Exception) -> ApiError:
        """The error for a client after a read has failed; says why in the log, once."""
        if isinstance(error, MissingObjectError) and work.is_deleted:
            return ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if isinstance(error, CorruptionError):
            self._say(str(error), "cannot read %s in the remote tier: %s", work.name, error)
            return ApiError(ErrorCode.CORRUPT_MESSAGE)
        if isinstance(error, UserError):
            self._say(
                f"store/{work.name}", "cannot read %s in the remote tier: %s", work.name, error
            )
        elif not isinstance(error, StorageError):  # That one was said where it was found.
            logger.error("reading %s in the remote tier failed", work.name, exc_info=error)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    def _say(self, key: str, text: str, *values: object) -> None:
        if key in self._said:
            return
        self._said[key] = None
        for one in list(self._said)[:-SAID_COUNT]:
            self._said.pop(one, None)
        logger.error(text, *values)
