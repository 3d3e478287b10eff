"""Who may write transactions of his own gets at nobody else's, by whatever request."""

from collections.abc import Callable

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.principal import Principal
from ottla.broker.broker import Broker
from ottla.metadata.acls import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.deciding.topic_rules import INTERNAL_TOPICS
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.add_partitions_to_transaction import (
    AddPartitionsTopic,
    AddPartitionsToTransactionRequest,
)
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.messages.transaction_offset_commit import (
    TransactionOffsetCommitRequest,
    TransactionOffsetCommitRequestPartition,
    TransactionOffsetCommitRequestTopic,
)
from ottla.record.builder import RecordBatchBuilder
from ottla.server.dispatching.request_context import Client
from tests.support.asking import ADDRESS, Asker
from tests.support.brokers import NOW_MS
from tests.support.transaction_asking import ProducerAsker, transaction_asker

OK = ErrorCode.NONE
TXN_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
WRONG_ID = ErrorCode.INVALID_PRODUCER_ID_MAPPING
NOT_ATTEMPTED = ErrorCode.OPERATION_NOT_ATTEMPTED
TRANSACTIONAL_ID, TOPIC, GROUP = (
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.TOPIC,
    ResourceType.GROUP,
)


def rule(user: str, operation: Operation, resource: ResourceType, name: str) -> Acl:
    pattern = ResourcePattern(resource, PatternType.LITERAL, name)
    return Acl(pattern, Entry(f"User:{user}", "*", operation, Permission.ALLOW))


RULES = [
    rule("ana", Operation.WRITE, TRANSACTIONAL_ID, "tx"),
    rule("eve", Operation.WRITE, TRANSACTIONAL_ID, "eves"),
    *(rule(user, Operation.WRITE, TOPIC, "t") for user in ("ana", "eve")),
    *(rule(user, Operation.READ, TOPIC, "t") for user in ("ana", "eve")),
    *(rule(user, Operation.READ, GROUP, "g") for user in ("ana", "eve")),
]


class Scene:
    """A transaction of ana is open, and eve may do the same with a transactional id of her own."""

    def __init__(self) -> None:
        first = transaction_asker(
            authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        )
        self.broker: Broker = first.broker
        self.broker.admin.create_topic(NewTopic(name="other", partition_count=1))
        self.rules(RULES)
        self.ana = ProducerAsker(self.asker("ana"))
        assert self.ana.init() == OK
        assert self.ana.add(0, 1) == [OK, OK]
        assert self.ana.produce() == OK

    def rules(self, rules: list[Acl]) -> None:
        assert self.broker.security.authorizer is not None
        self.broker.security.authorizer.change(rules)

    def asker(self, user: str) -> Asker:
        client = Client(ADDRESS, "10.0.0.9", Principal("User", user), protocol="SASL_PLAINTEXT")
        return Asker(self.broker, client=client)

    def eve(self, transactional_id: str = "eves") -> ProducerAsker:
        """She has guessed ana's producer id and epoch, which are no secret."""
        eve = ProducerAsker(self.asker("eve"), transactional_id)
        eve.producer_id, eve.epoch, eve.sequence = self.ana.producer_id, self.ana.epoch, 1
        return eve

    def check_that_ana_continues(self) -> None:
        assert self.ana.produce() == OK
        assert self.ana.add_offsets() == OK
        assert self.ana.commit_offset(8) == OK
        assert self.ana.end() == OK


@pytest.fixture
def scene() -> Scene:
    return Scene()


NAMED: dict[str, Callable[[ProducerAsker], int]] = {
    "init": lambda eve: eve.init(),
    "init by the id before": lambda eve: eve.init(
        producer_id=eve.producer_id, producer_epoch=eve.epoch
    ),
    "add": lambda eve: eve.add(0)[0],
    "add in the first version": lambda eve: eve.add(0, version=0)[0],
    "add offsets": lambda eve: eve.add_offsets(),
    "commit offsets": lambda eve: eve.commit_offset(3),
    "commit offsets and add them": lambda eve: eve.commit_offset(3, 5),
    "produce": lambda eve: eve.produce(),
    "produce and add": lambda eve: eve.produce(12),
    "produce by the id of the topic": lambda eve: eve.produce(13),
    "abort": lambda eve: eve.end(is_commit=False),
    "commit": lambda eve: eve.end(),
    "commit and bump": lambda eve: eve.end(version=5),
}


