"""What handlers answer, by API: the codes that clients act on, and the fields they read."""

import struct
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ProtocolError
from ottla.base.files import Buffer
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.broker.broker import Broker
from ottla.codec.compression import Compression
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.record.builder import RecordBatchBuilder
from ottla.record.legacy import build_message
from tests.support.asking import ADDRESS, Asker
from tests.support.brokers import NOW_MS, batch, disk, open_broker

UNKNOWN_ID = Uuid(bytes(range(16)))


@pytest.fixture
def broker() -> Broker:
    broker = open_broker(disk("/d"))
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    return broker


@pytest.fixture
def asker(broker: Broker) -> Asker:
    return Asker(broker)


# Produce


def produce(records: Buffer | None, *, topic: str = "t", index: int = 0, acks: int = -1) -> Any:
    data = PartitionProduceData(index=index, records=records)
    topic_data = TopicProduceData(name=topic, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic_data])


def produced(asker: Asker, request: ProduceRequest, version: int = 9) -> Any:
    return asker.ask(request, version).responses[0].partition_responses[0]


def with_byte(records: bytearray, position: int, value: int) -> bytearray:
    records[position] = value
    return records


def batch_with(**settings: Any) -> bytes:
    builder = RecordBatchBuilder(**settings)
    builder.append(b"k", b"v" * 100, NOW_MS)
    return builder.build()


def test_offsets_of_produced_batches_follow_each_other(asker: Asker) -> None:
    offsets = [produced(asker, produce(batch(b"a", b"b"))).base_offset for _ in range(3)]
    assert offsets == [0, 2, 4]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_of_the_old_formats_are_taken(
    asker: Asker, broker: Broker, version: int, magic: int
) -> None:
    messages = [build_message(b"k", b"%d" % number, magic=magic) for number in range(3)]
    answer = produced(asker, produce(b"".join(messages)), version)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert broker.topics.partition("t", 0).log.high_watermark == 3


