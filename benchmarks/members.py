"""Members of consumer groups that cost next to nothing: one thread speaks for all of them.

Each has a connection of its own and does what a client of the classic protocol does: it joins,
syncs, sends heartbeats, and joins again when an answer says that its group rebalances.
"""

import selectors
import time
from typing import Any

from benchmarks.wire import WireClient, decode, frame_of
from ottla.base.error_codes import ErrorCode
from ottla.codec.schema import Message
from ottla.coordinator.classic.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NEWEST = {
    ApiKey.FIND_COORDINATOR: 1,
    ApiKey.JOIN_GROUP: 5,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.HEARTBEAT: 3,
    ApiKey.LEAVE_GROUP: 2,
}
"""The last versions before the flexible ones; of LeaveGroup, the last with one member."""

SESSION_MS = 30_000
REBALANCE_MS = 60_000
LIMIT_S = 120.0
PROTOCOL = "range"
AGAIN = (
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class Member:
    """One consumer; `generation` is the one in which it was assigned something, or -1."""

    def __init__(self, host: str, port: int, group_id: str, topic: str) -> None:
        self.client = WireClient(host, port)
        self.group_id = group_id
        self.generation = -1
        self.is_asking = False
        self.next_heartbeat = 0.0
        self._topic = topic
        self._member_id = ""
        self._joined: Any = None
        self._asked: ApiKey = ApiKey.JOIN_GROUP

    def find_coordinator(self) -> None:
        """The only broker is the coordinator; but some begin to be it when they are asked."""
        version = self._version(ApiKey.FIND_COORDINATOR)
        deadline = time.monotonic() + LIMIT_S
        while self.client.ask(FindCoordinatorRequest(key=self.group_id), version).error_code:
            if time.monotonic() > deadline:
                raise RuntimeError("the broker finds no coordinator")
            time.sleep(0.05)

    def join(self) -> None:
        self.generation = -1
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=[self._topic]), 0)
        protocols = [JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription)]
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        self._ask(ApiKey.JOIN_GROUP, request)

    def heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation, member_id=self._member_id
        )
        self._ask(ApiKey.HEARTBEAT, request)

    def leave(self) -> None:
        request = LeaveGroupRequest(group_id=self.group_id, member_id=self._member_id)
        self.client.ask(request, self._version(ApiKey.LEAVE_GROUP))
        self.client.socket.close()

    def take_answer(self) -> None:
        """Reads what has come, and asks what follows from it."""
        asked = self._asked
        answer = decode(self.client.receive_frame(), asked, self._version(asked))
        self.is_asking = False
        if answer.error_code in AGAIN:
            if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            elif asked == ApiKey.JOIN_GROUP:
                self._member_id = answer.member_id or self._member_id
            self.join()
        elif answer.error_code:
            raise RuntimeError(f"{asked.name} is answered with error {answer.error_code}")
        elif asked == ApiKey.JOIN_GROUP:
            self._member_id, self._joined = answer.member_id, answer
            self._sync()
        elif asked == ApiKey.SYNC_GROUP and answer.assignment:
            self.generation = self._joined.generation_id

    def _sync(self) -> None:
        """The leader gives each member one partition."""
        assignments = [
            SyncGroupRequestAssignment(member_id=one.member_id, assignment=self._part(number))
            for number, one in enumerate(self._joined.members)
        ]
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self._joined.generation_id,
            member_id=self._member_id,
            assignments=assignments,
        )
        self._ask(ApiKey.SYNC_GROUP, request)

    def _part(self, number: int) -> bytes:
        part = TopicPartition(topic=self._topic, partitions=[number])
        return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[part]), 0)

    def _version(self, key: ApiKey) -> int:
        return self.client.version(key, NEWEST[key])

    def _ask(self, key: ApiKey, request: Message) -> None:
        self._asked = key
        self.is_asking = True
        self.client.socket.sendall(frame_of(request, self._version(key)))


class Crowd:
    """All members of all groups, in one selector."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members
        self.heartbeat_count = 0
        self._selector = selectors.DefaultSelector()
        for member in members:
            self._selector.register(member.client.socket, selectors.EVENT_READ, member)

    def close(self) -> None:
        self._selector.close()
        for member in self.members:
            member.client.socket.close()

    def settle(self, heartbeat_s: float) -> float:
        """Has everybody join; the seconds until each group is in one generation, wholly."""
        started = time.perf_counter()
        for member in self.members:
            member.join()
        while not self._is_settled():
            self._round(heartbeat_s)
            if time.perf_counter() - started > LIMIT_S:
                raise RuntimeError(f"the groups are not settled after {LIMIT_S:.0f} s")
        return time.perf_counter() - started

    def idle(self, seconds: float, heartbeat_s: float) -> None:
        """Only heartbeats, spread evenly; raises if a group rebalances."""
        start = time.monotonic()
        for number, member in enumerate(self.members):
            member.next_heartbeat = start + number * heartbeat_s / len(self.members)
        while time.monotonic() < start + seconds:
            self._round(heartbeat_s)
        while any(member.is_asking for member in self.members):
            self._take_answers(1.0)
        if not self._is_settled():
            raise RuntimeError("a group has rebalanced although nobody came or went")

    def _is_settled(self) -> bool:
        generations: dict[str, set[int]] = {}
        for member in self.members:
            if member.generation < 0:
                return False
            generations.setdefault(member.group_id, set()).add(member.generation)
        return all(len(found) == 1 for found in generations.values())

    def _round(self, heartbeat_s: float) -> None:
        now = time.monotonic()
        for member in self.members:
            if member.generation >= 0 and not member.is_asking and member.next_heartbeat <= now:
                member.heartbeat()
                member.next_heartbeat = now + heartbeat_s
                self.heartbeat_count += 1
        self._take_answers(0.005)

    def _take_answers(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            key.data.take_answer()
