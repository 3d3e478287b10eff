"""Of a node of a KRaft cluster it is exported how it stands in the quorum."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from ottla.base.turns import result_of
from ottla.cli.metrics.families import Families
from ottla.cli.metrics.names import SECTIONS
from ottla.cli.serve.metrics.quorum import collect_quorum
from ottla.metadata.deciding.topics import NewTopic
from tests.support.lonely_node import ME, LonelyNode

pytest.importorskip("prometheus_client")


def collected(node: LonelyNode) -> dict[str, tuple[dict[str, str], float]]:
    families = Families()
    for _ in collect_quorum(node.broker, families):
        pass
    samples = [one for metric in families.metrics() for one in metric.samples]
    return {one.name: (dict(one.labels), one.value) for one in samples}


def test_every_metric_of_a_quorum_is_exported() -> None:
    node = LonelyNode()
    status = replace(
        node.status(), observer_count=4, election_latency_ms=250.0, election_reason="it has started"
    )
    with patch.object(node, "status", lambda: status):
        found = collected(node)
    sections = [one for one in SECTIONS if one.title.endswith("of a KRaft cluster")]
    names = {one.name for section in sections for one in section.metrics}
    assert {one.removesuffix("_total") for one in found} == names
    assert found["ottla_quorum_state"] == ({"state": "leader"}, 1)
    assert found["ottla_quorum_leader_id"] == ({}, ME)
    assert found["ottla_quorum_observers"] == ({}, 4)
    assert found["ottla_quorum_election_latency_seconds"] == ({"reason": "it has started"}, 0.25)


def test_a_follower_knows_no_observers_and_nothing_of_elections_that_were_not() -> None:
    node = LonelyNode()
    node.leads = False
    found = collected(node)
    assert found["ottla_quorum_state"] == ({"state": "follower"}, 1)
    assert "ottla_quorum_observers" not in found
    assert "ottla_quorum_election_latency_seconds" not in found


def test_each_node_exports_what_the_cluster_has() -> None:
    node = LonelyNode()
    topic = NewTopic(name="orders", assignments={0: [ME], 1: [ME], 2: [ME]})
    result_of(node.quorum.controller.create_topics([topic], validate_only=False))
    node.publish()
    found = collected(node)
    assert found["ottla_cluster_active_brokers"] == ({}, 1)
    assert found["ottla_cluster_fenced_brokers"] == ({}, 0)
    assert found["ottla_cluster_topics"] == ({}, 1)
    assert found["ottla_cluster_partitions"] == ({}, 3)
    assert found["ottla_cluster_offline_partitions"] == ({}, 0)
