"""A partition's batches from one offset to another, and what of them a committed reader sees.

While one answer is worked on, the next one is on its way over the same connection, and in the
system's socket buffer. Kafka's counterparts: `Fetcher`, `CompletedFetch`.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

from ottla.base.errors import ApiError, UserError
from ottla.client.cluster import PASSING, Cluster
from ottla.client.connection import UnreachableError
from ottla.client.reading import Fetched, FetchFrom, fetch, send_fetch
from ottla.record.batch import (
    LENGTH_END,
    OFFSET_AND_LENGTH,
    Batch,
    InvalidBatchError,
    batch_at,
    kept_runs,
)

Answer = Callable[[], Fetched]


def fetches(cluster: Cluster, wanted: FetchFrom, until_offset: int) -> Iterator[Fetched]:
    """Answers with whole batches, one behind the other until the range is read.

    An answer may be empty, and then the same is asked again: it is for the caller to lose patience.
    Raises `ApiError` for what is refused for good, or too long, `UnreachableError`, and
    `InvalidBatchError`.
    """
    offset, on_its_way = wanted.offset, None
    while offset < until_offset:
        found = _answer(cluster, replace(wanted, offset=offset), on_its_way)
        if found.throttle_ms:
            cluster.sleep(found.throttle_ms / 1000)
        found = _whole(found, wanted, offset)
        offset, on_its_way = found.next_offset, None
        if offset < until_offset:
            on_its_way = _send_ahead(cluster, replace(wanted, offset=offset))
        yield found


def committed_runs(found: Fetched) -> Iterator[memoryview]:
    """The batches without those of aborted transactions, in runs; control batches may be there."""
    if not found.aborted:
        return iter([found.records])
    return kept_runs(found.records, _Aborted(found.aborted).covers)


class _Aborted:
    """The aborted transactions of one answer: each ends at its producer's next control batch.

    Kafka: `CompletedFetch.nextFetchedRecord`.
    """

    def __init__(self, aborted: tuple[tuple[int, int], ...]) -> None:
        self._to_begin = deque(sorted(aborted, key=lambda one: one[1]))
        self._producers: set[int] = set()

    def covers(self, batch: Batch) -> bool:
        """To be asked of every batch, in the log's order."""
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
    """What goes wrong here shows again when the answer is needed, and is seen to there."""
    try:
        return send_fetch(cluster.leader(wanted.topic, wanted.partition), wanted)
    except (ApiError, UnreachableError):
        return None


def _whole(found: Fetched, wanted: FetchFrom, offset: int) -> Fetched:
    """Without the last batch when it is cut short, as brokers send it."""
    position, last = 0, -1
    while position + LENGTH_END <= len(found.records):
        size = OFFSET_AND_LENGTH.unpack_from(found.records, position)[1] + LENGTH_END
        if size <= LENGTH_END or position + size > len(found.records):
            break
        last = position
        position += size
    if last < 0 and len(found.records):
        raise UserError(
            f"{wanted.topic}-{wanted.partition}: the batch at offset {offset} is larger than the "
            f"{wanted.max_size} bytes that are fetched at once"
        )
    next_offset = offset if last < 0 else batch_at(found.records, last).last_offset + 1
    if last >= 0 and next_offset <= offset:
        raise InvalidBatchError(f"all batches lie before offset {offset}, which was asked for")
    return replace(found, records=found.records[:position], next_offset=next_offset)
