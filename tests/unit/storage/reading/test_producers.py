"""The producers that a log's files remember: those of the broker that wrote them."""

from pathlib import Path

import pytest

import ottla
from ottla.embedded.log import Log
from ottla.storage.log.producer_state import ProducerEntry
from ottla.storage.reading.producers import producers_of
from ottla.storage.reading.read_only_directory import open_for_reading


def produced(log: Log, name: str) -> None:
    settings = {"transactional.id": name}
    with ottla.Producer(log, settings=settings) as producer, producer.transaction():
        producer.send("orders", name.encode(), partition=0).result()


def of_broker(log: Log) -> list[ProducerEntry]:
    return list(log.broker.topics.partition("orders", 0).log.producers.entries.values())


@pytest.mark.slow
def test_they_are_found_in_the_batches_and_in_a_snapshot_with_what_came_after_it(
    tmp_path: Path,
) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("orders")
        produced(log, "first")
        at_rest = open_for_reading(str(tmp_path)).partition("orders", 0)
        assert at_rest.transactions.newest_snapshot() is None
        assert producers_of(at_rest) == of_broker(log)
    assert (
        open_for_reading(str(tmp_path)).partition("orders", 0).transactions.newest_snapshot()
        is not None
    )
    with ottla.open(tmp_path) as log:
        produced(log, "second")
        log.flush()
        at_rest = open_for_reading(str(tmp_path)).partition("orders", 0)
        assert at_rest.transactions.newest_snapshot() is not None
        found = {one.producer_id: one for one in producers_of(at_rest)}
        assert found == {one.producer_id: one for one in of_broker(log)}
        assert len(found) == 2
