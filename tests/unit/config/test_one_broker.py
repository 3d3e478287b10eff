"""What a cluster's server.properties asks of one broker is said with the way out."""

from contextlib import closing
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.config.broker import broker_config
from ottla.config.one_broker import shortfalls, unfulfilled
from ottla.runtime.opening import open_broker


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("min.insync.replicas", "2", "every append with acks=all is refused"),
        ("controller.quorum.voters", "1@a:9093,2@b:9093", "connects to no other"),
    ],
)
def test_what_one_broker_cannot_give_is_named(name: str, text: str, words: str) -> None:
    (found,) = shortfalls(broker_config({name: text}))
    assert str(found).startswith(f"{name}={text}: ")
    assert words in str(found)
    assert "; " in str(found)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("min.insync.replicas", "1"),
        ("controller.quorum.voters", "1@localhost:9093"),
        ("sasl.enabled.mechanisms", "PLAIN"),
    ],
)
def test_what_one_broker_has_is_not_named(name: str, text: str) -> None:
    assert list(shortfalls(broker_config({name: text}))) == []


@pytest.mark.parametrize(
    "name", ["controller.quorum.voters", "controller.quorum.bootstrap.servers"]
)
def test_a_broker_that_lists_itself_is_not_warned_about(name: str) -> None:
    assert unfulfilled(broker_config({name: "localhost:9093"})) == []
    others = {name: "a:9093,b:9093", "num.replica.fetchers": "2"}
    assert unfulfilled(broker_config(others)) == [name, "num.replica.fetchers"]


def test_a_node_of_a_kraft_cluster_lacks_nothing() -> None:
    config = broker_config(
        {
            "process.roles": "broker,controller",
            "controller.quorum.voters": "1@a:9093,2@b:9093",
            "min.insync.replicas": "2",
        }
    )
    assert list(shortfalls(config)) == []
    assert unfulfilled(config) == []


def test_a_plain_configuration_lacks_nothing() -> None:
    assert list(shortfalls(broker_config({"log.retention.hours": "1"}))) == []


def test_internal_topics_of_a_cluster_have_as_many_replicas_as_in_kafka() -> None:
    alone, member = broker_config({}), broker_config({"zookeeper.connect": "zk:2181"})
    assert (alone.offsets_topic_replication_factor, member.offsets_topic_replication_factor) == (
        1,
        3,
    )
    assert member.transaction_state_log_replication_factor == 3
    assert member.transaction_state_log_min_isr == 2
    assert member.share_coordinator_state_topic_replication_factor == 3
    assert member.share_coordinator_state_topic_min_isr == 2
    given = broker_config({"zookeeper.connect": "zk:2181", "offsets.topic.replication.factor": "2"})
    assert given.offsets_topic_replication_factor == 2


def test_a_broker_that_is_alone_needs_no_cluster_for_its_internal_topics(tmp_path: Path) -> None:
    given = {"zookeeper.connect": "zk:2181"}
    with closing(open_broker([str(tmp_path)], given, clock=SystemClock())) as broker:
        assert broker.settings.config.offsets_topic_replication_factor == 1
