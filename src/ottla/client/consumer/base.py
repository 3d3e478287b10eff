"""What both kinds of consumers do without asking brokers."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ottla.base.arguments import check_offset, check_place, check_places
from ottla.base.errors import ApiError, UserError
from ottla.base.partitions import Offsets, Place, TopicPartition
from ottla.base.unknown_arguments import answers_unknown_arguments
from ottla.client.administration.group_offsets import OUTSIDER, GroupMetadata
from ottla.client.connecting.target import Target
from ottla.client.consumer.arguments import (
    Listener,
    Placed,
    Topics,
    expression_of,
    make_core,
    offsets_to_commit,
    positions_of,
    subscription_of,
)
from ottla.client.consumer.assignors import PartitionAssignor
from ottla.client.consumer.core import ConsumerCore
from ottla.client.consumer.deserializers import Deserializer, deserializer_of
from ottla.client.consumer.errors import CommitFailedError
from ottla.client.consumer.membership import EventKind
from ottla.client.consumer.records import ConsumerRecord, Decoding

if TYPE_CHECKING:
    from ottla.config.typed_settings import ConsumerSettings


class ConsumerBase:
    """Subscriptions, positions and pauses of a consumer."""

    @answers_unknown_arguments
    def __init__(
        self,
        target: Target,
        group: str | None = None,
        *,
        settings: "ConsumerSettings | Mapping[str, Any] | None" = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        assignors: Sequence[PartitionAssignor] = (),
    ) -> None:
        """`settings` are consumer settings by Kafka's names; `assignors` are your own, in order of
        preference. A deserializer is a function of bytes, which is not called for null, or "str" or
        "json".
        """
        decoding = Decoding(
            key=deserializer_of(key_deserializer), value=deserializer_of(value_deserializer)
        )
        self._made_with = (target, group, settings, decoding, assignors)
        self._core = make_core(*self._made_with)
        self._records: Iterator[ConsumerRecord] = iter(())
        self._listeners: Mapping[EventKind, Listener] = {}

    @property
    def _opened(self) -> ConsumerCore:
        """The core; raises `ClosedError` if the consumer is closed, or its process was forked."""
        self._core.check_open()
        return self._core

    @answers_unknown_arguments
    def subscribe(
        self,
        topics: Topics = (),
        *,
        pattern: str | None = None,
        on_assign: Listener | None = None,
        on_revoke: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Reads topics from now on: names, or a regular expression.

        An expression is a compiled one, a text that begins with `^`, or `pattern`. With a group its
        members share the partitions, and calls that return records first call the listeners with
        the partitions that this consumer gets and gives up (`on_lost`: partitions that may already
        be another member's; by default `on_revoke`). Each gets a list of `TopicPartition`s. Without
        a group all partitions are read.

        >>> consumer.subscribe(["orders", "teas"], on_revoke=lambda partitions: consumer.commit())
        >>> consumer.subscribe("^order.*")
        """
        wanted = expression_of(pattern) if pattern is not None else topics
        by_broker = self._core.config.group_protocol == "consumer"
        self._listeners = listeners_of(on_assign, on_revoke, on_lost)
        self._core.subscribe(subscription_of(wanted, by_broker=by_broker))

    def unsubscribe(self) -> None:
        """Stops reading until the next `subscribe` or `assign`.

        >>> consumer.subscribe("orders")
        >>> consumer.unsubscribe()
        >>> consumer.assignment()
        set()
        """
        self._core.unsubscribe()

    def assign(self, partitions: Placed) -> None:
        """Reads these partitions from now on, regardless of a group's other members. With a mapping
        each begins at its offset; `None`, or no mapping, stands for the group's committed offset,
        or else for auto.offset.reset.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.assign({place: 2})
        >>> consumer.position(place)
        2
        """
        self._core.assign(positions_of(partitions))

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now.

        >>> consumer.assign([("orders", 1)])
        >>> consumer.assignment()
        {TopicPartition(topic='orders', partition=1)}
        """
        return self._opened.assignment()

    def position(self, partition: Place) -> int | None:
        """The offset of the next record; `None` while it is not known.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.assign({place: 2})
        >>> consumer.position(place)
        2
        """
        return self._opened.position(check_place(partition))

    def seek(self, partition: Place, offset: int) -> None:
        """Continues at an offset; also within `on_assign`.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.assign({place: 0})
        >>> consumer.seek(place, 2)
        >>> consumer.position(place)
        2
        """
        self._opened.seek(check_place(partition), check_offset(offset))

    def pause(self, *partitions: Place) -> None:
        """Returns no records of partitions until `resume`; the group is not affected.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.assign({place: 0})
        >>> consumer.pause(place)
        >>> consumer.paused() == {place}
        True
        """
        self._opened.pause(check_places(partitions))

    def resume(self, *partitions: Place) -> None:
        """Returns records of paused partitions again.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.assign({place: 0})
        >>> consumer.pause(place)
        >>> consumer.resume(place)
        >>> consumer.paused()
        set()
        """
        self._opened.resume(check_places(partitions))

    def paused(self) -> set[TopicPartition]:
        """The paused partitions.

        >>> consumer.assign([("orders", 0), ("orders", 1)])
        >>> consumer.pause(("orders", 1))
        >>> consumer.paused()
        {TopicPartition(topic='orders', partition=1)}
        """
        return self._opened.paused()

    def lag(self, partition: Place) -> int | None:
        """Number of records up to the end according to the last fetch; `None` before the first.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> consumer.assign({place: 0})
        >>> print(consumer.lag(place))
        None
        """
        return self._opened.lag(check_place(partition))

    def commit_async(
        self, record: ConsumerRecord | None = None, *, offsets: Offsets | None = None
    ) -> "Future[None]":
        """Commits without waiting; the future has the error, if any.

        >>> consumer.assign({("orders", 0): 0})
        >>> consumer.commit_async(offsets={("orders", 0): 2}).result(timeout=10)
        """
        return self._core.commit_later(offsets_to_commit(record, offsets))

    def group_metadata(self) -> GroupMetadata:
        """The consumer's place in its group, for `send_offsets_to_transaction`. Raises
        `CommitFailedError` while it is not a member of the group that it subscribed with.

        >>> consumer.assign([("orders", 0)])
        >>> consumer.group_metadata().group
        'billing'
        """
        return metadata_for(self)

    def _stream_arguments(self, number: int) -> dict[str, Any]:
        """The arguments of another consumer in the same group."""
        target, group, settings, decoding, assignors = self._made_with
        own = dict(settings or {})
        if self._core.config.group_instance_id:
            own["group.instance.id"] = f"{self._core.config.group_instance_id}-{number}"
        return {
            "target": target,
            "group": group,
            "settings": own,
            "key_deserializer": decoding.key,
            "value_deserializer": decoding.value,
            "assignors": assignors,
        }


def metadata_for(
    consumer: ConsumerBase, partitions: Collection[TopicPartition] = ()
) -> GroupMetadata:
    """The member for which `partitions` are committed; raises `CommitFailedError` if it has lost
    some of them.
    """
    core = consumer._opened
    group = core.check_group()
    try:
        member = core.identity()
    except ApiError as error:
        raise CommitFailedError(
            f"group {group}: this consumer is not a member now; abort the transaction, and poll"
        ) from error
    lost = () if member == OUTSIDER else set(partitions) - core.assignment()
    if lost:
        raise CommitFailedError(
            f"group {group}: {', '.join(map(str, sorted(lost)))} is not assigned to this "
            "consumer; abort the transaction, because another member reads these records"
        )
    return GroupMetadata(
        group=group,
        member_id=member.member_id,
        generation=member.epoch,
        instance_id=member.instance_id,
    )


def listeners_of(
    on_assign: Any | None, on_revoke: Any | None, on_lost: Any | None
) -> dict[EventKind, Any]:
    """Listeners by kind of event; without `on_lost`, `on_revoke` is called for lost partitions."""
    given = {
        EventKind.ASSIGNED: on_assign,
        EventKind.REVOKED: on_revoke,
        EventKind.LOST: on_lost or on_revoke,
    }
    for listener in given.values():
        if listener is not None and not callable(listener):
            raise UserError(f"a listener is a function of partitions, not {listener!r}")
    return {kind: listener for kind, listener in given.items() if listener is not None}
