"""The requests of transactions in every version that is answered."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TRANSACTION_STATE
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.coordinator.requests import MemberClaim
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_transaction import EndTransactionRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.write_transaction_markers import (
    WritableTransactionMarker,
    WritableTransactionMarkerTopic,
    WriteTransactionMarkersRequest,
)
from tests.support.asking import Asker
from tests.support.brokers import NOW_MS, at
from tests.support.group_asking import each_version
from tests.support.transaction_asking import ProducerAsker, transaction_asker

OK = ErrorCode.NONE


@pytest.fixture
def asker() -> Asker:
    return transaction_asker()


@pytest.fixture
def producer(asker: Asker) -> ProducerAsker:
    producer = ProducerAsker(asker)
    assert producer.init() == OK
    return producer


def replaced(producer: ProducerAsker) -> ProducerAsker:
    """The producer, after another one has taken its transactional id."""
    assert ProducerAsker(producer.asker).init() == OK
    return producer


def fenced_since(version: int, first: int) -> ErrorCode:
    return ErrorCode.PRODUCER_FENCED if version >= first else ErrorCode.INVALID_PRODUCER_EPOCH


def committed(asker: Asker) -> int | None:
    found = asker.broker.groups.machines(at(0))[0].fetch_offsets(
        MemberClaim(group_id="g"), [("t", 0)]
    )
    known = found["t", 0].committed
    return None if known is None else known.offset


def stable_offset(asker: Asker, index: int = 0) -> int:
    return asker.broker.topics.partition("t", index).log.last_stable_offset


# Producers


@each_version(ApiKey.INIT_PRODUCER_ID)
def test_a_transactional_producer_gets_an_id_and_then_the_next_epoch(
    asker: Asker, version: int
) -> None:
    producer = ProducerAsker(asker)
    assert (producer.init(version), producer.epoch) == (OK, 0)
    first = producer.producer_id
    assert (producer.init(version), producer.epoch) == (OK, 1)
    assert producer.producer_id == first


@each_version(ApiKey.INIT_PRODUCER_ID, first=3)
def test_a_producer_says_what_it_had_when_it_recovers(
    producer: ProducerAsker, version: int
) -> None:
    had = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    assert (producer.init(version, **had), producer.epoch) == (OK, 1)
    ProducerAsker(producer.asker).init()
    assert producer.init(version, **had) == fenced_since(version, 4)


REFUSED_BEGINNINGS: dict[str, tuple[dict[str, Any], int, ErrorCode]] = {
    "an empty id": ({"transactional_id": ""}, 5, ErrorCode.INVALID_REQUEST),
    "half of an id": ({"producer_id": 7}, 5, ErrorCode.INVALID_REQUEST),
    "a long timeout": (
        {"transaction_timeout_ms": 900_001},
        5,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    ),
    "two-phase commit": (
        {"enable_2pc": True},
        6,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "a kept transaction": (
        {"keep_prepared_transaction": True},
        6,
        ErrorCode.UNSUPPORTED_VERSION,
    ),
}


@pytest.mark.parametrize("name", REFUSED_BEGINNINGS)
def test_a_producer_that_asks_wrongly_is_refused(asker: Asker, name: str) -> None:
    fields, version, code = REFUSED_BEGINNINGS[name]
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
    for field, value in fields.items():
        setattr(request, field, value)
    answer = asker.ask(request, version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


def test_the_coordinator_of_a_transaction_is_this_broker(asker: Asker) -> None:
    answer = asker.ask(FindCoordinatorRequest(key="tx", key_type=1), 2)
    assert (answer.error_code, answer.node_id) == (OK, 1)


# Partitions


@each_version(ApiKey.ADD_PARTITIONS_TO_TXN)
def test_partitions_are_added(producer: ProducerAsker, version: int) -> None:
    assert producer.add(0, 1, version=version) == [OK, OK]
    assert producer.add(0, 1, version=5, verify_only=True) == [OK, OK]


@each_version(ApiKey.ADD_PARTITIONS_TO_TXN)
def test_with_an_unknown_partition_none_is_added(producer: ProducerAsker, version: int) -> None:
    assert producer.add(0, 9, version=version) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert producer.asker.broker.transactions.known[0].transactions["tx"].partitions == frozenset()


@each_version(ApiKey.ADD_PARTITIONS_TO_TXN)
def test_who_was_replaced_adds_nothing(producer: ProducerAsker, version: int) -> None:
    assert replaced(producer).add(0, version=version) == [fenced_since(version, 2)]


@each_version(ApiKey.ADD_PARTITIONS_TO_TXN, first=4)
def test_brokers_may_ask_whether_a_partition_belongs_to_a_transaction(
    producer: ProducerAsker, version: int
) -> None:
    producer.add(0)
    is_new = version >= 5
    missing = ErrorCode.TRANSACTION_ABORTABLE if is_new else ErrorCode.INVALID_TXN_STATE
    assert producer.add(0, 1, version=version, verify_only=True) == [OK, missing]


# Produce


@each_version(ApiKey.PRODUCE, first=3)
def test_a_produce_in_a_transaction_is_taken(producer: ProducerAsker, version: int) -> None:
    assert producer.add(0) == [OK]
    assert producer.produce(version) == OK
    assert stable_offset(producer.asker) == 0
    assert producer.end() == OK
    assert stable_offset(producer.asker) == 2


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (3, ErrorCode.INVALID_TXN_STATE),
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
        (12, OK),
        (13, OK),
    ],
)
def test_a_produce_to_a_partition_that_was_not_added_is_refused_or_adds_it(
    producer: ProducerAsker, version: int, code: ErrorCode
) -> None:
    assert producer.produce(version) == code
    log = producer.asker.broker.topics.partition("t", 0).log
    assert log.log_end_offset == (code == OK)


def test_a_produce_that_comes_when_its_transaction_is_over_is_refused(
    producer: ProducerAsker,
) -> None:
    producer.add(0)
    producer.produce()
    producer.end()
    assert producer.produce() == ErrorCode.INVALID_TXN_STATE


@each_version(ApiKey.PRODUCE, first=3)
def test_a_produce_of_somebody_who_was_replaced_is_refused(
    producer: ProducerAsker, version: int
) -> None:
    assert replaced(producer).produce(version) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_partitions_are_not_verified_where_the_setting_says_so() -> None:
    asker = transaction_asker(transaction_partition_verification_enable="false")
    producer = ProducerAsker(asker)
    producer.init()
    assert producer.produce() == OK


# Ends


@each_version(ApiKey.END_TXN)
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_ends_as_it_was_asked_to(
    producer: ProducerAsker, version: int, is_commit: bool
) -> None:
    producer.add(0, 1)
    producer.produce()
    epoch = producer.epoch
    assert producer.end(is_commit=is_commit, version=version) == OK
    assert producer.epoch == epoch + (version >= 5)
    assert [stable_offset(producer.asker, index) for index in (0, 1)] == [2, 1]
    assert aborted(producer.asker) == ([] if is_commit else [0])


def aborted(asker: Asker) -> list[int]:
    """The first offsets of aborted transactions, as a fetch tells them."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=1,
        topics=[FetchTopic(topic="t", partitions=[partition])],
    )
    found = asker.ask(request, 11).responses[0].partitions[0].aborted_transactions
    return [one.first_offset for one in found]


