"""The world of `group_world` with members of the new protocol, and topics that come and grow.

A client's requests arrive in their order, as on its connection; else there is the same chaos.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.consumer.partitions import NOTHING, Assignment, TopicIdPartition
from ottla.coordinator.consumer.requests import HeartbeatAnswer, HeartbeatRequest
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.requests import MemberClaim
from tests.simulation.consumer_client import ConsumerClient
from tests.simulation.group_world import Deed, World
from tests.support.consumer_groups import ConsumerRunner, FakeCatalog, image, topic_id
from tests.support.groups import GROUP, NO_DELAY


class ConsumerWorld(World):
    """`may_read` is what each member has been told to read and has not said that it gave up."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.catalog = FakeCatalog(a=5, b=3)
        assignors = self.chance.choice([("uniform", "range"), ("range", "uniform")])
        config = replace(NO_DELAY, group_consumer_assignors=assignors)
        self.runner = ConsumerRunner(self.catalog, config)
        self.counts = dict.fromkeys(
            ("beats", "moves", "fenced", "commits", "refused commits", "crashes"), 0
        )
        self.may_read: dict[str, Assignment] = {}
        self.epochs: dict[str, int] = {}
        self.committed: dict[TopicIdPartition, int] = {}
        self._arrivals: dict[str, int] = {}
        self.after(1000, self._be_born)

    # What happens

    def begin_client(self) -> None:
        number = next(self._numbers)
        instance_id = self.chance.choice([None, None, f"static-{number % 4}"])
        if any(one.instance_id == instance_id for one in self.clients.values() if instance_id):
            instance_id = None
        client = ConsumerClient(self, f"client-{number}", instance_id)
        self.clients[client.name] = client
        client.begin()

    def _be_born(self) -> None:
        """There are always some, so that much moves between them."""
        if self.is_calm:
            return
        self.after(self.chance.randrange(20_000), self._be_born)
        if sum(one.is_alive for one in self.clients.values()) < 6:
            self.begin_client()

    def _refuse(self) -> None:
        """Topics change as often as the log refuses records."""
        super()._refuse()
        name = self.chance.choice("abc")
        topic = self.catalog.find(name)
        if topic is None:
            self.catalog.put(name, self.chance.randrange(1, 4))
        elif name == "b" and self.chance.random() < 0.5:
            self.catalog.remove(name)
        elif topic.partition_count < 9:
            self.catalog.put(name, topic.partition_count + 1)

    # The network

    def is_lost(self) -> bool:
        """Much is lost here: what brings an epoch that was missed is a lost answer."""
        return not self.is_calm and self.chance.random() < 0.15

    def _send_in_order(self, client: ConsumerClient, deed: Deed) -> None:
        if self.is_lost():
            return
        arrival = max(self._arrivals.get(client.name, 0), self.now_ms + self.latency_ms())
        self._arrivals[client.name] = arrival
        self.after(arrival - self.now_ms, deed)

    def beat(
        self,
        client: ConsumerClient,
        request: HeartbeatRequest,
        receive: Callable[[HeartbeatAnswer], None],
    ) -> None:
        def arrive() -> None:
            decision = self.runner.machine.consumer_heartbeat(request, self.runner.at)
            answer = self.runner.run(decision)
            assert answer is not None
            self._note_beat(request, answer)
            self._send_back(receive, answer)

        self._send_in_order(client, arrive)

    def commit_as(self, client: ConsumerClient, place: TopicIdPartition) -> None:
        offset = next(self._numbers)
        claim = client.claim()
        request = CommitRequest(claim=claim, offsets={_where(place): NewOffset(offset=offset)})

        def arrive() -> None:
            answer: Any = self.runner.run(self.runner.machine.commit(request, self.runner.at))
            self._note_commit_of(answer.partitions[_where(place)], claim, place, offset)

        self._send_in_order(client, arrive)

    # What is known from outside, and must hold

    def _forget_who_is_out(self) -> None:
        group = self.runner.machine.groups.get(GROUP)
        members = {} if group is None else group.members
        for member_id in self.may_read.keys() - members.keys():
            del self.may_read[member_id]

    def _note_beat(self, request: HeartbeatRequest, answer: HeartbeatAnswer) -> None:
        self._forget_who_is_out()
        self.counts["beats"] += 1
        if answer.error:
            self.counts["fenced"] += answer.error is ErrorCode.FENCED_MEMBER_EPOCH
            return
        if request.epoch < 0:
            self.may_read.pop(request.member_id, None)
            return
        known = self.may_read.get(request.member_id, NOTHING)
        owned = known if request.owned is None else request.owned
        told = answer.assigned or NOTHING
        self.counts["moves"] += bool(told - known)
        self.may_read[request.member_id] = owned | told
        self.epochs[request.member_id] = answer.epoch
        self.check_readers()

    def check_readers(self) -> None:
        """Nobody is told to read what somebody else may still be reading."""
        seen: dict[TopicIdPartition, str] = {}
        for member_id, places in self.may_read.items():
            for place in places:
                other = seen.setdefault(place, member_id)
                assert other == member_id, f"{place} is read by {other} and {member_id}"

    def _note_commit_of(
        self, code: ErrorCode, claim: MemberClaim, place: TopicIdPartition, offset: int
    ) -> None:
        self._forget_who_is_out()
        if code is not ErrorCode.NONE:
            self.counts["refused commits"] += 1
            return
        self.counts["commits"] += 1
        assert claim.generation == self.epochs[claim.member_id], "a commit from an old epoch"
        for member_id, places in self.may_read.items():
            assert member_id == claim.member_id or place not in places, "a commit of another's"
        self.committed[place] = offset

    def check_committed(self) -> None:
        found = self.runner.machine.fetch_offsets(MemberClaim(group_id=GROUP), None)
        offsets = {where: one.committed.offset for where, one in found.items()}
        assert offsets == {_where(place): offset for place, offset in self.committed.items()}

    def check_restart(self) -> None:
        """What the log makes of the group is what the machine holds of it."""
        booted = ConsumerRunner(self.catalog, self.runner.config, list(self.runner.log)).machine
        running = self.runner.machine.groups
        assert booted.groups.keys() == running.keys()
        for group_id, group in running.items():
            assert image(booted.groups[group_id]) == image(group)
        self.check_committed()

    def check_settled(self) -> None:
        """Everybody who lives is in the group and reads what it shall, and nobody else is."""
        living = {one.member_id: one for one in self.clients.values() if one.is_alive}
        group = self.runner.machine.groups.get(GROUP)
        assert group is not None
        assert set(group.members) == set(living)
        assert group.state.value == ("Stable" if living else "Empty")
        read: set[TopicIdPartition] = set()
        for member_id, client in living.items():
            assert client.epoch == group.epoch
            assert client.partitions == group.members[member_id].assigned
            assert not read & client.partitions
            read |= client.partitions
        assert read == self._subscribed(list(living.values()))

    def _subscribed(self, clients: list[ConsumerClient]) -> set[TopicIdPartition]:
        names = {name for one in clients for name in one.names + one.regex if name in "ab"}
        return {
            (topic_id(topic.name), index)
            for topic in self.catalog
            if topic.name in names
            for index in range(topic.partition_count)
        }


def _where(place: TopicIdPartition) -> tuple[str, int]:
    return (place[0][:1].decode(), place[1])
