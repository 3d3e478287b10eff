"""Kafka's own `__consumer_offsets`, replayed: exactly its groups, with exactly their offsets."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ottla.base.clock import SystemClock, read_clock
from ottla.broker.broker import Broker
from ottla.broker.coordination.stored_records import latest_records
from ottla.coordinator.placement import partition_for
from ottla.coordinator.requests import MemberClaim
from ottla.storage.files.losses import NO_LOSSES
from ottla.storage.reading.sound_batches import sound_batches
from tests.golden.directories import GOLDEN
from tests.support import SHARED
from tests.support.serving import open_broker

pytestmark = pytest.mark.skipif(SHARED is None, reason="no golden data beside the repository")

CASE = GOLDEN / "consumer-offsets"


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    target = tmp_path / "logdir"
    shutil.copytree(CASE / "logdir", target, copy_function=shutil.copyfile)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755)
    broker = open_broker(target)
    yield broker
    broker.close()


def offsets_of(broker: Broker, group_id: str) -> set[tuple[str, int, int, str]]:
    found = broker.groups.machines(read_clock(SystemClock()))[0].fetch_offsets(
        MemberClaim(group_id=group_id), None
    )
    return {
        (topic, partition, one.committed.offset, one.committed.metadata.rstrip("\0"))
        for (topic, partition), one in found.items()
        if one.committed is not None
    }


def test_every_group_has_the_offsets_that_kafka_reported(broker: Broker) -> None:
    expected = json.loads((CASE / "group-offsets.json").read_text())
    for group_id, offsets in expected.items():
        assert offsets_of(broker, group_id) == {
            (topic, partition, offset, metadata or "")
            for topic, partition, offset, metadata in offsets
        }


def test_there_are_exactly_the_groups_that_kafka_had(broker: Broker) -> None:
    """A group that was deleted, and one whose only transaction was aborted, are not there."""
    at = read_clock(SystemClock())
    listed = {one.group_id: one for one in broker.groups.machines(at)[0].list_groups()}
    assert set(listed) == {"g-classic", "g-static", "g-simple", "txn-group"}
    assert {one.state for one in listed.values()} == {"Empty"}
    types = {group_id: one.protocol_type for group_id, one in listed.items()}
    assert types == {
        "g-classic": "consumer",
        "g-static": "consumer",
        "g-simple": "",
        "txn-group": "",
    }


def test_no_offset_of_a_transaction_that_has_ended_is_left_open(broker: Broker) -> None:
    at = read_clock(SystemClock())
    found = broker.groups.machines(at)[0].fetch_offsets(MemberClaim(group_id="txn-group"), None)
    assert not any(one.is_unstable for one in found.values())


def test_kafka_and_ottla_look_for_a_group_in_the_same_partition(broker: Broker) -> None:
    topic = broker.topics.get("__consumer_offsets")
    assert topic.partition_count == 2
    seen = set()
    for index, partition in topic.partitions.items():
        for record in latest_records(
            sound_batches(partition.log, NO_LOSSES), partition.log.directory
        ):
            size = int.from_bytes(record.key[2:4], "big")
            group_id = record.key[4 : 4 + size].decode()
            assert partition_for(group_id, topic.partition_count) == index
            seen.add(group_id)
    assert seen == {"g-classic", "g-static", "g-simple", "txn-group"}


def test_a_group_of_kafkas_continues_here(broker: Broker) -> None:
    at = read_clock(SystemClock())
    answer = broker.groups.carry_out(
        broker.groups.machines(at)[0].delete_offsets("g-classic", [("grp", 0)], at), at
    )
    assert set(answer.partitions.values()) == {0}
    assert {offset[1] for offset in offsets_of(broker, "g-classic")} == {1, 2}
    claim = MemberClaim(group_id="g-classic")
    assert (
        broker.groups.carry_out(broker.groups.machines(at)[0].heartbeat(claim, at), at).error.name
        == "UNKNOWN_MEMBER_ID"
    )
