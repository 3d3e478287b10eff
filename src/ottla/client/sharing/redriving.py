"""Dead letters of share groups, sent back to the topics that they came from.

A dead letter says in its headers where its record was (KIP-1191), and may have no copy of it: then
the record is read again. What is sent back and how far the dead letters are read is committed in
one transaction, so that no dead letter is lost, and none is sent back twice.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.client.connecting.target import Target
from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.records import ConsumerRecord
from ottla.client.consumer.simple import SimpleConsumer
from ottla.client.producing.producer import Producer
from ottla.client.refusals import RefusedError
from ottla.record.record import Headers

PREFIX: Final = "__dlq."
ERRORS: Final = f"{PREFIX}errors."
AT_ONCE = 500
"""Dead letters of one transaction."""

POLL_S = 0.5
NO_HEADERS = "it has no headers of a dead letter"
IS_GONE = "it has no copy of its record, which is deleted"


class Redriven(NamedTuple):
    """A dead letter at `place` and `offset`; `left` says why it is not sent back."""

    place: TopicPartition
    offset: int
    origin: TopicPartition | None
    origin_offset: int
    message: str
    left: str | None


class Redrive:
    """Use it in a `with` statement."""

    def __init__(self, target: Target, topic: str, settings: Mapping[str, Any]) -> None:
        """`settings` are those of connections. Raises `UnknownTopicError`."""
        self.group = f"ottla-redrive-{topic}"
        """The consumer group that has the offset up to which dead letters were sent back."""
        self._stack = ExitStack()
        self._target, self._settings = target, dict(settings)
        reading = {
            **settings,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        with ExitStack() as stack:
            self._consumer = stack.enter_context(Consumer(target, self.group, settings=reading))
            self._originals = stack.enter_context(SimpleConsumer(target, settings=settings))
            places = [(topic, one) for one in self._consumer.partitions_for_topic(topic)]
            self._consumer.assign(places)
            self._ends = self._consumer.end_offsets(places)
            self._stack = stack.pop_all()

    def __enter__(self) -> "Redrive":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def plan(self, most: int | None = None) -> Iterator[Redriven]:
        """What `run` would do, without doing it."""
        for batch in self._batches(most):
            for letter in batch:
                yield self._read(letter)[0]

    def run(self, most: int | None = None) -> Iterator[Redriven]:
        """Sends dead letters back, up to those that are there now; yields each one once it is
        committed. Raises `UserError`; what was not committed is not sent.
        """
        settings = {**self._settings, "transactional.id": self.group}
        with Producer(self._target, settings=settings) as producer:
            for batch in self._batches(most):
                with producer.transaction():
                    done = [self._send(producer, letter) for letter in batch]
                    offsets = {one.place: one.offset + 1 for one in done}
                    producer.send_offsets_to_transaction(offsets, self._consumer)
                yield from done

    def _batches(self, most: int | None) -> Iterator[list[ConsumerRecord]]:
        """Dead letters, up to the ends at the beginning."""
        left = most
        while any(self._is_before_end(one) for one in self._ends):
            found = self._consumer.poll_many(
                AT_ONCE if left is None else min(left, AT_ONCE), POLL_S
            )
            batch = [one for one in found if one.offset < self._ends[one.topic_partition]]
            if batch:
                yield batch
            if left is not None:
                left -= len(batch)
                if not left:
                    return

    def _is_before_end(self, place: TopicPartition) -> bool:
        position = self._consumer.position(place)
        return self._ends[place] > 0 and (position is None or position < self._ends[place])

    def _send(self, producer: Producer, letter: ConsumerRecord) -> Redriven:
        found, key, value, headers = self._read(letter)
        if found.left is None:
            assert found.origin is not None
            topic, partition = found.origin
            producer.send(topic, value, key, partition=partition, headers=headers)
        return found

    def _read(self, letter: ConsumerRecord) -> tuple[Redriven, Any, Any, Headers]:
        """A dead letter with key, value and headers of its record."""
        said = {
            name.removeprefix(ERRORS): (value or b"").decode("utf-8", "replace")
            for name, value in letter.headers
            if name.startswith(ERRORS)
        }
        place, offset = letter.topic_partition, letter.offset
        try:
            origin = TopicPartition(said["topic"], int(said["partition"]))
            origin_offset = int(said["offset"])
        except (KeyError, ValueError):
            return Redriven(place, offset, None, -1, "", NO_HEADERS), None, None, ()
        key, value = letter.key, letter.value
        headers = tuple(one for one in letter.headers if not one[0].startswith(PREFIX))
        left = None
        if key is None and value is None and not headers:
            original = self._original(origin, origin_offset)
            if original is None:
                left = IS_GONE
            else:
                key, value, headers = original.key, original.value, original.headers
        found = Redriven(place, offset, origin, origin_offset, said.get("message", ""), left)
        return found, key, value, headers

    def _original(self, place: TopicPartition, offset: int) -> ConsumerRecord | None:
        try:
            found = self._originals.fetch(*place, offset)
        except RefusedError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                return None
            raise
        except UserError as error:
            raise UserError(
                f"{place} offset {offset}, of which there is a dead letter: {error}"
            ) from error
        return found[0] if found and found[0].offset == offset else None
