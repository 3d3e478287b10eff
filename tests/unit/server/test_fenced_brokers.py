"""What clients are told while no broker is up."""

from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.metadata import MetadataRequest
from tests.support.lonely_node import LonelyNode


def test_clients_are_told_of_fenced_brokers_where_none_is_up():
    node = LonelyNode()

    def told():
        known = node.client.ask(MetadataRequest(topics=[]), 12).brokers
        return [one.node_id for one in known]

    before = told()
    beat = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=node.epoch, current_metadata_offset=node.epoch, want_fence=True
    )
    node.ask_node(beat, 1)
    node.publish()
    described = node.client.ask(DescribeClusterRequest(), 1)

    assert (before, told(), described.brokers) == ([1], [1], [])
