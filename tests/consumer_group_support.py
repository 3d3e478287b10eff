"""Groups of both protocols with a log, a clock and topics around them, in memory."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.config.group import GroupConfig
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.classic.requests import MemberClaim
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import Member
from ottla.coordinator.consumer.partitions import Assignment
from ottla.coordinator.consumer.requests import HeartbeatAnswer, HeartbeatRequest
from ottla.coordinator.offsets.committed_offsets import TopicPartition
from ottla.coordinator.offsets.records import decode_key, decode_value
from ottla.coordinator.shard import GroupCoordinatorShard
from tests.group_support import GROUP, NO_DELAY, EncodedRecord, Runner

SESSION_MS = 45_000
REVOCATION_MS = 60_000
SUFFIX = 15 * b"\0"


def topic_id(name: str) -> Uuid:
    """An id that shows the topic's name, of one letter."""
    return Uuid(name.encode() + SUFFIX)


def partitions(*places: str) -> Assignment:
    """`partitions("a0", "a1")`: two of topic a."""
    return frozenset((topic_id(place[0]), int(place[1:])) for place in places)


def places(assignment: Assignment) -> set[str]:
    """The inverse of `partitions`."""
    return {f"{uuid[:1].decode()}{index}" for uuid, index in assignment}


@dataclasses.dataclass
class FakeTopic:
    name: str
    topic_id: Uuid
    partition_count: int


class FakeCatalog:
    """Topics of one letter each: `FakeCatalog(a=3)`."""

    def __init__(self, **counts: int) -> None:
        self.revision = 0
        self._topics: dict[str, FakeTopic] = {}
        for name, count in counts.items():
            self.put(name, count)

    def __iter__(self) -> Iterator[FakeTopic]:
        return iter(self._topics.values())

    def find(self, name: str) -> FakeTopic | None:
        return self._topics.get(name)

    def put(self, name: str, count: int) -> None:
        self.revision += 1
        self._topics[name] = FakeTopic(name, topic_id(name), count)

    def remove(self, name: str) -> None:
        self.revision += 1
        del self._topics[name]


class ConsumerRunner(Runner):
    """`Runner` with both protocols. `told` is the last answer of each member without an error.

    `group_configs` are the settings of groups that have some of their own.
    """

    def __init__(
        self,
        catalog: FakeCatalog | None = None,
        config: GroupCoordinatorConfig = NO_DELAY,
        log: list[EncodedRecord] | None = None,
    ) -> None:
        self.group_configs: dict[str, GroupConfig] = {}
        self.catalog = FakeCatalog(a=4) if catalog is None else catalog
        self.told: dict[str, HeartbeatAnswer] = {}
        super().__init__(config, log)

    def _boot(self) -> GroupCoordinatorShard:
        machine = GroupCoordinatorShard(
            self.config,
            self.catalog,
            lambda: Uuid(next(self._ids).to_bytes(16, "big")),
            lambda group_id: self.group_configs.get(group_id, self.config.group_defaults),
        )
        for offset, (encoded_key, encoded_value) in enumerate(self.log):
            key = decode_key(encoded_key)
            assert key is not None
            value = None if encoded_value is None else decode_value(key, encoded_value)
            machine.replay(key, value, offset)
        machine.loaded(self.at)
        return machine

    @property
    def group(self) -> ConsumerGroup:
        return self.machine.consumer.groups[GROUP]

    @property
    def state(self) -> str:
        return self.group.state.value

    def member(self, member_id: str) -> Member:
        return self.group.members[member_id]

    # Operations with defaults

    def beat(self, member_id: str, epoch: int | None = None, **options: Any) -> HeartbeatAnswer:
        """A heartbeat; the epoch is the one that the member was told last."""
        if epoch is None:
            epoch = self.told[member_id].epoch
        owned = options.pop("owned", None)
        if isinstance(owned, Iterable) and not isinstance(owned, frozenset):
            owned = partitions(*owned)
        names = options.pop("topics", None)
        request = HeartbeatRequest(
            group_id=options.pop("group_id", GROUP),
            member_id=member_id,
            epoch=epoch,
            owned=owned,
            topic_names=None if names is None else frozenset(names),
            client_id=options.pop("client_id", "client"),
            client_host="/127.0.0.1",
            **options,
        )
        answer = self.run(self.machine.consumer_heartbeat(request, self.at))
        assert answer is not None
        if answer.error is ErrorCode.NONE:
            self.told[member_id] = answer
        return answer

    def enter(self, member_id: str, topics: Any = "a", **options: Any) -> HeartbeatAnswer:
        """Somebody comes with nothing, and says all there is to say."""
        options.setdefault("rebalance_timeout_ms", REVOCATION_MS)
        options.setdefault("owned", ())
        return self.beat(member_id, 0, topics=topics, **options)

    def leave(self, member_id: str, epoch: int = -1, **options: Any) -> HeartbeatAnswer:
        return self.beat(member_id, epoch, **options)

    def settle(self, *member_ids: str) -> None:
        """Everybody sends heartbeats, and gives up what it is not to have, until all is stable."""
        for _ in range(10):
            for member_id in member_ids:
                self.beat(member_id, owned=self.member(member_id).assigned)
            if self.state == "Stable":
                return
        raise AssertionError(f"still {self.state}")

    def has(self, member_id: str) -> set[str]:
        """What a member may read."""
        return places(self.member(member_id).assigned)

    def claim(self, member_id: str) -> MemberClaim:
        epoch = self.told[member_id].epoch
        return MemberClaim(group_id=GROUP, member_id=member_id, generation=epoch)

    def committed(self, where: TopicPartition = ("a", 0), group_id: str = GROUP) -> int | None:
        claim = MemberClaim(group_id=group_id)
        found = self.machine.fetch_offsets(claim, [where])[where].committed
        return None if found is None else found.offset


def image(group: ConsumerGroup) -> dict[str, Any]:
    """All that a restart must bring back of a group."""
    return {
        "epoch": group.epoch,
        "assignment epoch": group.assignment_epoch,
        "topics": group.topics,
        "members": group.members,
        "targets": group.targets,
        "regexes": group.regexes,
        "static ids": group.static_ids,
        "owners": group.owners,
    }
