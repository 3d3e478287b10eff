"""A partition's batches from one offset to another, and those of them that are committed.

While one response is processed, the next one is already requested over the same connection, and
waits in the system's socket buffer. Kafka's counterparts: `Fetcher`, `CompletedFetch`.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

from ottla.base.errors import ApiError, UnreachableError, UserError
from ottla.client.bulk.reading import Fetched, FetchFrom, epoch_end_offset, fetch, send_fetch
from ottla.client.connecting.cluster import PASSING, Cluster
from ottla.record.batch import NO_LEADER_EPOCH, Batch, InvalidBatchError, batch_at, kept_runs
from ottla.record.layout import LENGTH_END, OFFSET_AND_LENGTH

Answer = Callable[[], Fetched]


class TruncatedError(UserError):
    """The log was truncated below what has been read, and other records may be there now."""

    def __init__(self, wanted: FetchFrom, end_offset: int) -> None:
        super().__init__(
            f"{wanted.topic}-{wanted.partition}: the log was truncated to offset {end_offset} "
            f"while it was read, below {wanted.offset}; run it again"
        )


def fetches(cluster: Cluster, wanted: FetchFrom, until_offset: int) -> Iterator[Fetched]:
    """Yields responses with whole batches until the range is read.

    A response may be empty, and the request is then repeated: the caller decides when to give up.
    Raises `ApiError` for a permanent error, or one that lasts too long, `UnreachableError`,
    `InvalidBatchError`, and `TruncatedError`.
    """
    asked, on_its_way = wanted, None
    epoch = NO_LEADER_EPOCH
    while asked.offset < until_offset:
        found = _answer(cluster, asked, on_its_way)
        if found.throttle_ms:
            cluster.sleep(found.throttle_ms / 1000)
        records, last = whole_batches(found.records, asked)
        if last is not None:
            _check_continues(cluster, asked, epoch, batch_at(records).partition_leader_epoch)
            epoch = last.partition_leader_epoch
            asked = replace(asked, offset=last.next_offset)
        on_its_way = _send_ahead(cluster, asked) if asked.offset < until_offset else None
        yield replace(found, records=records, next_offset=asked.offset)


def committed_runs(found: Fetched) -> Iterator[memoryview]:
    """The batches without those of aborted transactions, in runs; control batches may be
    included.
    """
    if not found.aborted:
        return iter([found.records])
    return kept_runs(found.records, aborted_in(found))


def aborted_in(found: Fetched) -> Callable[[Batch], bool]:
    """Whether each batch of a response belongs to an aborted transaction, in their order."""
    return _Aborted(found.aborted).covers


class _Aborted:
    """The aborted transactions of one response: each ends at its producer's next control batch.

    Kafka: `CompletedFetch.nextFetchedRecord`.
    """

    def __init__(self, aborted: tuple[tuple[int, int], ...]) -> None:
        self._to_begin = deque(sorted(aborted, key=lambda one: one[1]))
        self._producers: set[int] = set()

    def covers(self, batch: Batch) -> bool:
        """Must be called for every batch, in the log's order."""
        while self._to_begin and self._to_begin[0][1] <= batch.last_offset:
            self._producers.add(self._to_begin.popleft()[0])
        if batch.is_control:
            self._producers.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._producers


def _answer(cluster: Cluster, wanted: FetchFrom, on_its_way: Answer | None) -> Fetched:
    if on_its_way is not None:
        try:
            return on_its_way()
        except UnreachableError:
            pass
        except ApiError as error:
            if error.code not in PASSING:
                raise
    return cluster.ask_leader(wanted.topic, wanted.partition, lambda broker: fetch(broker, wanted))


def _send_ahead(cluster: Cluster, wanted: FetchFrom) -> Answer | None:
    """An error here occurs again when the response is needed, and is handled there."""
    try:
        return send_fetch(cluster.leader(wanted.topic, wanted.partition), wanted)
    except (ApiError, UnreachableError):
        return None


def whole_batches(records: memoryview, asked: FetchFrom) -> tuple[memoryview, Batch | None]:
    """Drops a last batch that is cut short, as brokers send it; returns the last complete one
    too.
    """
    position, last = 0, -1
    while position + LENGTH_END <= len(records):
        size = OFFSET_AND_LENGTH.unpack_from(records, position)[1] + LENGTH_END
        if size <= LENGTH_END or position + size > len(records):
            break
        last = position
        position += size
    if last < 0:
        if len(records):
            raise UserError(
                f"{asked.topic}-{asked.partition}: the batch at offset {asked.offset} is larger "
                f"than the {asked.max_size} bytes that are fetched at once"
            )
        return records, None
    batch = batch_at(records, last)
    if batch.next_offset <= asked.offset:
        raise InvalidBatchError(f"all batches end before the requested offset {asked.offset}")
    return records[:position], batch


def _check_continues(cluster: Cluster, asked: FetchFrom, before: int, now: int) -> None:
    """The leader of later batches must have had all earlier ones (KIP-320).

    Batches carry the epochs. Within one epoch a single leader has written, and in order.
    """
    if not NO_LEADER_EPOCH < before < now:
        return
    end_offset = cluster.ask_leader(
        asked.topic,
        asked.partition,
        lambda broker: epoch_end_offset(broker, asked.topic, asked.partition, before),
    )
    if end_offset is not None and end_offset < asked.offset:
        raise TruncatedError(asked, end_offset)
