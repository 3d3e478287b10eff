"""A server reports who comes and goes and what is changed, and logs requests where it is asked."""

import logging
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.base.events import Event
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.runtime.opening import open_broker
from ottla.server.dispatching.request_log import parse_filter
from tests.support.serving import WireClient, serving

TOPIC = 2
SET = 0


def test_topics_settings_members_and_clients_are_reported_with_who_and_why(
    tmp_path: Path,
) -> None:
    events: list[Event] = []
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
    }
    broker = open_broker([str(tmp_path)], settings, clock=SystemClock(), on_event=events.append)
    with serving(broker) as server, WireClient(server.address) as client:
        _use(client)
    messages = [event.message for event in events if "__consumer_offsets" not in event.message]
    name, left = messages[0].split()[1], messages[-1]
    assert messages[0] == f"client {name} has come (test)"
    assert messages[1:4] == [
        "topic t is created: 2 partitions",
        "topic t: retention.ms is 1000 now, and was the default: changed by test on 127.0.0.1",
        "topic t is deleted, with 2 partitions",
    ]
    joined, began, completed, gone, *_ = messages[4:]
    member = joined.split()[2]
    assert joined == f"group g: {member} joins"
    assert began.startswith(f"group g: rebalance of generation 0 with 1 members: {member} joined:")
    assert completed == "group g: generation 1 has 1 members"
    assert gone == f"group g: {member} is no longer a member: it leaves"
    assert left.startswith(f"client {name} (test) has gone after 0.")
    assert server.connection_counts.open == 0


def _use(client: WireClient) -> None:
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
    change = AlterableConfig(name="retention.ms", config_operation=SET, value="1000")
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[change])
    client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 0)
    client.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 3)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    joined = client.ask(
        JoinGroupRequest(
            group_id="g", session_timeout_ms=60_000, protocol_type="c", protocols=protocols
        ),
        0,
    )
    client.ask(LeaveGroupRequest(group_id="g", member_id=joined.member_id), 0)


def test_requests_are_logged_with_their_durations_sizes_and_errors(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.requests")
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "auto.create.topics.enable": "false"}
    broker = open_broker([str(tmp_path)], settings, clock=SystemClock())
    wanted = parse_filter("fetch,errors")
    with serving(broker, logged=wanted) as server, WireClient(server.address) as client:
        client.ask(MetadataRequest(topics=None), 1)
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topics = [FetchTopic(topic="nothing", partitions=[wanted])]
        client.ask(FetchRequest(max_wait_ms=5, min_bytes=1, max_bytes=1000, topics=topics), 11)
    (line,) = caplog.messages
    assert line.startswith("Fetch v11 of test on 127.0.0.1, correlation id 2: ")
    assert line.endswith("UNKNOWN_TOPIC_OR_PARTITION (1)")


@pytest.mark.slow
def test_the_first_errors_of_an_api_are_logged_where_its_request_is_answered_in_turns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.requests")
    broker = open_broker(
        [str(tmp_path)], {"listeners": "PLAINTEXT://127.0.0.1:0"}, clock=SystemClock()
    )
    topics = [
        CreatableTopic(name=f"no name {number}", num_partitions=1, replication_factor=1)
        for number in range(5000)
    ]
    with (
        serving(broker, logged=parse_filter("errors")) as server,
        WireClient(server.address) as client,
    ):
        client.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), 5)
    (line,) = caplog.messages
    assert line.endswith("INVALID_TOPIC_EXCEPTION (5000)")
