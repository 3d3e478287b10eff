"""A consumer with a session gets the records that one without gets, and knows no less."""

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.base.errors import ApiError
from ottla.base.fetching_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    next_epoch,
)
from ottla.broker.broker import Broker
from ottla.broker.records.fetch_sessions import (
    SessionFetch,
    key_of,
)
from ottla.broker.waiting.fetch_queries import FetchQuery, PartitionQuery
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.batch import iter_batches
from ottla.storage.log.reader import FetchData
from tests.support.brokers import batch, disk, open_broker

PARTITION_COUNT = 3
ALL = 1 << 30

indexes = st.integers(0, PARTITION_COUNT - 1)
STEPS = st.one_of(
    st.tuples(st.just("append"), indexes),
    st.tuples(st.just("delete records"), indexes),
    st.tuples(st.just("toggle"), indexes),
    st.tuples(st.just("rewind"), indexes),
    st.tuples(st.just("fetch"), st.sampled_from([1, 100, ALL])),
    st.tuples(st.just("steal the slot"), st.just(0)),
    st.tuples(st.just("lose the answer"), st.just(0)),
)


@dataclass
class Consumer:
    """Follows KIP-227 as clients do: it sends what differs from what it has sent before."""

    broker: Broker
    has_session: bool
    offsets: dict[int, int] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)
    got: dict[int, list[int]] = field(default_factory=dict)
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    session_id: int = NO_SESSION
    epoch: int = INITIAL_EPOCH

    def request(self) -> SessionFetch:
        if not self.has_session:
            self.epoch = FINAL_EPOCH
        if self.epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self.sent = {}
        changed = {
            index: offset
            for index, offset in self.offsets.items()
            if self.sent.get(index) != offset
        }
        forgotten = [("t", index) for index in self.sent if index not in self.offsets]
        self.sent = dict(self.offsets)
        wanted = [PartitionQuery("t", index, offset, ALL) for index, offset in changed.items()]
        return SessionFetch(self.session_id, self.epoch, False, wanted, forgotten)

    def fetch(self, max_size: int, *, is_lost: bool = False) -> None:
        try:
            context = self.broker.fetch_sessions.begin(self.request(), now_ms=0)
        except ApiError:
            self.start_over()
            return
        told = context.respond(self.broker.fetches.fetch(FetchQuery(context.partitions, max_size)))
        if is_lost:
            self.start_over()
            return
        if self.has_session:
            self.epoch = INITIAL_EPOCH if told.session_id == NO_SESSION else next_epoch(self.epoch)
            self.session_id = told.session_id
        for wanted, data in told.pairs:
            self.take(wanted, data)

    def start_over(self) -> None:
        self.epoch = INITIAL_EPOCH

    def take(self, wanted: PartitionQuery, data: FetchData | ApiError) -> None:
        assert key_of(wanted)[1] in self.offsets, "nobody asked"
        if isinstance(data, ApiError):
            log = self.broker.topics.partition("t", wanted.index).log
            self.offsets[wanted.index] = log.log_start_offset
            return
        self.ends[wanted.index] = (data.log_start_offset, data.high_watermark)
        if data.records is None:
            return
        for one in iter_batches(data.records.read(), allow_torn_tail=True):
            self.got.setdefault(wanted.index, []).append(one.base_offset)
            self.offsets[wanted.index] = one.last_offset + 1


def apply(broker: Broker, consumers: list[Consumer], step: tuple[str, int]) -> None:
    name, number = step
    if name == "append":
        broker.appends.append(broker.topics.partition("t", number), batch(b"a", b"b"), now_ms=1)
        broker.appends.write_out()
    elif name == "delete records":
        broker.admin.delete_records({("t", number): -1})
    elif name == "steal the slot":
        broker.fetch_sessions._sessions.clear()
    for consumer in consumers:
        if name == "toggle":
            if consumer.offsets.pop(number, None) is None:
                consumer.offsets[number] = 0
        elif name == "rewind" and number in consumer.offsets:
            consumer.offsets[number] = 0
        elif name == "fetch":
            consumer.fetch(number)
        elif name == "lose the answer":
            consumer.fetch(ALL, is_lost=True)


def drain(consumer: Consumer) -> None:
    """Fetches until nothing more can come: an error or a lost session costs one fetch more."""
    for _ in range(4 * PARTITION_COUNT):
        consumer.fetch(ALL)


@pytest.mark.slow
@given(st.lists(STEPS, max_size=30))
@settings(max_examples=60, deadline=None)
@example([("toggle", 0), ("append", 0), ("fetch", ALL), ("delete records", 0)])
def test_a_session_gives_the_records_and_ends_that_full_fetches_give(
    steps: list[tuple[str, int]],
) -> None:
    broker = open_broker(disk("/d"), max_incremental_fetch_session_cache_slots="1")
    broker.admin.create_topic(NewTopic(name="t", partition_count=PARTITION_COUNT))
    with_session, without = Consumer(broker, True), Consumer(broker, False)
    for step in steps:
        apply(broker, [with_session, without], step)
        if step[0] in ("append", "toggle"):
            continue
        for consumer in (with_session, without):
            drain(consumer)
        assert with_session.offsets == without.offsets
        assert with_session.got == without.got
        for index in without.offsets:
            assert with_session.ends[index] == without.ends[index]
