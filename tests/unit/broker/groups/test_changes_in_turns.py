"""Groups of many members, changed in turns: what others find meanwhile, and what is left after it.

What is many is made a few, so that another request can come at every place where an operation may
be suspended. All is then as if one of them had come first.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CONSUMER_OFFSETS, TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.base.turns import TurnsNeededError
from ottla.broker.broker import Broker
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.schema import Message
from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.deadlines import TimerKey
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.server.dispatching.dispatch import CHANGES_OF_GROUPS, handler_of
from ottla.server.dispatching.request_context import Client, PendingResponse, RequestContext
from ottla.server.handling.group_changes import one_at_a_time
from ottla.testing import CrashMode
from tests.support.brokers import at, disk, open_broker
from tests.support.replicated_brokers import PartitionOrders, open_member
from tests.support.turns import with_others_in_between

GROUP = "g"
SIZE = 5
MANY = 3
LOADED_EACH, LOST_EACH = 7, 3
SESSION_MS = 10_000
LATER_MS = 20_000
SETTINGS = {"offsets_topic_num_partitions": "1", "group_initial_rebalance_delay_ms": "3000"}
VERSIONS = {
    ApiKey.JOIN_GROUP: 3,
    ApiKey.SYNC_GROUP: 2,
    ApiKey.HEARTBEAT: 2,
    ApiKey.LEAVE_GROUP: 3,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.OFFSET_COMMIT: 7,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 0,
}


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.base.turns.MOST_AT_ONCE", MANY)


class House:
    """A broker with a group of `SIZE` members, and what they have been answered, by client."""

    def __init__(self, broker: Broker | None = None) -> None:
        self.file_system = disk("/d")
        self.broker = broker or open_broker(self.file_system, **SETTINGS)
        self.now_ms = 0.0
        self.answers: dict[str, list[Any]] = {}
        self.pending: dict[Waiting[Any], tuple[str, PendingResponse]] = {}
        self.ids: dict[str, str] = {}
        self.generation = 0

    @property
    def at(self) -> Timestamps:
        return at(self.now_ms)

    def ask(self, client: str, request: Message, *, can_be_long: bool = False) -> None:
        key = ApiKey(type(request).API_KEY)
        handle = handler_of(key)
        if key in CHANGES_OF_GROUPS:
            handle = one_at_a_time(handle)
        header = RequestHeader(key, VERSIONS[key], 1, client)
        who = Client(("localhost", 9092), "h")
        context = RequestContext(self.broker, self.at, header, who, can_be_long)
        self._take(client, handle(request, context))

    def _take(self, client: str, answer: Message | PendingResponse | None) -> None:
        if isinstance(answer, PendingResponse):
            self.pending[answer.pending_id] = client, answer
        else:
            self.answers.setdefault(client, []).append(answer)

    def settle(self) -> None:
        self.broker.appends.write_out()
        while answered := self.broker.answers.take_answered(self.now_ms):
            for one in answered:
                client, pending = self.pending.pop(one)
                self._take(client, pending.finish(self.at))
            self.broker.appends.write_out()

    def pass_time(self, ms: float) -> None:
        self.now_ms += ms
        self.broker.answers.advance(self.at)
        self.settle()

    # Requests

    def join(self, client: str, **options: Any) -> None:
        protocol = JoinGroupRequestProtocol(name="range", metadata=client.encode())
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.ids.get(client, ""),
            protocol_type="consumer",
            protocols=[protocol],
        )
        self.ask(client, request, **options)

    def sync(self, client: str, **options: Any) -> None:
        assignments = [
            SyncGroupRequestAssignment(member_id=its_id, assignment=f"of {one}".encode())
            for one, its_id in (self.ids.items() if client == self.leader else ())
        ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.ids[client],
            assignments=assignments,
        )
        self.ask(client, request, **options)

    def beat(self, client: str) -> None:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=self.generation, member_id=self.ids[client]
        )
        self.ask(client, request)

    def leave(self, *clients: str, **options: Any) -> None:
        members = [MemberIdentity(member_id=self.ids.get(one, one)) for one in clients]
        self.ask("admin", LeaveGroupRequest(group_id=GROUP, members=members), **options)

    def commit(self, client: str) -> None:
        topic = OffsetCommitRequestTopic(
            name="t",
            partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)],
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.ids[client],
            topics=[topic],
        )
        self.ask(client, request)

    # A group

    @property
    def group(self) -> ClassicGroup:
        """An empty one, if it is none of the classic protocol."""
        found = self.broker.groups.known[0].groups.get(GROUP)
        return found if isinstance(found, ClassicGroup) else ClassicGroup("")

    @property
    def leader(self) -> str:
        return self.names[self.group.leader or ""]

    @property
    def names(self) -> dict[str, str]:
        """Clients by member id, of all that the group has had."""
        known = {one.member_id: one.client_id for one in self.group.members.values()}
        return (
            {its_id: client for client, its_id in self.ids.items()} | known | {"": "", "new": "new"}
        )

    def joining(self) -> None:
        """All have joined for the first time, and the delay of the first rebalance is not over."""
        for number in range(SIZE):
            self.join(f"c{number}")
        self.now_ms += 1

    def joined(self) -> None:
        self.joining()
        while self.pending:
            self.pass_time(3000)
        self.generation = self.group.generation
        self.ids = {one.client_id: one.member_id for one in self.group.members.values()}
        self.answers.clear()

    def syncing(self) -> None:
        """All but the leader wait for their assignment."""
        self.joined()
        for client in self.ids:
            if client != self.leader:
                self.sync(client)
        self.now_ms += 1

    def stable(self) -> None:
        self.syncing()
        self.sync(self.leader)
        self.settle()
        self.answers.clear()

    def rejoining(self) -> None:
        """All but the last have joined again."""
        self.stable()
        for client in list(self.ids)[:-1]:
            self.join(client)
        self.settle()
        self.now_ms += 1

    # What there is

    def seen(self) -> Any:
        self.ask("admin", DescribeGroupsRequest(groups=[GROUP]))
        (found,) = self.answers["admin"].pop().groups
        return (
            found.group_state,
            found.protocol_data,
            sorted(
                (one.client_id, bytes(one.member_metadata), bytes(one.member_assignment))
                for one in found.members
            ),
        )

    def all_there_is(self) -> Any:
        group, names = self.group, self.names
        timers = self.broker.groups.known[0]._timers
        keys = [one for one in timers._deadlines if isinstance(one, TimerKey) and one.group_id]
        due = sorted((k.due.name, names[k.member_id], timers._deadlines[k]) for k in keys)
        waiting = Counter(client for client, _ in self.pending.values())
        answers = {
            client: sorted(map(self._plain, answers)) for client, answers in self.answers.items()
        }
        state = group.group_id, group.state, group.generation, names[group.leader or ""]
        return state, due, self.seen(), waiting, answers

    def _plain(self, answer: Any) -> str:
        shown = repr(answer)
        for its_id, client in self.names.items():
            shown = shown.replace(its_id, client) if its_id else shown
        return shown

    def after_a_restart(self) -> Any:
        other = House()
        other.broker = open_broker(self.file_system.crash(CrashMode.KEEP), **SETTINGS)
        other.broker.groups.load(other.at)
        return other.seen()


Deed = Callable[[House], None]

LONG: dict[str, tuple[Deed, Deed]] = {
    "the last one joins again": (House.rejoining, lambda h: h.join("c4")),
    "the leader syncs": (House.syncing, lambda h: h.sync(h.leader)),
    "most leave": (House.stable, lambda h: h.leave("c0", "c2", "c3", "x")),
    "one leaves while others sync": (House.syncing, lambda h: h.leave("c1")),
    "all leave": (House.stable, lambda h: h.leave(*h.ids)),
}

OTHERS: dict[str, Deed] = {
    "a heartbeat": lambda house: house.beat("c1"),
    "a departure": lambda house: house.leave("c2"),
    "a new member": lambda house: house.join("new"),
    "a member joins again": lambda house: house.join("c3"),
    "a member syncs": lambda house: house.sync("c2"),
    "the new protocol": lambda house: house.ask(
        "new",
        ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="new",
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        ),
    ),
}


def opened(before: Deed) -> House:
    house = House()
    before(house)
    return house


def interleaved(before: Deed, deed: Deed, other: Deed) -> Iterator[House]:
    """A house for each place where the deed is suspended, at which the other one came."""
    place = 0
    while True:
        house, suspensions = opened(before), 0

        def others(house: House = house, place: int = place) -> None:
            nonlocal suspensions
            suspensions += 1
            if suspensions == place + 1:
                other(house)

        with with_others_in_between(others):
            deed(house)
        if suspensions <= place:
            return
        house.settle()
        yield house
        place += 1


@pytest.mark.slow
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("long", LONG)
def test_a_change_in_turns_and_another_request_are_as_one_after_the_other(
    long: str, other: str
) -> None:
    before, deed = LONG[long]
    in_order = []
    for first, second in ((deed, OTHERS[other]), (OTHERS[other], deed)):
        house = opened(before)
        for one in (first, second):
            one(house)
            house.settle()
        in_order.append((house.all_there_is(), house.after_a_restart()))
    places = 0
    for house in interleaved(before, deed, OTHERS[other]):
        there_is = house.all_there_is()
        assert there_is in [one for one, _ in in_order]
        if not places % LOADED_EACH:
            assert (there_is, house.after_a_restart()) in in_order
        places += 1
    assert places > SIZE


@pytest.mark.parametrize("long", LONG)
def test_who_looks_at_a_group_that_is_changed_in_turns_sees_it_as_before_or_as_after(
    long: str,
) -> None:
    before, deed = LONG[long]
    house = opened(before)
    seen = [house.seen()]
    with with_others_in_between(lambda: seen.append(house.seen())):
        deed(house)
    seen.append(house.seen())
    changes = [one for one, other in pairwise(seen) if one != other]
    assert len(changes) <= 1
    assert len(seen) > SIZE


@pytest.mark.parametrize("long", LONG)
def test_what_takes_long_in_a_group_of_many_members_asks_for_turns_before_it_changes_anything(
    long: str,
) -> None:
    before, _ = LONG[long]
    long_deeds: dict[str, Deed] = {
        "the last one joins again": lambda house: house.join("c4", can_be_long=True),
        "the leader syncs": lambda house: house.sync(house.leader, can_be_long=True),
        "one leaves while others sync": lambda house: house.leave("c1", can_be_long=True),
    }
    if long not in long_deeds:  # a request of many elements has turns from the start
        return
    house = opened(before)
    known, groups = house.group, dict(house.broker.groups.known[0].groups)
    with pytest.raises(TurnsNeededError):
        long_deeds[long](house)
    assert house.broker.groups.known[0].groups == groups
    assert house.group is known


class Rounds:
    """A server's loop, of which the broker wants a turn for what is due."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.deeds: list[Callable[[], None]] = []
        house.broker.budget.limit(lambda: False, self.deeds.append)

    def run(self, others: Callable[[], None]) -> None:
        self.house.broker.answers.advance(self.house.at)
        (deed,) = self.deeds
        self.house.broker.answers.advance(self.house.at)
        assert len(self.deeds) == 1, "it waits for its turn"
        self.deeds.clear()
        with with_others_in_between(others):
            deed()


