"""Groups of both protocols with a log, a clock and topics around them, in memory."""

from collections.abc import Iterable
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import Member
from ottla.coordinator.consumer.partitions import Assignment
from ottla.coordinator.consumer.requests import HeartbeatAnswer, HeartbeatRequest
from ottla.coordinator.requests import MemberClaim
from tests.support.groups import GROUP, NO_DELAY, EncodedRecord, FakeCatalog, Runner, topic_id

SESSION_MS = 45_000
REVOCATION_MS = 60_000


def partitions(*places: str) -> Assignment:
    """`partitions("a0", "a1")`: two of topic a."""
    return frozenset((topic_id(place[0]), int(place[1:])) for place in places)


def places(assignment: Assignment) -> set[str]:
    """The inverse of `partitions`."""
    return {f"{uuid[:1].decode()}{index}" for uuid, index in assignment}


class ConsumerRunner(Runner):
    """`Runner` with members that send heartbeats; `told` is each one's last good answer."""

    def __init__(
        self,
        catalog: FakeCatalog | None = None,
        config: GroupCoordinatorConfig = NO_DELAY,
        log: list[EncodedRecord] | None = None,
    ) -> None:
        self.told: dict[str, HeartbeatAnswer] = {}
        super().__init__(config, log, FakeCatalog(a=4) if catalog is None else catalog)

    @property
    def group(self) -> ConsumerGroup:
        group = self.machine.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

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
        return super().committed(where, group_id)


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