@each_version(ApiKey.END_TXN)
def test_who_was_replaced_ends_nothing(producer: ProducerAsker, version: int) -> None:
    producer.add(0)
    assert replaced(producer).end(version=version) == fenced_since(version, 2)


def test_what_an_end_is_for_must_be_known(asker: Asker) -> None:
    request = EndTransactionRequest(transactional_id="nobody", producer_id=1)
    assert asker.ask(request, 3).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_producers_of_version_2_write_without_adding_and_change_epochs(
    producer: ProducerAsker,
) -> None:
    for number in range(3):
        assert producer.epoch == number
        assert producer.produce(12, number % 2) == OK
        assert producer.commit_offset(number, 5) == OK
        assert producer.end(version=5) == OK
    assert committed(producer.asker) == 2
    assert [stable_offset(producer.asker, index) for index in (0, 1)] == [4, 2]


def test_a_delayed_batch_of_version_2_does_not_reach_the_next_transaction(
    producer: ProducerAsker,
) -> None:
    producer.produce(12)
    epoch = producer.epoch
    producer.end(version=5)
    producer.epoch, producer.sequence = epoch, 1
    assert producer.produce(12) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_second_batch_of_version_2_does_not_overtake_the_first(
    producer: ProducerAsker,
) -> None:
    producer.sequence = 1
    assert producer.produce(12) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.sequence = 0
    assert [producer.produce(12), producer.produce(12)] == [OK, OK]


