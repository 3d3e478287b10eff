"""What a broker exports of share groups."""

import pytest

from ottla.broker.broker import Broker
from ottla.cli.metrics.families import Families
from ottla.cli.serve.metrics.share_groups import collect_share_groups
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.share_asking import Member, append, begin, share_broker

pytest.importorskip("prometheus_client")
PLACE = ("g", "t", "0")


def exported(broker: Broker) -> dict[tuple[str, tuple[str, ...]], float]:
    """Values by name and labels."""
    families = Families()
    for _ in collect_share_groups(broker, families):
        pass
    return {
        (metric.name.removeprefix("ottla_"), tuple(one.labels.values())): one.value
        for metric in families.metrics()
        for one in metric.samples
    }


def test_a_broker_that_no_share_group_uses_exports_nothing_of_them() -> None:
    assert exported(share_broker()) == {}


def test_share_groups_say_where_they_are_and_what_their_members_have() -> None:
    broker = share_broker()
    begin(broker)
    append(broker, b"a", b"b", b"c")
    member = Member(broker)
    member.fetch(max_records=3)
    member.fetch()
    assert exported(broker) == {
        ("share_sessions", ()): 1,
        ("share_group_start_offset", PLACE): 0,
        ("share_group_lag", PLACE): 3,
        ("share_group_records_in_flight", PLACE): 3,
    }
    member.acknowledge((0, 1, 1))
    found = exported(broker)
    assert found["share_group_start_offset", PLACE] == 2
    assert found["share_group_lag", PLACE] == found["share_group_records_in_flight", PLACE] == 1


def test_rebalances_are_counted() -> None:
    broker = share_broker()
    begin(broker)
    asker = Member(broker).asker
    for member in ("m", "n"):
        request = ShareGroupHeartbeatRequest(
            group_id="g", member_id=member, subscribed_topic_names=["t"]
        )
        assert asker.ask(request, 1).error_code == 0
    assert exported(broker) == {("share_group_rebalances", ()): 2}