REFUSED: dict[str, tuple[ProduceRequest, int, ErrorCode]] = {
    "acks of 2": (produce(batch(), acks=2), 9, ErrorCode.INVALID_REQUIRED_ACKS),
    "an unknown topic": (produce(batch(), topic="u"), 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "an unknown partition": (produce(batch(), index=2), 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "no records": (produce(None), 9, ErrorCode.INVALID_RECORD),
    "empty records": (produce(b""), 9, ErrorCode.INVALID_RECORD),
    "a batch cut short": (produce(batch()[:-1]), 9, ErrorCode.CORRUPT_MESSAGE),
    "a header cut short": (produce(batch()[:20]), 9, ErrorCode.CORRUPT_MESSAGE),
    "a flipped bit": (produce(with_byte(batch(), 65, 0xFF)), 9, ErrorCode.CORRUPT_MESSAGE),
    "an unknown magic": (produce(with_byte(batch(), 16, 9)), 9, ErrorCode.INVALID_RECORD),
    "an old format": (produce(build_message(b"k", b"v", magic=1) * 3), 3, ErrorCode.INVALID_RECORD),
    "two batches": (produce(batch() + batch()), 3, ErrorCode.INVALID_RECORD),
    "zstd too early": (
        produce(batch_with(compression=Compression.ZSTD)),
        6,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ),
    "a control batch": (produce(batch_with(is_control=True)), 9, ErrorCode.INVALID_RECORD),
    "a transaction without an id": (
        produce(batch_with(is_transactional=True, producer_id=1, producer_epoch=0)),
        9,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "too large": (
        produce(bytes(batch(b"x" * 1_100_000))),
        9,
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
    "an internal topic": (
        produce(batch(), topic="__consumer_offsets"),
        9,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_refused_produce_has_its_code_and_leaves_the_log_alone(
    asker: Asker, broker: Broker, name: str
) -> None:
    request, version, code = REFUSED[name]
    answer = produced(asker, request, version)
    assert ErrorCode(answer.error_code) is code
    assert answer.base_offset == -1
    assert broker.topics.partition("t", 0).log.log_end_offset == 0
    assert produced(asker, produce(batch())).base_offset == 0


def test_one_refused_partition_does_not_spoil_the_others(asker: Asker) -> None:
    request = produce(batch())
    request.topic_data[0].partition_data.append(PartitionProduceData(index=9, records=batch()))
    request.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=batch()))
    answers = asker.ask(request, 9).responses[0].partition_responses
    assert [one.error_code for one in answers] == [0, 3, 0]


def test_a_topic_may_be_named_by_its_id(asker: Asker, broker: Broker) -> None:
    request = produce(batch())
    request.topic_data[0].topic_id = broker.topics.get("t").topic_id
    assert produced(asker, request, 13).error_code == 0
    request.topic_data[0].topic_id = UNKNOWN_ID
    assert produced(asker, request, 13).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_without_acks_success_is_silent_and_failure_ends_the_connection(asker: Asker) -> None:
    later, output = asker.send(produce(batch(), acks=0), 9)
    assert later is None
    assert output.size == 0
    with pytest.raises(ProtocolError, match="acks=0"):
        asker.send(produce(batch(), topic="u", acks=0), 9)


def test_a_topic_on_append_time_says_the_time_it_gave(asker: Asker, broker: Broker) -> None:
    values: dict[str, str | None] = {"message.timestamp.type": "LogAppendTime"}
    broker.admin.create_topic(NewTopic(name="a", overrides=values))
    assert produced(asker, produce(batch(), topic="a")).log_append_time_ms == NOW_MS
    assert produced(asker, produce(batch())).log_append_time_ms == -1


def test_a_compacted_topic_names_the_records_that_lack_a_key(asker: Asker, broker: Broker) -> None:
    broker.admin.create_topic(NewTopic(name="c", overrides={"cleanup.policy": "compact"}))
    answer = produced(asker, produce(batch(b"a", b"b"), topic="c"))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in answer.record_errors] == [0, 1]


def test_a_retry_of_an_idempotent_producer_gets_the_first_offset(asker: Asker) -> None:
    records = batch(b"a", producer_id=5)
    assert produced(asker, produce(records)).base_offset == 0
    assert produced(asker, produce(batch())).base_offset == 1
    assert produced(asker, produce(records)).base_offset == 0


def test_a_gap_in_a_producers_sequence_is_refused(asker: Asker) -> None:
    assert produced(asker, produce(batch_of_sequence(0))).error_code == 0
    answer = produced(asker, produce(batch_of_sequence(5)))
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def batch_of_sequence(sequence: int) -> bytes:
    return batch_with(producer_id=7, producer_epoch=0, base_sequence=sequence)


# Metadata


def metadata(asker: Asker, *names: str, version: int = 12, **settings: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return asker.ask(MetadataRequest(topics=topics, **settings), version)


def test_metadata_describes_this_broker_and_its_topics(asker: Asker, broker: Broker) -> None:
    answer = metadata(asker, "t")
    (one,) = answer.brokers
    assert (one.node_id, one.host, one.port) == (1, *ADDRESS)
    assert (answer.controller_id, answer.cluster_id) == (1, broker.cluster_id)
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (0, "t")
    assert topic.topic_id == broker.topics.get("t").topic_id
    assert [one.partition_index for one in topic.partitions] == [0, 1]
    for partition in topic.partitions:
        assert (partition.leader_id, partition.leader_epoch) == (1, 0)
        assert partition.replica_nodes == partition.isr_nodes == [1]
        assert partition.offline_replicas == []


@pytest.mark.parametrize(
    ("version", "topics", "expected"),
    [(0, [], ["t"]), (1, [], []), (1, None, ["t"]), (12, [], []), (12, None, ["t"])],
)
def test_what_no_topics_means_depends_on_the_version(
    asker: Asker, version: int, topics: Any, expected: list[str]
) -> None:
    answer = asker.ask(MetadataRequest(topics=topics), version)
    assert [topic.name for topic in answer.topics] == expected


def test_a_broker_that_defaults_to_two_replicas_makes_no_topics_by_itself() -> None:
    asker = Asker(open_broker(disk("/d"), default_replication_factor="2"))
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    (topic,) = asker.ask(request, 9).topics
    assert ErrorCode(topic.error_code) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_missing_topic_is_made_only_if_both_sides_agree(asker: Asker) -> None:
    answer = metadata(asker, "u", allow_auto_topic_creation=False)
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert metadata(asker, "u").topics[0].error_code == 0
    strict = Asker(open_broker(disk("/d"), auto_create_topics_enable="false"))
    answer = metadata(strict, "u")
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_request_makes_so_many_topics_and_the_next_one_continues() -> None:
    asker = Asker(open_broker(disk("/d"), max_auto_create_topics_per_request="2"))
    for made in (2, 4, 5):
        codes = [topic.error_code for topic in metadata(asker, *"abcde").topics]
        assert codes == [0] * made + [ErrorCode.LEADER_NOT_AVAILABLE] * (5 - made)


def test_a_minute_makes_so_many_topics_for_all_clients_together() -> None:
    broker = open_broker(disk("/d"), max_auto_create_topics_per_minute="2")
    codes = [metadata(Asker(broker), name).topics[0].error_code for name in "abca"]
    assert codes == [0, 0, ErrorCode.LEADER_NOT_AVAILABLE, 0]
    assert broker.auto_creation.take(0, 60_000.0)


def test_a_topic_that_cannot_be_made_says_so(asker: Asker) -> None:
    codes = [topic.error_code for topic in metadata(asker, "a b", "", "t").topics]
    assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION, 0]


@pytest.mark.parametrize("name", [None, ""])
def test_topics_are_found_by_id(asker: Asker, broker: Broker, name: str | None) -> None:
    """Java's client leaves the name empty, where the request's schema would allow a null."""
    ids = (broker.topics.get("t").topic_id, UNKNOWN_ID)
    topics = [MetadataRequestTopic(topic_id=one, name=name) for one in ids]
    answers = asker.ask(MetadataRequest(topics=topics), 12).topics
    assert [(one.name, one.error_code) for one in answers] == [
        ("t", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_authorized_operations_are_reported_on_request_only(asker: Asker) -> None:
    silent = metadata(asker, "t", version=8)
    assert silent.cluster_authorized_operations == -(2**31)
    assert silent.topics[0].topic_authorized_operations == -(2**31)
    settings = {
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
    }
    told = metadata(asker, "t", version=8, **settings)
    assert told.cluster_authorized_operations == 0b1_1111_1010_0000
    assert told.topics[0].topic_authorized_operations == 0b1101_1111_1000


# Topics


def create(asker: Asker, version: int = 7, validate_only: bool = False, **fields: Any) -> Any:
    values: dict[str, Any] = {"name": "n", "num_partitions": 1, "replication_factor": 1, **fields}
    request = CreateTopicsRequest(topics=[CreatableTopic(**values)], validate_only=validate_only)
    return asker.ask(request, version).topics[0]


def test_a_created_topic_is_described(asker: Asker, broker: Broker) -> None:
    configs = [CreatableTopicConfig(name="retention.ms", value="5")]
    answer = create(asker, num_partitions=3, configs=configs)
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 3, 1)
    assert answer.topic_id == broker.topics.get("n").topic_id
    described = {one.name: (one.value, one.config_source) for one in answer.configs}
    assert described["retention.ms"] == ("5", 1)
    assert described["segment.bytes"] == ("1073741824", 5)


REFUSED_TOPICS: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "taken": ({"name": "t"}, ErrorCode.TOPIC_ALREADY_EXISTS),
    "illegal": ({"name": "a b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    "no partitions": ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
    "two replicas": ({"replication_factor": 2}, ErrorCode.INVALID_REPLICATION_FACTOR),
    "unknown setting": (
        {"configs": [CreatableTopicConfig(name="x", value="1")]},
        ErrorCode.INVALID_CONFIG,
    ),
    "more settings than there are": (
        {"configs": [CreatableTopicConfig(name=f"x{one}", value="1") for one in range(1001)]},
        ErrorCode.INVALID_REQUEST,
    ),
    "setting without value": (
        {"configs": [CreatableTopicConfig(name="retention.ms", value=None)]},
        ErrorCode.INVALID_CONFIG,
    ),
    "foreign replica": (
        {
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [CreatableReplicaAssignment(partition_index=0, broker_ids=[9])],
        },
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
}


@pytest.mark.parametrize("name", list(REFUSED_TOPICS))
def test_a_topic_that_cannot_be_is_refused_with_its_code(
    asker: Asker, broker: Broker, name: str
) -> None:
    fields, code = REFUSED_TOPICS[name]
    answer = create(asker, **fields)
    assert ErrorCode(answer.error_code) is code
    assert answer.error_message
    assert [topic.name for topic in broker.topics] == ["t"]


def test_a_topic_named_twice_in_one_request_is_not_made(asker: Asker, broker: Broker) -> None:
    topics = [CreatableTopic(name="n", num_partitions=1, replication_factor=1)] * 2
    (answer,) = asker.ask(CreateTopicsRequest(topics=topics), 7).topics
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert broker.topics.find("n") is None


@pytest.mark.parametrize("second", [5001, 20_000])
def test_topics_with_too_many_partitions_together_are_not_made(
    asker: Asker, broker: Broker, second: int
) -> None:
    topics = [
        CreatableTopic(name="default", num_partitions=-1, replication_factor=1),
        CreatableTopic(name="first", num_partitions=4999, replication_factor=1),
        CreatableTopic(name="second", num_partitions=second, replication_factor=1),
    ]
    answers = asker.ask(CreateTopicsRequest(topics=topics), 7).topics
    assert [one.name for one in answers] == ["default", "first", "second"]
    assert {one.error_code for one in answers} == {ErrorCode.POLICY_VIOLATION}
    assert "at most 10000 partitions" in answers[0].error_message
    assert [topic.name for topic in broker.topics] == ["t"]


def test_validation_makes_nothing(asker: Asker, broker: Broker) -> None:
    answer = create(asker, validate_only=True)
    assert (answer.error_code, answer.topic_id) == (0, ZERO_UUID)
    assert broker.topics.find("n") is None


def test_topics_are_deleted_by_name_and_by_id(asker: Asker, broker: Broker) -> None:
    broker.admin.create_topic(NewTopic(name="u"))
    states = [
        DeleteTopicState(name="t"),
        DeleteTopicState(topic_id=broker.topics.get("u").topic_id),
        DeleteTopicState(topic_id=UNKNOWN_ID),
        DeleteTopicState(name="t"),
        DeleteTopicState(name="v", topic_id=UNKNOWN_ID),
    ]
    answers = asker.ask(DeleteTopicsRequest(topics=states), 6).responses
    assert [(one.name, one.error_code) for one in answers] == [
        ("t", 0),
        ("u", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("v", ErrorCode.INVALID_REQUEST),
    ]
    assert len(broker.topics) == 0


def describe(asker: Asker, kind: int, name: str, version: int = 4, **fields: Any) -> Any:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=fields.pop("keys", None)
    )
    return asker.ask(DescribeConfigsRequest(resources=[resource], **fields), version).results[0]


def test_settings_are_described_with_their_sources(asker: Asker, broker: Broker) -> None:
    broker.admin.create_topic(NewTopic(name="c", overrides={"retention.ms": "5"}))
    result = describe(asker, 2, "c", keys=["retention.ms"], include_synonyms=True)
    (one,) = result.configs
    assert (one.value, one.config_source, one.config_type) == ("5", 1, 5)
    assert [(two.name, two.value, two.source) for two in one.synonyms] == [
        ("retention.ms", "5", 1),
    ]
    broker_result = describe(asker, 4, "1", keys=["num.partitions"], include_documentation=True)
    assert broker_result.configs[0].documentation
    assert describe(asker, 4, "").configs == []


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (2, "u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (4, "9", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_has_no_settings_says_so(asker: Asker, kind: int, name: str, code: ErrorCode) -> None:
    assert ErrorCode(describe(asker, kind, name).error_code) is code


# The rest


def test_api_versions_refuses_a_client_without_a_proper_name(asker: Asker) -> None:
    request = ApiVersionsRequest(client_software_name="a b", client_software_version="1")
    assert asker.ask(request, 3).error_code == ErrorCode.INVALID_REQUEST
    assert asker.ask(request, 2).error_code == 0


def test_every_coordinator_is_this_broker(asker: Asker) -> None:
    answer = asker.ask(FindCoordinatorRequest(key="g"), 0)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, *ADDRESS)
    many = asker.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["a", "b"]), 4)
    assert [(one.key, one.node_id) for one in many.coordinators] == [("a", 1), ("b", 1)]
    other = asker.ask(FindCoordinatorRequest(key_type=3, coordinator_keys=["a"]), 6)
    assert other.coordinators[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key", "version", "code"),
    [
        ("jobs:AAECAwQFBgcICQoLDA0ODw:0", 6, ErrorCode.NONE),
        ("a:b:AAECAwQFBgcICQoLDA0ODw:17", 6, ErrorCode.NONE),
        ("jobs:AAECAwQFBgcICQoLDA0ODw:0", 5, ErrorCode.INVALID_REQUEST),
        ("jobs", 6, ErrorCode.INVALID_REQUEST),
        (":AAECAwQFBgcICQoLDA0ODw:0", 6, ErrorCode.INVALID_REQUEST),
        ("jobs:AAECAwQFBgcICQoLDA0ODw:-1", 6, ErrorCode.INVALID_REQUEST),
        ("jobs:AAECAwQFBgcICQoLDA0ODw:x", 6, ErrorCode.INVALID_REQUEST),
        ("jobs:AAECAwQFBgcICQoLDA0O:0", 6, ErrorCode.INVALID_REQUEST),
        ("jobs:A:0", 6, ErrorCode.INVALID_REQUEST),
        ("jobs:\u00e9:0", 6, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_share_coordinator_is_found_by_group_topic_id_and_partition(
    asker: Asker, key: str, version: int, code: ErrorCode
) -> None:
    answer = asker.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), version)
    (found,) = answer.coordinators
    assert found.error_code == code
    assert found.node_id == (-1 if code else 1)


def test_idempotent_producers_get_ids_of_their_own(asker: Asker) -> None:
    ids = [asker.ask(InitProducerIdRequest(transactional_id=None), 4) for _ in range(2)]
    assert [(one.error_code, one.producer_id, one.producer_epoch) for one in ids] == [
        (0, 0, 0),
        (0, 1, 0),
    ]


def test_the_batch_start_that_produce_reads_is_that_of_a_batch() -> None:
    records = batch_with(compression=Compression.GZIP)
    assert struct.unpack_from(">i", records, 8)[0] == len(records) - 12
    assert records[16] == 2
    assert records[22] & 7 == Compression.GZIP
