"""Share groups of a broker over a socket."""

import time
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.patience import PATIENCE_S
from tests.support.serving import WireClient, serving
from tests.support.stepping import with_topic


def assigned(client: WireClient) -> list[int]:
    """The partitions that a new member of a group has, once it has any."""
    epoch, deadline_s = 0, time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        request = ShareGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=epoch, subscribed_topic_names=["t"]
        )
        answer: Any = client.ask(request, 1)
        assert answer.error_code == 0
        if answer.assignment.topic_partitions:
            return [one for topic in answer.assignment.topic_partitions for one in topic.partitions]
        epoch = answer.member_epoch
    return []


@pytest.mark.slow
def test_the_first_member_of_the_first_group_has_all_partitions(tmp_path: Path) -> None:
    """While the topics of the coordinators are created in turns."""
    broker = with_topic(tmp_path / "data", 100)
    with serving(broker) as server, WireClient(server.address) as client:
        assert assigned(client) == list(range(100))
