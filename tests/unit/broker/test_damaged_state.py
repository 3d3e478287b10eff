"""What coordinators answer whose logs have changed on the disk: never an offset that is wrong."""

import logging
import random

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import join
from ottla.base.partitions import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.broker.broker import Broker
from ottla.coordinator.classic.requests import JoinAnswer, JoinRequest, SyncRequest
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.placement import partition_for
from ottla.coordinator.requests import MemberClaim
from ottla.coordinator.transaction.requests import InitRequest, ProducerClaim
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.storage.diagnosis.repair import RepairOptions, repair
from ottla.storage.files.filenames import log_file_name
from ottla.testing import FakeFileSystem
from tests.support.asking import Asker
from tests.support.brokers import NOW_MS, at, disk, open_broker
from tests.support.group_requests import join_group, sync_group

PARTITIONS = 3
SETTINGS = {
    "offsets_topic_num_partitions": str(PARTITIONS),
    "transaction_state_log_num_partitions": str(PARTITIONS),
    "log_index_size_max_bytes": "120",
}
WHERE = ("t", 0)
GROUPS = ["g", "h", "i", "j", "k"]
HARMED = "g"


def commit(broker: Broker, group_id: str, offset: int) -> ErrorCode:
    request = CommitRequest(
        claim=MemberClaim(group_id=group_id), offsets={WHERE: NewOffset(offset=offset)}
    )
    answer = broker.groups.carry_out(broker.groups.machines(at(0))[0].commit(request, at(0)), at(0))
    broker.appends.write_out()
    return answer.partitions[WHERE]


def committed(broker: Broker, group_id: str) -> int | None:
    found = broker.groups.machines(at(0))[0].fetch_offsets(MemberClaim(group_id=group_id), [WHERE])
    one = found[WHERE].committed
    return None if one is None else one.offset


def offset_of(group_id: str) -> int:
    return 4242 + GROUPS.index(group_id)


def stopped() -> FakeFileSystem:
    """Groups that have each committed twice, and a clean stop."""
    file_system = disk("/d")
    broker = open_broker(file_system, **SETTINGS)
    for step in (0, 1):
        for group_id in GROUPS:
            commit(broker, group_id, offset_of(group_id) * step)
    broker.close()
    return file_system


def log_of(topic: str, place: str) -> str:
    return join(f"/d/{topic}-{partition_for(place, PARTITIONS)}", log_file_name(0))


def flip(file_system: FakeFileSystem, path: str, position: int, mask: int = 1) -> None:
    file = file_system.open(path, writable=True)
    file.pwrite(bytes([file.pread(1, position)[0] ^ mask]), position)


def last_byte(file_system: FakeFileSystem, path: str) -> int:
    """A byte of the last record, which is the offset that was committed last."""
    return file_system.open(path).size() - 5


def is_harmed(group_id: str) -> bool:
    return partition_for(group_id, PARTITIONS) == partition_for(HARMED, PARTITIONS)


def lose(file_system: FakeFileSystem, topic: str) -> None:
    """Removes the partition that keeps `HARMED`."""
    directory = f"/d/{topic}-{partition_for(HARMED, PARTITIONS)}"
    for name in file_system.list(directory):
        file_system.remove(join(directory, name))
    file_system.remove_directory(directory)


HARMED_GROUPS = [one for one in GROUPS if is_harmed(one)]
PARTITION = f"{CONSUMER_OFFSETS}-{partition_for(HARMED, PARTITIONS)}"


def test_of_a_damaged_partition_what_is_sound_is_served_and_the_error_names_its_groups(
    caplog: pytest.LogCaptureFixture,
) -> None:
    file_system = stopped()
    path = log_of(CONSUMER_OFFSETS, HARMED)
    flip(file_system, path, last_byte(file_system, path))
    broker = open_broker(file_system, **SETTINGS)
    with caplog.at_level(logging.ERROR):
        broker.groups.load(at(0))
    (message,) = [one.getMessage() for one in caplog.records if PARTITION in one.getMessage()]
    assert f"{path} at byte " in message
    last = 2 * len(HARMED_GROUPS) - 1
    assert f"offset {last} cannot be read" in message
    assert f": {', '.join(HARMED_GROUPS)}; " in message
    assert "`ottla groups describe`" in message
    assert "ottla log repair /d" in message
    assert not all(is_harmed(one) for one in GROUPS)
    for group_id in GROUPS:
        # The last group of the partition has its first commit, of offset 0.
        is_lost = group_id == HARMED_GROUPS[-1]
        assert committed(broker, group_id) == (0 if is_lost else offset_of(group_id))
        assert commit(broker, group_id, 1) is ErrorCode.NONE
        assert committed(broker, group_id) == 1


