"""Every node that Kafka's brokers wrote into ZooKeeper is read, and written as the same bytes."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.base.partitions import TopicPartition
from ottla.config.inter_broker_version import LATEST, parse_inter_broker_version
from ottla.zookeeper import controllers, notices, paths
from ottla.zookeeper.brokers import decode_broker, encode_broker, registration_version
from ottla.zookeeper.entities import decode_config, encode_config
from ottla.zookeeper.topics import decode_state, decode_topic, encode_state, encode_topic
from tests.golden.znodes import RECORDED, dumps, transient, znodes

pytestmark = pytest.mark.skipif(RECORDED is None, reason="no recorded nodes")

BY_TOOLS = re.compile(r"/admin/reassign_partitions")
"""Kafka's tools wrote it, with spaces."""


def again(path: str, content: bytes) -> bytes:
    """The content, decoded and encoded."""
    if match := re.fullmatch(r"/brokers/ids/(\d+)", path):
        return encode_broker(decode_broker(int(match[1]), content))
    if match := re.fullmatch(r"/brokers/topics/([^/]+)", path):
        return encode_topic(decode_topic(match[1], content))
    if match := re.fullmatch(r"/brokers/topics/(.+)/partitions/(\d+)/state", path):
        return encode_state(decode_state(TopicPartition(match[1], int(match[2])), content))
    if match := re.fullmatch(r"/config/changes/.*", path):
        return notices.encode_config_change(notices.decode_config_change(content, path))
    if match := re.fullmatch(r"/config/(.*)", path):
        return encode_config(decode_config(match[1], content))
    if path.startswith(paths.ISR_CHANGE_PREFIX):
        return notices.encode_partitions(notices.decode_partitions(content, path))
    return SINGLE[path](content)


def producer_ids(content: bytes) -> bytes:
    block = controllers.decode_producer_ids(content)
    assert block is not None
    return controllers.encode_producer_ids(block)


SINGLE: dict[str, Callable[[bytes], bytes]] = {
    paths.CLUSTER_ID: lambda it: controllers.encode_cluster_id(controllers.decode_cluster_id(it)),
    paths.CONTROLLER: lambda it: controllers.encode_controller(controllers.decode_controller(it)),
    paths.CONTROLLER_EPOCH: lambda it: controllers.encode_controller_epoch(
        controllers.decode_controller_epoch(it)
    ),
    paths.PRODUCER_ID_BLOCK: producer_ids,
    paths.FEATURE: lambda it: controllers.encode_features(controllers.decode_features(it)),
    paths.REASSIGN_PARTITIONS: lambda it: notices.encode_reassignment(
        notices.decode_reassignment(it)
    ),
}


@pytest.mark.parametrize("dump", dumps(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_recorded_node_is_written_as_kafka_wrote_it(dump: Path) -> None:
    for path, node in znodes(dump).items():
        if not node.content:
            continue
        expected = node.content
        if BY_TOOLS.fullmatch(path) and b" " in expected:
            expected = expected.replace(b" ", b"")
        assert again(path, node.content) == expected, path


def test_nodes_that_came_and_went_are_written_as_kafka_wrote_them() -> None:
    for path, content in transient():
        assert again(path, content) == content.replace(b" ", b""), path


def test_brokers_register_in_the_version_that_all_of_the_cluster_read() -> None:
    versions = {
        decode_broker(0, node.content).version
        for dump in dumps()
        for path, node in znodes(dump).items()
        if path == "/brokers/ids/0"
    }
    assert versions == {
        registration_version(one) for one in (LATEST, parse_inter_broker_version("2.4"))
    }


def test_what_brokers_create_at_their_start_is_what_kafka_s_create() -> None:
    empty = znodes(dumps()[0])
    assert set(paths.PERSISTENT) <= set(empty)
    others = {path for path, node in empty.items() if not node.is_ephemeral and not node.content}
    parents = {path.rsplit("/", 1)[0] or "/" for path in (*paths.PERSISTENT, paths.CLUSTER_ID)}
    assert others == set(paths.PERSISTENT) | parents
