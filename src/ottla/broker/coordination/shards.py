"""The partitions of an internal topic that this broker leads, in shards that have a machine each.

In a cluster a shard is one partition (`LedShards`). It begins when this broker becomes the
partition's leader. Its machine is loaded from the log in short steps, and refuses requests until
then; it is dropped when another broker becomes leader. Responses wait until the records of their
decisions are committed.

A single broker leads every partition, and commits what it appends: all of them are one shard
(`OneShard`), which is loaded at its first use. Of a topic that is not compacted each is a shard
(`OwnShards`), since offsets tell what may be deleted.

Kafka's counterparts: `CoordinatorRuntime` and its `CoordinatorContext`, `TransactionStateManager`.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, isfinite
from typing import Any, Final, Generic, Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import CorruptionError, StorageError
from ottla.base.timers import NEXT, AllTimers, Timers
from ottla.base.values import dataclass
from ottla.broker.waiting.rooms import Waiting

logger = logging.getLogger(__name__)

MachineT = TypeVar("MachineT")

Deliver = Callable[[ErrorCode], None]
NewMachine = Callable[[Timers[Any]], MachineT]
"""Makes an empty machine with its timers."""

DONE: Final = object()


@dataclass(frozen=True, slots=True, eq=False)
class _Deferred:
    """A callback for when everything before `end` is committed, or the wait times out."""

    end: int
    deliver: Deliver


class Shard(Generic[MachineT]):
    """One partition, or several, with a machine. `appended_end` and `committed_end` are the offsets
    after the last record appended, and committed.
    """

    __slots__ = (
        "_deferred",
        "_loading",
        "_timers",
        "appended_end",
        "committed_end",
        "has_failed",
        "index",
        "leader_epoch",
        "machine",
        "machine_timers",
    )

    def __init__(
        self,
        index: int,
        leader_epoch: int,
        new_machine: NewMachine[MachineT],
        timers: AllTimers,
    ) -> None:
        self.index = index
        self.leader_epoch = leader_epoch
        self.machine_timers = timers.new_room()
        self.machine = new_machine(self.machine_timers)
        self.appended_end = 0
        self.committed_end: float = 0
        self.has_failed = False
        self._loading: Iterator[None] | None = None
        self._deferred: dict[_Deferred, None] = {}
        self._timers: Timers[_Deferred] = timers.new_room()

    # Loading

    def begin_loading(self, steps: Iterator[None]) -> None:
        self._loading = steps

    @property
    def is_loading(self) -> bool:
        return self._loading is not None

    def load_on(self) -> None:
        """Runs one short step of loading. A log that cannot be read is not served."""
        assert self._loading is not None
        try:
            next(self._loading)
        except StopIteration:
            self._loading = None
        except (CorruptionError, StorageError) as error:
            self._loading, self.has_failed = None, True
            self.machine_timers.close()
            logger.error("%s; what partition %d keeps is not served", error, self.index)

    @property
    def refusal(self) -> ErrorCode:
        if self.is_loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR if self.has_failed else ErrorCode.NONE

    # Responses that wait until records are committed

    @property
    def is_committed(self) -> bool:
        return self.appended_end <= self.committed_end

    def defer(self, deliver: Deliver, deadline_ms: float) -> None:
        """Calls `deliver` once everything appended is committed; immediately if it already is."""
        if self.is_committed:
            deliver(ErrorCode.NONE)
        else:
            deferred = _Deferred(self.appended_end, deliver)
            self._deferred[deferred] = None
            if isfinite(deadline_ms):
                self._timers.set(deferred, deadline_ms)

    def wait_until_committed(
        self,
        refusals: Mapping[ErrorCode, ErrorCode],
        queue_answer: Callable[[Waiting[ErrorCode]], None],
        deadline_ms: float,
    ) -> Waiting[ErrorCode]:
        """As `defer`, for a response; `refusals` maps errors of the log to those for clients."""
        waiting: Waiting[ErrorCode] = Waiting()

        def deliver(error: ErrorCode) -> None:
            waiting.result = refusals.get(error, error)
            queue_answer(waiting)

        self.defer(deliver, deadline_ms)
        return waiting

    def committed(self, end: int) -> None:
        """Delivers what waited for offsets up to `end`, before which everything is committed."""
        if end <= self.committed_end:
            return
        self.committed_end = end
        self._deliver([one for one in self._deferred if one.end <= end], ErrorCode.NONE)

    def expire(self, monotonic_ms: float) -> None:
        """Times waits out. Their records stay, and may be committed later."""
        self._deliver(self._timers.take_all_due(monotonic_ms), ErrorCode.REQUEST_TIMED_OUT)

    def give_up(self) -> None:
        """Ends all waits after another broker became leader: the fate of their records is unknown
        here.
        """
        self._loading = None
        self._deliver(list(self._deferred), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._timers.close()

    def _deliver(self, deferred: Sequence[_Deferred], error: ErrorCode) -> None:
        for one in deferred:  # copied first: a delivery may defer more
            del self._deferred[one]
            self._timers.cancel(one)
        for one in deferred:
            one.deliver(error)


class Shards(Protocol[MachineT]):
    """What coordinators and the listeners of leadership ask of the shards of a broker."""

    def __iter__(self) -> Iterator[Shard[MachineT]]: ...

    @property
    def served(self) -> list[Shard[MachineT]]:
        """The shards that are loaded."""

    @property
    def is_loading(self) -> bool: ...

    @property
    def is_busy(self) -> bool:
        """Whether a shard is being loaded or unloaded."""

    def load(self) -> None:
        """Loads at once what is loaded at the first use; raises `UserError`."""

    def find(self, index: int) -> Shard[MachineT] | None:
        """Returns the shard of a partition if a machine is loaded from it, or is being loaded."""

    def serving(self, place: str) -> Shard[MachineT] | None:
        """Returns the loaded shard that has a group or a transactional id, if it is served here."""

    def refusal(self, place: str) -> ErrorCode:
        """Why a group or a transactional id is not served here; NONE if it is."""

    def leader_epoch_of(self, place: str) -> int:
        """The leader epoch of the partition of a group or a transactional id that is served."""

    def takes_markers(self, index: int) -> bool:
        """Whether no machine that is being loaded from a partition would miss a marker in it."""

    def became_leader(self, index: int, leader_epoch: int) -> None: ...

    def resigned(self, index: int, leader_epoch: float) -> None: ...

    def committed(self, index: int, end: int) -> None: ...

    def advance(self, monotonic_ms: float) -> None: ...


class PartitionOwner(Protocol[MachineT]):
    """A coordinator, as the shards of partitions use it. A `place` is the id of a group, of a
    transaction or of a partition in a share group.
    """

    def load_in_steps(self, shard: Shard[MachineT]) -> Iterator[None]:
        """Returns the steps that load the machine of one partition."""

    def unload_in_steps(self, shard: Shard[MachineT]) -> Iterator[None]:
        """Returns the steps that answer the requests that wait for a resigned shard."""

    def partition_of(self, place: str) -> int: ...


class ShardOwner(PartitionOwner[MachineT], Protocol[MachineT]):
    """A coordinator whose topic may also be one shard."""

    def load_all(self, shard: Shard[MachineT]) -> None:
        """Loads the machine of a shard that is the whole topic."""

    def is_unread(self, place: str) -> bool:
        """Whether its partition could not be read."""

    def leader_epoch_of(self, place: str) -> int: ...


class OneShard(Generic[MachineT]):
    """All partitions of a single broker in one shard, which it leads from the start."""

    def __init__(
        self, timers: AllTimers, new_machine: NewMachine[MachineT], owner: ShardOwner[MachineT]
    ) -> None:
        self.shard = Shard(0, 0, new_machine, timers)
        self.shard.committed_end = inf
        self._owner = owner
        self._is_loaded = False

    def __iter__(self) -> Iterator[Shard[MachineT]]:
        return iter((self.shard,))

    @property
    def served(self) -> list[Shard[MachineT]]:
        return [self.shard] if self._is_loaded else []

    @property
    def is_loading(self) -> bool:
        return False

    @property
    def is_busy(self) -> bool:
        return False

    def load(self) -> None:
        if not self._is_loaded:
            self._owner.load_all(self.shard)
            self._is_loaded = True

    def find(self, index: int) -> Shard[MachineT] | None:
        return self.shard if self._is_loaded else None

    def serving(self, place: str) -> Shard[MachineT] | None:
        return self.shard

    def refusal(self, place: str) -> ErrorCode:
        return ErrorCode.NOT_COORDINATOR if self._owner.is_unread(place) else ErrorCode.NONE

    def leader_epoch_of(self, place: str) -> int:
        return self._owner.leader_epoch_of(place)

    def takes_markers(self, index: int) -> bool:
        return True

    # Leadership and time change nothing

    def became_leader(self, index: int, leader_epoch: int) -> None: ...

    def resigned(self, index: int, leader_epoch: float) -> None: ...

    def committed(self, index: int, end: int) -> None: ...

    def advance(self, monotonic_ms: float) -> None: ...


class LedShards(Generic[MachineT]):
    """The shards of a member of a cluster, one for each partition that it leads."""

    def __init__(
        self, timers: AllTimers, new_machine: NewMachine[MachineT], owner: PartitionOwner[MachineT]
    ) -> None:
        self._owner = owner
        self._timers = timers
        self._next_step: Timers[str] = timers.new_room()
        self._new_machine = new_machine
        self._shards: dict[int, Shard[MachineT]] = {}
        self._loading: dict[int, None] = {}
        self._unloading: deque[Iterator[None]] = deque()

    def __iter__(self) -> Iterator[Shard[MachineT]]:
        return iter(self._shards.values())

    @property
    def served(self) -> list[Shard[MachineT]]:
        return [one for one in self._shards.values() if not one.refusal]

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    @property
    def is_busy(self) -> bool:
        return bool(self._loading or self._unloading)

    def load(self) -> None:
        """Does nothing: shards are loaded in steps, by `advance`."""

    def find(self, index: int) -> Shard[MachineT] | None:
        return self._shards.get(index)

    def serving(self, place: str) -> Shard[MachineT] | None:
        shard = self._shards.get(self._owner.partition_of(place))
        return None if shard is None or shard.refusal else shard

    def refusal(self, place: str) -> ErrorCode:
        shard = self._shards.get(self._owner.partition_of(place))
        return ErrorCode.NOT_COORDINATOR if shard is None else shard.refusal

    def leader_epoch_of(self, place: str) -> int:
        return self._shards[self._owner.partition_of(place)].leader_epoch

    def takes_markers(self, index: int) -> bool:
        shard = self._shards.get(index)
        return shard is not None and not shard.refusal

    # Leadership

    def became_leader(self, index: int, leader_epoch: int) -> None:
        """Begins to load a shard. If this broker already leads the partition, only its epoch is
        updated.
        """
        known = self._shards.get(index)
        if known is not None and not known.has_failed:
            known.leader_epoch = max(known.leader_epoch, leader_epoch)
            return
        if known is not None:
            known.give_up()
        shard = Shard(index, leader_epoch, self._new_machine, self._timers)
        self._shards[index] = shard
        self._loading[index] = None
        self._next_step.set(NEXT, 0.0)
        shard.begin_loading(self._owner.load_in_steps(shard))

    def resigned(self, index: int, leader_epoch: float) -> None:
        """Drops a shard of which this broker is no longer the leader; ignores orders of older
        epochs.
        """
        shard = self._shards.get(index)
        if shard is None or leader_epoch < shard.leader_epoch:
            return
        del self._shards[index]
        self._loading.pop(index, None)
        shard.give_up()
        shard.machine_timers.close()
        self._next_step.set(NEXT, 0.0)
        self._unloading.append(self._owner.unload_in_steps(shard))

    def committed(self, index: int, end: int) -> None:
        shard = self._shards.get(index)
        if shard is not None:
            shard.committed(end)

    # Time

    def advance(self, monotonic_ms: float) -> None:
        """Runs one step of the oldest loading and of the oldest unloading, and times waits out."""
        if self._unloading and next(self._unloading[0], DONE) is DONE:
            self._unloading.popleft()
        index = next(iter(self._loading), None)
        if index is not None:
            shard = self._shards[index]
            shard.load_on()
            if not shard.is_loading:
                del self._loading[index]
        if not self.is_busy:
            self._next_step.cancel(NEXT)
        for one in list(self._shards.values()):
            one.expire(monotonic_ms)


class OwnShards(LedShards[MachineT]):
    """The shards of a single broker, one for each partition; each begins to load when it is first
    asked for, and is then never dropped.
    """

    def serving(self, place: str) -> Shard[MachineT] | None:
        self._begin(place)
        shard = super().serving(place)
        if shard is not None:
            shard.committed_end = inf
        return shard

    def refusal(self, place: str) -> ErrorCode:
        self._begin(place)
        return super().refusal(place)

    def _begin(self, place: str) -> None:
        index = self._owner.partition_of(place)
        if index not in self._shards:
            self.became_leader(index, 0)