@pytest.mark.slow
def test_what_comes_after_a_damaged_batch_is_served_too(caplog: pytest.LogCaptureFixture) -> None:
    sound = stopped()
    path = log_of(CONSUMER_OFFSETS, HARMED)
    file = sound.open(path)
    ends = _batch_ends(file.pread(file.size(), 0))
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        for position in (start + 10, end - 5):  # its length, and its last record
            caplog.clear()
            file_system = stopped()
            flip(file_system, path, position)
            broker = open_broker(file_system, **SETTINGS)
            found = {one: committed(broker, one) for one in GROUPS}
            wanted = {one: offset_of(one) for one in GROUPS}
            if number >= len(HARMED_GROUPS):
                wanted[HARMED_GROUPS[number - len(HARMED_GROUPS)]] = 0
            assert found == wanted, (number, position)
            assert any(PARTITION in one.getMessage() for one in caplog.records)
            broker.close()


def test_groups_of_a_partition_of_which_nothing_is_left_are_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """To be told that there is no offset would have them skip records, or read all again."""
    file_system = stopped()
    file_system.open(log_of(CONSUMER_OFFSETS, HARMED), writable=True).truncate(0)
    broker = open_broker(file_system, **SETTINGS)
    for group_id in GROUPS:
        if is_harmed(group_id):
            with pytest.raises(ApiError) as error:
                committed(broker, group_id)
            assert error.value.code is ErrorCode.NOT_COORDINATOR
        else:
            assert committed(broker, group_id) == offset_of(group_id)
    assert f"what {PARTITION} keeps is not served" in caplog.text


def test_nobody_can_join_a_group_of_which_nothing_is_known() -> None:
    file_system = stopped()
    lose(file_system, CONSUMER_OFFSETS)
    groups = open_broker(file_system, **SETTINGS).groups
    request = JoinRequest(
        group_id=HARMED,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols={"range": b""},
    )
    claim = MemberClaim(group_id=HARMED, member_id="m", generation=1)
    joined = join_group(groups, request, at(0))
    assert isinstance(joined, JoinAnswer)
    answers = [
        joined.error,
        groups.carry_out(groups.machines(at(0))[0].heartbeat(claim, at(0)), at(0)).error,
        groups.carry_out(groups.machines(at(0))[0].leave(HARMED, (), at(0)), at(0)).error,
        groups.carry_out(groups.machines(at(0))[0].delete_group(HARMED, at(0)), at(0)).error,
        groups.carry_out(
            groups.machines(at(0))[0].delete_offsets(HARMED, [WHERE], at(0)), at(0)
        ).error,
    ]
    synced = sync_group(groups, SyncRequest(claim=claim), at(0))
    assert {*answers, getattr(synced, "error", None)} == {ErrorCode.NOT_COORDINATOR}


