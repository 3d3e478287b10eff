"""How state is made to grow, mostly without requests, and what is then done with it."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.growth import Place
from ottla.base.files import OsFileSystem
from ottla.base.partitions import TopicPartition
from ottla.cli.serve.metrics.collector import BrokerCollector, Collected
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.requests import MemberClaim
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.runtime.flusher import Flusher
from ottla.storage.log.producer_state import AppendOrigin

TOPIC = "t"
GROUP = "g"
DAY_MS = 24 * 3600 * 1000
FIRST_DELAY_MS = 60_000
"""Of a group's first rebalance, so that all members are in it, however slow the host is."""
EACH_MANY = 1000
"""So many appends are written out together."""

Fill = Callable[[Place], None]


def all_of(*deeds: Fill) -> Fill:
    """One after the other."""

    def fill(place: Place) -> None:
        for deed in deeds:
            deed(place)

    return fill


def made(partition_count: int = 1, name: str = TOPIC, **settings: str) -> Fill:
    """A topic; settings are Kafka's names with `_` for `.`."""
    overrides = {key.replace("_", "."): value for key, value in settings.items()}

    def fill(place: Place) -> None:
        with place.server.lock:
            place.broker.admin.create_topic(
                NewTopic(name=name, partition_count=partition_count, overrides=overrides)
            )

    return fill


def batch(place: Place, **fields: int | bool) -> bytearray:
    builder = RecordBatchBuilder()
    for name, value in fields.items():
        setattr(builder, name, value)
    builder.append(None, b"v", place.clock.now_ms())
    return bytearray(builder.build())


def append_all(place: Place, batches: Iterator[bytearray], origin: AppendOrigin) -> None:
    partition = place.broker.topics.partition(TOPIC, 0)
    for number, one in enumerate(batches):
        with place.server.lock:
            place.broker.appends.append(partition, one, now_ms=place.clock.now_ms(), origin=origin)
            if not number % EACH_MANY:
                place.broker.appends.write_out()
    with place.server.lock:
        place.broker.appends.write_out()


def producers(*, is_transactional: bool) -> Fill:
    """Producers of one partition with a batch each."""

    def fill(place: Place) -> None:
        made()(place)
        batches = (
            batch(
                place,
                producer_id=1000 + number,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=is_transactional,
            )
            for number in range(place.count)
        )
        append_all(
            place, batches, AppendOrigin.REPLICATION if is_transactional else AppendOrigin.CLIENT
        )

    return fill


def aborted(place: Place) -> None:
    """Transactions of one partition that were aborted one after the other."""

    def batches() -> Iterator[bytearray]:
        for number in range(place.count):
            yield batch(
                place,
                producer_id=1,
                producer_epoch=0,
                base_sequence=number,
                is_transactional=True,
            )
            yield bytearray(
                build_end_transaction_marker(
                    EndTransactionMarker(is_commit=False, coordinator_epoch=0),
                    producer_id=1,
                    producer_epoch=0,
                    timestamp_ms=place.clock.now_ms(),
                )
            )

    made()(place)
    append_all(place, batches(), AppendOrigin.COORDINATOR)


def segments(place: Place) -> None:
    made(segment_bytes="1048576", file_delete_delay_ms="0")(place)
    partition = place.broker.topics.partition(TOPIC, 0)
    for _ in range(place.count):
        with place.server.lock:
            place.broker.appends.append(partition, batch(place), now_ms=place.clock.now_ms())
            place.broker.appends.write_out()
            partition.log.writer.roll(place.clock.now_ms())


def epochs(place: Place) -> None:
    made()(place)
    partition = place.broker.topics.partition(TOPIC, 0)
    for number in range(place.count):
        with place.server.lock:
            partition.leader_epoch = number
            place.broker.appends.append(partition, batch(place), now_ms=place.clock.now_ms())
            place.broker.appends.write_out()


def offsets(group_count: Callable[[int], int]) -> Fill:
    """Offsets of one topic, committed by so many groups."""

    def fill(place: Place) -> None:
        groups = group_count(place.count)
        each = place.count // groups
        made()(place)
        for number in range(groups):
            for first in range(0, each, EACH_MANY):
                indexes = range(first, min(first + EACH_MANY, each))
                commit(place, f"{GROUP}-{number}", indexes)

    return fill


def commit(place: Place, group_id: str, indexes: range) -> None:
    new = {TopicPartition(TOPIC, index): NewOffset(offset=1) for index in indexes}
    request = CommitRequest(claim=MemberClaim(group_id=group_id), offsets=new)
    with place.server.lock:
        at = place.at
        machine = place.broker.groups.machine_of(group_id, at)
        answer = place.broker.groups.carry_out(machine.commit(request, at), at)
        assert not any(answer.partitions.values())
        place.broker.appends.write_out()


