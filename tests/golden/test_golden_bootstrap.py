"""A follower that has lost a tiered log asks Kafka's leader what Kafka's follower asked, byte for
byte, and our leader answers its questions with the same bytes.
"""

from collections import deque
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.base.clock import SystemClock
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.replication.effects import AppendAsFollower, BuildFromTier, Effect
from ottla.broker.replication.fetches import Fetch, Fetched, FollowerRequest, LeaderAnswer
from ottla.broker.replication.following import Following
from ottla.broker.replication.local_replica import LocalReplica
from ottla.broker.replication.replica_log import EpochEnd
from ottla.broker.waiting.fetch_queries import Fetcher as Asking
from ottla.cluster.fetch_session import FetchLimits
from ottla.cluster.fetchers import Fetcher, FetcherParts
from ottla.codec.primitives import Output
from ottla.codec.schema import Message
from ottla.config.inter_broker_version import parse_inter_broker_version
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import FRAME_SIZE, encode_request, encode_response
from ottla.protocol.messages.fetch import FetchResponse
from ottla.record.batch import iter_batches
from tests.golden.exchanges import BOOTSTRAP, RECORDED, Exchange, exchanges
from tests.support.asking import Asker
from tests.support.brokers import NOW_MS, disk
from tests.support.tier_jobs import Moment, broker_with_tier, fill, tiered_topic

pytestmark = pytest.mark.skipif(RECORDED is None, reason="no recorded exchanges")

F = TopicPartition("f", 0)
OTHERS = [TopicPartition("__remote_log_metadata", one) for one in (0, 1)]
LEADER, FOLLOWER, EPOCH = 1, 2, 0
RETURN, FIRST_IN_SYNC = 88, 98
"""The lines between which the follower comes back, finds its log gone, and has caught up."""

LATEST_FOR_A_METRIC = 95
"""Kafka also asks where the leader's log ends, to show how far the follower is behind."""


def bootstrap() -> list[Exchange]:
    return [
        one
        for one in exchanges(BOOTSTRAP)
        if RETURN <= one.line <= FIRST_IN_SYNC and one.line != LATEST_FOR_A_METRIC
    ]


class Kafka:
    """Kafka's leader, which insists on the bytes that Kafka's follower sent."""

    def __init__(self) -> None:
        self.left = deque(bootstrap())

    def version_of(self, api_key: int, *, newest: int | None = None) -> int:
        assert newest is not None
        return newest

    def ask(self, request: Message, *, newest: int | None = None) -> Any:
        expected, output = self.left.popleft(), Output()
        header = expected.header
        assert header.api_version == newest
        encode_request(header, request, output)
        assert output.read_all()[FRAME_SIZE.size :] == expected.request_frame, expected.line
        return expected.response

    def close(self) -> None: ...


class Log:
    """The follower's log, as far as `ReplicaLog` asks: it is gone at first."""

    log_start_offset = local_start_offset = log_end_offset = recorded_high_watermark = 0
    latest_epoch: int | None = None
    has_tier = True
    min_insync_replicas = 1

    def end_offset_for(self, epoch: int) -> EpochEnd | None:
        return EpochEnd(epoch, self.log_end_offset)


