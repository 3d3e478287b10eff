"""What both kinds of producers share: from an object to its place in a batch."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Union

from ottla.base.arguments import check_offsets, check_seconds, check_topic_name
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, OttlaError, UserError
from ottla.base.partitions import Offsets, TopicPartition
from ottla.base.values import dataclass
from ottla.client.connecting.settings import client_settings
from ottla.client.connecting.target import Target, open_target
from ottla.client.producing.accumulator import MILLISECONDS, Accumulator, Row, size_of
from ottla.client.producing.batches import OnDelivery
from ottla.client.producing.outcomes import OutcomeCondition
from ottla.client.producing.partitioners import Partitioner, Partitioning
from ottla.client.producing.sender import Sender
from ottla.client.producing.sending import Sending
from ottla.client.producing.serializers import SerializationError, Serializer, serializer_of
from ottla.client.producing.unclosed import UNCLOSED
from ottla.client.refusals import RefusedError, UnknownTopicError
from ottla.config.producer import producer_config
from ottla.runtime.forks import bind_to_process

if TYPE_CHECKING:
    from ottla.client.administration.group_offsets import GroupMetadata
    from ottla.client.consumer.base import ConsumerBase

CLOSED = "this producer is closed; create another"
FORKED = "this producer was created before the fork; create another in the child"
NO_TRANSACTION = "no transaction has begun; send within producer.transaction()"
Group = Union["ConsumerBase", "GroupMetadata", str]
Append = Callable[[str, Row, int | None, OnDelivery | None], Sending | None]


class BufferFullError(UserError):
    """No room in buffer.memory within max.block.ms: brokers are slower than the producer."""


class TransactionError(UserError):
    """A transaction could not be committed, and was aborted.

    >>> with ottla.Producer(log, settings={"transactional.id": "waiter"}) as producer:
    ...     try:
    ...         with producer.transaction():
    ...             future = producer.send("orders", b"tea")
    ...     except ottla.TransactionError:
    ...         future = None  # Nothing was sent: another transaction may.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How an application's objects become bytes, and how a partition is chosen."""

    key: Serializer | None = None
    value: Serializer | None = None
    partitioner: Partitioner | None = None


def _member_of(group: object, places: Collection[TopicPartition]) -> "GroupMetadata":
    """Whose offsets these are; raises `CommitFailedError` if the consumer has lost some of them."""
    from ottla.client.administration.group_offsets import GroupMetadata
    from ottla.client.consumer.base import ConsumerBase, metadata_for

    if isinstance(group, ConsumerBase):
        return metadata_for(group, places)
    if isinstance(group, str) and group:
        return GroupMetadata(group=group)
    if isinstance(group, GroupMetadata):
        return group
    raise UserError(
        "offsets belong to a group: pass the ottla.Consumer that read the records, or its "
        f"group_metadata(), or the name of a group without members, not {group!r}"
    )


def check_callback(callback: object) -> None:
    """Raises `UserError` for what cannot be called when a record is delivered."""
    if callback is not None and not callable(callback):
        raise UserError(f"on_delivery is a function of an error and a record, not {callback!r}")


