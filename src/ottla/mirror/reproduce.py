"""Produces the committed records of a source to any Kafka cluster, exactly once, with new offsets.

Each transaction has some records of a partition, and commits the source's next offset for the
mirror's group. An interrupted mirror aborts its transaction. After a crash, the next mirror with
the same name aborts it, before it reads the committed offset (KIP-447). Keys, values, headers,
timestamps and partitions are kept; batches, producers and leader epochs are not. An offset is
committed with the log that it belongs to (`positions`).
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from itertools import islice
from typing import Any

from ottla.base.errors import ApiError, CorruptionError, UserError
from ottla.base.extras import needed_for
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.client.connecting.security import librdkafka_settings
from ottla.mirror.mirror import OnProgress, PartitionReport, RoundReport, empty_reports
from ottla.mirror.plan import Gap, Refusal
from ottla.mirror.positions import (
    UNKNOWN,
    Origin,
    Position,
    Restart,
    check_content,
    compare_origins,
    parse_position,
    sent,
)
from ottla.mirror.source import Bounds, Selection, Source, SourceTopic
from ottla.mirror.throttle import Throttle
from ottla.record.batch import InvalidBatchError
from ottla.record.record import Record

ANSWER_S = 30.0
GRACE_S = 2.0
"""Additional seconds for calls that end after their timeout."""

RECORDS_PER_TRANSACTION = 10_000
SIZE_PER_TRANSACTION = 8 << 20
NO_OFFSET = -1001
"""The offset in librdkafka for a partition without a committed offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproduceOptions:
    """Options of a `Reproducer`.

    `name` is the consumer group and the transactional id, for one mirror at a time. `client` are
    additional settings for librdkafka, such as those of TLS.
    """

    selection: Selection = field(default_factory=Selection)
    allow_gaps: bool = False
    name: str = "ottla-mirror"
    client: dict[str, str] = field(default_factory=dict)


