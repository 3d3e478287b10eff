"""What both kinds of share consumers do without asking brokers."""

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.base.arguments import check_topic_names
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.unknown_arguments import answers_unknown_arguments
from ottla.client.connecting.settings import client_settings
from ottla.client.connecting.target import Target, open_target
from ottla.client.consumer.deserializers import Deserializer, deserializer_of
from ottla.client.consumer.records import Decoding
from ottla.client.sharing.core import ShareConsumerCore
from ottla.client.sharing.errors import AcknowledgementResult
from ottla.client.sharing.records import ShareRecord
from ottla.config.share_consumer import share_consumer_config
from ottla.coordinator.share.records_in_flight import AcknowledgeType

if TYPE_CHECKING:
    from ottla.config.typed_settings import ShareConsumerSettings

Listener = Callable[[AcknowledgementResult], Any]
Kinds = type[BaseException] | tuple[type[BaseException], ...]


class ShareConsumerBase:
    """What is read, and what is said of records."""

    @answers_unknown_arguments
    def __init__(
        self,
        target: Target,
        group: str,
        *,
        settings: "ShareConsumerSettings | Mapping[str, Any] | None" = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        on_acknowledged: Listener | None = None,
    ) -> None:
        """`settings` are share consumer settings by Kafka's names. A deserializer is a function of
        bytes, which is not called for null, or "str" or "json". Calls that read, `commit` and
        `close` call `on_acknowledged` with what became of acknowledgements; without it, failures
        are logged.
        """
        if on_acknowledged is not None and not callable(on_acknowledged):
            raise UserError(f"on_acknowledged is a function of results, not {on_acknowledged!r}")
        self._on_acknowledged = on_acknowledged
        decoding = Decoding(
            key=deserializer_of(key_deserializer), value=deserializer_of(value_deserializer)
        )
        self._core = _core_of(
            target, group, settings, decoding, keeps_results=on_acknowledged is not None
        )

    @answers_unknown_arguments
    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Reads topics from now on, with the other members of the group: each record is with one
        of them at a time, also where they share a partition.

        >>> share_consumer.subscribe(["jobs", "orders"])
        >>> sorted(share_consumer.subscription())
        ['jobs', 'orders']
        """
        self._core.subscribe(check_topic_names([topics] if isinstance(topics, str) else topics))

    def subscription(self) -> set[str]:
        """The topics that are read.

        >>> share_consumer.subscription()
        {'jobs'}
        """
        return set(self._core.subscription())

    def unsubscribe(self) -> None:
        """Leaves the group until the next `subscribe`. Records that were returned are still this
        consumer's, until their locks expire.

        >>> share_consumer.unsubscribe()
        >>> share_consumer.subscription()
        set()
        """
        self._core.unsubscribe()

    def assignment(self) -> set[TopicPartition]:
        """The partitions from which this member gets records now, perhaps with others.

        >>> record = share_consumer.poll(timeout=10)
        >>> record.topic_partition in share_consumer.assignment()
        True
        """
        self._core.check_open()
        return self._core.assignment()

    # What is said of records

    def accept(self, record: ShareRecord) -> None:
        """The record is done: nobody gets it again. Does not wait: `commit` does.

        Raises `LockLostError` if something was said of it already, or its lock has expired.

        >>> record = share_consumer.poll(timeout=10)
        >>> share_consumer.accept(record)
        >>> share_consumer.commit()
        """
        self._say(record, AcknowledgeType.ACCEPT)

    def release(self, record: ShareRecord) -> None:
        """The record is delivered again, perhaps to another member, unless that was as often as the
        group's `share.delivery.count.limit` allows. Raises as `accept` does.

        >>> record = share_consumer.poll(timeout=10)
        >>> share_consumer.release(record)
        >>> share_consumer.commit()
        """
        self._say(record, AcknowledgeType.RELEASE)

    def reject(self, record: ShareRecord) -> None:
        """Nobody gets the record again; it goes to the group's dead letter topic, if it has one.
        Raises as `accept` does.

        >>> record = share_consumer.poll(timeout=10)
        >>> share_consumer.reject(record)
        >>> share_consumer.commit()
        """
        self._say(record, AcknowledgeType.REJECT)

    def renew(self, record: ShareRecord) -> None:
        """Locks the record anew, for the group's `share.record.lock.duration.ms` from when the
        broker hears of it. Raises as `accept` does. Needs Kafka 4.2 or Ottla.

        >>> record = share_consumer.poll(timeout=10)
        >>> share_consumer.renew(record)
        >>> share_consumer.accept(record)
        """
        self._say(record, AcknowledgeType.RENEW)

    def ack(self, record: ShareRecord, *, rejects: Kinds = ()) -> "Acknowledging":
        """A block around the work on a record: accepts it at the end, releases it on an exception,
        and rejects it on one of `rejects`. The exception is raised on.

        >>> record = share_consumer.poll(timeout=10)
        >>> with share_consumer.ack(record, rejects=ValueError) as acknowledging:
        ...     if record.value == b"glue":
        ...         acknowledging.reject()
        """
        return Acknowledging(self, record, rejects)

    def _say(self, record: ShareRecord, kind: AcknowledgeType) -> None:
        if not isinstance(record, ShareRecord):
            raise UserError(
                "acknowledge a record that this share consumer returned, not "
                f"{type(record).__name__}"
            )
        self._core.acknowledge(record, kind)


class Acknowledging:
    """The block of `ShareConsumer.ack`; what is said in it is said instead of `accept` at its end.

    >>> record = share_consumer.poll(timeout=10)
    >>> with share_consumer.ack(record) as acknowledging:
    ...     acknowledging.release()
    """

    def __init__(self, consumer: ShareConsumerBase, record: ShareRecord, rejects: Kinds) -> None:
        self._consumer = consumer
        self._record = record
        self._rejects = rejects
        self._is_said = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_said:
            return
        if error is None:
            self.accept()
        elif isinstance(error, self._rejects):
            self.reject()
        else:
            self.release()

    def accept(self) -> None:
        """As `ShareConsumer.accept`.

        >>> with share_consumer.ack(share_consumer.poll(timeout=10)) as acknowledging:
        ...     acknowledging.accept()
        """
        self._consumer.accept(self._record)
        self._is_said = True

    def release(self) -> None:
        """As `ShareConsumer.release`.

        >>> with share_consumer.ack(share_consumer.poll(timeout=10)) as acknowledging:
        ...     acknowledging.release()
        """
        self._consumer.release(self._record)
        self._is_said = True

    def reject(self) -> None:
        """As `ShareConsumer.reject`.

        >>> with share_consumer.ack(share_consumer.poll(timeout=10)) as acknowledging:
        ...     acknowledging.reject()
        """
        self._consumer.reject(self._record)
        self._is_said = True

    def renew(self) -> None:
        """As `ShareConsumer.renew`: for more time, at any place of the block.

        >>> with share_consumer.ack(share_consumer.poll(timeout=10)) as acknowledging:
        ...     acknowledging.renew()
        """
        self._consumer.renew(self._record)


def _core_of(
    target: Target,
    group: str,
    settings: Mapping[str, Any] | None,
    decoding: Decoding,
    *,
    keeps_results: bool,
) -> ShareConsumerCore:
    """Creates the core from an application's arguments; raises `UserError`."""
    if not (isinstance(group, str) and group):
        raise UserError(f"a share group is a name, not {group!r}")
    if "group.id" in (settings or {}):
        raise UserError("group.id: name the group as group=NAME")
    config, client = client_settings(settings, share_consumer_config)
    decoding = Decoding(key=decoding.key, value=decoding.value, check_crcs=config.check_crcs)
    cluster = open_target(target, client)
    try:
        return ShareConsumerCore(cluster, group, config, decoding, keeps_results=keeps_results)
    except BaseException:
        cluster.close()
        raise
