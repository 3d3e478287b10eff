"""The thread that follows a leader: what it takes of the broker's lock, and whom it wakes."""

from collections.abc import Iterator
from threading import Event, Lock
from types import SimpleNamespace, TracebackType
from typing import Any

import pytest

from ottla.base.clock import SystemClock
from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.replication.fetches import AskOffsets, Fetch, FollowerRequest, LeaderAnswer
from ottla.cluster.fetch_session import FetchLimits
from ottla.cluster.fetchers import FetcherParts, Fetchers
from ottla.config.inter_broker_version import parse_inter_broker_version
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.support.patience import wait_until

PLACE = TopicPartition("orders", 0)
LEADER = 2


class CountedLock:
    def __init__(self) -> None:
        self.count = 0
        self._lock = Lock()

    def __enter__(self) -> None:
        self._lock.acquire()
        self.count += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()


class Host:
    """A broker that follows one partition: each answer moves it on by one record."""

    def __init__(self) -> None:
        self.end = 0
        self.is_out_of_range = False
        self.takes_nothing = False
        self.taken: list[LeaderAnswer] = []
        self.manager: Any = SimpleNamespace(
            request_of=self._request_of,
            metadata=SimpleNamespace(endpoint=lambda *_: "endpoint"),
            broker_epoch=1,
            partitions={PLACE: SimpleNamespace(topic_id=None)},
        )

    def _request_of(self, partition: TopicPartition) -> tuple[int, FollowerRequest]:
        if self.is_out_of_range:
            return LEADER, AskOffsets(partition=partition, leader_epoch=0)
        return LEADER, Fetch(partition=partition, follower=1, fetch_offset=self.end)

    def take(self, answer: LeaderAnswer, at: Timestamps) -> bool:
        self.taken.append(answer)
        if self.takes_nothing:
            return False
        self.is_out_of_range = answer.error is ErrorCode.OFFSET_OUT_OF_RANGE
        self.end += 1
        return True

    def must_wait(self, place: TopicPartition, at: Timestamps) -> bool:
        return False


class Leader:
    """Answers so many fetches at once, and the next not before the connection is closed."""

    def __init__(self, count: int, *errors: int) -> None:
        self.fetches: list[FetchRequest] = []
        self.has_waiting = Event()
        self._count = count
        self._errors = dict(enumerate(errors))
        self._is_closed = Event()

    def version_of(self, api_key: int, *, newest: int | None = None) -> int:
        return newest or 0

    def ask(self, request: Any, *, newest: int | None = None) -> Any:
        if not isinstance(request, FetchRequest):
            found = ListOffsetsPartitionResponse(partition_index=0)
            return ListOffsetsResponse(
                topics=[ListOffsetsTopicResponse(name="orders", partitions=[found])]
            )
        if len(self.fetches) == self._count:
            self.has_waiting.set()
            self._is_closed.wait()
            raise OSError("closed")
        error = self._errors.get(len(self.fetches), 0)
        self.fetches.append(request)
        data = PartitionData(partition_index=0, error_code=error, high_watermark=0, records=b"")
        topic = FetchableTopicResponse(topic="orders", partitions=[data])
        return FetchResponse(session_id=7, responses=[topic])

    def close(self) -> None:
        self._is_closed.set()


class Following:
    def __init__(self, leader: Leader) -> None:
        self.leader, self.host, self.lock = leader, Host(), CountedLock()
        self.woken = 0
        parts = FetcherParts(
            broker_id=1,
            replicas=self.host,
            lock=self.lock,
            connect=lambda *_: leader,
            version=lambda: parse_inter_broker_version("2.7"),
            listener="PLAINTEXT",
            clock=SystemClock(),
            wake=self._wake,
            limits=FetchLimits(),
            backoff_ms=1000,
        )
        self.fetchers = Fetchers(parts)

    def _wake(self) -> None:
        self.woken += 1


@pytest.fixture
def stack() -> Iterator[list[Following]]:
    made: list[Following] = []
    yield made
    for one in made:
        one.fetchers.stop()


def follow(stack: list[Following], leader: Leader) -> Following:
    following = Following(leader)
    stack.append(following)
    with following.lock:
        following.fetchers.changed(PLACE)
    wait_until(leader.has_waiting.is_set)
    return following


def offsets(leader: Leader) -> list[int]:
    return [
        one.fetch_offset
        for its in leader.fetches
        for topic in its.topics
        for one in topic.partitions
    ]


def test_the_lock_is_taken_once_for_each_answer(stack: list[Following]) -> None:
    following = follow(stack, Leader(20))
    assert offsets(following.leader) == list(range(20)), "each fetch goes on after the one before"
    assert len(following.host.taken) == following.woken == 20
    assert following.lock.count == 22, "and when the partition was followed, and first looked at"


def test_what_the_leader_is_asked_first_comes_before_the_next_fetch(
    stack: list[Following],
) -> None:
    following = follow(stack, Leader(3, 0, ErrorCode.OFFSET_OUT_OF_RANGE))
    kinds = [type(one).__name__ for one in following.host.taken]
    assert kinds == ["Fetched", "Fetched", "Offsets", "Fetched"]
    assert offsets(following.leader) == [0, 1, 3]


def test_what_cannot_be_appended_is_fetched_again_after_a_pause(stack: list[Following]) -> None:
    following = Following(Leader(20))
    stack.append(following)
    following.host.takes_nothing = True
    with following.lock:
        following.fetchers.changed(PLACE)
    wait_until(lambda: following.woken == 1)
    assert offsets(following.leader) == [0], "the next one is due in a second"
