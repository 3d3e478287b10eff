"""Requests about share groups, asked without a socket: what their handlers' tests share."""

from typing import Any

from ottla.base.ids import Uuid
from ottla.codec.schema import Message
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages import alter_share_group_offsets as altering
from ottla.protocol.messages import describe_share_group_offsets as describing
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.asking import Asker
from tests.support.brokers import at, disk, open_broker


class ShareAsker(Asker):
    """A client of a broker with a topic "t" of two partitions, which waits for answers."""

    def __init__(self, **settings: str) -> None:
        broker = open_broker(
            disk("/d"),
            offsets_topic_num_partitions="2",
            share_coordinator_state_topic_num_partitions="2",
            group_share_assignment_interval_ms="0",  # the wall clock stands still
            group_initial_rebalance_delay_ms="0",
            log_index_size_max_bytes="120",
            **settings,
        )
        broker.admin.create_topic(NewTopic(name="t", partition_count=2))
        super().__init__(broker)

    def wait_for(self, request: Message, version: int) -> Any:
        """The response, also if it has to wait."""
        later, output = self.send(request, version)
        while later is not None:
            self.run_until(later.pending_id)
            later, output = self.go_on(later)
            self.broker.appends.write_out()
        return self.decode(request, version, output)

    def run_until(self, pending_id: object) -> None:
        for _ in range(20):
            if pending_id in self.broker.groups.take_answered():
                return
            self.broker.answers.advance(at(self.monotonic_ms))
        raise AssertionError("nobody answers")

    def run(self) -> None:
        """Lets the broker do what is due."""
        for _ in range(20):
            self.broker.answers.advance(at(self.monotonic_ms))
            self.broker.appends.write_out()

    def beat(
        self, member_id: str = "m", epoch: int = 0, group_id: str = "g", **options: Any
    ) -> Any:
        """A heartbeat; with epoch 0 of a member that joins, and reads "t"."""
        if epoch == 0:
            options.setdefault("subscribed_topic_names", ["t"])
        request = ShareGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=epoch, **options
        )
        return self.wait_for(request, 1)

    def settle(self, member_id: str = "m", **options: Any) -> Any:
        """Joins, and comes again until states have begun; the last answer."""
        answer = self.beat(member_id, **options)
        for _ in range(3):
            self.run()
            self.pass_to(self.monotonic_ms + 1000)
            answer = self.beat(member_id, answer.member_epoch)
        return answer

    def leave(self, member_id: str = "m") -> Any:
        return self.beat(member_id, -1)

    def offsets(self, group_id: str = "g", version: int = 1) -> Any:
        """What is described of a group, of all topics."""
        request = describing.DescribeShareGroupOffsetsRequest(
            groups=[describing.WantedGroup(group_id=group_id, topics=None)]
        )
        (group,) = self.wait_for(request, version).groups
        return group

    def alter(self, group_id: str = "g", topic: str = "t", **starts: int) -> Any:
        """Start offsets by `p` and the partition's number."""
        wanted = altering.WantedTopic(
            topic_name=topic,
            partitions=[
                altering.WantedPartition(partition_index=int(name[1:]), start_offset=start)
                for name, start in starts.items()
            ],
        )
        request = altering.AlterShareGroupOffsetsRequest(group_id=group_id, topics=[wanted])
        return self.wait_for(request, 0)

    @property
    def topic_id(self) -> Uuid:
        return Uuid(self.broker.topics.get("t").topic_id)