@pytest.mark.slow
@pytest.mark.parametrize("other", OTHERS)
def test_a_deadline_of_many_members_is_handled_in_turns_as_at_once(other: str) -> None:
    """Most members have not joined again in time, or have not fetched their assignment."""

    def late_to_join(house: House) -> None:
        house.stable()
        house.leave("c4")
        house.settle()
        for client in list(house.ids)[:-1]:
            house.beat(client)
        house.now_ms += SESSION_MS - 1
        for client in list(house.ids)[:-1]:
            house.beat(client)
        house.now_ms += 1

    in_order = []
    for is_first in (True, False):
        house = opened(late_to_join)
        if is_first:
            OTHERS[other](house)
            house.settle()
        house.pass_time(0)
        if not is_first:
            OTHERS[other](house)
            house.settle()
        in_order.append(house.all_there_is())
    place, is_over = 0, False
    while not is_over:
        house, suspensions = opened(late_to_join), 0

        def others(house: House = house, place: int = place) -> None:
            nonlocal suspensions
            suspensions += 1
            house.broker.answers.advance(house.at)  # other deadlines of the group wait
            if suspensions == place + 1:
                OTHERS[other](house)

        Rounds(house).run(others)
        is_over = suspensions <= place
        if not is_over:
            house.broker.answers.advance(house.at)
            house.settle()
            assert house.all_there_is() in in_order
        place += 1
    assert place > MANY


