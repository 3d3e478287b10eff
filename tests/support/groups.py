"""A group machine with a log and a clock around it: decide, append, replay, answer, in memory."""

import dataclasses
from collections.abc import Hashable, Iterator, Mapping
from itertools import count
from typing import Any, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timers import Timers
from ottla.base.timestamps import Timestamps
from ottla.config.group import GroupConfig
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.catalog import TopicCatalog
from ottla.coordinator.classic.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.classic.requests import (
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    SyncAnswer,
    SyncRequest,
)
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.decision import Answer, Decision
from ottla.coordinator.offsets.commits import CommitRequest, PartitionErrors
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.offsets.records import decode_key, decode_value, encode_key, encode_value
from ottla.coordinator.requests import Acknowledgement, MemberClaim
from ottla.coordinator.shard import GroupCoordinatorShard

START_MS = 1_700_000_000_000
GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000

NO_DELAY = GroupCoordinatorConfig(group_initial_rebalance_delay_ms=0)
SUBSCRIPTION = encode_subscription(ConsumerProtocolSubscription(topics=["t"]), 1)
RANGE = {"range": SUBSCRIPTION}

EncodedRecord = tuple[bytes, bytes | None]
AnswerT = TypeVar("AnswerT", bound=Answer)

SUFFIX = 15 * b"\0"


def topic_id(name: str) -> Uuid:
    """An id that shows the topic's name, of one letter."""
    return Uuid(name.encode() + SUFFIX)


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
        for name, partition_count in counts.items():
            self.put(name, partition_count)

    def __iter__(self) -> Iterator[FakeTopic]:
        return iter(self._topics.values())

    def find(self, name: str) -> FakeTopic | None:
        return self._topics.get(name)

    def put(self, name: str, partition_count: int) -> None:
        self.revision += 1
        self._topics[name] = FakeTopic(name, topic_id(name), partition_count)

    def remove(self, name: str) -> None:
        self.revision += 1
        del self._topics[name]