def test_clients_are_told_in_every_version_to_look_for_the_coordinator_again() -> None:
    file_system = stopped()
    lose(file_system, CONSUMER_OFFSETS)
    asker = Asker(open_broker(file_system, **SETTINGS))
    for version in range(1, 11):
        if version < 8:
            topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
            request = OffsetFetchRequest(group_id=HARMED, topics=[topic])
        else:
            topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
            group = OffsetFetchRequestGroup(group_id=HARMED, topics=topics)
            request = OffsetFetchRequest(groups=[group])
        answer = asker.ask(request, version)
        if version >= 8:
            assert answer.groups[0].error_code == ErrorCode.NOT_COORDINATOR
            continue
        (found,) = answer.topics[0].partitions
        assert (found.committed_offset, found.error_code) == (-1, ErrorCode.NOT_COORDINATOR)
        if version >= 2:
            assert answer.error_code == ErrorCode.NOT_COORDINATOR
    (described,) = asker.ask(DescribeGroupsRequest(groups=[HARMED]), 6).groups
    assert described.error_code == ErrorCode.NOT_COORDINATOR
    found = asker.ask(FindCoordinatorRequest(key=HARMED, key_type=0), 3)
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_commits_that_were_cut_off_are_not_forgotten_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The partition has other commits of the group, all older, which are served as by Kafka."""
    file_system = stopped()
    path = log_of(CONSUMER_OFFSETS, HARMED)
    file = file_system.open(path, writable=True)
    content = file.pread(file.size(), 0)
    file.truncate(_batch_ends(content)[len(HARMED_GROUPS) - 1])
    for _ in range(2):
        # Starting again repairs nothing.
        caplog.clear()
        broker = open_broker(file_system, **SETTINGS)
        assert [committed(broker, one) for one in HARMED_GROUPS] == [0] * len(HARMED_GROUPS)
        (message,) = [
            one.getMessage() for one in caplog.records if "groups reset" in one.msg % one.args
        ]
        first, last = len(HARMED_GROUPS), 2 * len(HARMED_GROUPS) - 1
        assert f"offsets {first} to {last} cannot be read" in message
        assert f": {', '.join(HARMED_GROUPS)}; " in message
        broker.close()
    options = RepairOptions(now_ms=NOW_MS, discard=True)
    assert repair(file_system, "/d", options).is_sound
    caplog.clear()
    assert committed(open_broker(file_system, **SETTINGS), HARMED) == 0
    assert "groups reset" not in caplog.text


def _batch_ends(content: bytes) -> list[int]:
    ends, position = [], 0
    while position < len(content):
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        ends.append(position)
    return ends


@pytest.mark.slow
def test_no_flipped_bit_makes_up_an_offset(caplog: pytest.LogCaptureFixture) -> None:
    sound = stopped()
    path = log_of(CONSUMER_OFFSETS, HARMED)
    size = sound.open(path).size()
    chance = random.Random(3)
    for position in chance.sample(range(size), 120):
        caplog.clear()
        file_system = stopped()
        flip(file_system, path, position, 1 << chance.randrange(8))
        broker = open_broker(file_system, **SETTINGS)
        found = {one: committed(broker, one) for one in GROUPS}
        wrong = {one for one in GROUPS if found[one] != offset_of(one)}
        assert wrong <= set(HARMED_GROUPS), position
        assert {found[one] for one in wrong} <= {0, None}, position
        assert not wrong or PARTITION in caplog.text, position


@pytest.mark.parametrize("is_lost", [False, True], ids=["damaged", "lost"])
def test_of_a_damaged_partition_transactions_that_are_sound_continue(
    is_lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    file_system = disk("/d")
    broker = open_broker(file_system, **SETTINGS)
    claims = {}
    for name in GROUPS:
        request = InitRequest(transactional_id=name, timeout_ms=60_000)
        answer = broker.transactions.init_producer(request, at(0))
        broker.appends.write_out()
        claims[name] = ProducerClaim(
            transactional_id=name, producer_id=answer.producer_id, epoch=answer.epoch
        )
    broker.close()
    if is_lost:
        lose(file_system, TRANSACTION_STATE)
    else:
        path = log_of(TRANSACTION_STATE, HARMED)
        flip(file_system, path, last_byte(file_system, path))
    transactions = open_broker(file_system, **SETTINGS).transactions
    for name, claim in claims.items():
        request = InitRequest(transactional_id=name, timeout_ms=60_000)
        answers = [
            transactions.add_partitions(claim, [WHERE], at(0)).error,
            transactions.end(claim, at(0), is_commit=False).error,
            transactions.init_producer(request, at(0)).error,
        ]
        assert transactions.is_available(name) is not (is_lost and is_harmed(name))
        if is_lost and is_harmed(name):
            assert set(answers) == {ErrorCode.NOT_COORDINATOR}
        else:
            assert ErrorCode.NOT_COORDINATOR not in answers
        # Of the last one everything is lost: its producer begins again.
        is_known = answers[0] is not ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert is_known is (is_lost or name != HARMED_GROUPS[-1])
    if not is_lost:
        assert f"transactional ids, or for others of which nothing is left: {HARMED_GROUPS[0]}" in (
            caplog.text
        )
        assert "ottla transactions find-hanging" in caplog.text
