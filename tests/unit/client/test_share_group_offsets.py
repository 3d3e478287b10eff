"""Share groups beside others: who asks for all committed offsets is not refused because of them."""

import ottla
from ottla.client.administration.group_offsets import committed_here
from ottla.embedded.connection import InProcessConnection

PLACE = ottla.TopicPartition("orders", 0)
FEW = {"offsets.topic.num.partitions": 1, "share.coordinator.state.topic.num.partitions": 1}


def test_share_groups_have_no_committed_offsets_to_copy() -> None:
    with ottla.open(":memory:", FEW) as log, ottla.Admin(log) as admin:
        log.create_topic("orders")
        admin.alter_group_offsets("billing", {PLACE: 3})
        admin.alter_share_group_offsets("jobs", {PLACE: 2})
        connection = InProcessConnection(log)
        assert [(one.group, one.offset) for one in committed_here(connection)] == [("billing", 3)]
        found = admin.share_group_offsets("jobs")
        assert found == {PLACE: ottla.ShareGroupOffset(start_offset=2, lag=0)}
