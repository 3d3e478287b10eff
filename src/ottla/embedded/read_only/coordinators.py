"""Groups and transactions from the records of their internal topics, as coordinators keep them.

Members are those whose sessions had not ended when the last record was written.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property

from ottla.base.errors import ApiError, ProtocolError
from ottla.base.ids import Uuid
from ottla.base.partitions import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TopicPartition, by_topic
from ottla.base.timers import Timers
from ottla.base.timestamps import Timestamps
from ottla.broker.configs.settings import BrokerSettings
from ottla.broker.coordination.losses import GROUPS, SHARE_GROUPS
from ottla.broker.coordination.stored_records import StoredRecord
from ottla.broker.waiting.rooms import Waiting
from ottla.coordinator.offsets.records import decode_key, decode_value
from ottla.coordinator.shard import GroupCoordinatorShard
from ottla.coordinator.share import records as share_records
from ottla.coordinator.share.coordinator import (
    ShareCoordinatorConfig,
    ShareCoordinatorShard,
    ShareStateAnswer,
)
from ottla.coordinator.share.persisted_state import SharePartitionKey
from ottla.coordinator.transaction.requests import TransactionDescription
from ottla.diagnosis.directories import Directories
from ottla.diagnosis.internal_records import every_record, kept_records, undecodable
from ottla.diagnosis.losses import OnLost
from ottla.diagnosis.stuck import coordinators_on_disk
from ottla.embedded.read_only.topics import ReadOnlyTopics
from ottla.storage.diagnosis.open_transactions import CoordinatedTransaction, CoordinatorView
from ottla.storage.log.offsets import LATEST_TIMESTAMP, Isolation


class ReadOnlyGroups:
    """`on_lost` takes a line for each partition of which a part cannot be read."""

    is_loading = False

    def __init__(self, topics: ReadOnlyTopics, settings: BrokerSettings, on_lost: OnLost) -> None:
        self._topics = topics
        self._settings = settings
        self._on_lost = on_lost

    def machine_of(self, group_id: str, at: Timestamps) -> GroupCoordinatorShard:
        return self._machine

    def machines(self, at: Timestamps) -> list[GroupCoordinatorShard]:
        return [self._machine]

    @cached_property
    def _machine(self) -> GroupCoordinatorShard:
        """It is only read, and decides nothing."""
        settings = self._settings
        machine = GroupCoordinatorShard(
            settings.config, self._topics, _no_id, settings.groups.of, Timers()
        )
        for place, path in self._topics.directories_of(CONSUMER_OFFSETS):
            for record in kept_records(path, place, GROUPS, self._on_lost):
                self._replay(machine, place, record)
        return machine

    def _replay(
        self, machine: GroupCoordinatorShard, place: TopicPartition, record: StoredRecord
    ) -> None:
        try:
            key = decode_key(record.key)
            value = None if key is None else decode_value(key, record.value)
        except ProtocolError as error:
            self._on_lost(undecodable(place, record.offset, error))
            return
        if key is not None:
            machine.replay(key, value, record.offset, producer_id=record.producer_id)


def _no_id() -> Uuid:
    raise AssertionError("no member joins a group that is only read")


class ReadOnlyShareGroups:
    """Where share groups are, from what their share coordinators have written."""

    def __init__(self, topics: ReadOnlyTopics, on_lost: OnLost) -> None:
        self._topics = topics
        self._on_lost = on_lost

    def summarize(
        self, keys: Iterable[SharePartitionKey], at: Timestamps
    ) -> Waiting[Mapping[SharePartitionKey, ShareStateAnswer]]:
        waiting: Waiting[Mapping[SharePartitionKey, ShareStateAnswer]] = Waiting()
        waiting.result = {key: self._machine.summary(key) for key in keys}
        return waiting

    @cached_property
    def _machine(self) -> ShareCoordinatorShard:
        machine = ShareCoordinatorShard(ShareCoordinatorConfig(), lambda _: True)
        for place, path in self._topics.directories_of(SHARE_GROUP_STATE):
            for record in every_record(path, place, SHARE_GROUPS, self._on_lost):
                self._replay(machine, place, *record)
        return machine

    def _replay(
        self,
        machine: ShareCoordinatorShard,
        place: TopicPartition,
        key_bytes: bytes,
        value_bytes: bytes | None,
        offset: int,
    ) -> None:
        try:
            key = share_records.decode_key(key_bytes)
            if key is None:
                return
            value = None if value_bytes is None else share_records.decode_value(key, value_bytes)
        except ProtocolError as error:
            self._on_lost(undecodable(place, offset, error))
            return
        machine.replay(key, value, offset)


class ReadOnlyEnds:
    """The ends of partitions whose files are here."""

    def __init__(self, topics: ReadOnlyTopics) -> None:
        self._topics = topics

    def wait(self, partitions: Iterable[TopicPartition]) -> Waiting[Mapping[TopicPartition, int]]:
        ends: dict[TopicPartition, int] = {}
        for place in partitions:
            with suppress(ApiError):
                partition = self._topics.online_partition(*place)
                found = partition.find_offset(LATEST_TIMESTAMP, isolation=Isolation.HIGH_WATERMARK)
                if found is not None:
                    ends[place] = found.offset
        waiting: Waiting[Mapping[TopicPartition, int]] = Waiting()
        waiting.result = ends
        return waiting


class ReadOnlyTransactions:
    """The transactional ids, as the machine that handlers ask for and as its coordinator."""

    is_loading = False

    def __init__(self, directories: Directories, on_lost: OnLost) -> None:
        self._directories = directories
        self._on_lost = on_lost

    def is_available(self, transactional_id: str) -> bool:
        return True

    def machine_of(self, transactional_id: str, at: Timestamps) -> "ReadOnlyTransactions":
        return self

    def machines(self, at: Timestamps) -> "list[ReadOnlyTransactions]":
        return [self]

    def list_transactions(self) -> Iterator[TransactionDescription]:
        return map(_description, self._known.values())

    def describe(self, transactional_id: str) -> TransactionDescription | None:
        known = self._known.get(transactional_id)
        return None if known is None else _description(known)

    @property
    def is_complete(self) -> bool:
        """Whether there is no other transaction: nothing is lost, and no broker beside this one."""
        return self._view.is_complete

    @cached_property
    def _view(self) -> CoordinatorView:
        return coordinators_on_disk(self._directories, self._on_lost)

    @cached_property
    def _known(self) -> dict[str, CoordinatedTransaction]:
        return {one.transactional_id: one for one in self._view.transactions}


def _description(one: CoordinatedTransaction) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=one.transactional_id,
        state=one.state,
        producer_id=one.producer_id,
        epoch=one.producer_epoch,
        timeout_ms=one.timeout_ms,
        start_ms=one.start_ms,
        topics=by_topic(sorted(one.partitions)),
    )