def led_here() -> tuple[House, PartitionOrders]:
    """A broker of a cluster that has the group."""
    house = House(open_member(1, disk("/d"), **SETTINGS))
    orders = PartitionOrders(TopicPartition(CONSUMER_OFFSETS, 0), (1,))
    orders.lead(1, {1: house.broker})
    load(house)
    return house, orders


def load(house: House) -> None:
    while house.broker.groups.shards.is_busy:
        house.broker.answers.advance(house.at)


@pytest.mark.slow
@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize("long", LONG)
def test_a_change_in_turns_is_refused_if_leadership_moves_meanwhile(
    long: str, comes_back: bool
) -> None:
    before, deed = LONG[long]
    place, was_refused, is_over = 0, 0, False
    while not is_over:
        house, orders = led_here()
        before(house)
        suspensions = 0

        def others(
            house: House = house, orders: PartitionOrders = orders, place: int = place
        ) -> None:
            nonlocal suspensions
            suspensions += 1
            if suspensions == place + 1:
                orders.lead(2, {1: house.broker})
                house.beat("c1")
                if comes_back:
                    orders.lead(1, {1: house.broker})
                    load(house)

        with with_others_in_between(others):
            deed(house)
        is_over = suspensions <= place
        if not is_over:
            load(house)
            house.settle()
            assert not house.pending
            errors = {one.error_code for answers in house.answers.values() for one in answers}
            was_refused += ErrorCode.NOT_COORDINATOR in errors
            if comes_back:
                assert not house.broker.groups._changing
                assert not house.group.joining
                assert not house.group.syncing
        place += LOST_EACH
    assert was_refused