# Offsets


@each_version(ApiKey.ADD_OFFSETS_TO_TXN)
def test_the_partition_of_a_groups_offsets_is_added(producer: ProducerAsker, version: int) -> None:
    assert producer.add_offsets(version) == OK
    known = producer.asker.broker.transactions.known[0].transactions["tx"]
    assert known.partitions == {("__consumer_offsets", 0)}
    assert replaced(producer).add_offsets(version) == fenced_since(version, 2)


@each_version(ApiKey.TXN_OFFSET_COMMIT)
@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_count_when_their_transaction_commits(
    producer: ProducerAsker, version: int, is_commit: bool
) -> None:
    if version < 5:
        producer.add_offsets()
    assert producer.commit_offset(8, version) == OK
    assert committed(producer.asker) is None
    assert producer.end(is_commit=is_commit) == OK
    assert committed(producer.asker) == (8 if is_commit else None)


@each_version(ApiKey.TXN_OFFSET_COMMIT)
def test_offsets_without_a_transaction_are_refused_or_begin_one(
    producer: ProducerAsker, version: int
) -> None:
    codes = {4: ErrorCode.TRANSACTION_ABORTABLE, 5: OK}
    assert producer.commit_offset(8, version) == codes.get(version, ErrorCode.INVALID_TXN_STATE)


@each_version(ApiKey.TXN_OFFSET_COMMIT)
def test_offsets_of_who_was_replaced_are_refused(producer: ProducerAsker, version: int) -> None:
    producer.add_offsets()
    assert replaced(producer).commit_offset(8, version) == ErrorCode.INVALID_PRODUCER_EPOCH


@each_version(ApiKey.TXN_OFFSET_COMMIT, first=3)
def test_a_member_of_another_generation_commits_nothing(
    producer: ProducerAsker, version: int
) -> None:
    producer.add_offsets()
    member = {"generation_id": 3, "member_id": "m"}
    assert producer.commit_offset(8, version, **member) == ErrorCode.ILLEGAL_GENERATION


def test_an_offset_that_a_transaction_is_about_to_move_is_unstable(
    producer: ProducerAsker,
) -> None:
    producer.commit_offset(8, 5)
    wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id="g", topics=[wanted])
    codes = []
    for require_stable in (False, True):
        request = OffsetFetchRequest(groups=[group], require_stable=require_stable)
        answer = producer.asker.ask(request, 8)
        codes.append(answer.groups[0].topics[0].partitions[0].error_code)
    assert codes == [OK, ErrorCode.UNSTABLE_OFFSET_COMMIT]


# Administrators


@each_version(ApiKey.WRITE_TXN_MARKERS)
def test_an_administrator_ends_a_transaction_that_hangs(
    producer: ProducerAsker, version: int
) -> None:
    producer.add(0)
    producer.produce()
    marker = WritableTransactionMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        topics=[WritableTransactionMarkerTopic(name="t", partition_indexes=[0, 9])],
        coordinator_epoch=0,
    )
    answer = producer.asker.ask(WriteTransactionMarkersRequest(markers=[marker]), version)
    found = answer.markers[0].topics[0].partitions
    assert [one.error_code for one in found] == [OK, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert stable_offset(producer.asker) == 2
    assert aborted(producer.asker) == [0]


def test_a_marker_of_version_2_must_be_of_a_later_epoch(producer: ProducerAsker) -> None:
    producer.produce(12)
    marker = WritableTransactionMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[WritableTransactionMarkerTopic(name="t", partition_indexes=[0])],
        transaction_version=2,
    )
    answer = producer.asker.ask(WriteTransactionMarkersRequest(markers=[marker]), 2)
    code = answer.markers[0].topics[0].partitions[0].error_code
    assert code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert stable_offset(producer.asker) == 0