def transactions(*, are_open: bool) -> Fill:
    def fill(place: Place) -> None:
        from ottla.coordinator.transaction.requests import InitRequest, ProducerClaim

        made()(place)
        for number in range(place.count):
            with place.server.lock:
                key = f"x-{number}"
                request = InitRequest(transactional_id=key, timeout_ms=60_000)
                answer = place.broker.transactions.init_producer(request, place.at)
                assert not answer.error
                if are_open:
                    claim = ProducerClaim(
                        transactional_id=key, producer_id=answer.producer_id, epoch=answer.epoch
                    )
                    added = [TopicPartition(TOPIC, 0)]
                    place.broker.transactions.add_partitions(claim, added, place.at)
                place.broker.appends.write_out()

    return fill


def topics(place: Place) -> None:
    """Topics of a partition each, all of them with a record."""
    for first in range(0, place.count, EACH_MANY):
        names = [f"topic-{one}" for one in range(first, min(first + EACH_MANY, place.count))]
        with place.server.lock:
            place.broker.admin.create_topics(
                [NewTopic(name=one, partition_count=1) for one in names]
            )
            for name in names:
                partition = place.broker.topics.partition(name, 0)
                place.broker.appends.append(partition, batch(place), now_ms=place.clock.now_ms())
            place.broker.appends.write_out()
        flush(place)  # files that wait for a sync stay open, and a process may have so many


def fetch_sessions(place: Place) -> None:
    made()(place)
    for _ in range(place.count):
        begin_session(place)


def connections(place: Place) -> None:
    made()(place)
    for _ in range(place.count):
        place.client()
    place.clients[-1].ask(ApiVersionsRequest(), 0)


def waiting_fetches(place: Place) -> None:
    connections(place)
    partition = FetchPartition(partition=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(
        max_wait_ms=300_000,
        min_bytes=1,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )
    for client in place.clients[1:]:
        client.send(fetch, 4)
    while len(place.broker.fetches.waiting) < place.count - 1:
        place.settle()


def classic_members(place: Place) -> None:
    """Members whose first rebalance is not complete yet."""
    connections(place)
    for number, client in enumerate(place.clients):
        client.send(_join(number), 3)
    with place.server.lock:
        groups = place.broker.groups
    while True:
        place.settle()
        with place.server.lock:
            group = groups.known[0].groups.get(GROUP)
            if group is not None and len(group.members) == place.count:
                return


def _join(number: int) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=600_000,
        rebalance_timeout_ms=600_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\1\0\1t\0\0\0\0")],
    )


def complete_joins(place: Place) -> None:
    for _ in range(2):  # the delay of a first rebalance, and again as members have come since
        place.pass_time(FIRST_DELAY_MS + 1000)
    answers = [one.receive(ApiKey.JOIN_GROUP, 3) for one in place.clients]
    assert not any(one.error_code for one in answers)
    place.kept["members"] = [one.member_id for one in answers]
    place.kept["leader"] = next(
        number for number, one in enumerate(answers) if one.member_id == one.leader
    )
    place.kept["generation"] = answers[0].generation_id


def sync_all(place: Place) -> None:
    members, leader = place.kept["members"], place.kept["leader"]

    def request(number: int) -> SyncGroupRequest:
        assignments = [
            SyncGroupRequestAssignment(member_id=one, assignment=b"\0\1\0\0\0\0\0\0\0\0")
            for one in (members if number == leader else [])
        ]
        return SyncGroupRequest(
            group_id=GROUP,
            generation_id=place.kept["generation"],
            member_id=members[number],
            assignments=assignments,
        )

    for number, client in enumerate(place.clients):
        if number != leader:
            client.send(request(number), 2)
    place.settle()
    place.clients[leader].send(request(leader), 2)
    assert not any(one.receive(ApiKey.SYNC_GROUP, 2).error_code for one in place.clients)


def heartbeat_of_one(place: Place) -> None:
    number = place.kept["leader"]
    place.clients[number].ask(
        HeartbeatRequest(
            group_id=GROUP,
            generation_id=place.kept["generation"],
            member_id=place.kept["members"][number],
        ),
        2,
    )


def leave_all_but_one(place: Place) -> None:
    leaving = [MemberIdentity(member_id=one) for one in place.kept["members"][1:]]
    place.clients[0].ask(LeaveGroupRequest(group_id=GROUP, members=leaving), 4)


def consumer_members(place: Place) -> None:
    made(100)(place)
    for number in range(place.count):
        answer = place.ask(_consumer_join(f"member-{number}"), 0)
        assert not answer.error_code


def _consumer_join(member_id: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )


# What is done


def begin_session(place: Place) -> None:
    """It may have to take another's place, or get none."""
    partition = FetchPartition(partition=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=0, topics=topics)
    assert not place.ask(fetch, 7).error_code


def change_defaults(place: Place) -> None:
    """A default of all topics."""
    change = AlterableConfig(name="log.retention.ms", config_operation=0, value="86400000")
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
    (answer,) = place.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert not answer.error_code


