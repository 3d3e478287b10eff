"""Which requests Apache Kafka's Java client makes of Ottla, recorded on their way."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.protocol.api_keys import ApiKey
from tests.compat.java import kafka, needs_java_client, needs_version_4, wait
from tests.compat.java_clients import (
    JavaConsumer,
    closing,
    create_topic,
    java_map,
    place,
    poll_until,
    producer,
    record,
    send_all,
)
from tests.histories.proxy import Mischief, Proxy
from tests.integration.cli.support import serving
from tests.support.ports import free_port

pytestmark = [pytest.mark.slow, needs_java_client]


class Home:
    """A broker behind a proxy that has come to no harm, and a topic `t`."""

    def __init__(self, address: str, asked: Counter[tuple[int, int]]) -> None:
        self.address = address
        self._asked = asked

    def versions(self) -> dict[ApiKey, set[int]]:
        found: dict[ApiKey, set[int]] = {}
        for api_key, version in self._asked:
            found.setdefault(ApiKey(api_key), set()).add(version)
        return found


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    port = free_port()
    proxy = Proxy(("127.0.0.1", port), 0, Mischief())
    address = f"127.0.0.1:{proxy.port}"
    where = ["-d", str(tmp_path / "data"), "--listen", f"127.0.0.1:{port}"]
    with serving(None, *where, "-o", f"advertised.listeners=PLAINTEXT://{address}"):
        create_topic(address, "t")
        yield Home(address, proxy.asked)
        proxy.close()


@needs_version_4
def test_transactions_are_of_version_2(home: Home) -> None:
    """Partitions are added by Produce and TxnOffsetCommit, and EndTxn brings a new epoch."""
    where = java_map({place("t"): kafka("clients.consumer.OffsetAndMetadata")(1)})
    with closing(producer(home.address, transactional_id="tx")) as sender:
        sender.initTransactions()
        sender.beginTransaction()
        wait(sender.send(record("t", "v")))
        group = kafka("clients.consumer.ConsumerGroupMetadata")("g")
        sender.sendOffsetsToTransaction(where, group)
        sender.commitTransaction()
    versions = home.versions()
    assert versions[ApiKey.END_TXN] == {5}
    assert versions[ApiKey.TXN_OFFSET_COMMIT] == {5}
    assert min(versions[ApiKey.PRODUCE]) >= 12
    assert not {ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN} & versions.keys()


@needs_version_4
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_are_of_the_protocol_that_was_asked_for(home: Home, protocol: str) -> None:
    """And records are fetched by the ids of topics, in one session."""
    send_all(home.address, [record("t", "v")])
    member = JavaConsumer(home.address, "g", "t", group_protocol=protocol)
    poll_until(lambda: len(member.seen) == 1, member)
    member.commit()
    member.close()
    versions = home.versions()
    expected = {ApiKey.CONSUMER_GROUP_HEARTBEAT: {1}} if protocol == "consumer" else {}
    new = {key: asked for key, asked in versions.items() if key in expected}
    assert new == expected
    assert (ApiKey.JOIN_GROUP in versions) is (protocol == "classic")
    assert min(versions[ApiKey.FETCH]) >= 13


def test_no_client_asks_for_or_pushes_metrics(home: Home) -> None:
    """Though it would, unless told otherwise, of a broker that tells of the API (KIP-714)."""
    send_all(home.address, [record("t", "v")], enable_metrics_push=True)
    member = JavaConsumer(home.address, "g", "t", enable_metrics_push=True)
    poll_until(lambda: len(member.seen) == 1, member)
    member.close()
    asked = home.versions().keys()
    assert not {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY} & asked
