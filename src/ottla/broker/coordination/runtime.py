"""What the coordinators of groups and of transactions share: machines that are loaded from a log.

Each shard of the internal topic that this broker leads has a machine: in a cluster a shard is one
partition, and a single broker has one shard, which it loads at the first request. Kafka's
counterpart: `CoordinatorRuntime`.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import StorageError, UserError
from ottla.base.timestamps import Timestamps
from ottla.broker.coordination.internal_topic import InternalTopic
from ottla.broker.coordination.shards import Shard, Shards
from ottla.broker.coordination.stored_records import StoredRecord
from ottla.broker.waiting.rooms import Waiting

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
    """Runs the machines of its shards. `queue_answer` queues delayed responses."""

    shards: Shards[MachineT]

    def __init__(
        self,
        topic: InternalTopic,
        commit_timeout_ms: int,
        queue_answer: Callable[[Waiting[Any]], None],
    ) -> None:
        self._topic = topic
        self._commit_timeout_ms = commit_timeout_ms
        self._queue_answer = queue_answer
        self._at: Timestamps | None = None

    def _replay_stored(self, record: StoredRecord, machine: MachineT) -> None:
        raise NotImplementedError

    def _replay_all(self, machine: MachineT, what: str, instead: str) -> None:
        """Raises `UserError` if the log cannot be read; `what` and `instead` complete its text."""
        try:
            for record in self._topic.read_all():
                self._replay_stored(record, machine)
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

    def load(self, at: Timestamps) -> None:
        """Loads a single broker's machine at once, unless it is loaded; raises `UserError`."""
        self._at = at
        self.shards.load()

    def machines(self, at: Timestamps) -> list[MachineT]:
        """Returns all loaded machines; loads a single broker's machine first."""
        self.load(at)
        return self.known

    @property
    def known(self) -> list[MachineT]:
        """As `machines`, but without loading a single broker's machine."""
        return [one.machine for one in self.shards.served]

    @property
    def is_loading(self) -> bool:
        return self.shards.is_loading

    def partition_of(self, place: str) -> int:
        """The partition of the internal topic that stores a group or a transactional id."""
        return self._topic.partition_of(place)

    def is_available(self, place: str) -> bool:
        """Whether its partition is online and was read; otherwise its state is unknown."""
        return self._topic.is_online(place) and not self._topic.is_unread(place)

    def is_unread(self, place: str) -> bool:
        return self._topic.is_unread(place)

    def leader_epoch_of(self, place: str) -> int:
        """The leader epoch of its partition, which must be online."""
        return self._topic.leader_epoch_of(place)

    def load_in_steps(self, shard: Shard[MachineT]) -> Iterator[None]:
        yield from self._read_in_steps(shard)
        yield from shard.machine.loaded_in_steps(self._now)
        # The log's uncommitted records will be committed under this leader; responses wait until
        # then.
        log = self._topic.partition(shard.index).log
        shard.appended_end, shard.committed_end = log.log_end_offset, log.high_watermark
        self._shard_loaded(shard)

    def _read_in_steps(self, shard: Shard[MachineT]) -> Iterator[None]:
        machine = shard.machine
        return self._topic.read_in_steps(
            shard.index, lambda record: self._replay_stored(record, machine)
        )

    def _shard_loaded(self, shard: Shard[MachineT]) -> None:
        """Called when a shard's machine is loaded."""

    def _now(self) -> Timestamps:
        assert self._at is not None
        return self._at

    def uncommitted(self, place: str, at: Timestamps) -> Waiting[ErrorCode] | None:
        """Returns a wait until the records that a decision was based on are committed. Returns
        `None` if they already are.
        """
        shard = self.shards.serving(place)
        if shard is None or shard.is_committed:
            return None
        deadline_ms = at.monotonic_ms + self._commit_timeout_ms
        return shard.wait_until_committed(REFUSALS, self._queue_answer, deadline_ms)