@pytest.mark.parametrize("what", NAMED)
def test_another_ones_transactional_id_is_refused(scene: Scene, what: str) -> None:
    assert NAMED[what](scene.eve("tx")) == TXN_DENIED
    scene.check_that_ana_continues()


BY_HER_OWN = {name: NAMED[name] for name in NAMED if not name.startswith("init")}


@pytest.mark.parametrize("what", BY_HER_OWN)
@pytest.mark.parametrize("is_known", [True, False])
def test_another_ones_producer_id_does_not_go_with_a_transactional_id_of_ones_own(
    scene: Scene, what: str, is_known: bool
) -> None:
    eve = scene.eve()
    if is_known:
        assert ProducerAsker(eve.asker, "eves").init() == OK
    codes = {WRONG_ID, ErrorCode.TRANSACTION_ABORTABLE}
    assert BY_HER_OWN[what](eve) in codes
    scene.check_that_ana_continues()


def test_brokers_alone_ask_for_several_transactions_at_once(scene: Scene) -> None:
    for user in ("ana", "eve"):
        asker = scene.asker(user)
        for version in (4, 5):
            request = AddPartitionsToTransactionRequest(transactions=[])
            answer = asker.ask(request, version)
            assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    scene.check_that_ana_continues()


def test_one_topic_of_several_that_may_not_be_written_has_none_of_them_added(scene: Scene) -> None:
    eve = ProducerAsker(scene.asker("eve"), "eves")
    assert eve.init() == OK

    def add(*names: str) -> dict[str, int]:
        request = AddPartitionsToTransactionRequest(
            v3_and_below_transactional_id="eves",
            v3_and_below_producer_id=eve.producer_id,
            v3_and_below_producer_epoch=eve.epoch,
            v3_and_below_topics=[AddPartitionsTopic(name=one, partitions=[0]) for one in names],
        )
        answer = eve.asker.ask(request, 3)
        return {
            one.name: one.results_by_partition[0].partition_error_code
            for one in answer.results_by_topic_v3_and_below
        }

    assert add("t", "other", "nowhere") == {
        "t": NOT_ATTEMPTED,
        "other": TOPIC_DENIED,
        "nowhere": TOPIC_DENIED,
    }
    assert eve.produce() == ErrorCode.INVALID_TXN_STATE
    assert add("t") == {"t": OK}
    assert eve.produce() == OK


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
def test_no_marker_gets_into_an_internal_topic(scene: Scene, topic: str) -> None:
    """Whatever the rules say, as in Kafka."""
    scene.rules([*RULES, rule("eve", Operation.ALL, TOPIC, "*")])
    eve = ProducerAsker(scene.asker("eve"), "eves")
    assert eve.init() == OK
    assert scene.ana.add_offsets() == scene.ana.commit_offset(3) == OK
    if scene.broker.topics.find(topic) is None:
        scene.broker.admin.create_topic(NewTopic(name=topic, partition_count=1))
    before = scene.broker.topics.get(topic).partition(0).log.log_end_offset
    request = AddPartitionsToTransactionRequest(
        v3_and_below_transactional_id="eves",
        v3_and_below_producer_id=eve.producer_id,
        v3_and_below_producer_epoch=eve.epoch,
        v3_and_below_topics=[
            AddPartitionsTopic(name=name, partitions=[0]) for name in ("t", topic)
        ],
    )
    answer = eve.asker.ask(request, 3)
    codes = {
        one.name: one.results_by_partition[0].partition_error_code
        for one in answer.results_by_topic_v3_and_below
    }
    assert codes == {"t": NOT_ATTEMPTED, topic: TOPIC_DENIED}
    assert scene.broker.topics.get(topic).partition(0).log.log_end_offset == before


