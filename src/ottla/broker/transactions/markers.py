"""Markers, which end transactions in the partitions that they wrote to.

A marker moves the last stable offset, an abort is added to the transaction index, and offsets of
groups take effect or are dropped. Kafka's counterparts: `KafkaApis.handleWriteTxnMarkers`,
`TransactionMarkerChannelManager`.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import CONSUMER_OFFSETS, TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.coordination.internal_topic import CoordinatorBroker
from ottla.broker.coordination.refused_writes import RefusedWrites
from ottla.broker.membership.marker_requests import Marker, MarkerErrors, MarkerRequest, SentMarker
from ottla.broker.topics.partition import Partition
from ottla.broker.transactions.marker_sender import DONE
from ottla.broker.waiting.rooms import DelayedOperation
from ottla.coordinator.transaction.transaction import FIRST_EPOCH_BUMP_VERSION
from ottla.record.batch import BuiltBatch
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.log.producer_state import AppendOrigin, ProducerState

What = TypeVar("What")

ACKS_LEADER = 1
ACKS_ALL = -1

COMMIT_TIMEOUT_MS: Final = 30_000.0
"""Kafka's default of request.timeout.ms, after which a coordinator sends its markers again."""


class OffsetsInTransactions(Protocol):
    """The receiver of markers in the offsets topic."""

    def check_marker(self, index: int) -> None:
        """Raises `ApiError` while a partition must not take markers."""

    def end_transaction(self, index: int, producer_id: int, *, is_commit: bool) -> None: ...


class Written(NamedTuple):
    """The partition of a marker, and the offset after the marker."""

    partition: Partition
    end: int


class Commit(Generic[What]):
    """The markers that other replicas must have, in a cluster, before they are acknowledged.

    `then` is called once they have all, or the time is up.
    """

    def __init__(self, monotonic_ms: float, then: Callable[[], None] | None = None) -> None:
        self.pending: Final = DelayedOperation(monotonic_ms + COMMIT_TIMEOUT_MS, then)
        self._awaited: list[tuple[Hashable, What]] = []

    def wait(self, written: Written, what: What) -> None:
        replication = written.partition.replication
        if replication is not None and written.end > written.partition.log.high_watermark:
            self._awaited.append((replication.await_commit(self.pending, written.end), what))

    def begin(self) -> bool:
        """Returns whether something is awaited, when all markers are appended."""
        return bool(self._awaited) and not self.pending.all_awaited()

    def results(self) -> Iterator[tuple[What, ErrorCode]]:
        """The error of everything that was awaited, in the end."""
        for key, what in self._awaited:
            yield what, self.pending.errors.get(key, ErrorCode.NONE)


class Markers:
    def __init__(self, broker: CoordinatorBroker, offsets: OffsetsInTransactions) -> None:
        self._broker = broker
        self._offsets = offsets
        self._refused_writes = RefusedWrites()

    def write_all(
        self, request: MarkerRequest, at: Timestamps, then: Callable[[MarkerErrors], None]
    ) -> MarkerErrors | None:
        """Appends the markers of a request; returns the error of each.

        Returns `None` if other replicas must have some of them first: `then` gets the errors.
        """
        errors: dict[tuple[int, TopicPartition], ErrorCode] = {}

        def committed() -> None:
            errors.update(commit.results())
            then(errors)

        commit = Commit[tuple[int, TopicPartition]](at.monotonic_ms, committed)
        for sent in request.markers:
            for place in sent.partitions:
                which = (sent.marker.producer_id, place)
                try:
                    commit.wait(self._write_again(sent, place, at.now_ms), which)
                    errors[which] = ErrorCode.NONE
                    self._refused_writes.written(place)
                except ApiError as error:
                    errors[which] = error.code
                    if error.code not in DONE:
                        whose = f"markers of transactions such as {sent.transactional_id}"
                        self._refused_writes.refused(place, whose, error)
        return None if commit.begin() else errors

    def _write_again(self, sent: SentMarker, place: TopicPartition, now_ms: int) -> Written:
        """Appends a marker, unless the partition has it; raises `ApiError`."""
        if not sent.is_repeated or self.is_missing(sent.marker, *place):
            return self.write(sent.marker, *place, now_ms=now_ms)
        partition = self._broker.topics.online_partition(*place)
        partition.check_leader()
        return Written(partition, partition.log.log_end_offset)

    def is_missing(self, marker: Marker, topic: str, index: int) -> bool:
        """Whether a partition lacks this marker, by the state of the producer there.

        Raises `ApiError` for a partition that is not online.
        """
        partition = self._broker.topics.online_partition(topic, index)
        entry = partition.log.producers.entries.get(marker.producer_id)
        if entry is None:
            return True
        return entry.transaction_first_offset is not None or entry.epoch < marker.epoch

    def write(self, marker: Marker, topic: str, index: int, *, now_ms: int) -> Written:
        """Appends a marker; raises `ApiError`.

        The marker takes effect when it is written out, in a cluster when it is committed.
        """
        end = EndTransactionMarker(
            is_commit=marker.is_commit, coordinator_epoch=marker.coordinator_epoch
        )
        partition = self._broker.topics.online_partition(topic, index)
        _check(marker, end, partition.log.producers)
        if topic == CONSUMER_OFFSETS:
            self._offsets.check_marker(index)
        batch = build_end_transaction_marker(
            end,
            producer_id=marker.producer_id,
            producer_epoch=marker.epoch,
            timestamp_ms=now_ms,
        )
        info = self._broker.appends.append(
            partition,
            BuiltBatch(bytearray(batch)),
            now_ms=now_ms,
            acks=ACKS_LEADER if partition.replication is None else ACKS_ALL,
            origin=AppendOrigin.COORDINATOR,
        )
        if topic == CONSUMER_OFFSETS:
            self._offsets.end_transaction(index, marker.producer_id, is_commit=marker.is_commit)
        return Written(partition, info.last_offset + 1)


def _check(marker: Marker, end: EndTransactionMarker, producers: ProducerState) -> None:
    """From transactions version 2 on, a marker's epoch must be above the epoch that it ends
    (KIP-1228).
    """
    producers.check_marker(marker.producer_id, end)
    entry = producers.entries.get(marker.producer_id)
    is_bumped = marker.client_version >= FIRST_EPOCH_BUMP_VERSION
    if entry is not None and is_bumped and marker.epoch <= entry.epoch:
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