class Runner:
    """`answers` are the replies to pending ids; `log` is what a restart reads.

    With `refuses` set, the log takes no more records. `group_configs` are the settings of groups
    that have some of their own.
    """

    def __init__(
        self,
        config: GroupCoordinatorConfig = NO_DELAY,
        log: list[EncodedRecord] | None = None,
        catalog: TopicCatalog | None = None,
    ):
        self.config = config
        self.catalog = FakeCatalog() if catalog is None else catalog
        self.group_configs: dict[str, GroupConfig] = {}
        self.elapsed_ms = 0
        self.log = [] if log is None else log
        self.answers: dict[Hashable, Any] = {}
        self.refuses: ErrorCode | None = None
        self._ids = count(1)
        self.machine = self._boot()

    def _boot(self) -> GroupCoordinatorShard:
        self.timers: Timers[Hashable] = Timers()
        machine = GroupCoordinatorShard(
            self.config,
            self.catalog,
            lambda: Uuid(next(self._ids).to_bytes(16, "big")),
            lambda group_id: self.group_configs.get(group_id, self.config.group_defaults),
            self.timers,
        )
        for offset, (encoded_key, encoded_value) in enumerate(self.log):
            key = decode_key(encoded_key)
            assert key is not None
            value = None if encoded_value is None else decode_value(key, encoded_value)
            machine.replay(key, value, offset)
        machine.loaded(self.at)
        return machine

    def restart(self) -> None:
        """A crash: only the log is left, and nobody who waited is answered."""
        self.machine = self._boot()

    @property
    def at(self) -> Timestamps:
        """The wall clock and the monotonic one have nothing in common but their pace."""
        return Timestamps(now_ms=START_MS + self.elapsed_ms, monotonic_ms=float(self.elapsed_ms))

    def run(self, decision: Decision[AnswerT]) -> AnswerT | None:
        if self.refuses is not None and decision.records:
            decision = self.machine.refused(decision, self.refuses, self.at)
        first_offset = len(self.log)
        for record in decision.records:
            value = None if record.value is None else encode_value(record.value)
            self.log.append((encode_key(record.key), value))
        self.machine.adopt(decision, first_offset)
        self._deliver(decision)
        return decision.answer

    def _deliver(self, decision: Decision[Any]) -> None:
        for reply in decision.replies:
            assert reply.pending_id not in self.answers, "answered twice"
            self.answers[reply.pending_id] = reply.answer

    def advance(self, milliseconds: int) -> None:
        """Lets time pass, stopping at every deadline on the way."""
        end = self.elapsed_ms + milliseconds
        while True:
            next_ms = self.timers.next_deadline_ms
            if next_ms is None or next_ms > end:
                break
            self.elapsed_ms = max(self.elapsed_ms, int(next_ms))
            self._run_due()
        self.elapsed_ms = end

    def _run_due(self) -> None:
        while (decision := self.machine.advance(self.at)) is not None:
            self.run(decision)

    # Operations with defaults

    def join(self, pending_id: Hashable, member_id: str = "", **options: Any) -> JoinAnswer | None:
        """The answer, at once or as soon as it has come to the pending_id."""
        request = JoinRequest(
            group_id=options.pop("group_id", GROUP),
            member_id=member_id,
            client_id=options.pop("client_id", "client"),
            client_host="/127.0.0.1",
            session_timeout_ms=options.pop("session_timeout_ms", SESSION_MS),
            rebalance_timeout_ms=options.pop("rebalance_timeout_ms", REBALANCE_MS),
            protocol_type=options.pop("protocol_type", "consumer"),
            protocols=options.pop("protocols", RANGE),
            requires_member_id=options.pop("requires_member_id", False),
            **options,
        )
        return self._note(pending_id, self.run(self.machine.join(request, pending_id, self.at)))

    def sync(
        self,
        pending_id: Hashable,
        joined: JoinAnswer,
        assignments: Mapping[str, bytes] | None = None,
        instance_id: str | None = None,
        **options: Any,
    ) -> SyncAnswer | None:
        claim = claim_of(joined, instance_id)
        request = SyncRequest(claim=claim, assignments=assignments or {}, **options)
        return self._note(pending_id, self.run(self.machine.sync(request, pending_id, self.at)))

    def _note(self, pending_id: Hashable, answer: AnswerT | None) -> AnswerT | None:
        if answer is not None:
            assert pending_id not in self.answers, "answered twice"
            self.answers[pending_id] = answer
        return answer

    def heartbeat(self, joined: JoinAnswer, instance_id: str | None = None) -> ErrorCode:
        answer = self.run(self.machine.heartbeat(claim_of(joined, instance_id), self.at))
        assert isinstance(answer, Acknowledgement)
        return answer.error

    def leave(self, *member_ids: str, **options: Any) -> LeaveAnswer:
        leaving = tuple(Leaving(member_id=one, **options) for one in member_ids)
        answer = self.run(self.machine.leave(GROUP, leaving, self.at))
        assert answer is not None
        return answer

    def commit(
        self,
        offset: int = 1,
        claim: MemberClaim | None = None,
        where: TopicPartition = ("t", 0),
        retention_ms: int | None = None,
        **options: Any,
    ) -> ErrorCode:
        request = CommitRequest(
            claim=claim or MemberClaim(group_id=GROUP),
            offsets={where: NewOffset(offset=offset, **options)},
            retention_ms=retention_ms,
        )
        answer = self.run(self.machine.commit(request, self.at))
        assert isinstance(answer, PartitionErrors)
        return answer.partitions[where]

    def committed(self, where: TopicPartition = ("t", 0), group_id: str = GROUP) -> int | None:
        claim = MemberClaim(group_id=group_id)
        found = self.machine.fetch_offsets(claim, [where])[where].committed
        return None if found is None else found.offset

    # Where the group stands

    @property
    def group(self) -> ClassicGroup:
        group = self.machine.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state(self) -> GroupState:
        group = self.machine.groups.get(GROUP)
        if group is None:
            return GroupState.DEAD
        assert isinstance(group, ClassicGroup)
        return group.state

    def stable(self, size: int = 1, **options: Any) -> list[JoinAnswer]:
        """A stable group of so many members, the leader first; assignments are their ids."""
        first = self.join("stable join 0", **options)
        assert first is not None
        for number in range(1, size):
            assert self.join(f"stable join {number}", **options) is None
        joined = [first]
        if size > 1:
            again = self.join("stable again", first.member_id, **options)
            assert again is not None
            others = (self.answers[f"stable join {number}"] for number in range(1, size))
            joined = [again, *others]
        assignments = {one.member_id: one.member_id.encode() for one in joined}
        for one in joined[1:]:
            assert self.sync(("stable sync", one.member_id), one) is None
        answer = self.sync("stable sync of the leader", joined[0], assignments)
        assert answer is not None
        assert answer.error is ErrorCode.NONE
        assert self.state is GroupState.STABLE
        return joined


def claim_of(joined: JoinAnswer, instance_id: str | None = None) -> MemberClaim:
    return MemberClaim(
        group_id=GROUP,
        member_id=joined.member_id,
        generation=joined.generation,
        instance_id=instance_id,
    )