def records(scene: Scene, *, is_transactional: bool, sequence: int = 1) -> bytes:
    builder = RecordBatchBuilder(
        producer_id=scene.ana.producer_id,
        producer_epoch=scene.ana.epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    builder.append(None, b"of eve", NOW_MS)
    return builder.build()


@pytest.mark.parametrize("version", range(10))
def test_a_batch_of_a_transaction_comes_with_its_transactional_id(
    scene: Scene, version: int
) -> None:
    """Old versions of the request have no place for one."""
    data = PartitionProduceData(index=0, records=records(scene, is_transactional=True))
    request = ProduceRequest(
        acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )
    answer = scene.asker("eve").ask(request, version)
    assert answer.responses[0].partition_responses[0].error_code == TXN_DENIED
    scene.check_that_ana_continues()


def test_a_batch_without_a_transaction_does_not_get_into_one(scene: Scene) -> None:
    data = PartitionProduceData(index=0, records=records(scene, is_transactional=False))
    request = ProduceRequest(
        acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )
    answer = scene.asker("eve").ask(request, 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TXN_STATE
    scene.check_that_ana_continues()


def test_another_ones_transaction_is_not_seen(scene: Scene) -> None:
    eve = scene.asker("eve")
    (described,) = eve.ask(
        DescribeTransactionsRequest(transactional_ids=["tx"]), 0
    ).transaction_states
    assert (described.error_code, described.producer_id, described.topics) == (TXN_DENIED, 0, [])
    assert eve.ask(ListTransactionsRequest(), 2).transaction_states == []
    by_id = ListTransactionsRequest(producer_id_filters=[scene.ana.producer_id])
    assert eve.ask(by_id, 2).transaction_states == []
    by_name = ListTransactionsRequest(transactional_id_pattern="t.*")
    assert eve.ask(by_name, 2).transaction_states == []
    (found,) = eve.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]), 6).coordinators
    assert found.error_code == TXN_DENIED
    (own,) = (
        scene.asker("ana")
        .ask(DescribeTransactionsRequest(transactional_ids=["tx"]), 0)
        .transaction_states
    )
    assert (own.error_code, own.transaction_state) == (OK, "Ongoing")


def test_topics_of_a_transaction_that_one_may_not_describe_are_left_out(scene: Scene) -> None:
    scene.rules([rule("eve", Operation.DESCRIBE, TRANSACTIONAL_ID, "tx")])
    eve, request = scene.asker("eve"), DescribeTransactionsRequest(transactional_ids=["tx"])
    (described,) = eve.ask(request, 0).transaction_states
    assert (described.error_code, described.topics) == (OK, [])


@pytest.mark.parametrize("version", range(6))
def test_offsets_of_topics_that_may_not_be_read_are_not_committed(
    scene: Scene, version: int
) -> None:
    if version < 5:
        assert scene.ana.add_offsets() == OK
    names = ["t", "other", "t", "nowhere"]
    request = TransactionOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=scene.ana.producer_id,
        producer_epoch=scene.ana.epoch,
        topics=[
            TransactionOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TransactionOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=5, committed_metadata=""
                    )
                ],
            )
            for name in names
        ],
    )
    answer = scene.ana.asker.ask(request, version)
    codes = {one.name: one.partitions[0].error_code for one in answer.topics}
    assert codes == {"t": OK, "other": TOPIC_DENIED, "nowhere": TOPIC_DENIED}
    request.group_id, request.topics = "not-hers", request.topics[:1]
    answer = scene.ana.asker.ask(request, version)
    assert [one.partitions[0].error_code for one in answer.topics] == [GROUP_DENIED]


def test_offsets_of_a_group_that_may_not_be_read_are_in_no_transaction(scene: Scene) -> None:
    scene.rules([one for one in RULES if one.pattern.resource_type is not GROUP])
    assert scene.ana.add_offsets() == GROUP_DENIED
    assert scene.ana.commit_offset(5) == GROUP_DENIED
    assert scene.ana.end() == OK


def test_a_right_that_is_taken_away_in_a_transaction_counts_at_once(scene: Scene) -> None:
    scene.rules([one for one in RULES if one.pattern.resource_type is not TRANSACTIONAL_ID])
    assert scene.ana.produce() == TXN_DENIED
    assert scene.ana.add(1) == [TXN_DENIED]
    assert scene.ana.end() == TXN_DENIED
    assert scene.ana.init() == TXN_DENIED
    scene.rules(RULES)
    scene.check_that_ana_continues()


def test_who_may_write_with_the_same_transactional_id_takes_it_over(scene: Scene) -> None:
    scene.rules([*RULES, rule("eve", Operation.WRITE, TRANSACTIONAL_ID, "tx")])
    eve = ProducerAsker(scene.asker("eve"))
    assert eve.init() == OK
    assert (eve.producer_id, eve.epoch) != (scene.ana.producer_id, scene.ana.epoch)
    assert scene.ana.produce() == ErrorCode.INVALID_PRODUCER_EPOCH
    assert scene.ana.end() == ErrorCode.PRODUCER_FENCED
