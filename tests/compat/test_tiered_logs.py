"""Clients read a topic from its beginning, whose first segments are in the remote tier only."""

import base64
from collections.abc import Iterator

import pytest

import ottla
from tests.compat import java, node_clients
from tests.integration.test_embedded_tiers import COUNT, LOCAL_START, fill, settings_of

pytestmark = pytest.mark.slow

VALUES = [str(number) for number in range(COUNT)]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("tiered")
    fill(root)
    quick = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    with (
        ottla.open(root / "data", {**settings_of(root), **quick}) as log,
        log.listen("127.0.0.1:0") as listening,
    ):
        assert log.broker.topics.get("orders").partition(0).log.local_start_offset == LOCAL_START
        yield listening.address


@java.needs_java_client
def test_the_java_client_reads_across_the_border(address: str) -> None:
    from tests.compat.java_clients import read_values

    assert read_values(address, "orders", isolation_level="read_committed") == VALUES


@pytest.mark.parametrize("client", node_clients.PROGRAMS)
def test_clients_of_node_read_across_the_border(address: str, client: str) -> None:
    if node_clients.absence() is not None:
        pytest.skip(node_clients.absence() or "")
    given = {"topic": "orders", "group": f"of-{client}", "count": COUNT}
    found = node_clients.hold_session(client, address, "consume", **given)
    assert [base64.b64decode(one["value"]).decode() for one in found] == VALUES
