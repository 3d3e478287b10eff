"""Sends the records of a command to a topic, through `ottla.Producer`."""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ottla.base.values import dataclass
from ottla.cli.records.new_record import NewRecord
from ottla.client.connecting.target import Target
from ottla.client.producing.producer import Producer
from ottla.client.producing.sending import Sending

GRACE_S = 2.0
"""Seconds to wait for records in flight when a command is interrupted."""

DEFAULTS = {
    "batch.size": "262144",
    "delivery.timeout.ms": "30000",
    # When the input pauses, `flush` sends incomplete batches.
    "linger.ms": "100",
    # The topic's max.message.bytes limits the size of a record.
    "max.request.size": str(2**31 - 1),
}


@dataclass(slots=True)
class Written:
    """The records of a command in one partition: how many, the first offset, and the end.

    Other producers' records may be in between. The offsets are -1 without acknowledgements.
    """

    partition: int
    records: int = 0
    first_offset: int = -1
    next_offset: int = -1

    def add(self, offset: int) -> None:
        self.records += 1
        if offset >= 0:
            self.first_offset = min(offset, self.first_offset) if self.next_offset >= 0 else offset
            self.next_offset = max(self.next_offset, offset + 1)


class RecordSender:
    """Sends records to one topic; the first refusal raises its error.

    `written` has what was acknowledged by partition, if requested; `kept` are the number and bytes
    of records in total.
    """

    def __init__(self, producer: Producer, topic: str, written: dict[int, Written] | None) -> None:
        self._producer = producer
        self._topic = topic
        self._unanswered: deque[tuple[Sending, int]] = deque()
        self._written = written
        self.kept = self.kept_size = 0
        self.has_failed = False

    def send(self, record: NewRecord) -> None:
        """Sends a record; may return before it is acknowledged, or even sent."""
        sending = self._producer.send(
            self._topic,
            record.value,
            record.key,
            partition=record.partition,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
        )
        self._unanswered.append((sending, record.size))
        self._take_answers()

    def flush(self) -> None:
        """Returns once all records are acknowledged."""
        self._producer.flush()
        self._take_answers()

    def _take_answers(self) -> None:
        while self._unanswered and self._unanswered[0][0].done():
            sending, size = self._unanswered.popleft()
            error = sending.exception()
            if error is not None:
                self.has_failed = True
                raise error
            self.kept += 1
            self.kept_size += size
            if self._written is not None:
                sent = sending.result()
                here = self._written.setdefault(sent.partition, Written(sent.partition))
                here.add(sent.offset)

    def count_rest(self) -> None:
        """Counts what a closed producer still got acknowledged after the first refusal."""
        sizes = [size for one, size in self._unanswered if one.done() and one.exception() is None]
        self.kept += len(sizes)
        self.kept_size += sum(sizes)


@contextmanager
def record_sender(
    target: Target,
    topic: str,
    settings: Mapping[str, str],
    written: dict[int, Written] | None = None,
) -> Iterator[RecordSender]:
    """Sends what is left at the end of the `with` block; raises `UserError`.

    With a transactional id all records are one transaction, which an exception aborts. Without one,
    records sent before an exception stay.
    """
    producer = Producer(target, settings={**DEFAULTS, **settings})
    sender = RecordSender(producer, topic, written)
    try:
        producer.partitions_for(topic)  # A missing topic is reported before any input is read.
        if settings.get("transactional.id"):
            with producer.transaction():
                yield sender
        else:
            yield sender
        sender.flush()
    except Exception:
        producer.close(GRACE_S if sender.has_failed else None)
        sender.count_rest()
        raise
    except BaseException:
        producer.close(GRACE_S)
        raise
    producer.close()