class Host:
    """The broker that has lost the log of `F`; `builds` are the times that it was built."""

    def __init__(self) -> None:
        self.log = Log()
        local = LocalReplica(partition=F, broker_id=FOLLOWER, log=self.log, high_watermark=0)
        self.following = Following(
            local, LEADER, EPOCH, truncates_on_fetch=True, starts_after_tier=lambda: False
        )
        self.following.begin()
        self.ends = {OTHERS[0]: 0, OTHERS[1]: 14}
        self.builds: list[BuildFromTier] = []
        first = bootstrap()[0].request
        ids = dict.fromkeys(OTHERS, first.topics[0].topic_id) | {F: _id_of_f()}
        self.manager: Any = SimpleNamespace(
            request_of=self._request_of,
            metadata=SimpleNamespace(endpoint=lambda *_: "endpoint"),
            broker_epoch=first.replica_state.replica_epoch,
            partitions={one: SimpleNamespace(topic_id=found) for one, found in ids.items()},
        )

    def _request_of(self, partition: TopicPartition) -> tuple[int, FollowerRequest] | None:
        if partition == F:
            request = self.following.next_request(broker_epoch=-1)
            return None if request is None else (LEADER, request)
        end = self.ends[partition]
        return LEADER, Fetch(
            partition=partition,
            follower=FOLLOWER,
            leader_epoch=EPOCH,
            fetch_offset=end,
            last_fetched_epoch=EPOCH if end else -1,
        )

    def take(self, answer: LeaderAnswer, at: Timestamps) -> bool:
        if answer.partition == F:
            for effect in self.following.take(answer):
                self._carry_out(effect)
        return True

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case BuildFromTier():
                self.builds.append(effect)
                if len(self.builds) > 1:  # The first time Kafka did not know the uploads yet.
                    self.log.log_end_offset = self.log.local_start_offset = effect.start_offset
                    self.log.log_start_offset = effect.log_start_offset
                    self.log.latest_epoch = effect.epoch
                    self.following.built()
            case AppendAsFollower(fetched=Fetched() as fetched):
                batches = list(iter_batches(fetched.records))
                assert batches[0].base_offset == self.log.log_end_offset
                self.log.log_end_offset = batches[-1].last_offset + 1
                self.following.appended(fetched)
            case _:
                raise AssertionError(effect)

    def must_wait(self, place: TopicPartition, at: Timestamps) -> bool:
        return False


def _id_of_f() -> Uuid:
    asked = next(one for one in bootstrap() if one.line == RETURN + 1).request
    found: Uuid = asked.topics[0].topic_id
    return found


def test_a_follower_that_begins_from_the_tier_asks_as_kafkas_does() -> None:
    kafka, host = Kafka(), Host()
    parts = FetcherParts(
        broker_id=FOLLOWER,
        replicas=host,
        lock=nullcontext(),
        connect=lambda *_: kafka,
        version=lambda: parse_inter_broker_version("3.9"),
        listener="INTERNAL",
        clock=SystemClock(),
        wake=lambda: None,
        limits=FetchLimits(),
        backoff_ms=0,
    )
    fetcher = Fetcher(LEADER, parts)

    def rounds(count: int, *partitions: TopicPartition) -> None:
        fetcher.look_at(partitions)
        for _ in range(count):
            fetcher._round(fetcher._next_asks())

    rounds(1, OTHERS[1])
    rounds(4, F, OTHERS[0])  # moved to the tier, the local start, forgotten, nothing
    assert len(host.builds) == 1
    host.following.built()
    rounds(5, F)
    assert not kafka.left
    assert host.builds[0] == host.builds[1]
    assert host.builds[1].start_offset == 370
    assert (host.log.log_end_offset, host.following.local.high_watermark) == (501, 501)


def test_a_leader_answers_such_a_follower_as_kafkas_does(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with_tier(disk("/d"))
    partition = tiered_topic(broker, "f")
    fill(broker, partition, 501, moment=Moment(NOW_MS))
    partition.log.offsets.highest_remote_offset = 440
    partition.log.maintenance.leave_to_tier(370)
    monkeypatch.setattr(broker.replicas, "fetcher", lambda *_: Asking(FOLLOWER))
    client, id_here = Asker(broker), broker.topics.get("f").topic_id
    seen = set()
    for one in exchanges(BOOTSTRAP)[RETURN:LATEST_FOR_A_METRIC]:
        header, request, expected = one.header, one.request, one.response
        if header.api_key == ApiKey.FETCH:
            request.topics = [its for its in request.topics if its.topic_id == _id_of_f()]
            expected.responses = [its for its in expected.responses if its.topic_id == _id_of_f()]
            if not request.topics:
                continue
            request.topics[0].topic_id, request.session_id, request.session_epoch = id_here, 0, -1
        elif header.api_key != ApiKey.LIST_OFFSETS:
            continue
        answer = client.ask(request, header.api_version)
        if isinstance(answer, FetchResponse):
            answer.session_id = expected.session_id
            answer.responses[0].topic_id = _id_of_f()
        frames = [Output(), Output()]
        for output, message in zip(frames, (answer, expected), strict=True):
            encode_response(header, message, output)
        ours, kafkas = (output.read_all() for output in frames)
        assert ours == kafkas, one.line
        seen.add(one.line)
    assert seen == {89, 90, 93, 94, 95}
    broker.close()
