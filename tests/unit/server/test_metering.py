"""Clients under quotas: their answers tell the time, and their next request waits for it."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.principal import Principal
from ottla.broker.broker import Broker
from ottla.broker.quotas.quota_changes import QuotaAlteration, QuotaFilter
from ottla.config.setting import INT32_MAX
from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.quotas import quota_entity
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import request_class
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, OpData
from ottla.protocol.messages.alter_client_quotas import EntityData as NewEntity
from ottla.protocol.messages.alter_client_quotas import EntryData as NewEntry
from ottla.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.server.dispatching.apis import APIS, CLUSTER_APIS, NOT_METERED
from ottla.server.dispatching.metering import Held
from ottla.server.dispatching.request_context import Client, PendingResponse
from ottla.testing import CrashMode
from ottla.testing.recording import IoKind, RecordingFileSystem
from tests.support.altering import alter_quota
from tests.support.asking import ADDRESS, Asker
from tests.support.brokers import batch, disk, open_broker
from tests.support.lonely_member import LonelyMember
from tests.support.metadata import segment

ANYBODY = quota_entity({"client-id": None})


@pytest.fixture
def broker() -> Broker:
    broker = open_broker(disk("/d"))
    broker.admin.create_topic(NewTopic(name="t"))
    return broker


@pytest.fixture
def asker(broker: Broker) -> Asker:
    return Asker(broker)


def limit(broker: Broker, **limits: float | None) -> None:
    alter_quota(broker, QuotaAlteration(names=ANYBODY, limits=limits))


def produce(size: int, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch(b"x" * size))
    topic = TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def fetch(**fields: Any) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(topics=[FetchTopic(topic="t", partitions=[partition])], **fields)


def held(asker: Asker, request: Any, version: int) -> tuple[Any, PendingResponse]:
    """The response of a client that is too fast, and what its next request waits for."""
    later, output = asker.send(request, version)
    assert later is not None, "the client may continue"
    return asker.decode(request, version, output), later


def test_a_producer_that_is_too_fast_is_told_and_held_back(asker: Asker, broker: Broker) -> None:
    limit(broker, producer_byte_rate=100.0)
    assert asker.ask(produce(800), 9).throttle_time_ms == 0
    response, later = held(asker, produce(500), 9)
    assert response.responses[0].partition_responses[0].base_offset == 1
    throttle_ms = response.throttle_time_ms
    assert 3000 < throttle_ms < 6000
    assert broker.scheduler.next_deadline_ms == throttle_ms
    assert broker.answers.take_answered(throttle_ms - 1.0) == []
    assert broker.answers.take_answered(float(throttle_ms)) == [later.pending_id]


def test_a_producer_without_acks_is_held_back_in_silence(asker: Asker, broker: Broker) -> None:
    limit(broker, producer_byte_rate=100.0)
    later, output = asker.send(produce(2000, acks=0), 9)
    assert later is not None
    assert output.size == 0


def test_a_consumer_gets_no_more_than_its_quota_at_once_and_is_held_back(
    asker: Asker, broker: Broker
) -> None:
    for _ in range(40):
        asker.ask(produce(500), 9)
    limit(broker, consumer_byte_rate=1000.0)
    request = fetch(max_bytes=1 << 20, max_wait_ms=0)
    first = asker.ask(request, 12).responses[0].partitions[0].records
    assert 9000 < len(first) <= 10_000
    response, _ = held(asker, request, 12)
    assert response.throttle_time_ms == pytest.approx(len(first) * 2 - 10_000, abs=1000)


def test_no_connection_brings_more_while_the_client_is_over_its_quota(
    asker: Asker, broker: Broker
) -> None:
    """Somebody who comes by a new one each time would have all that there is, at once."""
    for _ in range(40):
        asker.ask(produce(500), 9)
    limit(broker, consumer_byte_rate=1000.0)
    request = fetch(max_bytes=1 << 20, max_wait_ms=0)
    sizes: list[int] = []
    for _ in range(5):
        another = Asker(broker)
        later, output = another.send(request, 12)
        response = another.decode(request, 12, output)
        (partition,) = response.responses[0].partitions
        sizes.append(len(partition.records))
        if len(sizes) > 2:
            assert (partition.error_code, partition.high_watermark) == (0, 40)
            assert later is not None
            assert response.throttle_time_ms == pytest.approx(sizes[0] * 2 - 10_000, abs=1)
    assert [size > 0 for size in sizes] == [True, True, False, False, False]
    asker.monotonic_ms = 12_000.0
    assert len(asker.ask(request, 12).responses[0].partitions[0].records) == sizes[0]


def test_a_session_continues_after_an_answer_without_records(asker: Asker, broker: Broker) -> None:
    for _ in range(40):
        asker.ask(produce(500), 9)
    limit(broker, consumer_byte_rate=1000.0)
    whole = fetch(max_bytes=1 << 20, max_wait_ms=0, session_epoch=0)
    session = asker.ask(whole, 12).session_id
    assert session

    def continued(epoch: int) -> Any:
        return FetchRequest(
            session_id=session, session_epoch=epoch, topics=[], max_bytes=1 << 20, max_wait_ms=0
        )

    held(asker, continued(1), 12)
    for epoch in (2, 3):
        response, _ = held(asker, continued(epoch), 12)
        assert (response.error_code, response.session_id) == (0, session)
        assert not any(one.records for topic in response.responses for one in topic.partitions)
    asker.monotonic_ms = 12_000.0
    answer = asker.ask(continued(4), 12)
    assert len(answer.responses[0].partitions[0].records) > 9000


def test_one_users_connections_share_its_quota_however_they_come(broker: Broker) -> None:
    names = quota_entity({"user": "ana"})
    alter_quota(broker, QuotaAlteration(names=names, limits={"producer_byte_rate": 1000.0}))
    ways: list[dict[str, Any]] = [
        {"listener": "CLIENTS", "protocol": "SASL_PLAINTEXT"},
        {"listener": "SECURE", "protocol": "SASL_SSL"},
        {"listener": "MUTUAL", "protocol": "SSL"},
        {"listener": "CLIENTS", "protocol": "SASL_PLAINTEXT", "is_by_token": True},
    ]
    throttled = []
    for number, way in enumerate(ways):
        client = Client(ADDRESS, f"10.0.0.{number}", Principal("User", "ana"), **way)
        later, _ = Asker(broker, client=client).send(produce(4000), 9)
        throttled.append(later is not None)
    assert throttled == [False, False, True, True]
    other = Client(ADDRESS, "10.0.0.0", Principal("User", "bob"), "CLIENTS")
    assert Asker(broker, client=other).ask(produce(9000), 9).throttle_time_ms == 0


def test_a_client_far_above_its_quota_is_told_as_much_as_an_answer_can_say(
    asker: Asker, broker: Broker
) -> None:
    limit(broker, producer_byte_rate=1.0)
    for _ in range(3):
        response, _ = held(asker, produce(900_000), 9)
        assert response.responses[0].partition_responses[0].error_code == 0
    assert response.throttle_time_ms == INT32_MAX


def test_a_fetch_that_waited_is_measured_when_it_is_answered(asker: Asker, broker: Broker) -> None:
    limit(broker, consumer_byte_rate=10.0)
    request = fetch(max_bytes=1 << 20, max_wait_ms=500, min_bytes=1)
    waiting, output = asker.send(request, 12)
    assert waiting is not None
    assert output.size == 0
    asker.ask(produce(500), 9)
    assert broker.answers.take_answered(0.0) == [waiting.pending_id]
    response = asker.finish(waiting, request, 12)
    assert len(response.responses[0].partitions[0].records) > 500
    assert response.throttle_time_ms > 0
    assert broker.throttled_clients


class Slow:
    """A clock on which every reading is a second later."""

    time_ms = 0.0

    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> float:
        self.time_ms += 1000.0
        return self.time_ms


def test_a_client_that_keeps_the_broker_busy_is_held_back(broker: Broker) -> None:
    limit(broker, request_percentage=5.0)
    asker = Asker(broker, clock=Slow())
    response, _ = held(asker, MetadataRequest(topics=[]), 5)
    assert response.throttle_time_ms == 1000
    response, _ = held(asker, MetadataRequest(topics=[]), 0)
    assert response.throttle_time_ms == 0, "the version has no room for it"


@pytest.mark.parametrize("key", sorted(NOT_METERED))
def test_brokers_of_a_cluster_are_not_held_back(key: ApiKey) -> None:
    member = LonelyMember()
    limit(member.broker, request_percentage=5.0)
    asker = Asker(member.broker, clock=Slow())
    api = CLUSTER_APIS.get(key) or APIS[key]
    later, _ = asker.send(request_class(key)(), api.newest)
    assert not isinstance(later, Held)
    later, _ = asker.send(MetadataRequest(topics=[]), 5)
    assert isinstance(later, Held)


def test_without_quotas_handlers_are_what_they_are(asker: Asker, broker: Broker) -> None:
    limit(broker, producer_byte_rate=100.0)
    held(asker, produce(2000), 9)
    limit(broker, producer_byte_rate=None)
    assert asker.ask(produce(2000), 9).throttle_time_ms == 0
    assert not broker.quotas.is_active


def test_quotas_outlive_a_restart() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    broker.admin.create_topic(NewTopic(name="t"))
    limit(broker, producer_byte_rate=100.0)
    broker.close()
    held(Asker(open_broker(file_system.crash(CrashMode.STRICT))), produce(2000), 9)


# The requests that change them


def alter(asker: Asker, *entries: tuple[dict[str, str | None], list[OpData]], **fields: Any) -> Any:
    request = AlterClientQuotasRequest(
        entries=[
            NewEntry(
                entity=[
                    NewEntity(entity_type=kind, entity_name=name) for kind, name in names.items()
                ],
                ops=ops,
            )
            for names, ops in entries
        ],
        **fields,
    )
    return [one.error_code for one in asker.ask(request, 1).entries]


def described(asker: Asker, *components: ComponentData) -> dict[Any, dict[str, float]]:
    answer = asker.ask(DescribeClientQuotasRequest(components=list(components)), 1)
    assert answer.error_code == 0
    return {
        tuple((part.entity_type, part.entity_name) for part in one.entity): {
            value.key: value.value for value in one.values
        }
        for one in answer.entries
    }


def test_quotas_are_set_described_and_removed(asker: Asker) -> None:
    rate = OpData(key="producer_byte_rate", value=1000.0)
    percentage = OpData(key="request_percentage", value=12.5)
    assert alter(asker, ({"user": "alice"}, [rate, percentage]), ({"user": None}, [rate])) == [0, 0]
    alice, anybody = (("user", "alice"),), (("user", None),)
    assert described(asker) == {
        alice: {"producer_byte_rate": 1000.0, "request_percentage": 12.5},
        anybody: {"producer_byte_rate": 1000.0},
    }
    exactly = ComponentData(entity_type="user", match_type=0, match="alice")
    assert list(described(asker, exactly)) == [alice]
    gone = OpData(key="producer_byte_rate", remove=True)
    assert alter(asker, ({"user": None}, [gone]), ({"user": "alice"}, [gone])) == [0, 0]
    assert described(asker) == {alice: {"request_percentage": 12.5}}


def test_one_request_writes_once_and_answers_each_entity_for_itself() -> None:
    file_system = RecordingFileSystem(disk("/d"))
    asker = Asker(open_broker(file_system))
    rate = OpData(key="producer_byte_rate", value=1000.0)
    wrong = OpData(key="producer_byte_rate", value=-1.0)
    assert alter(asker, ({"user": "first"}, [rate])) == [0]
    file_system.calls.clear()
    entries = [({"user": f"u{number}"}, [wrong if number == 3 else rate]) for number in range(6)]
    assert alter(asker, *entries) == [0, 0, 0, ErrorCode.INVALID_REQUEST, 0, 0]
    assert [one.path for one in file_system.calls if one.kind is IoKind.PWRITE] == [segment()]
    names = ("first", "u0", "u1", "u2", "u4", "u5")
    assert sorted(described(asker)) == [(("user", name),) for name in names]


def test_a_quota_that_another_request_sets_meanwhile_is_kept(broker: Broker) -> None:
    others = [QuotaAlteration(names=ANYBODY, limits={"consumer_byte_rate": 2.0})]

    def meanwhile() -> QuotaAlteration:
        while others:
            alter_quota(broker, others.pop())
        return QuotaAlteration(names=quota_entity({"user": "u"}), limits={"request_percentage": 3})

    first = QuotaAlteration(names=ANYBODY, limits={"producer_byte_rate": 1.0})
    assert broker.admin.alter_quotas([lambda: first, meanwhile], lambda make: make()) == [
        None,
        None,
    ]
    wanted = QuotaFilter(components=[], is_strict=False)
    assert dict(broker.admin.select_quotas(wanted)) == {
        ANYBODY: {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0},
        quota_entity({"user": "u"}): {"request_percentage": 3},
    }


def test_quotas_that_cannot_be_are_refused(asker: Asker) -> None:
    rate = OpData(key="producer_byte_rate", value=1000.0)
    refused = ErrorCode.INVALID_REQUEST
    assert alter(asker, ({"user": "a"}, [rate, rate])) == [refused]
    assert alter(asker, ({"user": "a"}, [rate]), ({"user": "a"}, [rate])) == [refused, refused]
    assert alter(asker, ({"ip": "1.2.3.4"}, [rate]), ({"user": "b"}, [rate])) == [refused, 0]
    assert alter(asker, ({"user": "c"}, [rate]), validate_only=True) == [0]
    assert list(described(asker)) == [(("user", "b"),)]
    wrong = ComponentData(entity_type="port", match_type=2, match=None)
    answer = asker.ask(DescribeClientQuotasRequest(components=[wrong]), 1)
    assert (answer.error_code, answer.entries) == (ErrorCode.UNSUPPORTED_VERSION, None)