class ProducerCore:
    """Any thread may call it."""

    def __init__(
        self,
        target: Target,
        settings: Mapping[str, Any] | None,
        encoding: Encoding,
        sending_class: type[Sending] = Sending,
    ) -> None:
        self.config, client = client_settings(settings, producer_config)
        self._key = serializer_of(encoding.key)
        self._value = serializer_of(encoding.value)
        self.has_serializers = self._key is not None or self._value is not None
        partitioning = Partitioning(encoding.partitioner or self.config.partitioner)
        self._accumulator = Accumulator(self.config, partitioning, sending_class)
        self.append: Append = self._accumulator.append
        self._lock = self._accumulator.lock
        self._has_offsets = False
        self._end_of_use: str | None = None
        self.cluster = open_target(target, client, may_make=True)
        self.sender = Sender(self.cluster, self.config, self._accumulator)
        self._set_in_transaction(False)
        bind_to_process(self)
        self.sender.start()

    def abandon(self) -> None:
        """For a forked child, which has neither the sending thread nor the threads that held locks.

        Pending records get no outcome: they belong to the parent.
        """

        def refuse(*_: object) -> None:
            self._check_open()

        self._lock = OutcomeCondition()
        if self._end_of_use is None:
            self._refuse(FORKED)
        self.append = refuse
        for batch in self._accumulator.unfinished:
            batch.lock = self._lock
            batch.error = UserError(FORKED)
            batch.is_done = True

    def _refuse(self, reason: str) -> None:
        """Refuses further records permanently."""
        self._end_of_use = self._accumulator.refusal = reason

    @property
    def is_in_transaction(self) -> bool:
        return self.sender.is_in_transaction

    def _set_in_transaction(self, is_in_transaction: bool) -> None:
        self.sender.is_in_transaction = is_in_transaction
        needs_one = bool(self.config.transactional_id) and not is_in_transaction
        self._accumulator.refusal = self._end_of_use or (NO_TRANSACTION if needs_one else None)

    # Records

    def serialized(self, key: Any, value: Any) -> tuple[Any, Any]:
        """Serializes an application's objects; raises what its own serializers raise."""
        what = "key"
        try:
            if key is not None and self._key is not None:
                key = self._key(key)
            what = "value"
            if value is not None and self._value is not None:
                value = self._value(value)
        except SerializationError as error:
            raise SerializationError(f"the {what} cannot be serialized: {error}") from error
        return key, value

    def knows(self, topic: str) -> bool:
        """Whether `append` accepts records of a topic; otherwise look it up."""
        return self._accumulator.knows(topic)

    def look_up(self, topic: str) -> int:
        """Asks for a topic's partition count; raises `UnknownTopicError`, and `RefusedError` for a
        name that no topic can have.
        """
        self._check_open()
        check_topic_name(topic)
        with self.sender.cluster_lock:
            try:
                found = self.cluster.look_for(topic)
            except ApiError as error:
                if error.code is not ErrorCode.INVALID_TOPIC_EXCEPTION:
                    raise
                raise RefusedError(f"topic {topic!r}", error) from error
            if found is None:
                raise UnknownTopicError(topic, self.cluster.topic_names())
        with self._lock:
            self._accumulator.learn(topic, len(found.leaders))
        return len(found.leaders)

    def wait_for_room(self, row: Row) -> None:
        """Returns when there is room for a record; raises `BufferFullError`."""
        size = size_of(row)
        with self._lock:
            if not self._lock.wait_for(
                lambda: self._accumulator.has_room(size) or self._end_of_use is not None,
                self.config.max_block_ms / MILLISECONDS,
            ):
                raise BufferFullError(
                    f"no room for a record within max.block.ms={self.config.max_block_ms}: "
                    "raise buffer.memory, or send more slowly"
                )

    def flush(self, timeout_s: float | None) -> int:
        """Waits until earlier records have their outcome, and callbacks have been called.

        Returns how many records do not.
        """
        timeout_s = None if timeout_s is None else check_seconds(timeout_s)
        with self._lock:
            self._check_open()
        return self.sender.flush(timeout_s)

    @property
    def is_closed(self) -> bool:
        """Whether the producer is closed and has nothing left to send."""
        return self._end_of_use is not None

    def close(self, timeout_s: float | None) -> None:
        """Sends what is left, within the timeout, and releases everything."""
        timeout_s = None if timeout_s is None else check_seconds(timeout_s)
        with self._lock:
            if self._end_of_use is not None:
                return
            # In a callback this raises, before anything is refused.
            self._lock.wait_for(lambda: not self.sender.is_own_thread)
            self._refuse(CLOSED)
            self.sender.is_closing = True
            self._lock.notify_all()
        self.sender.join(timeout_s)
        if self.is_in_transaction:
            self._set_in_transaction(False)
            self._end(is_commit=False)
        self.sender.release()

    def __del__(self) -> None:
        if (sender := getattr(self, "sender", None)) is not None:
            UNCLOSED.let_go(sender)

    def metrics(self) -> dict[str, int]:
        """Counts since the start, and the current buffer."""
        with self._lock:
            return self.sender.counts | {
                "records_waiting": self._accumulator.record_count,
                "bytes_waiting": self._accumulator.used,
            }

    def _check_open(self) -> None:
        if self._end_of_use is not None:
            raise UserError(self._end_of_use)

    # Transactions

    def init_transactions(self) -> None:
        """Fences other producers of the same transactional id; raises `RefusedError`."""
        self._check_can_begin()
        with self.sender.cluster_lock:
            self.sender.initialize()

    def begin_transaction(self) -> None:
        self._check_can_begin()
        if self.is_in_transaction:
            raise UserError("a transaction is open already; commit or abort it first")
        if self.sender.identity is None or self.sender.failure is not None:
            self.init_transactions()
        self._set_in_transaction(True)

    def commit_transaction(self) -> None:
        """Raises `TransactionError` if a record could not be sent: then nothing is committed."""
        self._check_transaction()
        self.flush(None)
        failure = self.sender.failure
        self._set_in_transaction(False)
        if failure is not None:
            self._end(is_commit=False)
            raise TransactionError(f"the transaction was aborted: {failure}") from failure
        if not self._end(is_commit=True):
            self.sender.identity = None
            raise TransactionError(
                "the transaction was aborted: it took longer than transaction.timeout.ms="
                f"{self.config.transaction_timeout_ms}, or another producer has its "
                "transactional.id; raise the timeout, or choose another id"
            )

    def abort_transaction(self) -> None:
        """Drops the records of the transaction."""
        self._check_transaction()
        self.flush(None)
        self._set_in_transaction(False)
        self._end(is_commit=False)

    def send_offsets(self, offsets: Offsets, group: Group) -> None:
        """Commits a group's offsets with the transaction, which fails with them."""
        from ottla.client.administration.group_offsets import Committed
        from ottla.client.bulk.transactions import commit_offsets

        self._check_transaction()
        places = check_offsets(offsets)
        member = _member_of(group, places)
        if not places:
            return
        entries = [
            Committed(group=member.group, topic=topic, partition=partition, offset=offset)
            for (topic, partition), offset in places.items()
        ]
        sender = self.sender
        assert sender.identity is not None
        with sender.cluster_lock:
            self._has_offsets = True
            try:
                commit_offsets(self.cluster, sender.identity, member, entries)
            except OttlaError as error:
                # Results without their offsets would be made again.
                sender.failure = sender.failure or error
                raise

    def _check_can_begin(self) -> None:
        self._check_open()
        if not self.config.transactional_id:
            raise UserError(
                "transactions need a name: create the producer with "
                'settings={"transactional.id": NAME}'
            )

    def _check_transaction(self) -> None:
        if not self.is_in_transaction:
            raise UserError("no transaction is open; begin one first")
        self._check_open()

    def _end(self, *, is_commit: bool) -> bool:
        from ottla.client.bulk.transactions import end_transaction

        sender = self.sender
        with sender.cluster_lock:
            if sender.identity is None or not (sender.added or self._has_offsets):
                return True  # The broker does not know it yet.
            try:
                return end_transaction(self.cluster, sender.identity, is_commit=is_commit)
            finally:
                sender.added.clear()
                self._has_offsets = False