def test_a_transaction_is_described(producer: ProducerAsker) -> None:
    producer.add(1, 0)
    request = DescribeTransactionsRequest(transactional_ids=["tx", "nobody", ""])
    found, missing, empty = producer.asker.ask(request, 0).transaction_states
    assert (found.error_code, found.transaction_state) == (OK, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.epoch)
    assert (found.transaction_start_time_ms, found.transaction_timeout_ms) == (NOW_MS, 60_000)
    assert [(one.topic, one.partitions) for one in found.topics] == [("t", [0, 1])]
    assert missing.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code == ErrorCode.INVALID_REQUEST


FILTERS: dict[str, tuple[dict[str, Any], int, bool]] = {
    "nothing": ({}, 0, True),
    "its state": ({"state_filters": ["Ongoing"]}, 0, True),
    "another state": ({"state_filters": ["Empty"]}, 0, False),
    "its producer": ({"producer_id_filters": [0]}, 0, True),
    "another producer": ({"producer_id_filters": [9]}, 0, False),
    "a longer time": ({"duration_filter": 1}, 1, False),
    "its name": ({"transactional_id_pattern": "t.*"}, 2, True),
    "another name": ({"transactional_id_pattern": "y.*"}, 2, False),
}


@pytest.mark.parametrize("name", FILTERS)
def test_transactions_are_listed_by_what_is_asked_for(producer: ProducerAsker, name: str) -> None:
    fields, version, is_found = FILTERS[name]
    assert producer.producer_id == 0
    producer.add(0)
    answer = producer.asker.ask(ListTransactionsRequest(**fields), version)
    listed = [
        (one.transactional_id, one.producer_id, one.transaction_state)
        for one in answer.transaction_states
    ]
    assert listed == [("tx", 0, "Ongoing")] * is_found


def test_filters_that_mean_nothing_are_reported(asker: Asker) -> None:
    answer = asker.ask(ListTransactionsRequest(state_filters=["Ongoing", "Odd"]), 0)
    assert answer.unknown_state_filters == ["Odd"]
    answer = asker.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


@each_version(ApiKey.API_VERSIONS)
def test_clients_are_told_of_transactions_version_2(asker: Asker, version: int) -> None:
    fields = {"client_software_name": "c", "client_software_version": "1"} if version >= 3 else {}
    answer = asker.ask(ApiVersionsRequest(**fields), version)
    finalized = {one.name: one.max_version_level for one in answer.finalized_features}
    assert finalized.get("transaction.version") == (2 if version >= 3 else None)
    supported = {one.name: one.max_version for one in answer.supported_features}
    assert supported.get("transaction.version") == (2 if version >= 4 else None)


@pytest.mark.parametrize(
    ("setting", "value"), [("max.message.bytes", "1"), ("segment.bytes", "14")]
)
def test_a_record_that_does_not_fit_into_the_transaction_log_is_an_unknown_error_as_in_kafka(
    producer: ProducerAsker, setting: str, value: str
) -> None:
    """`TransactionStateManager` maps MESSAGE_TOO_LARGE and RECORD_LIST_TOO_LARGE to it."""
    small = Alteration(changes=[ConfigChange(name=setting, value=value)])
    producer.asker.broker.admin.alter_topic(TRANSACTION_STATE, small)
    assert producer.init() == ErrorCode.UNKNOWN_SERVER_ERROR
    assert producer.add(0) == [ErrorCode.UNKNOWN_SERVER_ERROR]
