"""Calls that wait are refused in the thread of an event loop, with what to call instead."""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla
from ottla.runtime.loops import BlockingCallError

PLACE = ottla.TopicPartition("orders", 0)

PRODUCER: dict[str, tuple[Any, ...]] = {
    "send": ("orders", b"tea"),
    "flush": (),
    "close": (),
    "partitions_for": ("orders",),
    "init_transactions": (),
    "begin_transaction": (),
    "commit_transaction": (),
    "abort_transaction": (),
    "send_offsets_to_transaction": ({PLACE: 1}, "billing"),
}
CONSUMER: dict[str, tuple[Any, ...]] = {
    "poll": (),
    "close": (),
    "seek_to_beginning": (PLACE,),
    "seek_to_end": (PLACE,),
    "seek_to_time": (0, PLACE),
    "topics": (),
    "partitions_for_topic": ("orders",),
    "beginning_offsets": ([PLACE],),
    "end_offsets": ([PLACE],),
    "offsets_for_times": ({PLACE: 0},),
    "commit": (),
    "committed": ([PLACE],),
}


@pytest.fixture(scope="module")
def log() -> Iterator[ottla.Log]:
    with ottla.open(":memory:") as one:
        one.create_topic("orders")
        yield one


def refusal(call: Callable[[], object]) -> str:
    """What a call says in a running loop."""

    async def run() -> str:
        with pytest.raises(BlockingCallError) as caught:
            call()
        return str(caught.value)

    return asyncio.run(run())


def test_each_waiting_call_of_a_producer_names_its_coroutine(log: ottla.Log) -> None:
    with ottla.Producer(log) as producer:
        for name, arguments in PRODUCER.items():
            method = getattr(producer, name)
            said = refusal(lambda call=method, given=arguments: call(*given))
            assert said.endswith(f"call await ottla.aio.Producer.{name}"), said
        assert "ottla.aio.Producer.transaction" in refusal(producer.transaction().__enter__)


def test_each_waiting_call_of_a_consumer_names_its_coroutine(log: ottla.Log) -> None:
    with ottla.Consumer(log, "billing") as consumer:
        consumer.assign([PLACE])
        for name, arguments in CONSUMER.items():
            method = getattr(consumer, name)
            said = refusal(lambda call=method, given=arguments: call(*given))
            assert re.search(rf"ottla\.aio\.Consumer\.({name}|seek_to_\.\.\.)\(\)$", said), said
        assert "ottla.aio.Consumer.poll()" in refusal(lambda: next(iter(consumer)))


def test_the_others_name_what_may_be_awaited(log: ottla.Log) -> None:
    with ottla.SimpleConsumer(log) as simple:
        assert "asyncio.to_thread" in refusal(lambda: simple.fetch("orders"))
    assert "call ottla.aio.Admin" in refusal(lambda: ottla.Admin(log))
    assert "call async for" in refusal(lambda: list(log.tail("orders", timeout_s=0)))
