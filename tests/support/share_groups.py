"""Share groups with a log, a clock and topics around them, in memory."""

from collections.abc import Iterable
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.requests import (
    PartitionToInitialize,
    ShareHeartbeatAnswer,
    ShareHeartbeatRequest,
)
from tests.support.consumer_groups import places
from tests.support.groups import GROUP, NO_DELAY, EncodedRecord, FakeCatalog, Runner

SESSION_MS = 45_000


class ShareRunner(Runner):
    """`Runner` with members that send heartbeats; `told` is each one's last good answer. States are
    initialized as they are asked for, unless `initializes` is not set.
    """

    def __init__(
        self, catalog: FakeCatalog | None = None, log: list[EncodedRecord] | None = None
    ) -> None:
        self.told: dict[str, ShareHeartbeatAnswer] = {}
        self.topics = FakeCatalog(a=4) if catalog is None else catalog
        self.initializes = True
        super().__init__(NO_DELAY, log, self.topics)

    @property
    def group(self) -> ShareGroup:
        group = self.machine.groups[GROUP]
        assert isinstance(group, ShareGroup)
        return group

    def beat(
        self,
        member_id: str,
        epoch: int | None = None,
        topics: Iterable[str] | None = None,
        **options: Any,
    ) -> ShareHeartbeatAnswer:
        """A heartbeat; the epoch is the one that the member was told last."""
        request = ShareHeartbeatRequest(
            group_id=options.pop("group_id", GROUP),
            member_id=member_id,
            epoch=self.told[member_id].epoch if epoch is None else epoch,
            topic_names=None if topics is None else frozenset(topics),
            client_id="client",
            client_host="/127.0.0.1",
            **options,
        )
        answer = self.run(self.machine.shares.heartbeat(request, self.at))
        assert answer is not None
        if answer.error is ErrorCode.NONE:
            self.told[member_id] = answer
        if self.initializes:
            self.initialized(answer.to_initialize)
        return answer

    def enter(self, member_id: str, topics: Iterable[str] = "a") -> ShareHeartbeatAnswer:
        return self.beat(member_id, 0, topics)

    def initialized(self, partitions: Iterable[PartitionToInitialize]) -> None:
        wanted = [(one.topic_id, one.partition) for one in partitions]
        if wanted:
            answer = self.run(self.machine.shares.states_have_begun(GROUP, wanted, self.at))
            assert answer is not None
            assert answer.error is ErrorCode.NONE

    def settle(self, *member_ids: str) -> None:
        """Everybody sends heartbeats until all have what they are to have."""
        for _ in range(4):
            self.advance(1000)
            for member_id in member_ids:
                self.beat(member_id)

    def has(self, member_id: str) -> set[str]:
        """What a member may read."""
        return places(self.group.members[member_id].assigned)