class Reproducer:
    """Produces a source's records to a cluster; use it in a `with` statement.

    Needs the package `confluent-kafka`.
    """

    def __init__(
        self,
        source: Source,
        bootstrap: str,
        options: ReproduceOptions,
        *,
        throttle: Throttle,
        on_progress: OnProgress = lambda _: None,
    ) -> None:
        """Fences other mirrors of the same name; raises `UserError` if no broker responds."""
        self._source = source
        self._options = options
        self._throttle = throttle
        self._on_progress = on_progress
        self._place = bootstrap
        self._compared: set[tuple[tuple[str, int], Uuid | None]] = set()
        """Partitions whose last record is known to be the one that was sent."""
        self._kafka = _client_module()
        client = {"bootstrap.servers": bootstrap, **librdkafka_settings(options.client)}
        with self._as_user_errors():
            self._producer = self._kafka.Producer(
                {**client, "transactional.id": options.name, "compression.type": "lz4"}
            )
            self._group = self._kafka.Consumer(
                {**client, "group.id": options.name, "enable.auto.commit": False}
            )
            self._admin = _admin_module().AdminClient(client)
            self._producer.init_transactions(ANSWER_S)

    def __enter__(self) -> "Reproducer":
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is not None:
            self._abort()
        self._group.close()

    def run_round(self) -> RoundReport:
        """Produces the new records of each partition, up to its current last stable offset."""
        report = RoundReport()
        topics = self._source.topics(self._options.selection)
        reports = empty_reports(topics)
        for topic in self._prepared(topics, report):
            for one in reports[topic.name]:
                self._send_partition(topic, one)
                report.partitions.append(one)
        return report

    def _abort(self) -> None:
        """Aborts the transaction, so that readers need not wait for its timeout."""
        # On failure, the next mirror of the name aborts it. Without this, librdkafka 2.16 may end
        # the process when a producer is freed that still has partitions to add to a transaction:
        # "Assertion `rk->rk_eos.txn_req_cnt > 0' failed".
        with suppress(self._kafka.KafkaException):
            self._producer.abort_transaction(GRACE_S)

    # Topics

    def _prepared(self, topics: list[SourceTopic], report: RoundReport) -> Iterator[SourceTopic]:
        """The topics that exist in the target; creates missing ones, and refuses smaller ones."""
        with self._as_user_errors():
            known = self._admin.list_topics(timeout=ANSWER_S).topics
        for topic in topics:
            there = known.get(topic.name)
            if there is None:
                self._create(topic)
            elif len(there.partitions) < topic.partition_count:
                report.refused_topics[topic.name] = (
                    f"the target has {len(there.partitions)} partitions, the source "
                    f"{topic.partition_count}; add partitions to the target"
                )
                continue
            yield topic

    def _create(self, topic: SourceTopic) -> None:
        new = _admin_module().NewTopic(
            topic.name,
            num_partitions=topic.partition_count,
            config=dict(topic.overrides or {}),
        )
        with self._as_user_errors():
            self._admin.create_topics([new], request_timeout=ANSWER_S)[topic.name].result()

    # Partitions

    def _send_partition(self, topic: SourceTopic, report: PartitionReport) -> None:
        try:
            self._bring_up(topic, report)
        except (ApiError, CorruptionError, InvalidBatchError) as error:
            report.refusal = str(error)

    def _bring_up(self, topic: SourceTopic, report: PartitionReport) -> None:
        origin = Origin(cluster_id=self._source.cluster_id, topic_id=topic.topic_id)
        bounds = self._source.bounds(report.topic, report.partition)
        report.source_end = bounds.stable
        known = self._committed(report.topic, report.partition)
        if known is not None:
            report.from_offset = report.until_offset = known.offset
            found = compare_origins(known, origin, self._options.name)
            if isinstance(found, Restart):
                report.note = found.reason
                known = None
            else:
                found = found or self._check(topic, report, known, bounds)
            if isinstance(found, Refusal):
                report.refusal = found.reason
                return
        start = bounds.start if known is None else max(known.offset, bounds.start)
        report.from_offset = report.until_offset = start
        if start < bounds.stable:
            last = None if known is None else known.last
            self._send(report, Position(offset=bounds.stable, origin=origin, last=last))

    def _check(
        self, topic: SourceTopic, report: PartitionReport, known: Position, bounds: Bounds
    ) -> Refusal | None:
        """Compares a position with the source's records, and notes what the source has deleted."""
        if known.origin == UNKNOWN:
            report.note = (
                f"the position {known.offset:,} does not say of which source it is: it is taken "
                "to be of this one"
            )
        place, last = (report.topic, report.partition), known.last
        is_proven = topic.topic_id is not None and topic.topic_id == known.origin.topic_id
        record = None
        if last is not None and bounds.start <= last.offset < bounds.end:
            if is_proven and (place, topic.topic_id) in self._compared:
                return None
            asked = self._source.committed_records(*place, last.offset, last.offset + 1)
            record = next(iter(asked), None)
        refusal = check_content(
            known, bounds, record, may_be_gone=is_proven or topic.is_compacted
        ) or self._gap(report, known, bounds)
        if refusal is None:
            self._compared.add((place, topic.topic_id))
        return refusal

    def _gap(self, report: PartitionReport, known: Position, bounds: Bounds) -> Refusal | None:
        if known.offset >= bounds.start:
            return None
        gap = Gap(known.offset, bounds.start)
        if not self._options.allow_gaps:
            return Refusal(
                f"offsets {gap.from_offset:,} to {gap.until_offset - 1:,} were removed from "
                "the source before they were sent; --allow-gaps continues without them"
            )
        report.gaps.append(gap)
        return None

    def _committed(self, topic: str, index: int) -> Position | None:
        with self._as_user_errors():
            asked = [self._kafka.TopicPartition(topic, index)]
            (found,) = self._group.committed(asked, timeout=ANSWER_S)
        if found.offset == NO_OFFSET:
            return None
        return parse_position(int(found.offset), found.metadata)

    def _send(self, report: PartitionReport, wanted: Position) -> None:
        until, last = wanted.offset, wanted.last
        records = self._source.committed_records(
            report.topic, report.partition, report.until_offset, until
        )
        while report.until_offset < until:
            some = list(islice(up_to_size(records, SIZE_PER_TRANSACTION), RECORDS_PER_TRANSACTION))
            next_offset = some[-1].offset + 1 if some else until
            last = sent(some[-1]) if some else last
            self._send_together(report, some, replace(wanted, offset=next_offset, last=last))
            report.size += sum(map(size_of, some))
            report.until_offset = next_offset
            self._on_progress(report)
            self._throttle.take(sum(map(size_of, some)))

    def _send_together(
        self, report: PartitionReport, records: list[Record], position: Position
    ) -> None:
        """One transaction: the records, and the source's next offset."""
        with self._as_user_errors():
            self._producer.begin_transaction()
            for record in records:
                self._produce(report, record)
            place = self._kafka.TopicPartition(
                report.topic, report.partition, position.offset, position.metadata()
            )
            group = self._group.consumer_group_metadata()
            send_offsets = self._producer.send_offsets_to_transaction
            within(ANSWER_S + GRACE_S, lambda: send_offsets([place], group, ANSWER_S))
            self._producer.commit_transaction(ANSWER_S)

    def _produce(self, report: PartitionReport, record: Record) -> None:
        extra = {} if record.timestamp_ms < 0 else {"timestamp": record.timestamp_ms}
        while True:
            try:
                self._producer.produce(
                    report.topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=report.partition,
                    **extra,
                )
            except BufferError:
                self._producer.poll(0.1)
                continue
            return

    @contextmanager
    def _as_user_errors(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise UserError(
                f"{self._place}: no response; run the command again to continue where it stopped"
            ) from error
        except self._kafka.KafkaException as error:
            fault = error.args[0]
            if fault.code() == self._kafka.KafkaError._FENCED:
                reason = (
                    f"another mirror named {self._options.name} has taken over; run only one, or "
                    "give this one another --name"
                )
            else:
                reason = f"{fault.str()}; run the command again to continue where it stopped"
            raise UserError(f"{self._place}: {reason}") from error


def within(seconds: float, call: Callable[[], None]) -> None:
    """Makes a call that may never return; raises `TimeoutError` after some seconds.

    librdkafka ignores the timeout while it waits for a group's coordinator (its #5456). The thread
    of the call then continues, but the process does not wait for it.
    """
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            call()
            outcome.set_result(None)
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    outcome.result(seconds)


def up_to_size(records: Iterator[Record], size: int) -> Iterator[Record]:
    """Yields records until their total size reaches `size` bytes, at least one."""
    taken = 0
    for record in records:
        yield record
        taken += size_of(record)
        if taken >= size:
            return


def size_of(record: Record) -> int:
    """The bytes of key and value."""
    return len(record.key or b"") + len(record.value or b"")


def _client_module() -> Any:
    with needed_for("sending to a cluster"):
        import confluent_kafka
    return confluent_kafka


def _admin_module() -> Any:
    from confluent_kafka import admin

    return admin