def produce_one(place: Place) -> None:
    data = PartitionProduceData(index=0, records=bytes(batch(place)))
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )
    assert not place.ask(request, 9).responses[0].partition_responses[0].error_code


def roll(place: Place) -> None:
    """The time for a new segment has come, and a record."""
    with place.server.lock:
        writer = place.broker.topics.partition(TOPIC, 0).log.writer
        writer._roll_limits = replace(writer._roll_limits, segment_bytes=1)
    produce_one(place)


def delete_topic(place: Place) -> None:
    request = DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=60_000)
    assert not place.ask(request, 5).responses[0].error_code


def delete_topics(place: Place) -> None:
    names = [f"topic-{one}" for one in range(place.count)]
    place.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=60_000), 5)


def create_one(place: Place) -> None:
    name = f"another-{len(place.kept)}"
    place.kept[name] = True
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    (answer,) = place.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5).topics
    assert not answer.error_code


def create_when_noted_full(place: Place) -> None:
    with place.server.lock:
        note = place.broker.directories[0]._note
        assert note is not None
        note._free.clear()
    create_one(place)


def commit_all(place: Place) -> None:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
        for index in range(place.count)
    ]
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    (found,) = place.ask(OffsetCommitRequest(group_id=GROUP, topics=[topic]), 7).topics
    assert not any(one.error_code for one in found.partitions)


def describe_producers(place: Place) -> None:
    request = DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=[0])])
    (found,) = place.ask(request, 0).topics[0].partitions
    assert not found.error_code


def delete_records(place: Place) -> None:
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)]
            )
        ],
        timeout_ms=60_000,
    )
    assert not place.ask(request, 1).topics[0].partitions[0].error_code


def days(count: int) -> Fill:
    return lambda place: place.pass_time(count * DAY_MS)


def minutes(count: int) -> Fill:
    return lambda place: place.pass_time(count * 60_000)


def heartbeat(place: Place) -> None:
    place.ask(HeartbeatRequest(group_id="other", generation_id=1, member_id="m"), 2)


def fetch_offsets(place: Place) -> None:
    place.ask(OffsetFetchRequest(group_id=f"{GROUP}-0", topics=None), 5)


def delete_first_group(place: Place) -> None:
    (result,) = place.ask(DeleteGroupsRequest(groups_names=[f"{GROUP}-0"]), 1).results
    assert not result.error_code


def list_groups(place: Place) -> None:
    place.ask(ListGroupsRequest(), 2)


def list_transactions(place: Place) -> None:
    place.ask(ListTransactionsRequest(), 0)


def init_producer(place: Place) -> None:
    place.ask(InitProducerIdRequest(transactional_id=None), 4)


def ask_all_at_once(place: Place) -> None:
    """Every connection sends a request, and the broker finds them all in one round."""
    with place.server.lock:
        for client in place.clients:
            client.send(ApiVersionsRequest(), 0)
    for client in place.clients:
        client.receive(ApiKey.API_VERSIONS, 0)


def close_all_at_once(place: Place) -> None:
    with place.server.lock:
        for client in place.clients:
            client.socket.close()
    while place.server._connections:
        place.settle()
    place.clients.clear()


def stay_idle(place: Place) -> None:
    place.pass_time(20 * 60_000)
    while place.server._connections:
        place.settle()
    for client in place.clients:
        client.socket.close()
    place.clients.clear()


def consumer_join(place: Place) -> None:
    place.ask(_consumer_join("another"), 0)


def describe_group(place: Place) -> None:
    place.ask(DescribeGroupsRequest(groups=[GROUP]), 5)


def read_committed(place: Place) -> None:
    partition = FetchPartition(partition=0, partition_max_bytes=100 << 20)
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=1,
        max_bytes=100 << 20,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )
    place.ask(fetch, 4)


def end_of_epoch(place: Place) -> None:
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=place.count // 2)
    topic = OffsetForLeaderTopic(topic=TOPIC, partitions=[wanted])
    place.ask(OffsetForLeaderEpochRequest(topics=[topic]), 3)


def next_epoch(place: Place) -> None:
    with place.server.lock:
        place.broker.topics.partition(TOPIC, 0).leader_epoch += 1
    produce_one(place)


def flush(place: Place) -> None:
    """What the flusher asks for every second."""
    files = OsFileSystem()
    flusher = Flusher(place.broker, files, clock=place.clock, lock=place.server.lock)
    place.in_thread(flusher.flush_due)


def scrape(place: Place) -> None:
    """What Prometheus asks for, in a thread of its own."""
    collected = Collected(
        broker=place.broker,
        server=place.server,
        clock=place.clock,
        lock=place.server.lock,
        has_internal_topics=True,
        start_s=0.0,
        events=dict,
        is_ready=lambda: True,
    )
    place.in_thread(lambda: list(BrokerCollector(collected).collect()))
