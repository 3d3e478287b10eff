"""What the coordinators of groups and of transactions share: machines that are loaded from a log.

A single broker has one machine, and replays the internal topic into it once, at the first request.
A member of a cluster has one machine for each partition of the topic that it leads, and one that
refuses requests for partitions that others lead. Kafka's counterpart: `CoordinatorRuntime`.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import StorageError, UserError
from ottla.base.timestamps import Timestamps
from ottla.broker.coordinator_shards import Shard, Shards
from ottla.broker.internal_topic import InternalTopic
from ottla.broker.stored_records import StoredRecord
from ottla.broker.waiting import Waiting

REFUSALS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.INVALID_REPLICATION_FACTOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Errors for clients when the log refuses records; others are passed on.

Kafka's counterpart: `CoordinatorOperationExceptionHelper`.
"""


class Machine(Protocol):
    """A coordinator's state machine: it decides by the records that it has replayed."""

    def loaded_in_steps(self, now: Callable[[], Timestamps], /) -> Iterator[None]: ...


MachineT = TypeVar("MachineT", bound=Machine)


class CoordinatorRuntime(Generic[MachineT]):
    """A single broker uses `machine`, a member of a cluster `shards`. `queue_answer` queues delayed
    responses.
    """

    def __init__(
        self,
        topic: InternalTopic,
        machine: MachineT,
        shards: Shards[MachineT] | None,
        commit_timeout_ms: int,
        queue_answer: Callable[[Waiting[Any]], None],
    ) -> None:
        self.machine = machine
        self.shards = shards
        self._topic = topic
        self._commit_timeout_ms = commit_timeout_ms
        self._queue_answer = queue_answer
        self._at: Timestamps | None = None
        self._is_loaded = False

    def loaded(self, at: Timestamps) -> MachineT:
        """Returns a single broker's machine; replays the log into it at the first call.

        Raises `UserError`.
        """
        raise NotImplementedError

    def _replay_stored(self, record: StoredRecord, machine: MachineT) -> None:
        raise NotImplementedError

    def _replay_all(self, what: str, instead: str) -> None:
        """Raises `UserError` if the log cannot be read; `what` and `instead` complete its text."""
        try:
            for record in self._topic.read_all():
                self._replay_stored(record, self.machine)
        except StorageError as error:
            raise UserError(
                f"cannot read {what}: {error}; restore {self._topic.name}, or move it away and "
                f"{instead}"
            ) from error

    def prepare(self, before_making: Callable[[], None]) -> None:
        """Creates the internal topic, in turns, for a request that may be the first to write to it.
        Calls `before_making` first, unless the topic exists.
        """
        self._topic.prepare(before_making)

    def machines(self, at: Timestamps) -> list[MachineT]:
        """Returns all loaded machines; loads a single broker's machine first."""
        self.loaded(at)
        return self.known

    @property
    def known(self) -> list[MachineT]:
        """As `machines`, but without loading a single broker's machine."""
        if self.shards is None:
            return [self.machine]
        return [one.machine for one in self.shards.served]

    @property
    def is_loading(self) -> bool:
        return self.shards is not None and self.shards.is_loading

    def partition_of(self, place: str) -> int:
        """The partition of the internal topic that stores a group or a transactional id."""
        return self._topic.partition_of(place)

    def is_available(self, place: str) -> bool:
        """Whether its partition is online and was read; otherwise its state is unknown."""
        return self._topic.is_online(place) and not self._topic.is_unread(place)

    def _refusal(self, place: str) -> ErrorCode:
        if self.shards is not None:
            return self.shards.refusal(self._topic.partition_of(place))
        return ErrorCode.NOT_COORDINATOR if self._topic.is_unread(place) else ErrorCode.NONE

    # In a cluster

    def _shard_of(self, place: str) -> Shard[MachineT] | None:
        """Returns `None` if this broker does not serve the partition, or is still loading it."""
        assert self.shards is not None
        shard = self.shards.find(self._topic.partition_of(place))
        return None if shard is None or shard.refusal else shard

    def _load_shard(self, shard: Shard[MachineT]) -> Iterator[None]:
        machine = shard.machine
        yield from self._topic.read_in_steps(
            shard.index, lambda record: self._replay_stored(record, machine)
        )
        yield from machine.loaded_in_steps(self._now)
        # The log's uncommitted records will be committed under this leader; responses wait until
        # then.
        log = self._topic.partition(shard.index).log
        shard.appended_end, shard.committed_end = log.log_end_offset, log.high_watermark
        self._shard_loaded(shard)

    def _shard_loaded(self, shard: Shard[MachineT]) -> None:
        """Called when a shard's machine is loaded."""

    def _now(self) -> Timestamps:
        assert self._at is not None
        return self._at

    def uncommitted(self, place: str, at: Timestamps) -> Waiting[ErrorCode] | None:
        """Returns a wait until the records that a decision was based on are committed. Returns
        `None` if they already are, and on a single broker.
        """
        shard = None if self.shards is None else self._shard_of(place)
        if shard is None or shard.is_committed:
            return None
        deadline_ms = at.monotonic_ms + self._commit_timeout_ms
        return shard.wait_until_committed(REFUSALS, self._queue_answer, deadline_ms)
